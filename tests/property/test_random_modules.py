"""Random modules: well-formed, the same by seed, unchanged by every notation, the same on every engine."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import xyla
from xyla.formats import hlo_proto
from xyla.formats.hlo_text import parse
from xyla.hlo import rewriter
from xyla.hlo.equality import difference
from xyla.hlo.verifier import verify, violations
from xyla.testing.modules import random_module, random_program

SEEDS = st.integers(min_value=0, max_value=2**32 - 1)


def examples(count):
    """Fixed examples: a failure here is seen by everybody."""
    return settings(max_examples=count, derandomize=True, deadline=None, database=None)


def agree(got, want, tolerance):
    """Equal bit for bit (any NaN is as good as another) when the tolerance is 0, else within it."""
    if tolerance == 0:
        return bool(np.all((got == want) | ((got != got) & (want != want)))) or got.tobytes() == want.tobytes()
    a, b = got.astype(np.complex128), want.astype(np.complex128)
    return bool(np.all((np.abs(a - b) <= tolerance) | (a == b) | ((a != a) & (b != b))))


@given(SEEDS)
@examples(60)
def test_well_formed(seed):
    verify(random_module(seed))


@given(SEEDS)
@examples(10)
def test_same_seed_same_program(seed):
    one, two = random_program(seed), random_program(seed)
    assert str(one.module) == str(two.module)
    assert [a.tobytes() for a in one.arguments] == [a.tobytes() for a in two.arguments]
    assert one.tolerances == two.tolerances


def test_seeds_differ():
    assert len({str(random_module(seed)).split("\n", 1)[1] for seed in range(10)}) == 10


def test_ops_are_many():
    """A generator that lost its makers would make every other property here vacuous."""
    met = {inst.op.name for seed in range(80) for inst in random_module(seed).instructions()}
    assert len(met) >= 55
    assert {"reduce", "dot", "while", "gather", "scatter", "sort", "conditional", "fusion", "convolution"} <= met


@given(SEEDS, st.booleans())
@examples(40)
def test_text_round_trip(seed, short):
    module = random_module(seed)
    text = module.to_string(short=short)
    back = parse(text, "random.hlo")
    assert back.to_string(short=short) == text
    assert difference(module, back, names=not short) is None


@given(SEEDS)
@examples(25)
def test_proto_round_trip(seed):
    module = random_module(seed)
    data = hlo_proto.to_bytes(module)
    back = hlo_proto.load_bytes(data, "random.pb")
    assert difference(module, back) is None
    assert hlo_proto.to_bytes(back) == data


@given(SEEDS)
@examples(20)
def test_clone_is_equal_and_independent(seed):
    module = random_module(seed)
    clone = rewriter.clone_module(module)
    assert violations(clone) == []
    assert difference(module, clone) is None
    assert not {id(i) for i in module.instructions()} & {id(i) for i in clone.instructions()}


@pytest.mark.slow
@given(SEEDS)
@examples(15)
def test_compiled_is_evaluated(seed):
    program = random_program(seed, size=15)
    want = xyla.interp.run(program.module, program.arguments)
    got = xyla.run(program.module, program.arguments)
    for i, (g, w, tolerance) in enumerate(zip(got, want, program.tolerances, strict=True)):
        root = program.module.entry.root.operands[i]
        assert agree(g, w, tolerance), f"result {i}, %{root.name} = {root.shape} {root.op.name}"
