"""Packing: no two pieces in use at once overlap, heaps meet the bound where that can be known, gaps are used."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from xyla.buffers import packing
from xyla.buffers.packing import Packing, Piece, best_fit_in_time, lower_bound, pack


def overlap(a: Piece, b: Piece) -> bool:
    return any(f <= last and first <= g for first, last in a.lives for f, g in b.lives)


def check(pieces: list[Piece], found: Packing, alignment: int) -> None:
    placed = list(zip(pieces, found.offsets, strict=True))
    for i, (a, at) in enumerate(placed):
        assert at % alignment == 0
        assert at + a.size <= found.size or not a.size
        for b, bt in placed[:i]:
            if a.size and b.size and overlap(a, b):
                assert at + a.size <= bt or bt + b.size <= at, (a, at, b, bt)
    assert found.size >= found.lower_bound


def test_pieces_that_follow_one_another_share() -> None:
    found = pack([Piece(100, ((0, 1),)), Piece(100, ((2, 3),)), Piece(50, ((4, 9),))], 4)
    assert found.offsets == (0, 0, 0)
    assert found.size == found.lower_bound == 100


def test_ends_are_included() -> None:
    found = pack([Piece(8, ((0, 2),)), Piece(8, ((2, 3),))], 8)
    assert sorted(found.offsets) == [0, 8]


def test_sizes_are_rounded_to_the_alignment() -> None:
    found = pack([Piece(1, ((0, 1),)), Piece(65, ((0, 1),))], 64)
    assert found.size == found.lower_bound == 192


def test_empty_pieces_and_none_at_all() -> None:
    assert pack([], 64).size == 0
    found = pack([Piece(0, ((0, 9),)), Piece(16, ((0, 9),))], 16)
    assert found.size == 16


def test_the_gap_in_a_life_is_used() -> None:
    pieces = [Piece(64, ((0, 1), (8, 9))), Piece(64, ((2, 7),))]
    found = pack(pieces, 64)
    check(pieces, found, 64)
    assert found.size == 64


def test_time_order_alone_would_leave_a_hole() -> None:
    # Best fit in time puts the long small piece between two that a large one must replace.
    pieces = [Piece(64, ((0, 2),)), Piece(64, ((1, 9),)), Piece(64, ((0, 0),)), Piece(128, ((3, 9),))]
    assert max(o + p.size for o, p in zip(best_fit_in_time(pieces), pieces, strict=True)) == 256
    found = pack(pieces, 64)
    check(pieces, found, 64)
    assert found.size == found.lower_bound == 192


def test_the_least_gap_is_taken() -> None:
    start, size = np.array([256, 448, -1]), np.array([64, 64, 64])
    assert packing._least_gap(start, size, 128) == 320
    assert packing._least_gap(start, size, 129) == 0
    assert packing._least_gap(start, size, 257) == 512
    assert packing._least_gap(start[2:], size[2:], 8) == 0


lives = st.lists(st.integers(0, 30), min_size=2, max_size=6, unique=True).map(
    lambda times: tuple((a, b) for a, b in zip(sorted(times)[::2], sorted(times)[1::2], strict=False))
)
some_pieces = st.lists(st.builds(Piece, st.integers(0, 300), lives), max_size=25)


@settings(deadline=None)
@given(some_pieces, st.sampled_from([1, 16, 64]))
def test_any_pieces(pieces: list[Piece], alignment: int) -> None:
    check(pieces, pack(pieces, alignment), alignment)


@settings(deadline=None)
@given(some_pieces)
def test_any_pieces_in_time(pieces: list[Piece]) -> None:
    offsets = best_fit_in_time(pieces)
    size = max((o + p.size for o, p in zip(offsets, pieces, strict=True)), default=0)
    check(pieces, Packing(tuple(offsets), size, lower_bound(pieces), ""), 1)


def random_pieces(seed: int, count: int) -> list[Piece]:
    rng = random.Random(seed)
    out = []
    for _ in range(count):
        first = rng.randrange(count)
        size = rng.choice([64, 128, 4096, 65536, rng.randrange(1, 1 << 20)])
        out.append(Piece(size, ((first, first + int(rng.expovariate(0.1))),)))
    return out


@pytest.mark.parametrize("seed", range(4))
def test_near_the_bound(seed: int) -> None:
    pieces = random_pieces(seed, 200)
    found = pack(pieces, 64)
    check(pieces, found, 64)
    assert found.size <= 1.05 * found.lower_bound


def test_too_many_overlaps_are_placed_by_size_and_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packing, "PAIRS", 10)
    monkeypatch.setattr(packing, "THOROUGH", 20)
    pieces = random_pieces(1, 150)
    found = pack(pieces, 64)
    check(pieces, found, 64)
    monkeypatch.setattr(packing, "_ORDERS", ())
    assert found.size <= pack(pieces, 64).size


def test_the_same_pieces_are_packed_the_same_way() -> None:
    assert pack(random_pieces(3, 300), 64) == pack(random_pieces(3, 300), 64)


def test_many_pieces_take_little_time() -> None:
    pieces = random_pieces(7, 20_000)
    offsets = best_fit_in_time(pieces)
    assert max(o + p.size for o, p in zip(offsets, pieces, strict=True)) < 1.4 * lower_bound(pieces)
