"""The table of custom-call targets: target name -> rule, and the reading of their configuration text."""

from __future__ import annotations

import re
from collections.abc import Callable

from xyla.hlo.module import Instruction
from xyla.interp.table import Rule

CUSTOM_CALLS: dict[str, Rule] = {}

_FIELD = re.compile(r'(\w+)"?\s*[=:]\s*("[^"]*"|-?[\w.+-]+)')


def target(*names: str) -> Callable[[Rule], Rule]:
    """Decorator: registers a rule under target names. Raises ValueError when one is taken."""

    def register(rule: Rule) -> Rule:
        for name in names:
            if name in CUSTOM_CALLS:
                raise ValueError(f"second rule for custom-call target {name!r}")
            CUSTOM_CALLS[name] = rule
        return rule

    return register


def config(inst: Instruction) -> dict[str, int | str]:
    """The scalar fields of a backend_config (`{uplo = 76 : ui8, lower = true}` or JSON); booleans become 0 and 1."""
    out: dict[str, int | str] = {}
    for name, value in _FIELD.findall(inst.backend_config):
        if value in ("true", "false"):
            out[name] = int(value == "true")
        elif re.fullmatch(r"-?\d+", value):
            out[name] = int(value)
        else:
            out[name] = value.strip('"')
    return out


def letter(inst: Instruction, field: str, default: str) -> str:
    """A LAPACK option stored as a character code (uplo = 76 means "L")."""
    value = config(inst).get(field, default)
    return chr(value) if isinstance(value, int) else value[:1]
