"""Random programs full of state, of every shape: all engines give the evaluator's bits, on any number of devices."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import xyla
from xyla import interp
from xyla.clients.devices import Job
from xyla.compiler.driver import compile_module
from xyla.hlo.verifier import verify
from xyla.runtime import custom_calls
from xyla.runtime.engine_interpreted import Interpreter
from xyla.testing.state_modules import StateProgram, state_program
from xyla.testing.state_ops import IN_PLACE, rotated


@pytest.fixture(autouse=True)
def in_place_call() -> Iterator[None]:
    """What the programs call by name."""
    xyla.register_custom_call(IN_PLACE, rotated)
    yield
    custom_calls.unregister(IN_PLACE)


@pytest.mark.parametrize("passes", ["none", "default"])
def test_one_device(passes: str) -> None:
    """Twice in a row by each engine; an argument that is not given up is as it was."""
    for seed in range(24):
        program = state_program(seed)
        want = [w.tobytes() for w in interp.run(program.module, program.arguments)]
        executable = compile_module(program.module, passes=passes)
        for engine in (None, None, Interpreter()):
            executable.use(engine)
            given = [a.copy() for a in program.arguments]
            got = executable.execute(given, donate=program.donated)
            assert [g.tobytes() for g in got] == want, seed
            for i, (before, after) in enumerate(zip(program.arguments, given, strict=True)):
                assert i in program.donated or np.array_equal(before, after), (seed, i)


def without_must(program: StateProgram) -> bool:
    """Whether no argument has to be given up."""
    return not any(a.must for a in program.module.config.input_output_aliases)


@pytest.mark.parametrize(("passes", "devices"), [("none", 2), ("default", 3)])
def test_several_devices(passes: str, devices: int) -> None:
    seeds = [s for s in range(24) if without_must(state_program(s, devices))]
    assert len(seeds) >= 8
    for seed in seeds:
        program = state_program(seed, devices)
        want = [w.tobytes() for w in interp.run(program.module, program.arguments)]
        job = Job(program.module)
        executable = compile_module(job.module, passes=passes)
        for engine in (None, Interpreter()):
            executable.use(engine)
            got = job.run(executable, program.arguments)
            assert [g.tobytes() for g in got] == want, seed


def test_programs_are_well_formed_and_the_same_by_seed() -> None:
    met = set()
    for seed in range(40):
        for devices in (1, 2):
            program, again = state_program(seed, devices), state_program(seed, devices)
            verify(program.module)
            assert str(program.module) == str(again.module)
            met |= {i.op.name for i in program.module.instructions()}
    assert {"while", "conditional", "call", "async-start", "copy-start", "opt-barrier", "custom-call", "fusion"} <= met
    assert {"all-reduce-start", "collective-permute", "all-to-all", "scatter", "dynamic-update-slice", "sort"} <= met
