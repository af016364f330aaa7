"""The verifier's structural, configuration, precision and layout rules, each broken once."""

from __future__ import annotations

import time

import pytest

from xyla.formats.hlo_text import parse
from xyla.hlo import ops, rewriter
from xyla.hlo.module import BufferDonor, InputOutputAlias, Module
from xyla.hlo.ops.basic import ParameterAttrs
from xyla.hlo.verifier import check_instruction, revisions, verify, verify_since, violations
from xyla.support.dtypes import F32
from xyla.support.status import Status, XylaError
from xyla.testing.build import computation, constant, parameter, reducer, shape

TEXT = """HloModule m

add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}

ENTRY main {
  x = f32[4] parameter(0)
  y = f32[4] parameter(1)
  zero = f32[] constant(0)
  s = f32[4] add(x, y)
  ROOT r = f32[] reduce(s, zero), dimensions={0}, to_apply=add
}
"""


@pytest.fixture
def module() -> Module:
    return parse(TEXT, "m.hlo")


def inst(module, name):
    found = module.entry.find(name)
    assert found is not None
    return found


def only(module, want, **options):
    found = violations(module, **options)
    assert [e.status for e in found] == [Status.INVALID_ARGUMENT] * len(found)
    assert any(want in e.message for e in found), [e.message for e in found]
    with pytest.raises(XylaError):
        verify(module, **options)


def test_well_formed(module):
    assert violations(module) == []
    verify(module)


def test_error_is_located():
    with pytest.raises(XylaError) as caught:
        verify(parse(TEXT.replace("y = f32[4]", "y = f32[8]"), "m.hlo"))
    text = caught.value.render()
    assert text.startswith("m.hlo:13:")
    assert "%s = add: operand 1 is f32[8], expected f32[4]" in text
    assert "s = f32[4] add(x, y)" in text


def test_no_entry():
    module = Module("m")
    computation(module, ["f32[]", "f32[]"], ops.ADD)
    only(module, "module 'm' has no ENTRY computation")


def test_entry_not_listed(module):
    del module.computations["main"]
    only(module, "entry 'main' is not a computation")


def test_computation_listed_under_another_name(module):
    module.computations["other"] = module.computations.pop("add")
    only(module, "computation 'add' is listed as 'other'")


def test_call_cycle():
    module = Module("m")
    a = module.add_computation("a")
    p = parameter(a, "f32[]")
    a.set_root(a.add(ops.CALL, [p], ops.CALL.attrs(), called=[a], shape=p.shape))
    module.set_entry(a)
    only(module, "computation 'a' calls itself")


def test_computation_of_another_module(module):
    module.computations["add"].module = Module("other")
    only(module, "computation 'add' belongs to another module")


def test_instruction_of_another_computation(module):
    stray = module.computations["add"].parameters[0]
    module.entry.instructions[stray] = None
    only(module, "is listed in computation 'main' but belongs to 'add'")


def test_parameter_not_listed(module):
    del module.entry.instructions[inst(module, "y")]
    only(module, "%y = parameter: is a parameter of computation 'main' but not in it")


def test_no_root(module):
    module.add_computation("empty")
    only(module, "computation 'empty' has no root")


def test_root_elsewhere(module):
    module.entry._root = module.computations["add"].root
    only(module, "is the root of computation 'main' but not in it")


def test_parameter_numbers(module):
    inst(module, "y").attrs = ParameterAttrs(2)
    only(module, "%y = parameter: parameter number 2, expected 1")


def test_operand_of_another_computation(module):
    foreign = module.computations["add"].root
    inst(module, "s").operands = (inst(module, "x"), foreign)
    only(module, "operand 1, %c, is not in computation 'main'")


def test_missing_user(module):
    del inst(module, "x").users[inst(module, "s")]
    only(module, "%s = add: operand 0, %x, does not count it as a user")


def test_stale_user(module):
    inst(module, "zero").users[inst(module, "s")] = 1
    only(module, "%zero = constant: has user %s, which does not use it")


def test_two_instructions_of_one_name(module):
    inst(module, "s").name = "x"
    only(module, "has another instruction named %x")


def test_caller_not_counted(module):
    module.computations["add"].callers.clear()
    only(module, "calls computation 'add', which does not count it as a caller")


def test_callee_of_another_module(module):
    other = reducer(Module("other"), F32)
    inst(module, "r").called = (other,)
    only(module, "which is not in the module")


def test_entry_is_not_called(module):
    comp = module.add_computation("caller")
    params = [parameter(comp, "f32[4]") for _ in (0, 1)]
    comp.set_root(comp.add(ops.CALL, params, ops.CALL.attrs(), called=[module.entry]))
    only(module, "calls the entry computation 'main'")


def test_thread(module):
    module.computations["add"].execution_thread = "side"
    only(module, "calls computation 'add' of thread 'side' from thread 'main'")


def test_cycle(module):
    s, x = inst(module, "s"), inst(module, "x")
    neg = module.entry.add(ops.NEGATE, [s])
    rewriter.set_operand(s, 1, neg)
    only(module, "cycle through instruction")
    assert x in s.operands


def test_control_dependencies(module):
    x, s = inst(module, "x"), inst(module, "s")
    s.control_predecessors = (x,)
    only(module, "control predecessor %x does not name it as a successor")
    s.control_predecessors = (module.computations["add"].root,)
    only(module, "control predecessor %c is not in computation 'main'")
    s.control_predecessors = ()
    x.control_successors = (s,)
    only(module, "control successor %s does not name it as a predecessor")


def test_counts(module):
    s = inst(module, "s")
    rewriter.set_operands(s, [inst(module, "x")])
    only(module, "%s = add: 1 operands, expected 2")
    r = inst(module, "r")
    rewriter.set_called(r, ())
    assert any("r = reduce: 0 called computations, expected 1" in e.message for e in violations(module))
    rewriter.set_operands(r, [])
    with pytest.raises(XylaError, match="0 operands, expected at least 2"):
        check_instruction(r)


def test_leaves(module):
    zero = inst(module, "zero")
    rewriter.set_shape(zero, shape("s32[]"))
    with pytest.raises(XylaError, match=r"result is s32\[\], expected f32\[\]"):
        check_instruction(zero)
    x = inst(module, "x")
    x.attrs = ParameterAttrs(-1)
    with pytest.raises(XylaError, match="parameter number -1 is negative"):
        check_instruction(x)


def test_bounds_and_precision_are_not_compared_for_computing_ops(module):
    rewriter.set_shape(inst(module, "s"), shape("bf16[<=4]"))
    assert violations(module) == []


# -- configuration ---------------------------------------------------------------------------------------------


def test_entry_layout(module):
    module.config.entry_parameter_layouts = (shape("f32[4]{0}"),)
    only(module, "entry_computation_layout has 1 parameters, computation 'main' 2")
    module.config.entry_parameter_layouts = (shape("f32[4]{0}"), shape("f32[5]{0}"))
    only(module, "entry_computation_layout gives parameter %y f32[5], expected f32[4]")
    module.config.entry_parameter_layouts = None
    module.config.entry_result_layout = shape("s32[]")
    only(module, "entry_computation_layout gives result s32[], expected f32[]")


@pytest.mark.parametrize(
    ("aliases", "want"),
    [
        ([((), 2, ())], "names parameter 2 of 2"),
        ([((0,), 0, ())], "shape f32[] has no element at index {0}"),
        ([((), 0, (1,))], "shape f32[4] has no element at index {1}"),
        ([((), 0, ())], "output is f32[], parameter 0 gives f32[4]"),
    ],
)
def test_alias(module, aliases, want):
    module.config.input_output_aliases = tuple(InputOutputAlias(*a) for a in aliases)
    only(module, want)


def test_alias_twice():
    module = parse(
        "HloModule m\nENTRY main {\n x = f32[4] parameter(0)\n n = f32[4] negate(x)\n"
        " ROOT t = (f32[4], f32[4]) tuple(n, n)\n}\n",
        "m.hlo",
    )
    module.config.input_output_aliases = (InputOutputAlias((0,), 0, ()),)
    assert violations(module) == []
    module.config.buffer_donors = (BufferDonor(0, ()),)
    only(module, "buffer_donor parameter 0 {}: is also in input_output_alias")
    module.config.buffer_donors = (BufferDonor(1, ()),)
    only(module, "buffer_donor parameter 1 {}: names parameter 1 of 1")
    module.config.buffer_donors = ()
    module.config.input_output_aliases = (InputOutputAlias((0,), 0, ()), InputOutputAlias((1,), 0, ()))
    only(module, "parameter 0 {} is aliased twice")
    module.config.input_output_aliases = (InputOutputAlias((), 0, ()),)
    only(module, "aliases a tuple")
    module.config.input_output_aliases = (InputOutputAlias((0,), 0, ()),) * 2
    only(module, "the output is aliased twice")
    module.config.input_output_aliases = ()
    module.config.buffer_donors = (BufferDonor(0, ()),) * 2
    only(module, "buffer_donor parameter 0 {}: is given twice")


def test_counts_of_devices(module):
    module.config.replica_count = 0
    only(module, "replica_count is 0")
    module.config.replica_count, module.config.num_partitions = 1, 0
    only(module, "num_partitions is 0")


def test_schedule(module):
    entry = module.entry
    module.config.is_scheduled = True
    assert violations(module) == []
    order = list(entry.instructions)
    entry.instructions = dict.fromkeys([order[3], *order[:3], order[4]])
    only(module, "%s = add: is scheduled before %x, which it needs")


# -- precision and layouts ---------------------------------------------------------------------------------------


def test_mixed_precision(module):
    entry = module.entry
    y = inst(module, "y")
    rewriter.set_shape(y, shape("bf16[4]"))
    assert violations(module) == []
    only(
        module, "%s = add: operand 1 is bf16[4], expected f32 like the operands before it", allow_mixed_precision=False
    )
    assert entry.root is inst(module, "r")


LAYOUTS = """HloModule m, entry_computation_layout={(f32[4,6]{1,0}, f32[4,6]{1,0})->f32[4,6]{1,0}}

f {
  p = f32[4,6]{1,0} parameter(0)
  ROOT q = f32[4,6]{1,0} negate(p)
}

ENTRY main {
  x = f32[4,6]{1,0} parameter(0)
  y = f32[4,6]{1,0} parameter(1)
  a = f32[4,6]{1,0} add(x, y)
  c = f32[4,6]{0,1} copy(a)
  d = f32[4,6]{1,0} copy(c)
  t = (f32[4,6]{1,0}, f32[4,6]{0,1}) tuple(d, c)
  g = f32[4,6]{0,1} get-tuple-element(t), index=1
  h = f32[4,6]{1,0} copy(g)
  s = f32[2,6]{1,0} slice(h), slice={[0:2], [0:6]}
  ROOT z = f32[4,6]{1,0} call(h), to_apply=f
}
"""


def test_layouts_are_well_formed():
    assert violations(parse(LAYOUTS, "m.hlo"), layout_sensitive=True) == []


@pytest.mark.parametrize(
    ("old", "new", "want"),
    [
        ("a = f32[4,6]{1,0} add", "a = f32[4,6]{0,1} add", "%a = add: operand 0 has layout f32[4,6]{1,0}"),
        ("t = (f32[4,6]{1,0}, f32[4,6]{0,1})", "t = (f32[4,6]{0,1}, f32[4,6]{0,1})", "%t = tuple: result layout is"),
        ("g = f32[4,6]{0,1}", "g = f32[4,6]{1,0}", "%g = get-tuple-element: result layout is"),
        ("s = f32[2,6]{1,0}", "s = f32[2,6]{0,1}", "%s = slice: operand 0 has layout"),
        ("call(h)", "call(c)", "%z = call: operand %c has layout f32[4,6]{0,1}"),
        ("(f32[4,6]{1,0}, f32[4,6]{1,0})->", "(f32[4,6]{1,0}, f32[4,6]{0,1})->", "%y = parameter: result layout is"),
        ("c = f32[4,6]{0,1} copy", "c = f32[4,6] copy", "%c = copy: result f32[4,6] has no layout"),
    ],
)
def test_broken_layout(old, new, want):
    assert old in LAYOUTS
    module = parse(LAYOUTS.replace(old, new, 1), "m.hlo")
    if "no layout" in want:
        rewriter.set_shape(inst(module, "c"), shape("f32[4,6]"))
    assert violations(module) == []
    only(module, want, layout_sensitive=True)


def test_loop_body_keeps_the_layout():
    text = """HloModule m

cond {
  s = f32[4,6]{1,0} parameter(0)
  ROOT c = pred[] constant(false)
}

body {
  s = f32[4,6]{1,0} parameter(0)
  ROOT r = f32[4,6]{0,1} copy(s)
}

ENTRY main {
  x = f32[4,6]{1,0} parameter(0)
  ROOT w = f32[4,6]{1,0} while(x), condition=cond, body=body
}
"""
    module = parse(text, "m.hlo")
    assert violations(module) == []
    only(module, "%w = while: body returns layout f32[4,6]{0,1}, expected f32[4,6]{1,0}", layout_sensitive=True)


# -- incremental -------------------------------------------------------------------------------------------------


def test_verify_since_looks_at_what_changed(module):
    seen = revisions(module)
    inst(module, "s").shape = shape("f32[9]")  # behind the rewriter's back: the revision stays
    assert verify_since(module, seen) == seen
    rewriter.set_shape(inst(module, "y"), shape("f32[4]"))
    with pytest.raises(XylaError, match="%s = add: result is f32"):
        verify_since(module, seen)


def test_verify_since_checks_callers_of_what_changed(module):
    seen = revisions(module)
    add = module.computations["add"]
    add.set_root(constant(add, 1, F32))
    assert verify_since(module, seen)[add] == add.revision
    wide = add.add(ops.TUPLE, add.parameters)
    add.set_root(wide)
    with pytest.raises(XylaError, match="%r = reduce: computation 'add' returns 2 values, expected 1"):
        verify_since(module, seen)


def test_deep_chain_is_verified_quickly():
    module = Module("deep")
    comp = module.add_computation("main")
    x = parameter(comp, "f32[8]")
    for _ in range(100_000):
        x = comp.add(ops.NEGATE, [x])
    comp.set_root(x)
    module.set_entry(comp)
    start = time.process_time()
    verify(module)
    assert time.process_time() - start < 5
