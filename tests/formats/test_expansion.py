"""Small inputs that stand for enormous ones: refused, not written out."""

from __future__ import annotations

import pytest

from xyla.formats import hlo_text
from xyla.formats.detect import load_file
from xyla.hlo.module import Module
from xyla.support.status import Status, XylaError


def aliases(sigil: str, first: str, step: str, count: int) -> str:
    """`#a0 = first`, then `count` aliases that are `step` of the one before (written P)."""
    lines = [f"{sigil}a{i} = {step.replace('P', f'{sigil}a{i - 1}')}" for i in range(1, count + 1)]
    return "\n".join([f"{sigil}a0 = {first}", *lines]) + "\n"


MAIN = "module {{ func.func @main(%a: {kind} {{x = {attr}}}) -> {kind} {{ return %a : {kind} }} }}\n"


@pytest.mark.parametrize(
    ("definitions", "kind", "attr"),
    [
        (aliases("#", "[1, 1]", "[P, P]", 60), "tensor<f32>", "#a60"),
        (aliases("#", "{k = 1}", "{l = P, r = P}", 60), "tensor<f32>", "#a60"),
        (aliases("!", "tensor<f32>", "tuple<P, P>", 60), "!a60", "1"),
        (aliases("#", "[1]", "[P]", 5000), "tensor<f32>", "#a5000"),
        (aliases("!", "tensor<f32>", "tuple<P>", 5000), "!a5000", "1"),
    ],
    ids=["arrays", "dictionaries", "tuples", "deep arrays", "deep tuples"],
)
@pytest.mark.parametrize("order", ["before", "after"])
def test_aliases_of_aliases(definitions: str, kind: str, attr: str, order: str) -> None:
    main = MAIN.format(kind=kind, attr=attr)
    with pytest.raises(XylaError) as caught:
        load_file((definitions + main if order == "before" else main + definitions).encode(), "bomb.mlir")
    assert caught.value.status is Status.INVALID_ARGUMENT
    assert caught.value.span is not None


def test_uses_add_up() -> None:
    bomb = aliases("#", "[1, 1]", "[P, P]", 16)
    ops = "\n".join(f"  %{i} = stablehlo.add %a, %a {{x = #a16}} : tensor<f32>" for i in range(100))
    text = f"{bomb}module {{ func.func @main(%a: tensor<f32>) -> tensor<f32> {{\n{ops}\n  return %a : tensor<f32> }} }}"
    with pytest.raises(XylaError, match="too large"):
        load_file(text.encode(), "bomb.mlir")


def test_ordinary_aliases_are_read() -> None:
    text = aliases("#", "[1, 1]", "[P, P]", 5) + MAIN.format(kind="tensor<f32>", attr="#a5")
    assert isinstance(load_file(text.encode(), "fine.mlir"), Module)


def test_a_constant_stored_once_but_too_large_to_print() -> None:
    module = hlo_text.parse("HloModule m\nENTRY e { ROOT c = f32[1099511627776] constant(0) }", "c")
    with pytest.raises(XylaError) as caught:
        str(module)
    assert caught.value.status is Status.RESOURCE_EXHAUSTED
