"""What a kernel is to its callers: the source text, the arguments it takes, how it may be launched.

ABI: `void kernel(ptr args, i64 lo, i64 hi)`. `args` points to buffer pointers: the leaves of the operands in order, the
leaves of the result, one buffer for each of `KernelSpec.literals` (row-major), then scratch if any is asked for.
[lo, hi) is a part of [0, launch_size): parts may run in any order and at the same time.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from xyla.codegen.llvm import Function, Param, Val
from xyla.hlo import ops
from xyla.hlo.literal import Literal
from xyla.hlo.module import Computation, Instruction
from xyla.runtime.objects import KernelSource
from xyla.support.status import XylaError, unimplemented

# A launch part should do at least about this much work (elements touched) to be worth another thread.
GRAIN_ELEMENTS = 1 << 15


@dataclass(frozen=True, slots=True)
class KernelSpec:
    """A kernel ready to compile.

    signature: canonical text of what it computes, without names. num_operands, num_outputs: buffers (tuple leaves count
    one each). literals: constants passed as buffers. launch_size: units of parallel work (0: nothing to do).
    grain: units that make a worthwhile part. scratch_bytes: size of the scratch buffer for one launch (all parts).
    flops, bytes: cost hints. aliases: (operand, output) pairs that may be one buffer.
    """

    source: KernelSource
    signature: str
    num_operands: int
    num_outputs: int
    launch_size: int
    grain: int = 1
    literals: tuple[Literal, ...] = ()
    scratch_bytes: int = 0
    flops: int = 0
    bytes: int = 0
    aliases: tuple[tuple[int, int], ...] = ()

    @property
    def name(self) -> str:
        """The symbol: equal for equal kernels."""
        return self.source.symbol

    @property
    def ir(self) -> str:
        """The kernel as a readable LLVM module."""
        return self.source.text()

    @property
    def num_args(self) -> int:
        """Pointers in the argument array."""
        return self.num_operands + self.num_outputs + len(self.literals) + (1 if self.scratch_bytes else 0)


class Frame:
    """A kernel function being written: its launch range and its buffer pointers (each loaded once, at entry)."""

    def __init__(self, num_operands: int, num_outputs: int) -> None:
        self.function = Function([Param("ptr", "args"), Param("i64", "lo"), Param("i64", "hi")])
        self.b = self.function.builder
        self.lo = self.function.arg(1)
        self.hi = self.function.arg(2)
        self.num_operands = num_operands
        self.num_outputs = num_outputs
        self.literals: list[Literal] = []
        self.scratch_bytes = 0
        self.operands = [self._pointer(i) for i in range(num_operands)]
        self.outputs = [self._pointer(num_operands + i) for i in range(num_outputs)]
        self._literal_at: dict[Literal, Val] = {}

    def _pointer(self, i: int) -> Val:
        return self.b.load(self.b.gep(self.function.arg(0), i, "ptr"), "ptr")

    def literal(self, value: Literal) -> Val:
        """The buffer that the caller fills with `value`, as an argument. Call it before any loop is opened."""
        known = self._literal_at.get(value)
        if known is None:
            self.literals.append(value)
            known = self._pointer(self.num_operands + self.num_outputs + len(self.literals) - 1)
            self._literal_at[value] = known
        return known

    def scratch(self, size: int) -> Val:
        """The scratch buffer; call it once, after the last `literal`."""
        self.scratch_bytes = size
        return self._pointer(self.num_operands + self.num_outputs + len(self.literals))

    def spec(
        self,
        signature: str,
        launch_size: int,
        *,
        grain: int = 1,
        flops: int = 0,
        size: int = 0,
        aliases: tuple[tuple[int, int], ...] = (),
    ) -> KernelSpec:
        """Closes the function."""
        self.b.ret()
        return KernelSpec(
            self.function.source(),
            signature,
            self.num_operands,
            self.num_outputs,
            launch_size,
            max(1, grain),
            tuple(self.literals),
            self.scratch_bytes,
            flops,
            size,
            aliases,
        )


def refuse(inst: Instruction, why: str) -> XylaError:
    """The UNIMPLEMENTED error that sends an instruction to its handler, to raise."""
    return unimplemented(f"no native kernel for {inst.op.name!r}: {why}", span=inst.span)


def computation_key(comp: Computation, known: dict[Computation, str] | None = None, _depth: int = 0) -> str:
    """Canonical text of a computation: structure, shapes, attributes; no names. Raises UNIMPLEMENTED past 50 levels.

    `known` holds what callees gave before: call graphs may branch at every level.
    """
    known = {} if known is None else known
    found = known.get(comp)
    if found is not None:
        return found
    if _depth > 50:
        raise unimplemented(f"native code for computations nested more than 50 deep ({comp.name!r})")
    number: dict[Instruction, int] = {}
    parts = []
    for inst in comp.post_order():
        number[inst] = len(number)
        operands = ",".join(str(number[o]) for o in inst.operands)
        callees = "".join("{" + computation_key(c, known, _depth + 1) + "}" for c in inst.called)
        parts.append(f"{inst.op.name} {inst.shape} ({operands}) {attrs_key(inst)}{callees}")
    text = ";".join(parts) + f";root {number[comp.root]}"
    known[comp] = text if len(text) < 2000 else hashlib.sha256(text.encode()).hexdigest()
    return known[comp]


def attrs_key(inst: Instruction) -> str:
    """Canonical text of an instruction's attributes. A literal is its shape and bytes (their hash when long)."""
    literal = getattr(inst.attrs, "literal", None)
    if not isinstance(literal, Literal):
        return repr(inst.attrs)
    if literal.shape.num_elements <= 8:
        return literal.tobytes().hex()
    value = literal.first.tobytes() if literal.is_splat else literal.tobytes()
    return f"{literal.is_splat}{hashlib.sha256(value).hexdigest()}"


def signature(inst: Instruction) -> str:
    """Canonical text of what an instruction computes: equal signatures get one kernel.

    An operand given twice is named by its first place: a kernel may read it once.
    """
    first: dict[Instruction, int] = {}
    operands = ",".join(f"{o.shape}@{first.setdefault(o, i)}" for i, o in enumerate(inst.operands))
    callees = "".join("{" + computation_key(c) + "}" for c in inst.called)
    return f"{inst.op.name} {inst.shape} ({operands}) {attrs_key(inst)}{callees}{_constants_key(inst)}"


def _constants_key(inst: Instruction) -> str:
    """The initial value of a reduce-window when it is a constant: its kernel depends on it (see `windows`)."""
    if inst.op is not ops.REDUCE_WINDOW:
        return ""
    inits = [constant_behind(o) for o in inst.operands[len(inst.operands) // 2 :]]
    return "".join(f" init {attrs_key(o)}" for o in inits if o is not None)


def constant_behind(inst: Instruction) -> Instruction | None:
    """The constant that a value only repeats or reshapes, or None."""
    while inst.op in (ops.BROADCAST, ops.RESHAPE, ops.COPY):
        inst = inst.operands[0]
    return inst if inst.op is ops.CONSTANT else None
