"""Which rewrites may change floating-point values, and the least mode that allows each.

A peephole rule carries `@value_changing(Fp.FAST, "what changes")`; the work-list then skips it in stricter modes. A
structural pass lists its own in a module-level `VALUE_CHANGING: dict[rule, (Fp, what)]` and asks `fp_allows` itself.
`docs/floating-point.md` is generated from both.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any, TypeVar

from xyla.passmgr.context import Fp

_RANK = {Fp.STRICT: 0, Fp.DEFAULT: 1, Fp.FAST: 2}
F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Mark:
    """One value-changing rewrite: the module that defines it, its name, the least mode that allows it, what changes."""

    module: str
    rule: str
    least: Fp
    what: str


def fp_allows(mode: Fp, least: Fp) -> bool:
    """Whether `mode` permits a rewrite that needs at least `least`."""
    return _RANK[mode] >= _RANK[least]


def value_changing(least: Fp, what: str) -> Callable[[F], F]:
    """Decorator: this rule may change a floating-point value, as `what` says, and needs at least the mode `least`.

    Raises ValueError for STRICT (such a rule keeps every bit and needs no mark) and for an empty `what`.
    """
    if least is Fp.STRICT or not what:
        raise ValueError("a value-changing rule needs Fp.DEFAULT or Fp.FAST, and says what changes")

    def mark(rule: F) -> F:
        rule.__dict__["value_changing"] = Mark(rule.__module__, rule.__name__, least, what)
        return rule

    return mark


def mark_of(rule: Callable[..., Any]) -> Mark | None:
    """The mark of a rule, or None for one that keeps every bit."""
    found = getattr(rule, "value_changing", None)
    return found if isinstance(found, Mark) else None


def all_marks(package: str = "xyla.passes") -> list[Mark]:
    """Every mark in the loaded modules of `package` (load them first), sorted by module and rule."""
    modules = [m for name, m in sys.modules.items() if name == package or name.startswith(package + ".")]
    found = {(m.module, m.rule): m for module in modules for m in _marks_in(module)}
    return [found[key] for key in sorted(found)]


def _marks_in(module: ModuleType) -> list[Mark]:
    values = list(vars(module).values())
    marks = [mark for v in values if callable(v) and (mark := mark_of(v)) is not None]
    listed: dict[str, tuple[Fp, str]] = getattr(module, "VALUE_CHANGING", {})
    return marks + [Mark(module.__name__, rule, least, what) for rule, (least, what) in listed.items()]
