"""`xla.gpu.infeed`, `xla.gpu.outfeed` and the copies between host and device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xyla.runtime.custom_calls import CallContext, Handler
from xyla.runtime.feeds import Feeds
from xyla.runtime.library_calls.common import Array, library_call, plain
from xyla.runtime.program import CustomCallStep
from xyla.support.status import invalid

_CONFIG = {"config": (str, "")}


@library_call("xla.gpu.infeed", _CONFIG)
def _infeed(step: CustomCallStep, a: dict[str, Any]) -> Handler:
    """Takes the next value of the device's queue: one array a result, in the order of a nested tuple's leaves."""

    def run(context: CallContext, arrays: Sequence[Array]) -> list[Array]:
        queues = _feeds(context)
        found = _leaves(queues.take_infeed(f"%{context.step}"))
        if len(found) != len(step.outputs):
            raise invalid(f"%{context.step} takes {len(step.outputs)} arrays, the host has fed {len(found)}")
        return found

    return run


@library_call("xla.gpu.outfeed", _CONFIG)
def _outfeed(step: CustomCallStep, a: dict[str, Any]) -> Handler:
    """Puts copies of the operands into the device's queue: an array, or a tuple where there are several."""

    def run(context: CallContext, arrays: Sequence[Array]) -> list[Array]:
        values = tuple(np.array(x) for x in arrays)
        _feeds(context).put_outfeed(values[0] if len(values) == 1 else values)
        return []

    return run


def _feeds(context: CallContext) -> Feeds:
    if context.options.feeds is None:
        raise invalid(f"%{context.step}: this execution has no infeed and outfeed queues")
    return context.options.feeds


def _leaves(value: Any) -> list[Array]:
    """The arrays of a nested tuple, in order."""
    stack, out = [value], []
    while stack:
        item = stack.pop()
        if isinstance(item, tuple | list):
            stack.extend(reversed(item))
        else:
            out.append(np.asarray(item))
    return out


@library_call("xla.gpu.memcpy.h2d", {})
@library_call("xla.gpu.memcpy.d2h", {})
@library_call("xla.gpu.memcpy.d2d", {})
def _memcpy(step: CustomCallStep, a: dict[str, Any]) -> Handler:
    """On the host all memory is one: the result is a copy of the input."""
    return plain(lambda source: [source])
