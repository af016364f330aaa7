"""The registry of custom calls: what the steps of a program call by name.

Both engines share it. A target is registered with a function that *prepares* a step: it reads the step's attributes and
types once, when the executable is made, and returns the handler that every run calls.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy.typing as npt

from xyla.runtime.program import CustomCallStep
from xyla.runtime.run_options import RunOptions
from xyla.support.diagnostics import did_you_mean
from xyla.support.status import unimplemented

Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class CallContext:
    """What a handler may know of the execution that calls it. `shared`: what its handlers keep for one another."""

    options: RunOptions
    step: str
    shared: dict[object, Any] = field(default_factory=dict)


# A handler gets logical NumPy views of its inputs and returns one array an output, which the engine stores.
Handler = Callable[[CallContext, Sequence[Array]], Sequence[Array]]
Prepare = Callable[[CustomCallStep], Handler]

_TARGETS: dict[str, Prepare] = {}


def register(target: str, prepare: Prepare) -> None:
    """Makes `target` known; the last registration of a name counts."""
    _TARGETS[target] = prepare


def registered() -> tuple[str, ...]:
    """The known names, sorted."""
    return tuple(sorted(_TARGETS))


def handler_of(step: CustomCallStep) -> Handler:
    """The function that does a step. Raises UNIMPLEMENTED, with the nearest known name, for an unknown target."""
    if step.prepared is not None:
        return step.prepared
    prepare = _TARGETS.get(step.target)
    if prepare is None:
        near = did_you_mean(step.target, registered())
        raise unimplemented(
            f"{step.name}: no custom call {step.target!r} is registered",
            hint=f"did you mean {near!r}?" if near else None,
        )
    return prepare(step)
