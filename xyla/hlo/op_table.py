"""A total map from opcode to rule, for the layers above the IR (evaluator, emitters, cost model)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from xyla.hlo.op_def import OpDef, all_ops
from xyla.support.status import unimplemented

R = TypeVar("R")


class OpTable(Generic[R]):
    """Rules keyed by op. What a table does not do, it says: `unsupported(op, why)`."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._rules: dict[OpDef[Any], R] = {}
        self._unsupported: dict[OpDef[Any], str] = {}

    def rule(self, *ops: OpDef[Any]) -> Callable[[R], R]:
        """Decorator: registers a rule for one or several ops. Raises ValueError on a second rule for an op."""

        def register(fn: R) -> R:
            for op in ops:
                self._claim(op)
                self._rules[op] = fn
            return fn

        return register

    def unsupported(self, op: OpDef[Any], why: str) -> None:
        """States that this table does not handle `op`, and why."""
        self._claim(op)
        self._unsupported[op] = why

    def _claim(self, op: OpDef[Any]) -> None:
        if op in self._rules or op in self._unsupported:
            raise ValueError(f"{self.name}: second rule for {op.name!r}")

    def get(self, op: OpDef[Any]) -> R | None:
        """The rule, or None."""
        return self._rules.get(op)

    def __contains__(self, op: OpDef[Any]) -> bool:
        return op in self._rules

    def __getitem__(self, op: OpDef[Any]) -> R:
        """The rule. Raises UNIMPLEMENTED naming the table, the op and the reason."""
        rule = self._rules.get(op)
        if rule is None:
            raise unimplemented(f"{self.name} does not handle {op.name!r}: {self.why(op)}")
        return rule

    def why(self, op: OpDef[Any]) -> str:
        """Why the op is unsupported."""
        return self._unsupported.get(op, "no rule")

    def missing(self) -> tuple[str, ...]:
        """Opcodes with neither a rule nor a stated reason: must be empty (tests assert it)."""
        return tuple(o.name for o in all_ops() if o not in self._rules and o not in self._unsupported)
