"""Random programs: scheduled, copied where needed, assigned and proved; the values stay those of the evaluator."""

from __future__ import annotations

import numpy as np
import pytest

import xyla.interp
from xyla.buffers.pipeline import assign_buffers
from xyla.hlo import rewriter
from xyla.hlo.verifier import verify
from xyla.testing.modules import random_program


@pytest.mark.parametrize("seed", range(25))
def test_any_program_gets_buffers(seed: int) -> None:
    program = random_program(seed=1000 + seed, size=40)
    module = rewriter.clone_module(program.module)
    found = assign_buffers(module)
    assert found.stats.temporaries >= found.stats.lower_bound
    verify(module)
    before = xyla.interp.run(program.module, program.arguments)
    after = xyla.interp.run(module, program.arguments)
    for a, b in zip(before, after, strict=True):
        assert np.array_equal(np.asarray(a), np.asarray(b), equal_nan=np.asarray(a).dtype.kind in "fc")
