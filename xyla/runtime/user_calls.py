"""`xyla.register_custom_call`: functions of the user's own, called by HLO's custom-call.

    @xyla.register_custom_call("scaled_sum")
    def scaled_sum(x, y, *, scale: float = 1.0):
        return (x + y) * scale

    %r = f32[4] custom-call(%x, %y), custom_call_target="scaled_sum", api_version=API_VERSION_TYPED_FFI,
        backend_config={scale = 2.0 : f64}

The function gets NumPy arrays, read them only, and returns one array a result (a tuple of several). What it raises
becomes an error that names the call and carries the text. Native code may be given instead of a Python function:

    const char *call(void *const *buffers, const char *config, int64_t config_size);

`buffers`: the operands, then the results, each row-major; `config`: the call's configuration. NULL means success, else
the text of an error, which must live until the thread's next call.
"""

from __future__ import annotations

import ctypes
import inspect
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar, overload

import numpy as np
import numpy.typing as npt

from xyla.runtime.call_config import CONFIG
from xyla.runtime.call_types import REQUIRED, Argument, AttributeType, Signature, attribute_type, attribute_types
from xyla.runtime.custom_calls import CallContext, Handler, register
from xyla.runtime.program import ArrayType, CustomCallStep
from xyla.support.status import Status, XylaError, invalid

Array = npt.NDArray[Any]
F = TypeVar("F", bound=Callable[..., Any])
_NATIVE = ctypes.CFUNCTYPE(ctypes.c_char_p, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int64)
_CONTEXT = "context"
_OURS = ("xla.gpu.", "xyla.")


@overload
def register_custom_call(
    name: str,
    function: None = None,
    *,
    attributes: Mapping[str, Any] | None = None,
    arguments: Sequence[Any] | None = None,
    results: Sequence[Any] | None = None,
) -> Callable[[F], F]: ...


@overload
def register_custom_call(
    name: str,
    function: Callable[..., Any] | int,
    *,
    attributes: Mapping[str, Any] | None = None,
    arguments: Sequence[Any] | None = None,
    results: Sequence[Any] | None = None,
) -> None: ...


def register_custom_call(
    name: str,
    function: Callable[..., Any] | int | None = None,
    *,
    attributes: Mapping[str, Any] | None = None,
    arguments: Sequence[Any] | None = None,
    results: Sequence[Any] | None = None,
) -> Any:
    """Registers `function` (or, without it, the decorated one) for custom_call_target=`name`.

    function: a Python function, or the address of native code (see the module's text). attributes: types by name, as
    `int`, `float`, `bool`, `str`, `tuple[int, ...]`, an Enum, a frozen dataclass or a mapping of such; `(type,
    default)` for an optional one. Without it they are the function's keyword-only parameters. A parameter `context`
    receives the CallContext, an attribute `backend_config` the configuration's text. arguments, results: NumPy types
    (or None for any), one each, or None for any number. A second registration replaces the first.
    Raises INVALID_ARGUMENT for an empty name, one of xyla's own (`xla.gpu.`, `xyla.`), or a type that attributes do
    not have.
    """
    if function is None:
        return lambda decorated: _registered(name, decorated, attributes, arguments, results)
    _registered(name, function, attributes, arguments, results)
    return None


def _registered(
    name: str,
    function: Any,
    attributes: Mapping[str, Any] | None,
    arguments: Sequence[Any] | None,
    results: Sequence[Any] | None,
) -> Any:
    if name.startswith(_OURS):
        raise invalid(f"register_custom_call({name!r}): names that start with {' or '.join(_OURS)} are xyla's own")
    native = isinstance(function, int)
    if not native and not callable(function):
        raise invalid(f"register_custom_call({name!r}): expected a function or an address, got {function!r}")
    kinds = attribute_types(attributes) if attributes is not None else None if native else _keywords(function)
    signature = Signature(kinds, _arguments(arguments, "argument"), _arguments(results, "result"))
    prepare = _native(function) if native else _python(function, signature)
    register(name, prepare, signature, in_hlo=True, address=function if native else None)
    return function


def _arguments(types: Sequence[Any] | None, what: str) -> tuple[Argument, ...] | None:
    if types is None:
        return None
    return tuple(Argument(f"{what} {i}", None if t is None else np.dtype(t)) for i, t in enumerate(types))


def _parameters(function: Callable[..., Any]) -> list[inspect.Parameter]:
    try:
        return list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return []  # a builtin that tells nothing: it takes arrays only


def _keywords(function: Callable[..., Any]) -> dict[str, AttributeType] | None:
    """The attributes that a function asks for by its keyword-only parameters; None when it takes any."""
    parameters = _parameters(function)
    if any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters):
        return None
    wanted = [p for p in parameters if p.kind is inspect.Parameter.KEYWORD_ONLY and p.name != _CONTEXT]
    hints = typing.get_type_hints(function) if wanted else {}
    out: dict[str, AttributeType] = {}
    for p in wanted:
        if p.name not in hints:
            raise invalid(f"the parameter {p.name!r} of {function!r} needs a type, which is its attribute's")
        out[p.name] = attribute_type(hints[p.name], REQUIRED if p.default is p.empty else p.default)
    return out


def _python(function: Callable[..., Any], signature: Signature) -> Callable[[CustomCallStep], Handler]:
    in_context = any(p.name == _CONTEXT for p in _parameters(function))

    def prepare(step: CustomCallStep) -> Handler:
        decoded = signature.decode(step.attributes, f"%{step.name} ({step.target})")
        types = [t for _, t in step.outputs]

        def run(context: CallContext, arrays: Sequence[Array]) -> list[Array]:
            extra = {_CONTEXT: context} if in_context else {}
            return _results(function(*(_frozen(x) for x in arrays), **decoded, **extra), types)

        return run

    return prepare


def _frozen(x: Array) -> Array:
    view = x.view()
    view.flags.writeable = False
    return view


def _results(returned: Any, types: Sequence[ArrayType]) -> list[Array]:
    """What a function returned, as arrays of the program's types. Raises INVALID_ARGUMENT when it is something else."""
    values = [] if returned is None else list(returned) if isinstance(returned, tuple | list) else [returned]
    if len(values) != len(types):
        raise invalid(f"it returned {len(values)} arrays, the program says {len(types)}")
    out = []
    for i, (value, t) in enumerate(zip(values, types, strict=True)):
        array = np.asarray(value)
        if array.shape != t.dims:
            raise invalid(f"result {i} has shape {list(array.shape)}, the program says {list(t.dims)}")
        if array.dtype != t.dtype and not np.can_cast(array.dtype, t.dtype, "same_kind"):
            raise invalid(f"result {i} is an array of {array.dtype}, the program says {t.dtype}")
        out.append(array.astype(t.dtype, copy=False))
    return out


def _native(address: int) -> Callable[[CustomCallStep], Handler]:
    function = _NATIVE(address)

    def prepare(step: CustomCallStep) -> Handler:
        text = step.attributes.get(CONFIG, "")
        config = text.encode() if isinstance(text, str) else b""
        types = [t for _, t in step.outputs]

        def run(context: CallContext, arrays: Sequence[Array]) -> list[Array]:
            inputs = [np.ascontiguousarray(x) for x in arrays]
            outputs = [np.zeros(t.dims, t.dtype) for t in types]
            pointers = (ctypes.c_void_p * (len(inputs) + len(outputs)))(*(x.ctypes.data for x in (*inputs, *outputs)))
            error = function(ctypes.addressof(pointers), config, len(config))
            if error is not None:
                raise XylaError(Status.UNKNOWN, error.decode("utf-8", "replace"))
            return outputs

        return run

    return prepare
