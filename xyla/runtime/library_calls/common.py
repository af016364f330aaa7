"""What the library's calls share: registration with a typed signature, arithmetic types, absent results."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from xyla.runtime.call_types import Signature, attribute_types
from xyla.runtime.custom_calls import CallContext, Handler, attributes_of, register
from xyla.runtime.program import ArrayType, CustomCallStep
from xyla.support import dtypes

Array = npt.NDArray[Any]
# Makes the handler of a step from its decoded attributes.
Make = Callable[[CustomCallStep, dict[str, Any]], Handler]


def library_call(target: str, attributes: Mapping[str, Any]) -> Callable[[Make], Make]:
    """Registers a maker of handlers under a name with its attributes, see `call_types.attribute_types`."""

    def add(make: Make) -> Make:
        register(target, lambda step: make(step, attributes_of(step)), Signature(attribute_types(attributes)))
        return make

    return add


def plain(function: Callable[..., Sequence[Array]]) -> Handler:
    """A handler that needs no context: `function` of the inputs gives the outputs."""

    def run(context: CallContext, arrays: Sequence[Array]) -> Sequence[Array]:
        return function(*arrays)

    return run


def unused(t: ArrayType) -> Array:
    """The result for a buffer that the call only wanted as work space."""
    return np.broadcast_to(np.zeros((), t.dtype), t.dims)


def arithmetic(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The type in which sums of values of `dtype` are formed: f32 for narrower floats."""
    kind = dtypes.by_numpy(dtype)
    return np.dtype(np.float32) if kind.is_float and kind.bits < 32 else dtype


def batched(array: Array, rank: int = 2) -> Array:
    """The array with all but its last `rank` dimensions made one."""
    return np.reshape(array, (-1, *array.shape[array.ndim - rank :]))
