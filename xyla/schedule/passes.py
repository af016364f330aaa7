"""Scheduling as a step of a pipeline."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xyla.analysis.alias import CanShare, share_elementwise
from xyla.hlo.module import Module
from xyla.passmgr.base import Pass, register
from xyla.passmgr.context import PassContext
from xyla.schedule.order import schedule
from xyla.support.status import invalid


@register
@dataclass(frozen=True, slots=True)
class HloMemoryScheduler(Pass):
    """Stores instructions in an order of little peak memory, which is the order that they run in.

        wide = exponential(x)                      wide = exponential(x)
        other = exponential(y)             ==>     less = reduce(wide)
        less = reduce(wide)                        other = exponential(y)

    A module that is scheduled keeps its order. `can_share` is the target's hook, as of `copy-insertion`. An order is no
    option: a rewrite limit does not stop it.
    """

    name: ClassVar[str] = "hlo-memory-scheduler"
    can_share: CanShare = share_elementwise

    def __post_init__(self) -> None:
        if not callable(self.can_share):
            raise invalid(f"option 'can_share' of pass 'hlo-memory-scheduler' is a function, not {self.can_share!r}")

    def run(self, module: Module, ctx: PassContext) -> bool:
        """As `schedule`."""
        before = _state(module)
        schedule(module, self.can_share)
        return _state(module) != before


def _state(module: Module) -> tuple[bool, int]:
    return module.config.is_scheduled, sum(comp.revision for comp in module.computations.values())
