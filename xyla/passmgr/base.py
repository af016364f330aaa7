"""The pass contract and the registry of passes by XLA's names."""

from __future__ import annotations

import dataclasses
import re
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, TypeVar

from xyla.support.diagnostics import did_you_mean
from xyla.support.status import XylaError, invalid

if TYPE_CHECKING:
    from xyla.hlo.module import Module
    from xyla.passmgr.context import PassContext

_KEBAB = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*\Z")


@dataclass(frozen=True, slots=True)
class Pass(ABC):
    """A module transformation. Subclasses are frozen dataclasses; their fields are the pass's typed options.

    `name`: XLA's name of the pass (kebab-case). The docstring says what it does, on a tiny before/after example.
    """

    name: ClassVar[str] = ""
    # A simplifier run twice changes nothing the second time (checked mode asserts it).
    idempotent: ClassVar[bool] = True

    @abstractmethod
    def run(self, module: Module, ctx: PassContext) -> bool:
        """Transforms the module in place; returns whether it changed anything.

        Every change asks `ctx.permit` (or goes through `Rewrite`), so that it is numbered, logged and can be stopped.
        """


P = TypeVar("P", bound=type[Pass])
_PASSES: dict[str, type[Pass]] = {}


def register(cls: P) -> P:
    """Class decorator: makes a pass known by its name. Raises ValueError for a bad or taken name, or no docstring."""
    if not _KEBAB.match(cls.name):
        raise ValueError(f"{cls.__name__}: {cls.name!r} is not a kebab-case name")
    if cls.name in _PASSES:
        raise ValueError(f"two passes are called {cls.name!r}")
    if not cls.__doc__:
        raise ValueError(f"pass {cls.name!r} has no docstring")
    _PASSES[cls.name] = cls
    return cls


def registered() -> dict[str, type[Pass]]:
    """Every registered pass, sorted by name. The built-in ones are imported by `xyla.passes`."""
    return dict(sorted(_PASSES.items()))


def canonical(name: str) -> str:
    """A pass's name as it is registered: XLA itself writes some with underscores."""
    return name.strip().replace("_", "-")


def parse_passes(text: str) -> list[Pass]:
    """The passes of `algsimp{layout_sensitive=true},dce`, in order.

    Raises INVALID_ARGUMENT for an unknown pass or option (with a suggestion) or a value of the wrong type.
    """
    return [_parse_one(item) for item in _split(text)]


def _split(text: str) -> list[str]:
    """Splits at commas outside braces."""
    items, depth, start = [], 0, 0
    for i, c in enumerate(text):
        depth += (c == "{") - (c == "}")
        if depth < 0:
            raise invalid(f"unbalanced }} in pass list {text!r}")
        if c == "," and depth == 0:
            items.append(text[start:i])
            start = i + 1
    if depth:
        raise invalid(f"unbalanced {{ in pass list {text!r}")
    return [s.strip() for s in (*items, text[start:]) if s.strip()]


def _parse_one(item: str) -> Pass:
    name, brace, rest = item.partition("{")
    cls = _PASSES.get(canonical(name))
    if cls is None:
        near = did_you_mean(canonical(name), _PASSES)
        hint = f"did you mean {near!r}?" if near else "`xyla opt --list-passes` names them"
        raise invalid(f"unknown pass {name.strip()!r}", hint=hint)
    options = _options(cls, rest.removesuffix("}")) if brace else {}
    return cls(**options)


def _options(cls: type[Pass], text: str) -> dict[str, object]:
    known = {f.name: f for f in dataclasses.fields(cls)}
    out: dict[str, object] = {}
    for item in filter(None, (s.strip() for s in text.split(","))):
        key, _, value = item.partition("=")
        field = known.get(key.strip())
        if field is None:
            near = did_you_mean(key.strip(), known)
            hint = f"did you mean {near!r}?" if near else f"options: {', '.join(known) or 'none'}"
            raise invalid(f"pass {cls.name!r} has no option {key.strip()!r}", hint=hint)
        out[field.name] = _value(cls.name, field.name, str(field.type), value.strip() or "true")
    return out


def _value(owner: str, name: str, kind: str, text: str) -> object:
    try:
        if kind == "bool":
            return {"true": True, "1": True, "false": False, "0": False}[text.lower()]
        if kind.startswith("int"):
            return int(text)
        if kind.startswith("float"):
            return float(text)
    except (KeyError, ValueError):
        raise invalid(f"option {name!r} of pass {owner!r} wants {kind}, not {text!r}") from None
    return text


def located(error: XylaError, pass_: Pass) -> XylaError:
    """The error with the pass's name in front."""
    error.message = f"in pass {pass_.name}: {error.message}"
    return error
