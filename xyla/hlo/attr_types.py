"""The structured values that attributes hold: windows, paddings, dimension numbers, replica groups, enums.

Source: xla_data.proto, hlo.proto and XLA's operation semantics. All are frozen and hashable.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


class ComparisonDirection(Enum):
    """compare direction."""

    EQ = "EQ"
    NE = "NE"
    GE = "GE"
    GT = "GT"
    LE = "LE"
    LT = "LT"


class ComparisonType(Enum):
    """compare type; TOTALORDER orders -NaN < -inf < ... < -0 < +0 < ... < NaN."""

    FLOAT = "FLOAT"
    TOTALORDER = "TOTALORDER"
    SIGNED = "SIGNED"
    UNSIGNED = "UNSIGNED"


class FftType(Enum):
    """fft_type."""

    FFT = "FFT"
    IFFT = "IFFT"
    RFFT = "RFFT"
    IRFFT = "IRFFT"


class FusionKind(Enum):
    """fusion kind."""

    LOOP = "kLoop"
    INPUT = "kInput"
    OUTPUT = "kOutput"
    CUSTOM = "kCustom"


class Transpose(Enum):
    """triangular-solve's transpose_a."""

    INVALID = "TRANSPOSE_INVALID"
    NO_TRANSPOSE = "NO_TRANSPOSE"
    TRANSPOSE = "TRANSPOSE"
    ADJOINT = "ADJOINT"


class RandomDistribution(Enum):
    """rng distribution."""

    INVALID = "rng_invalid"
    UNIFORM = "rng_uniform"
    NORMAL = "rng_normal"


class RandomAlgorithm(Enum):
    """rng-bit-generator algorithm."""

    DEFAULT = "rng_default"
    THREE_FRY = "rng_three_fry"
    PHILOX = "rng_philox"


class Precision(Enum):
    """operand_precision."""

    DEFAULT = "default"
    HIGH = "high"
    HIGHEST = "highest"
    PACKED_NIBBLE = "packed_nibble"


class DotAlgorithm(Enum):
    """PrecisionConfig.Algorithm, lower case as in HLO text."""

    UNSET = "unset"
    ANY_F8_ANY_F8_F32 = "dot_any_f8_any_f8_f32"
    ANY_F8_ANY_F8_F32_FAST_ACCUM = "dot_any_f8_any_f8_f32_fast_accum"
    ANY_F8_ANY_F8_ANY = "dot_any_f8_any_f8_any"
    ANY_F8_ANY_F8_ANY_FAST_ACCUM = "dot_any_f8_any_f8_any_fast_accum"
    F16_F16_F16 = "dot_f16_f16_f16"
    F16_F16_F32 = "dot_f16_f16_f32"
    BF16_BF16_BF16 = "dot_bf16_bf16_bf16"
    BF16_BF16_F32 = "dot_bf16_bf16_f32"
    BF16_BF16_F32_X3 = "dot_bf16_bf16_f32_x3"
    BF16_BF16_F32_X6 = "dot_bf16_bf16_f32_x6"
    BF16_BF16_F32_X9 = "dot_bf16_bf16_f32_x9"
    TF32_TF32_F32 = "dot_tf32_tf32_f32"
    TF32_TF32_F32_X3 = "dot_tf32_tf32_f32_x3"
    F32_F32_F32 = "dot_f32_f32_f32"
    F64_F64_F64 = "dot_f64_f64_f64"


class CustomCallApiVersion(Enum):
    """custom-call api_version."""

    UNSPECIFIED = "API_VERSION_UNSPECIFIED"
    ORIGINAL = "API_VERSION_ORIGINAL"
    STATUS_RETURNING = "API_VERSION_STATUS_RETURNING"
    STATUS_RETURNING_UNIFIED = "API_VERSION_STATUS_RETURNING_UNIFIED"
    TYPED_FFI = "API_VERSION_TYPED_FFI"


class CustomCallSchedule(Enum):
    """custom-call schedule hint."""

    NONE = "SCHEDULE_NONE"
    LATEST = "SCHEDULE_LATEST"
    EARLIEST = "SCHEDULE_EARLIEST"


class PaddingType(Enum):
    """custom-call / dynamic convolution padding_type."""

    INVALID = "PADDING_INVALID"
    VALID = "PADDING_VALID"
    SAME = "PADDING_SAME"


@dataclass(frozen=True, slots=True)
class WindowDim:
    """One dimension of a window. Padding may be negative (it crops, before any window is placed)."""

    size: int
    stride: int = 1
    pad_low: int = 0
    pad_high: int = 0
    lhs_dilate: int = 1  # base dilation
    rhs_dilate: int = 1  # window dilation
    reversal: bool = False

    @property
    def dilated_size(self) -> int:
        """Extent of the dilated window."""
        return 0 if self.size == 0 else (self.size - 1) * self.rhs_dilate + 1

    def output_size(self, base: int) -> int:
        """Output extent for a base dimension of size `base`."""
        dilated = 0 if base == 0 else (base - 1) * self.lhs_dilate + 1
        padded = self.pad_low + dilated + self.pad_high
        if padded == 0 or self.dilated_size > padded:
            return 0
        return (padded - self.dilated_size) // self.stride + 1


@dataclass(frozen=True, slots=True)
class Window:
    """A window over the spatial (convolution) or all (reduce-window) dimensions."""

    dims: tuple[WindowDim, ...] = ()

    def output_dims(self, base: Sequence[int]) -> tuple[int, ...]:
        """Output extents for base extents."""
        return tuple(w.output_size(b) for w, b in zip(self.dims, base, strict=True))


@dataclass(frozen=True, slots=True)
class ConvDims:
    """Convolution dimension numbers: which logical dimension plays which part. Printed `b01f_01io->b01f`."""

    input_batch: int
    input_feature: int
    input_spatial: tuple[int, ...]
    kernel_input_feature: int
    kernel_output_feature: int
    kernel_spatial: tuple[int, ...]
    output_batch: int
    output_feature: int
    output_spatial: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class PaddingDim:
    """pad's edge padding (low, high; negative crops) and interior padding of one dimension."""

    low: int
    high: int
    interior: int = 0


@dataclass(frozen=True, slots=True)
class SliceDim:
    """[start:limit:stride] of one dimension."""

    start: int
    limit: int
    stride: int = 1


@dataclass(frozen=True, slots=True)
class Sparsity:
    """Structured sparsity of a dot operand: `L.1@2:4` = lhs, dimension 1, 2 of every 4."""

    index: int  # 0: L, 1: R
    dimension: int
    n: int
    m: int


@dataclass(frozen=True, slots=True)
class ReplicaGroups:
    """Device groups of a collective.

    `groups` is the explicit list ({{0,1},{2,3}}; () means one group of everybody). The iota form
    `[2,4]<=[4,2]T(1,0)` is kept in `iota_dims`, `reshape_dims`, `transpose_perm` so that it prints as it was read;
    `groups` then holds its expansion as well. `text` keeps a mesh-axes form verbatim.
    """

    groups: tuple[tuple[int, ...], ...] = ()
    iota_dims: tuple[int, ...] = ()
    reshape_dims: tuple[int, ...] = ()
    transpose_perm: tuple[int, ...] = ()
    text: str = ""


@dataclass(frozen=True, slots=True)
class OutputOperandAlias:
    """output_to_operand_aliasing: output index aliases (operand, operand index)."""

    output_index: tuple[int, ...]
    operand: int
    operand_index: tuple[int, ...]
