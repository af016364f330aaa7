from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import xyla.interp
from tests.interp.hlo import one, run
from xyla.formats.hlo_text import parse
from xyla.hlo import ops
from xyla.interp.table import EVAL
from xyla.support.dtypes import F32
from xyla.support.status import Status, XylaError


def test_every_opcode_has_a_rule() -> None:
    assert EVAL.missing() == ()


def test_a_deep_chain_does_not_recurse() -> None:
    body = ["x0 = f32[] parameter(0)"] + [f"x{i} = f32[] negate(x{i - 1})" for i in range(1, 20_001)]
    body[-1] = "ROOT " + body[-1]
    assert one("\n".join(body), np.float32(3)) == 3


def test_a_deep_call_graph_does_not_recurse() -> None:
    comps = ["c0 { p = s32[] parameter(0) ROOT r = s32[] add(p, p) }"]
    for i in range(1, 3000):
        comps.append(f"c{i} {{ p = s32[] parameter(0) ROOT r = s32[] call(p), to_apply=c{i - 1} }}")
    body = "p = s32[] parameter(0)\nROOT r = s32[] call(p), to_apply=c2999"
    assert one(body, np.int32(4), computations="\n".join(comps)) == 8


def test_an_exponential_call_graph_is_linear() -> None:
    comps = ["c0 { p = s64[] parameter(0) ROOT r = s64[] copy(p) }"]
    for i in range(1, 40):
        comps.append(
            f"c{i} {{ p = s64[] parameter(0) a = s64[] call(p), to_apply=c{i - 1}\n"
            f"b = s64[] call(p), to_apply=c{i - 1}\n ROOT r = s64[] add(a, b) }}"
        )
    body = "p = s64[] parameter(0)\nROOT r = s64[] call(p), to_apply=c39"
    assert one(body, np.int64(1), computations="\n".join(comps)) == 2**39


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ((), "takes 1 arguments, 0 given"),
        ((np.zeros(3, np.float64),), "argument 0 (%p) has dtype float64, the parameter is f32"),
        ((np.zeros(4, np.float32),), "argument 0 (%p) has shape [4], the parameter is f32[3]"),
    ],
)
def test_wrong_arguments_name_the_parameter(args: tuple[np.ndarray, ...], words: str) -> None:
    with pytest.raises(XylaError) as e:
        run("p = f32[3] parameter(0)\nROOT r = f32[3] negate(p)", *args)
    assert e.value.status is Status.INVALID_ARGUMENT
    assert words in e.value.message


def test_raw_bytes_are_read_as_the_parameter_type() -> None:
    raw = np.array([0x3F80, 0x4000], np.uint16).view("V2")
    out = one("p = bf16[2] parameter(0)\nROOT r = f32[2] convert(p)", raw)
    assert out.tolist() == [1, 2]


def test_tuple_roots_flatten_in_order() -> None:
    body = """p = f32[] parameter(0)
    n = f32[] negate(p)
    t = (f32[], f32[]) tuple(n, p)
    ROOT r = (f32[], (f32[], f32[])) tuple(p, t)"""
    assert [float(x) for x in run(body, np.float32(2))] == [2, -2, 2]


def test_an_elided_constant_is_a_located_error() -> None:
    with pytest.raises(XylaError) as e:
        run("c = f32[2] constant({...})\nROOT r = f32[2] negate(c)")
    assert e.value.status is Status.INVALID_ARGUMENT
    assert "test:4:" in e.value.render()


def test_unused_ops_are_not_evaluated() -> None:
    body = """p = f32[] parameter(0)
    bad = f32[] custom-call(p), custom_call_target="nobody"
    ROOT r = f32[] negate(p)"""
    assert one(body, np.float32(1)) == -1


def test_an_unknown_custom_call_names_its_target() -> None:
    with pytest.raises(XylaError) as e:
        one('p = f32[] parameter(0)\nROOT r = f32[] custom-call(p), custom_call_target="Shardin"', np.float32(1))
    assert e.value.status is Status.UNIMPLEMENTED
    assert "'Shardin'" in e.value.message
    assert e.value.hint == "did you mean 'Sharding'?"


@pytest.mark.parametrize("op", ["iota(), iota_dimension=0", "broadcast(z), dimensions={}"])
def test_what_no_memory_holds_is_an_error(op: str) -> None:
    with pytest.raises(XylaError) as e:
        run(f"z = f32[] constant(0)\nx = f32[1152921504606846976] {op}\nROOT r = f32[1152921504606846976] negate(x)")
    assert e.value.status is Status.RESOURCE_EXHAUSTED


def test_single_instructions_evaluate_on_operand_values() -> None:
    module = parse("HloModule m\nENTRY e { p = f32[2] parameter(0) ROOT r = f32[2] add(p, p) }", "t")
    evaluator = xyla.interp.Evaluator()
    value = evaluator.evaluate_instruction(module.entry.root, [np.float32([1, 2]), np.float32([10, 20])])
    assert value.tolist() == [11, 22]
    literal = xyla.interp.to_literal(value, module.entry.root.shape)
    assert literal.shape.element_type is F32
    assert literal.array.tolist() == [11, 22]


def test_a_changed_computation_is_planned_again() -> None:
    module = parse("HloModule m\nENTRY e { p = f32[] parameter(0) ROOT r = f32[] negate(p) }", "t")
    evaluator = xyla.interp.Evaluator()
    assert evaluator.evaluate_computation(module.entry, [np.float32(2)]) == -2
    module.entry.set_root(
        module.entry.add(ops.ADD, (module.entry.root, module.entry.root), shape=module.entry.root.shape)
    )
    assert evaluator.evaluate_computation(module.entry, [np.float32(2)]) == -4


def test_importing_the_evaluator_leaves_scipy_alone() -> None:
    code = "import sys, xyla.interp; sys.exit('scipy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_path_runs(tmp_path) -> None:  # type: ignore[no-untyped-def]
    file = tmp_path / "p.hlo"
    file.write_text("HloModule m\nENTRY e { ROOT c = s32[] constant(7) }\n")
    assert xyla.interp.run(file)[0] == 7
    assert xyla.interp.run(str(file))[0] == 7
    assert xyla.interp.run(file.read_text())[0] == 7
