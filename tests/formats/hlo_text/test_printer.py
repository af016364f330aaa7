"""The printed text: XLA's own layout of it, the short form, single instructions."""

from __future__ import annotations

import pytest

from xyla.formats.hlo_text import parse
from xyla.hlo import ops
from xyla.hlo.literal import Literal
from xyla.hlo.module import Module
from xyla.hlo.ops.basic import ConstantAttrs, ParameterAttrs
from xyla.hlo.printer import print_computation, print_instruction
from xyla.hlo.printer_attrs import frontend_text, quote
from xyla.hlo.shape import Shape
from xyla.support.dtypes import F32

# Laid out as XLA's printer does.
LONG = """\
HloModule jit_f, is_scheduled=true, input_output_alias={ {}: (0, {}, may-alias) }, entry_computation_layout={(f32[4,2]{1,0})->f32[4]{0}}

FileNames
1 "f.py"

FunctionNames
1 "f"

FileLocations
1 {file_name_id=1 function_name_id=1 line=3 end_line=3 column=1 end_column=9}

StackFrames
1 {file_location_id=1 parent_frame_id=1}

%region_0.1 (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %add.1 = f32[] add(%a, %b)
}

ENTRY %main.2 (x.1: f32[4,2]) -> f32[4] {
  %x.1 = f32[4,2]{1,0} parameter(0), sharding={replicated}
  %zero = f32[] constant(0)
  %sum = f32[4]{0} reduce(%x.1, %zero), dimensions={1}, to_apply=%region_0.1, metadata={op_type="reduce_sum" op_name="jit(f)/reduce" stack_frame_id=1}
  ROOT %t = f32[4]{0} custom-call(%sum), custom_call_target="target", control-predecessors={%zero}, backend_config={"a":"b"}
}
"""  # noqa: E501

SHORT = """\
HloModule jit_f, is_scheduled=true, input_output_alias={ {}: (0, {}, may-alias) }

region_0.1 {
  a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT add.1 = f32[] add(a, %b)
}

ENTRY main.2 {
  x.1 = f32[4,2] parameter(0), sharding={replicated}
  zero = f32[] constant(0)
  sum = f32[4] reduce(x.1, zero), dimensions={1}, to_apply=region_0.1
  ROOT t = f32[4] custom-call(sum), custom_call_target="target", control-predecessors={zero}
}
"""


def test_long_form() -> None:
    assert str(parse(LONG)) == LONG


def test_short_form() -> None:
    module = parse(LONG)
    assert module.to_string(short=True) == SHORT
    assert parse(SHORT).to_string(short=True) == SHORT


def test_parts() -> None:
    module = parse(LONG)
    assert print_instruction(module.entry.root.operands[0].operands[0]).startswith("%x.1 = f32[4,2]{1,0} parameter(0)")
    assert print_computation(module.computations["region_0.1"], short=True) + "\n" in SHORT


def test_every_fifth_operand_is_marked() -> None:
    module = Module("m")
    comp = module.add_computation("e")
    p = comp.add(ops.PARAMETER, (), ParameterAttrs(0), shape=Shape.array(F32, ()), name="p")
    comp.set_root(comp.add(ops.TUPLE, [p] * 7, shape=Shape.tuple_of([p.shape] * 7)))
    module.set_entry(comp)
    assert "tuple(%p, %p, %p, %p, %p, /*index=5*/%p, %p)" in str(module)
    assert str(parse(str(module))) == str(module)


def test_operands_come_first_whatever_the_storage_order() -> None:
    module = Module("m")
    comp = module.add_computation("e")
    p = comp.add(ops.PARAMETER, (), ParameterAttrs(0), shape=Shape.array(F32, ()), name="p")
    q = comp.add(ops.NEGATE, [p], shape=p.shape, name="q")
    comp.instructions = dict.fromkeys([q, p])
    comp.set_root(q)
    module.set_entry(comp)
    assert str(module).index("%p =") < str(module).index("%q =")


def test_a_huge_splat_prints_in_full() -> None:
    module = Module("m")
    comp = module.add_computation("e")
    shape = Shape.array(F32, (2, 5000))
    comp.set_root(comp.add(ops.CONSTANT, (), ConstantAttrs(Literal.full(shape, 1.5)), shape=shape))
    module.set_entry(comp)
    assert str(module).count("1.5") == 10_000


@pytest.mark.parametrize("text", ["plain", 'a "b"\\c', "tab\tline\nend\x01\x7f", "naïve ü", "\\x41", "a\\"])
def test_strings_survive_quoting(text: str) -> None:
    module = parse(f"HloModule m\nENTRY e {{ ROOT r = f32[] custom-call(), custom_call_target={quote(text)} }}")
    assert module.entry.root.attrs.custom_call_target == text


@pytest.mark.parametrize("value", ["x", "{a = 1}", "{", "{a}{b}", '{"}', "{[}]}", "}{", 'say "{}"', "{a\\{}", ""])
def test_frontend_attributes_survive(value: str) -> None:
    text = frontend_text([("k", value), ("key with space", "v")])
    module = parse(f"HloModule m\nENTRY e {{ ROOT p = f32[] parameter(0), frontend_attributes={text} }}")
    assert dict(module.entry.root.frontend_attributes) == {"k": value, "key with space": "v"}


def test_control_characters_are_escaped() -> None:
    assert quote("a\x01\x7f\n") == '"a\\001\\177\\n"'
