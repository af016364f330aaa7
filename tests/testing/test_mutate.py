from __future__ import annotations

from itertools import islice

from xyla.testing.mutate import KINDS, mutate, mutations

TEXT = b"HloModule m\n\nENTRY e {\n  p = f32[8] parameter(0)\n  ROOT n = f32[8] negate(p)\n}\n"


def test_the_same_seed_gives_the_same_damage() -> None:
    assert list(islice(mutations(TEXT, 5), 200)) == list(islice(mutations(TEXT, 5), 200))


def test_every_kind_occurs_and_does_damage() -> None:
    seen = {kind for kind, damaged in (mutate(TEXT, seed) for seed in range(400)) if damaged != TEXT}
    assert seen == set(KINDS)


def test_growth_is_bounded() -> None:
    assert max(len(damaged) for _, damaged in islice(mutations(TEXT), 500)) <= 2 * len(TEXT) + 65536


def test_damage_to_one_byte_and_binary() -> None:
    for _, damaged in islice(mutations(b"\xff"), 300):
        assert isinstance(damaged, bytes)
