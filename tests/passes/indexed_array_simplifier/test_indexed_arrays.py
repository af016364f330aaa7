"""Moved and merged gathers against the evaluator, with indices out of bounds; what counts as an indexed array."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest

from xyla.analysis.indexed_arrays import indexed_array
from xyla.formats.hlo_text import parse
from xyla.passes.indexed_array_simplifier import IndexedArraySimplifier
from xyla.testing.pass_check import check_pass


class Program:
    """Lines of an entry computation over s32 arrays, which a random generator adds to."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.lines: list[str] = []
        self.params: list[tuple[int, ...]] = []
        self.count = 0

    def add(self, dims: tuple[int, ...], text: str) -> str:
        name = f"v{self.count}"
        self.count += 1
        self.lines.append(f"{name} = s32[{','.join(map(str, dims))}] {text}")
        return name

    def parameter(self, dims: tuple[int, ...]) -> str:
        self.params.append(dims)
        return self.add(dims, f"parameter({len(self.params) - 1})")

    def gather(self, source: str, dims: tuple[int, ...]) -> tuple[str, tuple[int, ...]]:
        """Whole slices along a random dimension, the result's dimensions mixed at random."""
        rng = self.rng
        dim = rng.randrange(len(dims))
        index_dims = tuple(rng.randint(1, 4) for _ in range(rng.randint(0, 2)))
        at = rng.randint(0, len(index_dims))
        vector = rng.random() < 0.5
        stored = (*index_dims[:at], 1, *index_dims[at:]) if vector else index_dims
        indices = self.parameter(stored)
        rank = len(dims) - 1 + len(index_dims)
        offsets = sorted(rng.sample(range(rank), len(dims) - 1))
        kept, batch = iter(d for i, d in enumerate(dims) if i != dim), iter(index_dims)
        out = tuple(next(kept) if d in offsets else next(batch) for d in range(rank))
        sizes = [1 if i == dim else d for i, d in enumerate(dims)]
        name = self.add(
            out,
            f"gather({source}, {indices}), offset_dims={{{','.join(map(str, offsets))}}}, "
            f"collapsed_slice_dims={{{dim}}}, "
            f"start_index_map={{{dim}}}, index_vector_dim={at if vector else len(index_dims)}, "
            f"slice_sizes={{{','.join(map(str, sizes))}}}",
        )
        return name, out

    def reshape(self, source: str, dims: tuple[int, ...]) -> tuple[str, tuple[int, ...]]:
        factors = [p for d in dims for p in ([d] if d < 4 else [2, d // 2] if d % 2 == 0 else [d])]
        out: list[int] = []
        for f in factors:
            if out and self.rng.random() < 0.3:
                out[-1] *= f
            else:
                out.append(f)
            if self.rng.random() < 0.2:
                out.append(1)
        return self.add(tuple(out), f"reshape({source})"), tuple(out)

    def elementwise(self, source: str, dims: tuple[int, ...]) -> tuple[str, tuple[int, ...]]:
        along = sorted(self.rng.sample(range(len(dims)), self.rng.randint(0, min(1, len(dims)))))
        other = self.parameter(tuple(dims[d] for d in along))
        spread = self.add(dims, f"broadcast({other}), dimensions={{{','.join(map(str, along))}}}")
        operands = [source, spread]
        self.rng.shuffle(operands)
        return self.add(dims, f"{self.rng.choice(['add', 'subtract'])}({', '.join(operands)})"), dims

    def dot(self, source: str, dims: tuple[int, ...]) -> tuple[str, tuple[int, ...]]:
        d = self.rng.randrange(len(dims))
        other = self.parameter((dims[d], 2))
        rest = tuple(s for i, s in enumerate(dims) if i != d)
        if self.rng.random() < 0.5:
            text = f"dot({source}, {other}), lhs_contracting_dims={{{d}}}, rhs_contracting_dims={{0}}"
            return self.add((*rest, 2), text), (*rest, 2)
        text = f"dot({other}, {source}), lhs_contracting_dims={{0}}, rhs_contracting_dims={{{d}}}"
        return self.add((2, *rest), text), (2, *rest)


def random_program(seed: int) -> tuple[str, list[np.ndarray]]:
    """A chain of gathers and of the ops that they move past; indices from -2 to 6, bounds from 1 to 8."""
    p = Program(seed)
    dims = tuple(p.rng.randint(1, 4) for _ in range(p.rng.randint(1, 3)))
    value = p.parameter(dims)
    value, dims = p.gather(value, dims)
    for _ in range(4):
        steps = [p.gather, p.reshape, p.elementwise, p.dot] if dims else [p.elementwise]
        value, dims = p.rng.choice(steps)(value, dims)
        if math.prod(dims) > 4000:
            break
    p.lines[-1] = "ROOT " + p.lines[-1]
    values = np.random.default_rng(seed)
    args = [np.asarray(values.integers(-2, 7, d), np.int32) for d in p.params]
    return "HloModule m\nENTRY main {\n" + "\n".join(p.lines) + "\n}\n", args


def test_random_chains_keep_their_values() -> None:
    applied: dict[str, int] = {}
    for seed in range(150):
        text, args = random_program(seed)
        outcome = check_pass(IndexedArraySimplifier(), parse(text), args)
        for (_, rule), count in outcome.counts.items():
            applied[rule] = applied.get(rule, 0) + count
    assert set(applied) == {
        "gather_of_gather", "move_gather_after_op", "move_gather_after_dot", "move_gather_after_reshape",
    }  # fmt: skip
    assert min(applied.values()) >= 5


@pytest.mark.parametrize(
    ("shapes", "attributes"),
    [
        # Part of a row; rows that keep their dimension of size one; two indexed dimensions.
        ("f32[5,2] f32[3,3] s32[5]", "offset_dims={1} collapsed_slice_dims={0} start_index_map={0} slice_sizes={1,2}"),
        (
            "f32[5,1,3] f32[3,3] s32[5]",
            "offset_dims={1,2} collapsed_slice_dims={} start_index_map={0} slice_sizes={1,3}",
        ),
        (
            "f32[5] f32[3,3] s32[5,2]",
            "offset_dims={} collapsed_slice_dims={0,1} start_index_map={0,1} slice_sizes={1,1}",
        ),
    ],
)
def test_other_gathers_are_no_indexed_arrays(shapes: str, attributes: str) -> None:
    result, source, indices = shapes.split()
    module = parse(
        f"HloModule m\nENTRY e {{\nx = {source} parameter(0)\ni = {indices} parameter(1)\n"
        f"ROOT g = {result} gather(x, i), {', '.join(attributes.split())}, index_vector_dim=1\n}}"
    )
    assert indexed_array(module.entry.root) is None
