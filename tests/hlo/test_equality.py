"""Structural equality and fingerprints."""

from __future__ import annotations

import pytest

from xyla.formats.hlo_text import parse
from xyla.hlo.equality import difference, equal, fingerprint
from xyla.hlo.module import Module

TEXT = """HloModule m, replica_count=2
f { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }
ENTRY e {
  p = f32[4]{0} parameter(0), sharding={replicated}
  c = f32[] constant(1.5)
  k = f32[4]{0} constant({1, 2, 3, 4})
  s = f32[4]{0} add(p, k), metadata={op_name="x"}
  ROOT r = f32[] reduce(s, c), dimensions={0}, to_apply=f
}
"""


def module(old: str = "", new: str = "") -> Module:
    assert old in TEXT
    return parse(TEXT.replace(old, new) if old else TEXT)


def test_a_module_equals_its_copy() -> None:
    assert equal(module(), module())
    assert fingerprint(module()) == fingerprint(module())


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("add(p, k)", "multiply(p, k)"),
        ("add(p, k)", "add(k, p)"),
        ("f32[4]{0} parameter", "f32[4] parameter"),
        ("{1, 2, 3, 4}", "{1, 2, 3, -4}"),
        ("constant(1.5)", "constant({...})"),
        ("replica_count=2", "is_scheduled=true"),
        ("dimensions={0}", "dimensions={}"),
        ("ROOT r = f32[] add(a, b)", "r = f32[] add(a, b) ROOT q = f32[] add(b, a)"),
        ("add(p, k), ", "add(p, k), control-predecessors={c}, "),
    ],
)
def test_what_changes_the_program_changes_the_fingerprint(old: str, new: str) -> None:
    assert not equal(module(), module(old, new), names=False, annotations=False)
    assert fingerprint(module()) != fingerprint(module(old, new))


@pytest.mark.parametrize(("old", "new"), [("sharding={replicated}", "sharding={maximal device=0}"), ('"x"', '"y"')])
def test_annotations_count_only_when_asked(old: str, new: str) -> None:
    other = module(old, new)
    assert equal(module(), other, annotations=False)
    assert fingerprint(module()) == fingerprint(other)
    assert not equal(module(), other)
    assert fingerprint(module(), annotations=True) != fingerprint(other, annotations=True)


def test_names_count_only_when_asked() -> None:
    other = module("ROOT r = f32[] reduce", "ROOT renamed = f32[] reduce")
    assert equal(module(), other, names=False)
    found = difference(module(), other)
    assert found is not None
    assert "renamed" in str(found[1])


def test_a_splat_equals_its_full_form() -> None:
    texts = (
        "HloModule m\nENTRY e { ROOT c = f32[3] constant(2) }",
        "HloModule m\nENTRY e { ROOT c = f32[3] constant({2, 2, 2}) }",
    )
    a, b = map(parse, texts)
    assert equal(a, b)
    assert fingerprint(a) == fingerprint(b)


def test_the_root_counts() -> None:
    first = "HloModule m\nENTRY e { ROOT a = f32[] constant(1) b = f32[] constant(2) }"
    assert not equal(parse(first), parse(first.replace("ROOT ", "").replace(" b =", " ROOT b =")))
