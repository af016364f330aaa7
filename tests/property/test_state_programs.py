"""Programs full of state, compiled: what loops, branches and calls leave in memory is what the evaluator says."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.passes.buffer_machine import flat
from tests.passes.state_programs import state_program
from xyla import interp
from xyla.compiler.driver import Compilation, CompileOptions


@pytest.mark.parametrize("passes", ["none", "default"])
def test_compiled_state_programs(passes: str) -> None:
    """Run twice without giving anything up, then with everything that may be; other arguments are never written to."""
    rng = np.random.default_rng(0)
    for seed in range(200, 216 if passes == "default" else 230):
        module = state_program(seed)
        config = module.config
        config.input_output_aliases = tuple(replace(a, must=False) for a in config.input_output_aliases)
        arguments = [rng.integers(-9, 9, p.shape.dims).astype(np.int32) for p in module.entry.parameters]
        want = [leaf.tolist() for value in interp.run(module, arguments) for leaf in flat(value)]
        executable = Compilation(module, CompileOptions(passes=passes)).executable
        given_up = {a.parameter for a in config.input_output_aliases} | {d.parameter for d in config.buffer_donors}
        for donate in ((), (), tuple(sorted(given_up))):
            mine = [a.copy() for a in arguments]
            got = executable.execute(mine, donate=donate)
            assert [g.tolist() for g in got] == want, seed
            assert all(
                i in donate or np.array_equal(a, b) for i, (a, b) in enumerate(zip(arguments, mine, strict=True))
            )
