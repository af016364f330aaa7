"""`xla.gpu.custom_call`: functions outside the program, called by name with the configuration as HLO states it.

A function that a user registered under the name counts first; a call of any other name carries HLO that says what it
does, which the evaluator's call does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from xyla.runtime.call_config import CONFIG, attributes_in, unquoted
from xyla.runtime.call_types import AttributeType, Kind
from xyla.runtime.custom_calls import OUTSIDE, CallContext, Handler, find, guarded, handler_of, where_of
from xyla.runtime.library_calls.common import Array, library_call
from xyla.runtime.program import ArrayType, CustomCallStep, Slice
from xyla.support.status import unimplemented

EVALUATE = "xyla.evaluate"
_HLO = "hlo"
_CALL = {
    "api_version": (AttributeType(Kind.I32), 1),
    "backend_config": (str, ""),
    "call_target_name": str,
    _HLO: (AttributeType(Kind.ANY), None),
}


@library_call(OUTSIDE, _CALL)
def _custom_call(step: CustomCallStep, a: dict[str, Any]) -> Handler:
    """Hands the step on to what does it. Holes (empty buffers for what the call leaves open) are left out."""
    name = a["call_target_name"]
    inputs, outputs = _given(step.inputs), _given(step.outputs)
    inner = replace(
        step,
        inputs=tuple(step.inputs[i] for i in inputs),
        outputs=tuple(step.outputs[i] for i in outputs),
    )
    handler = _handler(inner, name, a)
    if len(inputs) == len(step.inputs) and len(outputs) == len(step.outputs):
        return handler

    def run(context: CallContext, arrays: Sequence[Array]) -> list[Array]:
        results = iter(handler(context, [arrays[i] for i in inputs]))
        return [next(results) if i in outputs else np.empty(0, np.int8) for i in range(len(step.outputs))]

    return run


def _given(places: Sequence[tuple[Slice, ArrayType]]) -> list[int]:
    """Which arguments are no holes."""
    return [i for i, (s, t) in enumerate(places) if t.dims != (0,) or t.dtype != np.int8 or s != Slice(0, 0, 0)]


def _handler(step: CustomCallStep, name: str, a: dict[str, Any]) -> Handler:
    target = find(name)
    if target is not None and target.in_hlo:
        config = a["backend_config"]
        inner = replace(step, target=name, attributes=attributes_in(config, target.signature, step))
        target.check(inner)
        if target.address is not None:
            inner = replace(inner, attributes={CONFIG: unquoted(config)})
        return guarded(step, target.prepare(inner))
    if a[_HLO] is not None and find(EVALUATE) is not None:
        return handler_of(replace(step, target=EVALUATE, attributes={_HLO: a[_HLO]}))
    raise unimplemented(
        f"{where_of(step)}: no function is registered for custom_call_target={name!r}",
        hint=f"xyla.register_custom_call({name!r}, function)",
    )
