"""Equal signatures mean one kernel, so everything that a kernel may depend on is in the signature."""

from __future__ import annotations

from xyla.codegen.kernel import signature
from xyla.formats.hlo_text import parse


def roots(*bodies: str) -> list[str]:
    head = "HloModule m\nENTRY e {{\n x = f32[8] parameter(0)\n y = f32[8] parameter(1)\n ROOT r = {}\n}}"
    return [signature(parse(head.format(body)).entry.root) for body in bodies]


def test_names_do_not_matter_and_repeated_operands_do() -> None:
    xy, yx, xx = roots("f32[8] add(x, y)", "f32[8] add(y, x)", "f32[8] add(x, x)")
    assert xy == yx
    assert xx != xy


def test_attributes_and_layouts_matter() -> None:
    keys = roots(
        "pred[8] compare(x, y), direction=LT",
        "pred[8] compare(x, y), direction=GT",
        "f32[4] slice(x), slice={[0:4]}",
        "f32[4] slice(x), slice={[1:5]}",
        "f32[8,8]{1,0} broadcast(x), dimensions={0}",
        "f32[8,8]{0,1} broadcast(x), dimensions={0}",
    )
    assert len(set(keys)) == len(keys)
