"""LMHLO: a program whose buffers are explicit. One operation a unit of work, each declared once.

Operands are views of allocations; nothing returns arrays. Names, attributes and defaults are those of the LMHLO and
LMHLO_GPU dialects; `lmhlo_text` prints and reads them as MLIR. What XLA's emitter turns into kernels (fusions, sorts,
reductions, ...) is a `Launch` here: `lmhlo.<opcode>` with the HLO instruction beside it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from xyla.hlo.attr_types import FftType, Transpose
from xyla.hlo.literal import Literal
from xyla.hlo.shape import Shape
from xyla.lowering.lmhlo_attrs import (
    ARG_MAPPING,
    BOOL,
    DOT_DIMS,
    FFT_TYPE,
    FLOAT,
    HLO,
    INDICES,
    INT,
    INT32,
    INTS,
    STRING,
    SYMBOL,
    TRANSPOSE,
    Activation,
    ArgMapping,
    ChannelHandle,
    ConvConfig,
    DotDims,
)
from xyla.lowering.lmhlo_base import (
    Block,
    Op,
    Space,
    Token,
    View,
    all_ops,
    attr,
    blocks_of,
    define,
    find,
    operand,
    operands,
    optional_operand,
    region,
    regions,
    spec_of,
    views_of,
)
from xyla.lowering.lmhlo_collectives import (
    REDUCTIONS,
    START_OF,
    AllGather,
    AllGatherDone,
    AllGatherStart,
    AllReduce,
    AllReduceDone,
    AllReduceStart,
    AllToAll,
    AllToAllDone,
    AllToAllStart,
    Collective,
    CollectiveBroadcast,
    CollectivePermute,
    CollectivePermuteDone,
    CollectivePermuteStart,
    Done,
    Infeed,
    Outfeed,
    PartitionId,
    RaggedAllToAll,
    Recv,
    RecvDone,
    Reducer,
    ReduceScatter,
    ReduceScatterDone,
    ReduceScatterStart,
    ReplicaId,
    Send,
    SendDone,
)
from xyla.lowering.lmhlo_conv import (
    Conv,
    ConvBackwardFilter,
    ConvBackwardInput,
    ConvForward,
    ConvForwardFused,
    ConvForwardFusedSideInput,
)
from xyla.lowering.outline import Outlined
from xyla.runtime.program import ArrayType

__all__ = [
    "REDUCTIONS",
    "START_OF",
    "Activation",
    "AllGather",
    "AllGatherDone",
    "AllGatherStart",
    "AllReduce",
    "AllReduceDone",
    "AllReduceStart",
    "AllToAll",
    "AllToAllDone",
    "AllToAllStart",
    "ArgMapping",
    "Argument",
    "Block",
    "Call",
    "Case",
    "ChannelHandle",
    "Cholesky",
    "Collective",
    "CollectiveBroadcast",
    "CollectivePermute",
    "CollectivePermuteDone",
    "CollectivePermuteStart",
    "Conv",
    "ConvBackwardFilter",
    "ConvBackwardInput",
    "ConvConfig",
    "ConvForward",
    "ConvForwardFused",
    "ConvForwardFusedSideInput",
    "Copy",
    "CustomCall",
    "Done",
    "DotDims",
    "Fft",
    "Function",
    "Gemm",
    "GemmBias",
    "Global",
    "GpuCholesky",
    "Infeed",
    "Launch",
    "LaunchFunc",
    "Memcpy",
    "Module",
    "Op",
    "Outfeed",
    "Outlined",
    "PartitionId",
    "RaggedAllToAll",
    "Recv",
    "RecvDone",
    "ReduceScatter",
    "ReduceScatterDone",
    "ReduceScatterStart",
    "Reducer",
    "ReplicaId",
    "Send",
    "SendDone",
    "Space",
    "Token",
    "TriangularSolve",
    "View",
    "While",
    "all_ops",
    "blocks_of",
    "find",
    "spec_of",
    "views_of",
]


# -- modules ---------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Argument:
    """A function argument: an allocation of `size` bytes.

    alloc: its number in the buffer assignment. params, param_shape_index: which leaf of which entry parameter it is;
    `shape` and `name` are that leaf's and that parameter's. constant_name: the constant it holds. output_index: the
    output leaves that it is returned as; a parameter that is also an output is donated if the caller agrees, and has to
    be if must_alias. written: a parameter that a run writes to: the caller's array is copied unless it is given up.
    type: None for plain bytes; set when the text gives the argument itself an array type.
    """

    size: int
    alloc: int | None = None
    params: int | None = None
    param_shape_index: tuple[int, ...] = ()
    constant_name: str | None = None
    output_index: tuple[tuple[int, ...], ...] = ()
    must_alias: bool = False
    name: str = ""
    shape: Shape | None = None
    type: ArrayType | None = None
    written: bool = False


@dataclass(slots=True)
class Function:
    """A computation over allocations. `private` functions are shared ones, called by `Call`."""

    name: str
    arguments: list[Argument]
    body: Block
    replica_count: int = 1
    num_partitions: int = 1
    result_shape: Shape | None = None
    private: bool = False


@dataclass(slots=True)
class Global:
    """A constant of the module, in the layout of its literal's shape. `alloc`: its number in the buffer assignment."""

    name: str
    literal: Literal
    alloc: int | None = None


@dataclass(slots=True)
class Module:
    """Functions, entry first, and constants; `kernels`: binaries of GPU modules by name (text only)."""

    name: str
    functions: list[Function]
    globals: list[Global] = field(default_factory=list)
    kernels: dict[str, str] = field(default_factory=dict)

    @property
    def entry(self) -> Function:
        """The function that a caller runs."""
        return self.functions[0]

    def function(self, name: str) -> Function | None:
        """The function of that name, or None."""
        return next((f for f in self.functions if f.name == name), None)


# -- launches, control flow, copies ------------------------------------------------------------------------------


@define("lmhlo.launch")
@dataclass(slots=True, eq=False)
class Launch(Op):
    """A kernel, or work that a handler does: `lmhlo.<opcode>`.

    literals: constants that the kernel wants as buffers; scratch: memory of one launch. hlo: the instruction.
    """

    opcode: str
    inputs: tuple[View, ...] = operands()
    outputs: tuple[View, ...] = operands()
    literals: tuple[View, ...] = operands()
    scratch: View | None = optional_operand()
    hlo: Outlined = attr(HLO)

    @property
    def mnemonic(self) -> str:
        """`lmhlo.fusion`, `lmhlo.dynamic_slice`."""
        return "lmhlo." + self.opcode.replace("-", "_")


@define("lmhlo.while")
@dataclass(slots=True, eq=False)
class While(Op):
    """Runs `condition`, then `body` for as long as the predicate in memory holds."""

    predicate: View = operand()
    condition: Block = region()
    body: Block = region()
    trip_count: int | None = attr(INT, None)


@define("lmhlo.case")
@dataclass(slots=True, eq=False)
class Case(Op):
    """Runs one branch: by an i1 (true takes branch 0) or by an i32 (out of range takes the last)."""

    index: View = operand()
    branches: tuple[Block, ...] = regions()


@define("lmhlo.call", same_size=True)
@dataclass(slots=True, eq=False)
class Call(Op):
    """Copies `sources` to `targets`, the parameters of a shared function, and runs it.

    pure: nothing but the parameters decides what it does. In text it passes all allocations on.
    """

    sources: tuple[View, ...] = operands()
    targets: tuple[View, ...] = operands()
    callee: str = attr(SYMBOL)
    pure: bool = attr(BOOL, False)


@define("lmhlo.copy")
@dataclass(slots=True, eq=False)
class Copy(Op):
    """Copies bytes between views of one size that do not overlap."""

    source: View = operand()
    target: View = operand()


@define("gpu.memcpy")
@dataclass(slots=True, eq=False)
class Memcpy(Op):
    """Copies bytes; the spaces of the two views say in which direction."""

    dst: View = operand()
    src: View = operand()


@define("gpu.launch_func")
@dataclass(slots=True, eq=False)
class LaunchFunc(Op):
    """Launches function `kernel` of GPU module `module` over a grid of blocks (x, y, z each)."""

    arguments: tuple[View, ...] = operands()
    module: str = attr(STRING)
    kernel: str = attr(STRING)
    grid: tuple[int, ...] = attr(INTS)
    block: tuple[int, ...] = attr(INTS)


@define("lmhlo.custom_call")
@dataclass(slots=True, eq=False)
class CustomCall(Op):
    """Calls something outside by name. `target_arg_mapping`: where the arguments go when the target takes more."""

    args: tuple[View, ...] = operands()
    output: tuple[View, ...] = operands()
    call_target_name: str = attr(STRING)
    has_side_effect: bool = attr(BOOL, False)
    backend_config: str = attr(STRING, "")
    api_version: int = attr(INT32, 1)
    target_arg_mapping: ArgMapping | None = attr(ARG_MAPPING, None)
    hlo: Outlined | None = attr(HLO, None)


# -- linear algebra and transforms -------------------------------------------------------------------------------


@define("lmhlo.fft")
@dataclass(slots=True, eq=False)
class Fft(Op):
    """A Fourier transform of the last `len(fft_length)` dimensions."""

    input: View = operand()
    output: View = operand()
    fft_type: FftType = attr(FFT_TYPE)
    fft_length: tuple[int, ...] = attr(INTS)


@define("lmhlo.cholesky")
@dataclass(slots=True, eq=False)
class Cholesky(Op):
    """The triangular factor of a positive definite matrix, batched."""

    a: View = operand()
    output: View = operand()
    lower: bool = attr(BOOL, False)


@define("lmhlo_gpu.cholesky")
@dataclass(slots=True, eq=False)
class GpuCholesky(Op):
    """As `Cholesky`, with the library's work space and one status word a matrix."""

    input: View = operand()
    output: View = operand()
    scratch: View = operand()
    info: View = operand()
    is_lower: bool = attr(BOOL)


@define("lmhlo.triangular_solve")
@dataclass(slots=True, eq=False)
class TriangularSolve(Op):
    """Solves op(a) x = b (left side) or x op(a) = b for x."""

    a: View = operand()
    b: View = operand()
    output: View = operand()
    left_side: bool = attr(BOOL)
    lower: bool = attr(BOOL)
    unit_diagonal: bool = attr(BOOL)
    transpose_a: Transpose = attr(TRANSPOSE)
    layout_a: tuple[int, ...] = attr(INDICES, ())
    layout_b: tuple[int, ...] = attr(INDICES, ())
    layout_output: tuple[int, ...] = attr(INDICES, ())


@define("lmhlo_gpu.gemm")
@dataclass(slots=True, eq=False)
class Gemm(Op):
    """c = alpha a b + beta c, batched."""

    a: View = operand()
    b: View = operand()
    c: View = operand()
    dot_dimension_numbers: DotDims = attr(DOT_DIMS)
    alpha_real: float = attr(FLOAT, 1.0)
    alpha_imag: float = attr(FLOAT, 0.0)
    beta: float = attr(FLOAT, 0.0)
    batch_size: int | None = attr(INT, None)
    lhs_stride: int | None = attr(INT, None)
    rhs_stride: int | None = attr(INT, None)
    algorithm: int | None = attr(INT, None)


@define("lmhlo_gpu.gemm_bias")
@dataclass(slots=True, eq=False)
class GemmBias(Op):
    """output = alpha lhs rhs + beta bias, batched."""

    lhs: View = operand()
    rhs: View = operand()
    bias: View = operand()
    output: View = operand()
    dot_dimension_numbers: DotDims = attr(DOT_DIMS)
    alpha_real: float = attr(FLOAT, 1.0)
    alpha_imag: float = attr(FLOAT, 0.0)
    beta: float = attr(FLOAT, 1.0)
    batch_size: int | None = attr(INT, None)
    lhs_stride: int | None = attr(INT, None)
    rhs_stride: int | None = attr(INT, None)
    algorithm: int | None = attr(INT, None)
