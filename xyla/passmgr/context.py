"""What a running pass may ask: the floating-point mode, and permission for each rewrite.

`permit` is the one choke point: it numbers every rewrite, counts it by rule, logs it, and refuses all past the limit.
That is what lets a miscompile be bisected to one rewrite.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import IO

from xyla.hlo.module import Instruction


class Fp(Enum):
    """How far a rewrite may change floating-point results.

    strict: every bit is kept (the order of an op's own reduction aside). default: values may change by rounding, but
    never from finite to inf or NaN or back, no NaN is lost, no zero changes sign. fast: XLA's unsafe set.
    """

    STRICT = "strict"
    DEFAULT = "default"
    FAST = "fast"


@dataclass(slots=True)
class RewriteControl:
    """Numbers, counts, logs and limits rewrites over a whole pipeline run.

    limit: rewrites allowed in all (None: no limit). log: JSON lines of {number, pass, rule, old, new, source}, and of
    {refused, needs, pass, rule, old, new, source} for what the floating-point mode forbids.
    """

    limit: int | None = None
    log: IO[str] | None = None
    # Called with (number, pass, rule, instruction) before a permitted rewrite.
    watch: Callable[[int, str, str, Instruction], None] | None = None
    # Whether rules that undo one another are stopped with a note; bisection wants to see them run on.
    budgeted: bool = True
    number: int = 0
    counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    # What the log has of refusals: a pass that runs again would repeat them.
    refused: set[tuple[str, str, str]] = field(default_factory=set)

    @property
    def stopped(self) -> bool:
        """Whether the limit has been reached: nothing more is permitted."""
        return self.limit is not None and self.number >= self.limit


@dataclass(slots=True)
class PassContext:
    """State of one pipeline run. `pass_name` is the running step's."""

    fp: Fp = Fp.DEFAULT
    control: RewriteControl = field(default_factory=RewriteControl)
    pass_name: str = ""
    # Passes say here what they skipped and why (constant folding's budget, ...).
    notes: list[str] = field(default_factory=list)
    _open: dict[str, object] | None = None

    def permit(self, rule: str, old: Instruction) -> bool:
        """Asks to apply `rule` at `old`, before anything is changed. False once the rewrite limit is reached."""
        control = self.control
        if control.stopped:
            return False
        self.flush()
        control.number += 1
        control.counts[self.pass_name, rule] += 1
        if control.watch is not None:
            control.watch(control.number, self.pass_name, rule, old)
        if control.log is not None:
            self._open = {
                "number": control.number,
                "pass": self.pass_name,
                "rule": rule,
                "old": text_of(old),
                "new": None,
                "source": source_of(old),
            }
        return True

    def retract(self, rule: str) -> None:
        """Takes the last permission back: the rule built something and then found that it does not match."""
        self.control.number -= 1
        self.control.counts[self.pass_name, rule] -= 1
        if not self.control.counts[self.pass_name, rule]:
            del self.control.counts[self.pass_name, rule]
        self._open = None

    def record(self, new: Instruction) -> None:
        """Says what the last permitted rewrite put in place (for the log)."""
        if self._open is not None:
            self._open["new"] = text_of(new)

    def refuse(self, rule: str, old: Instruction, new: Instruction, needs: Fp, why: str) -> None:
        """Logs that `rule` matches but may not run below the mode `needs`, because of `why`. Once an instruction."""
        control, what = self.control, (self.pass_name, rule, old.name)
        if control.log is None or what in control.refused:
            return
        self.flush()
        control.refused.add(what)
        entry = {
            "refused": why,
            "needs": needs.value,
            "pass": self.pass_name,
            "rule": rule,
            "old": text_of(old),
            "new": text_of(new),
            "source": source_of(old),
        }
        control.log.write(json.dumps(entry) + "\n")

    def flush(self) -> None:
        """Writes the pending log entry."""
        if self._open is not None and self.control.log is not None:
            self.control.log.write(json.dumps(self._open) + "\n")
        self._open = None


def text_of(inst: Instruction) -> str:
    """One line of HLO for the log."""
    from xyla.hlo.printer import print_instruction

    return print_instruction(inst)


def source_of(inst: Instruction) -> str:
    """`file:line` of the program that made the instruction, else where its text stands, else ""."""
    meta = inst.metadata
    if meta is not None and meta.source_file:
        return f"{meta.source_file}:{meta.source_line}"
    return inst.span.where() if inst.span is not None else ""
