"""`xla.gpu.custom_call`: functions that users registered, called by name with the configuration as HLO states it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from xyla.runtime.call_types import AttributeType, Kind
from xyla.runtime.custom_calls import CallContext, Handler, find, guarded, handler_of
from xyla.runtime.library_calls.common import Array, library_call
from xyla.runtime.program import CustomCallStep
from xyla.runtime.user_calls import attributes_in
from xyla.support.status import unimplemented

_CALL = {"api_version": (AttributeType(Kind.I32), 1), "backend_config": (str, ""), "call_target_name": str}


@library_call("xla.gpu.custom_call", _CALL)
def _custom_call(step: CustomCallStep, a: dict[str, Any]) -> Handler:
    """Hands the step on to the function registered as call_target_name, its attributes those of backend_config."""
    name = a["call_target_name"]
    target = find(name)
    if target is None:
        raise unimplemented(f"%{step.name}: no function is registered for custom_call_target={name!r}",
                            hint="xyla.register_custom_call(name, function)")  # fmt: skip
    attributes = attributes_in(a["backend_config"], target.signature, step)
    handler = guarded(step, handler_of(replace(step, target=name, attributes=attributes)))

    def run(context: CallContext, arrays: Sequence[Array]) -> Sequence[Array]:
        return handler(context, arrays)

    return run
