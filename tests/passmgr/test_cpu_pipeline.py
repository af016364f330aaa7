from __future__ import annotations

import numpy as np
import pytest

from tests.passmgr.passes import module
from xyla import interp
from xyla.compiler.optimise import optimise
from xyla.formats.hlo_text import parse
from xyla.hlo.equality import fingerprint
from xyla.passes import load_all
from xyla.passmgr.base import registered
from xyla.passmgr.context import Fp
from xyla.support.status import XylaError
from xyla.targets.cpu.pipeline import LEFT_OUT, cpu_pipeline, pipelines
from xyla.testing.modules import random_program
from xyla.testing.pass_check import apply_pass, difference


@pytest.mark.parametrize("name", ["cpu", "optimization"])
@pytest.mark.parametrize("seed", range(6))
def test_random_programs_keep_their_values(name: str, seed: int) -> None:
    program = random_program(seed + 1000, size=30)
    outcome = apply_pass(pipelines()[name], program.module, checked=seed < 2)
    wanted = interp.run(program.module, program.arguments)
    got = interp.run(outcome.module, program.arguments)
    for want, have, tolerance in zip(wanted, got, program.tolerances, strict=True):
        if tolerance == 0:
            assert difference([have], [want]) is None, outcome.module
        else:
            wide = np.complex128 if want.dtype.kind == "c" else np.float64
            near = np.isclose(have.astype(wide), want.astype(wide), rtol=0, atol=2 * tolerance, equal_nan=True)
            assert near.all(), outcome.module


def test_every_step_has_a_reason() -> None:
    for pipeline in pipelines().values():
        assert all(step.why for step in pipeline.flat())


def test_what_is_left_out_is_a_pass_that_does_not_run() -> None:
    load_all()
    known = registered()
    assert LEFT_OUT.keys() <= known.keys()
    assert not LEFT_OUT.keys() & {step.run.name for step in cpu_pipeline().flat()}


def test_canonical_dots_stay_canonical() -> None:
    """algsimp does not fold the transposes into the dot that canonical form has taken out of it."""
    text = """HloModule m
ENTRY e {
  x = f32[7,2,5,3] parameter(0)
  y = f32[7,2,5,3] parameter(1)
  ROOT d = f32[7,5,2,2] dot(x, y), lhs_batch_dims={0,2}, rhs_batch_dims={0,2}, lhs_contracting_dims={3},
    rhs_contracting_dims={3}
}"""
    outcome = apply_pass(pipelines()["optimization"], parse(text))
    assert outcome.changed
    assert not outcome.notes


def test_the_callers_module_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    before, given = fingerprint(module(), names=True), module()
    done = optimise(given)
    assert fingerprint(given, names=True) == before
    assert done.module.num_instructions < given.num_instructions
    assert done.rewrites > 0
    assert set(done.pass_times) <= {step.name for step in cpu_pipeline().flat()}
    assert optimise(given, "none").module is given
    monkeypatch.setenv("XLA_FLAGS", "--xla_disable_all_hlo_passes")
    assert optimise(given).module is given
    monkeypatch.setenv("XLA_FLAGS", "--xla_disable_hlo_passes=algsimp,constant_folding,cse")
    done = optimise(given, fp=Fp.STRICT)
    assert not {"algsimp", "constant-folding", "cse"} & set(done.pass_times)


def test_an_unknown_pass_is_an_error() -> None:
    with pytest.raises(XylaError, match="unknown pass 'alg'"):
        optimise(module(), "alg")
