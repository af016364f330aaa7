"""Faults found by damaging corpus files: each error has a place, and none takes long to find."""

from __future__ import annotations

import time

import pytest

from xyla.formats import hlo_proto, hlo_text
from xyla.formats.detect import detect, load_file
from xyla.hlo.module import Module
from xyla.hlo.verifier import verify
from xyla.support.status import XylaError

CALL = "add { x = f32[] parameter(0)  y = f32[] parameter(1)  ROOT s = f32[] add(x, y) }\n"


def read_and_verify(text: str) -> None:
    program = load_file(text.encode(), "bad.hlo")
    assert isinstance(program, Module)
    verify(program)


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("HloModule m, num_partitions=0\nENTRY e { ROOT p = f32[] parameter(0) }", "2:7"),
        ("HloModule m, input_output_alias={ {}: (-1, {}) }\nENTRY e { ROOT p = f32[] parameter(0) }", None),
        ("HloModule m\nENTRY e { ROOT p = f32[3]{-1} parameter(0) }", "2:"),
        ('HloModule m\n\nFileNames\n99999999999999999999 "f"\nENTRY e { ROOT p = f32[] parameter(0) }', "3:10"),
        (f"HloModule m\n{CALL}ENTRY e {{ ROOT s = ((), f32[]) call-start(), to_apply=add }}", "3:"),
    ],
    ids=["partitions", "alias", "layout", "table", "sugar"],
)
def test_errors_are_located(text: str, where: str | None) -> None:
    with pytest.raises(XylaError) as caught:
        read_and_verify(text)
    assert caught.value.render().startswith(f"bad.hlo:{where or ''}")
    assert caught.value.span is not None


def test_a_long_line_of_hashes_is_told_apart_quickly() -> None:
    start = time.process_time()
    detect(b"#loc = loc(" + b"#a #b " * 5000 + b"#", "x")
    assert time.process_time() - start < 1


def test_a_long_chain_of_asynchronous_updates() -> None:
    kind = "((f32[4]), f32[4], u32[])"
    count = 20_000
    updates = "\n".join(f"  u{i} = {kind} negate-update(u{i - 1})" for i in range(1, count))
    text = (
        f"HloModule m\nENTRY e {{\n  p = f32[4] parameter(0)\n  u0 = {kind} negate-start(p)\n{updates}\n"
        f"  ROOT d = f32[4] negate-done(u{count - 1})\n}}"
    )
    start = time.process_time()
    module = hlo_text.parse(text, "chain")
    assert hlo_proto.load_bytes(hlo_proto.to_bytes(module), "x").num_instructions == module.num_instructions
    assert time.process_time() - start < 10


def test_messages_have_a_bounded_length() -> None:
    text = (
        "module { func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {\n"
        '  %0 = "stablehlo.broadcast_in_dim"(%a) {broadcast_dimensions = dense<0> : tensor<999999xi64>}\n'
        "    : (tensor<4xf32>) -> tensor<4xf32>\n  return %0 : tensor<4xf32> } }\n"
    )
    with pytest.raises(XylaError) as caught:
        load_file(text.encode(), "long.mlir")
    assert len(caught.value.render()) < 3000
