"""Malformed texts: the message, the place and the hint."""

from __future__ import annotations

import gc
import re
from pathlib import Path

import pytest

from xyla.formats.hlo_text import parse
from xyla.support.status import Status, XylaError

P = "p = f32[4] parameter(0)\n  "


def refusal(text: str, name: str = "t.hlo") -> str:
    with pytest.raises(XylaError) as caught:
        parse(text, name)
    assert caught.value.status is Status.INVALID_ARGUMENT
    assert caught.value.span is not None
    return caught.value.render()


def refused(instructions: str, before: str = "") -> str:
    return refusal(f"HloModule m\n{before}ENTRY e {{\n  {instructions}\n}}\n")


def test_the_whole_message() -> None:
    assert refused(P + "ROOT r = f32[4] multply(p, p)") == (
        "t.hlo:4:19: INVALID_ARGUMENT: unknown opcode 'multply'\n"
        "    ROOT r = f32[4] multply(p, p)\n"
        "                    ^~~~~~~\n"
        "hint: did you mean 'multiply'?"
    )
    assert refused(P + "ROOT r = f32[4] add(p, q)") == (
        "t.hlo:4:26: INVALID_ARGUMENT: instruction '%q' is not defined in computation 'e'\n"
        "    ROOT r = f32[4] add(p, q)\n"
        "                           ^\n"
        "hint: an instruction must be defined before its uses"
    )


@pytest.mark.parametrize(
    ("instructions", "where", "message"),
    [
        ("p = f32[4] parameter(0)\n  p = f32[4] negate(p)", "4:3", "instruction '%p' is defined twice"),
        (P + "r = f32[4] add(p)", "4:14", "add takes 2 operands, 1 given"),
        (P + "r = f32[4] concatenate(), dimensions={0}", "4:14", "concatenate takes at least 1 operand, 0 given"),
        (P + "r = f32[4] negate(p), dimension={0}", "4:25", "negate has no attribute 'dimension'"),
        (P + "r = f32[4] sort(p), dimensions={0}, is_stabel=true", "4:39", "did you mean 'is_stable'?"),
        (P + "r = f32[4] broadcast(p), dimensions={0}, dimensions={0}", "4:55", "broadcast has dimensions twice"),
        (P + "r = f32[2] slice(p)", "4:14", "slice needs the attribute slice"),
        (P + "r = f32[] reduce(p, p), dimensions={0}", "4:13", "reduce needs the attribute to_apply"),
        (P + "r = f32[] reduce(p, p), dimensions={0}, to_apply=f", "4:52", "computation 'f' is not defined"),
        (P + "r = pred[4] compare(p, p), direction=LESS", "4:40", "direction has no value 'LESS'"),
        (P + "r = f32[4] slice(p), slice={[0:x]}", "4:30", "expected an integer, found 'x'"),
        (P + "r = f32[4] iota(), iota_dimension=99999999999999999999", "4:37", "does not fit 64 bits"),
        (P + "r = s32[] get-dimension-size(p), dimensions={0,1}", "4:47", "takes exactly one value, 2 given"),
        ("p = f32[4611686018427387904,4] parameter(0)", "3:7", "larger than 2^63 bytes"),
        ("p = f33[4] parameter(0)", "3:7", "unknown element type 'f33'"),
        ("p = f32[4,] parameter(0)", "3:7", "a dimension is missing"),
        ("p = f32[-4] parameter(0)", "3:7", "dimension -4 is negative"),
        ("p = f32[2,3]{0} parameter(0)", "3:7", "is not a permutation of the 2 dimensions"),
        ("p = f32[2]{0:X(3)} parameter(0)", "3:16", "expected a layout property"),
        ("p = f32[4] parameter(1)", "3:3", "there is no parameter(0)"),
        (P + "q = f32[4] parameter(0)", "4:3", "parameter number 0 is used twice"),
        ("p = f32[4] parameter(x)", "3:24", "expected an integer, found 'x'"),
        ("p = parameter(0)", "3:7", "parameter needs its shape"),
        (P + 'r = custom-call(p), custom_call_target="x"', "4:7", "custom-call needs its result shape"),
        ("ROOT a = f32[] constant(1)\n  ROOT b = f32[] constant(2)", "4:3", "computation 'e' has a second ROOT"),
        ("", "4:1", "computation 'e' has no instructions"),
        (P + "r = f32[4] negate(p) add(p)", "4:24", "expected an instruction '%name = ...' or '}', found 'add'"),
        (P + "r = f32[4] negate(p, )", "4:24", "expected a shape such as f32[2,3], found ')'"),
        (P + 'r = f32[4] custom-call(p), custom_call_target="x', "4:49", "this string has no closing quote"),
        (P + "r = f32[4] all-reduce(p), replica_groups=[2,3]<=[5]", "4:44", "do not hold the 5 devices"),
        (P + "r = f32[4] negate(p), metadata={op_name=3}", "4:34", "metadata op_name takes a string"),
        (P + "r = f32[4] negate(p), control-predecessors={q}", "4:47", "instruction '%q' is not defined"),
        (P + "r = f32[4] add-done(p)", "4:14", "the operand is not an asynchronous add"),
    ],
)
def test_instructions(instructions: str, where: str, message: str) -> None:
    text = refused(instructions)
    assert text.startswith(f"t.hlo:{where}: ")
    assert message in text


@pytest.mark.parametrize(
    ("text", "where", "message"),
    [
        ("", "1:1", "expected a computation, found the end of the text"),
        ("HloModule", "1:10", "expected the module's name"),
        ("HloModul m\nENTRY e { p = f32[] parameter(0) }", "1:1", "did you mean 'HloModule'?"),
        ("HloModule m, is_schedulled=true\n", "1:28", "did you mean 'is_scheduled'?"),
        ("HloModule m, is_scheduled=yes\n", "1:27", "takes true or false, found 'yes'"),
        ("HloModule m, buffer_donor={1}\n", "1:27", "a buffer donor looks like (1, {})"),
        ("HloModule m\nENTRY e {\n p = f32[] parameter(0)\n", "4:1", "expected an instruction '%name = ...' or '}'"),
        ("a { p = f32[] parameter(0) }\na { p = f32[] parameter(0) }", "2:1", "computation 'a' is defined twice"),
        ("ENTRY a { p = f32[] parameter(0) }\nENTRY b { p = f32[] parameter(0) }", "2:1", "one ENTRY"),
        ("HloModule m\nENTRY a { p = f32[] parameter(0) }\nHloModule n", "3:1", "a text holds one module"),
        ("HloModule m\nENTRY a (p: f32[]) -> s32[] { p = f32[] parameter(0) }", "2:31", "declared to return s32[]"),
        ("HloModule m /* no end\nENTRY a { p = f32[] parameter(0) }", "1:13", "this comment is never closed"),
        ("HloModule m\nFileNames\n2 \"a\"\n", "3:1", "FileNames counts from 1"),
        # Definitions come before uses, so this is how a cyclic call graph shows.
        (
            "HloModule m\na { p = f32[] parameter(0) r = f32[] call(p), to_apply=b }\n"
            "b { p = f32[] parameter(0) r = f32[] call(p), to_apply=a }",
            "2:56",
            "computation 'b' is not defined",
        ),
        ("a { p = f32[] parameter(0) r = f32[] call(p), to_apply=a }", "1:56", "computation 'a' is not defined"),
    ],
)  # fmt: skip
def test_modules(text: str, where: str, message: str) -> None:
    rendered = refusal(text)
    assert rendered.startswith(f"t.hlo:{where}: ")
    assert message in rendered


@pytest.mark.parametrize("opener", ["(", "{", "f32[] add(", "f32[] constant(", "x={", "f32[2]{0:P("])
def test_deep_nesting_is_refused_without_recursion(opener: str) -> None:
    refusal(f"HloModule m\nENTRY e {{\n  r = {opener * 200_000}")
    refusal(f"HloModule m\nENTRY e {{\n  c = f32[] constant(0)\n  r = f32[] add(c, c), a={opener * 200_000}")


def test_closed_but_deep_brackets_are_refused() -> None:
    text = refused("c = f32[] constant(0)\n  r = f32[] abs(c), sharding=" + "{" * 200 + "}" * 200)
    assert "brackets are nested deeper than 128" in text


@pytest.mark.parametrize("line", ["x" * 10**6, '"' * 10**6, "/*" * 10**5, "%a=" * 10**5, "{" * 10**6, "f32[" * 10**5])
def test_a_long_line_is_clipped_in_the_message(line: str) -> None:
    assert len(refusal(line)) < 600


def test_garbage_collection_is_restored() -> None:
    assert gc.isenabled()
    refused("p = ")
    assert gc.isenabled()


def test_known_parser_faults(shared: Path) -> None:
    found = {path.name: refusal(path.read_text(), path.name) for path in sorted(shared.glob("bugs/parse_*.hlo.txt"))}
    assert len(found) >= 2
    assert "takes exactly one value, 0 given" in found["parse_empty_dims.hlo.txt"]
    assert re.search(r":9:49: .*the mesh has no axis 'zz'", found["parse_mesh_axis.hlo.txt"])
