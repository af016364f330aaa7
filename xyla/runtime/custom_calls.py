"""The registry of custom calls: what the steps of a program call by name.

Both engines share it. A target is registered with a function that *prepares* a step: it reads the step's attributes and
types once, when the executable is made, and returns the handler that every run calls. Users register functions of their
own with `xyla.register_custom_call` (`user_calls`); the library's are in `library_calls`.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy.typing as npt

from xyla.runtime.call_config import unquoted
from xyla.runtime.call_types import ANY, Signature, in_call
from xyla.runtime.program import CustomCallStep
from xyla.runtime.run_options import RunOptions
from xyla.support.diagnostics import did_you_mean
from xyla.support.status import invalid, unimplemented

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


@dataclass(frozen=True, slots=True)
class Target:
    """One name: how its steps are prepared, what they take, whether HLO may name it.

    address: of native code that does the same (see `user_calls`), for engines that need no Python between steps.
    """

    prepare: Prepare
    signature: Signature = ANY
    in_hlo: bool = False
    address: int | None = None

    def check(self, step: CustomCallStep) -> None:
        """Raises INVALID_ARGUMENT when a step's attributes, arguments or results are not those of the signature."""
        where = f"{where_of(step)} ({step.target})"
        self.signature.check([t for _, t in step.inputs], [t for _, t in step.outputs], where)
        self.signature.decode(step.attributes, where)


_TARGETS: dict[str, Target] = {}
# The library's calls are imported when a program first names one.
# The call by which programs reach what users registered.
OUTSIDE = "xla.gpu.custom_call"
_LIBRARY, _LIBRARY_MODULE = "xla.gpu.", "xyla.runtime.library_calls"


def register(
    target: str,
    prepare: Prepare,
    signature: Signature = ANY,
    *,
    in_hlo: bool = False,
    address: int | None = None,
) -> None:
    """Makes `target` known; the last registration of a name counts. `signature` is checked before `prepare` is called.

    in_hlo: HLO's custom-call may name it too (what users register); else only steps of programs do.
    Raises INVALID_ARGUMENT for an empty name.
    """
    if not target:
        raise invalid("a custom call needs a name")
    _TARGETS[target] = Target(prepare, signature, in_hlo, address)


def unregister(target: str) -> None:
    """Forgets a name; nothing happens when it is not known."""
    _TARGETS.pop(target, None)


def registered() -> tuple[str, ...]:
    """The known names, sorted."""
    return tuple(sorted(_TARGETS))


def find(target: str) -> Target | None:
    """What is registered under a name, or None."""
    if target not in _TARGETS and target.startswith(_LIBRARY):
        importlib.import_module(_LIBRARY_MODULE)
    return _TARGETS.get(target)


def in_hlo(target: str) -> bool:
    """Whether HLO's custom-call finds a registered function under this name."""
    found = _TARGETS.get(target)
    return found is not None and found.in_hlo


def signature_of(target: str) -> Signature:
    """The signature of a name; that of an unknown one allows anything."""
    found = find(target)
    return found.signature if found is not None else ANY


def handler_of(step: CustomCallStep) -> Handler:
    """The function that does a step; what fails in it says which step and target, and where the source states it.

    Raises UNIMPLEMENTED, with the nearest known name, for an unknown target, INVALID_ARGUMENT when the attributes, the
    arguments or the results are not those of the target's signature.
    """
    where = where_of(step)
    if step.prepared is not None:
        return step.prepared
    target = find(step.target)
    if target is None:
        near = did_you_mean(step.target, registered())
        raise unimplemented(
            f"{where}: no custom call {step.target!r} is registered",
            hint=f"did you mean {near!r}?" if near else None,
        )
    target.check(step)
    return target.prepare(step)


def attributes_of(step: CustomCallStep) -> dict[str, Any]:
    """The attributes of a step as its target's signature types them. Raises INVALID_ARGUMENT."""
    return signature_of(step.target).decode(step.attributes, f"{where_of(step)} ({step.target})")


@dataclass(frozen=True, slots=True)
class NativeCall:
    """What the native engine calls by itself: address, configuration with its final NUL, and how errors begin."""

    address: int
    config: bytes
    failure: str


def native_of(step: CustomCallStep) -> NativeCall | None:
    """The native code that does a step, or None where Python has to: no address, holes, or arrays not row-major.

    Raises as `handler_of`.
    """
    name = step.attributes.get("call_target_name")
    target = _TARGETS.get(name) if step.target == OUTSIDE and isinstance(name, str) else None
    if target is None or target.address is None:
        return None
    arrays = [t for _, t in (*step.inputs, *step.outputs)]
    if any(t.dims == (0,) or t.minor_to_major != tuple(range(len(t.dims)))[::-1] for t in arrays):
        return None
    handler_of(step)
    config = step.attributes.get("backend_config", "")
    text = unquoted(config) if isinstance(config, str) else ""
    return NativeCall(target.address, text.encode() + b"\0", failure_of(step))


def failure_of(step: CustomCallStep) -> str:
    """How the error of a call that failed begins."""
    return f"{where_of(step)}: the custom call {_called(step)!r} failed"


def guarded(step: CustomCallStep, handler: Handler) -> Handler:
    """A handler whose failures become errors that name the step, the target and the place in the source."""
    where = failure_of(step)

    def run(context: CallContext, arrays: Sequence[Array]) -> Sequence[Array]:
        try:
            return handler(context, arrays)
        except Exception as error:  # a user's function may raise anything; its text goes on
            raise in_call(error, where) from error

    return run


def _called(step: CustomCallStep) -> str:
    name = step.attributes.get("call_target_name")
    return name if isinstance(name, str) else step.target


def where_of(step: CustomCallStep) -> str:
    """How errors name a step: where the source states it, where that is known, and its name."""
    return f"{step.location}: %{step.name}" if step.location else f"%{step.name}"
