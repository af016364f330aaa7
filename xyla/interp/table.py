"""The evaluator's rule table and the types that rules speak in.

A rule binds one instruction once: it reads attributes and element types and returns a *kernel*, a plain function from
operand values to the result value. A kernel that calls computations which must not grow Python's stack (call, while,
conditional) is a generator: it yields `(computation, arguments)` and is sent the result.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy.typing as npt

from xyla.hlo.module import Instruction
from xyla.hlo.op_table import OpTable

if TYPE_CHECKING:
    from xyla.interp.session import Session

Array = npt.NDArray[Any]
# An ndarray or NumPy scalar (logical dims, the element type's storage dtype), a tuple of values, or TOKEN.
Value = Any
Kernel = Callable[..., Any]
Rule = Callable[[Instruction, "Session"], Kernel]


class Token:
    """The one value of type token."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "token"


TOKEN = Token()

EVAL: OpTable[Rule] = OpTable("the evaluator")
