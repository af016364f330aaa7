"""How the attributes of LMHLO operations are spelt: one codec a kind of value, each way.

Spellings follow the LMHLO, LMHLO_GPU and MHLO dialects (`dense<...>` lists, `#mhlo.dot<...>`, `#mhlo.conv<...>`,
`#lmhlo_gpu.convolution_backend_config<...>`). Readers take the operation and the attribute's name, so that every error
names both; they also take the older spellings (dictionaries of integers, plain strings for enums).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from enum import Enum
from typing import Any, TypeVar

import numpy as np

from xyla.formats.mlir import dense
from xyla.formats.mlir.attributes import (
    ArrayAttr,
    Attribute,
    BoolAttr,
    DenseAttr,
    DialectAttr,
    DictAttr,
    FloatAttr,
    IntegerAttr,
    StringAttr,
    SymbolRef,
)
from xyla.formats.mlir.ir import Operation
from xyla.formats.mlir.types import F64, I1, I32, I64, INDEX, TensorType, Type
from xyla.formats.stablehlo import decode_attrs
from xyla.hlo.attr_types import ConvDims, FftType, Precision, Transpose
from xyla.lowering.outline import Outlined
from xyla.support.status import invalid

E = TypeVar("E", bound=Enum)
Rows = tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class Codec:
    """An attribute each way: `write` a value, `read` the attribute of that name from an operation."""

    write: Callable[[Any], Attribute]
    read: Callable[[Operation, str], Any]


# -- numbers, strings, lists -----------------------------------------------------------------------------------


def _integer(type_: Type) -> Codec:
    return Codec(lambda value: IntegerAttr(value, type_), decode_attrs.integer)


def _read_float(op: Operation, key: str) -> float:
    found = op.get(key)
    if isinstance(found, IntegerAttr):
        return float(found.value)
    if isinstance(found, FloatAttr) and found.bits is not None and found.type == F64:
        return float(np.array([found.bits], np.uint64).view(np.float64)[0])
    return decode_attrs.floating(op, key)


def _dense(values: tuple[int, ...] | tuple[bool, ...], element: Type) -> DenseAttr:
    """A vector constant; one that repeats a value is written as a splat, as MLIR prints it."""
    words = [str(v).lower() for v in values]
    if not words:
        body = ""
    elif len(set(words)) == 1:
        body = words[0]
    else:
        body = f"[{', '.join(words)}]"
    return DenseAttr(body, TensorType((len(words),), element))


def _read_bools(op: Operation, key: str) -> tuple[bool, ...]:
    return tuple(bool(v) for v in decode_attrs.ints(op, key))


def _write_rows(rows: Rows) -> DenseAttr:
    """Rows of unequal length are filled up with -1, as replica groups are."""
    width = max((len(r) for r in rows), default=0)
    filled = [[*row, *([-1] * (width - len(row)))] for row in rows]
    return DenseAttr(str(filled) if width else "", TensorType((len(rows), width), I64))


def _read_rows(op: Operation, key: str) -> Rows:
    found = op.get(key)
    if not isinstance(found, DenseAttr):
        raise decode_attrs.missing(op, key, "a table of integers")
    dims, _ = dense.shape_of(found.type)
    if len(dims) == 1 and dims[0] > 0:
        return tuple((v,) for v in decode_attrs.ints(op, key))
    if len(dims) != 2:
        if len(dims) == 1:
            return ()
        raise decode_attrs.missing(op, key, "a table of integers")
    flat = decode_attrs.ints(op, key)
    rows = (flat[i * dims[1] : (i + 1) * dims[1]] for i in range(dims[0]))
    return tuple(tuple(v for v in row if v >= 0 or key != "replica_groups") for row in rows)


def _write_lines(value: Outlined) -> ArrayAttr:
    return ArrayAttr(tuple(StringAttr(line) for line in value.text.removesuffix("\n").split("\n")))


def _read_lines(op: Operation, key: str) -> Outlined:
    """HLO text that was written as one string, or as a list of its lines."""
    found = op.get(key)
    if isinstance(found, StringAttr):
        return Outlined(text=found.value.rstrip("\n") + "\n")
    if isinstance(found, ArrayAttr) and all(isinstance(i, StringAttr) for i in found.items):
        return Outlined(text="".join(f"{i.value}\n" for i in found.items if isinstance(i, StringAttr)))
    raise decode_attrs.missing(op, key, "text, as a list of lines")


BOOL = Codec(BoolAttr, decode_attrs.boolean)
INT = _integer(I64)
INT32 = _integer(I32)
FLOAT = Codec(lambda value: FloatAttr(value, F64), _read_float)
STRING = Codec(StringAttr, decode_attrs.string)
SYMBOL = Codec(SymbolRef, decode_attrs.symbol)
INTS = Codec(lambda values: _dense(values, I64), decode_attrs.ints)
INDICES = Codec(lambda values: _dense(values, INDEX), decode_attrs.ints)
BOOLS = Codec(lambda values: _dense(values, I1), _read_bools)
ROWS = Codec(_write_rows, _read_rows)
HLO = Codec(_write_lines, _read_lines)


# -- enums -----------------------------------------------------------------------------------------------------


class Activation(Enum):
    """What a fused convolution applies to its result."""

    NONE = "None"
    SIGMOID = "Sigmoid"
    RELU = "Relu"
    RELU6 = "Relu6"
    RELUX = "ReluX"
    TANH = "Tanh"
    BANDPASS = "BandPass"
    ELU = "Elu"
    LEAKY_RELU = "LeakyRelu"


def _enum(dialect: str, kind: str, words: dict[str, E]) -> Codec:
    spelt = {value: word for word, value in words.items()}

    def read(op: Operation, key: str) -> E:
        return decode_attrs.enum(op, key, words)

    return Codec(lambda value: DialectAttr(f"#{dialect}<{kind} {spelt[value]}>"), read)


_PRECISIONS = {p.name: p for p in (Precision.DEFAULT, Precision.HIGH, Precision.HIGHEST, Precision.PACKED_NIBBLE)}
ACTIVATION = _enum("lmhlo_gpu", "activation", {a.value: a for a in Activation})
FFT_TYPE = _enum("mhlo", "fft_type", {f.value: f for f in FftType})
TRANSPOSE = _enum("mhlo", "transpose", {t.value: t for t in Transpose})
PRECISIONS = Codec(
    lambda values: ArrayAttr(tuple(DialectAttr(f"#mhlo<precision {p.name}>") for p in values)),
    lambda op, key: decode_attrs.precision(op, key) if op.get(key) is not None else (),
)


# -- records ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class DotDims:
    """Dimension numbers of a matrix product, as `#mhlo.dot<...>`. Empty lists are not written."""

    lhs_batching_dimensions: tuple[int, ...] = ()
    rhs_batching_dimensions: tuple[int, ...] = ()
    lhs_contracting_dimensions: tuple[int, ...] = ()
    rhs_contracting_dimensions: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class ChannelHandle:
    """The channel of a collective; `type` 0 is device to device across replicas."""

    handle: int
    type: int = 0


@dataclass(frozen=True, slots=True)
class ConvConfig:
    """What the library call of a convolution is told: `#lmhlo_gpu.convolution_backend_config<...>`."""

    algorithm: int = 0
    is_cudnn_frontend: bool = False
    knob_ids: tuple[int, ...] = ()
    knob_values: tuple[int, ...] = ()
    operand_0_layout: tuple[int, ...] = ()
    operand_1_layout: tuple[int, ...] = ()
    result_layout: tuple[int, ...] = ()
    tensor_ops_enabled: bool = False
    workspace_size: int = 0
    is_cudnn_reordered_int8: bool = False


@dataclass(frozen=True, slots=True)
class ArgMapping:
    """Where a custom call's arguments and results go among those that its target takes; the others are holes."""

    num_args: int
    num_results: int
    args_to_target_args: tuple[int, ...]
    results_to_target_results: tuple[int, ...]


def _record(cls: type[Any], mnemonic: str, *, skip_empty: bool = False) -> Codec:
    """A record of integers, booleans and integer lists as `#mnemonic<name = value, ...>`."""
    names = [f.name for f in fields(cls)]
    types = {f.name: str(f.type) for f in fields(cls)}

    def write(value: Any) -> DialectAttr:
        pairs = [(n, getattr(value, n)) for n in names]
        body = ", ".join(f"{n} = {_field_text(v)}" for n, v in pairs if v != () or not skip_empty)
        return DialectAttr(f"#{mnemonic}<{body}>")

    def read(op: Operation, key: str) -> Any:
        found = op.get(key)
        if isinstance(found, DictAttr):
            return cls(**{n: _entry(op, key, n, v, types) for n, v in found.entries if n in types})
        if not isinstance(found, DialectAttr) or found.head != mnemonic:
            raise decode_attrs.missing(op, key, f"#{mnemonic}<...>")
        values = {n: _field_value(v, types[n]) for n, v in decode_attrs.fields(op, key).items() if n in types}
        try:
            return cls(**values)
        except TypeError:
            raise decode_attrs.missing(op, key, f"#{mnemonic}<...> with {', '.join(names)}") from None

    return Codec(write, read)


def _field_text(value: int | bool | tuple[int, ...]) -> str:
    return f"[{', '.join(map(str, value))}]" if isinstance(value, tuple) else str(value).lower()


def _field_value(text: str, type_: str) -> int | bool | tuple[int, ...]:
    if type_.startswith("tuple"):
        return tuple(_number(w) for w in text.strip("[] ").split(",") if w.strip())
    return text == "true" if type_ == "bool" else _number(text)


def _number(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise invalid(f"{text[:40]!r} is no integer") from None


def _entry(op: Operation, key: str, name: str, value: Attribute, types: dict[str, str]) -> int | bool | tuple[int, ...]:
    """A value of the older dictionary spelling."""
    part = Operation(f"{op.name} {key}")
    part.attributes[name] = value
    if types[name].startswith("tuple"):
        return decode_attrs.ints(part, name)
    return decode_attrs.boolean(part, name) if types[name] == "bool" else decode_attrs.integer(part, name)


def _write_conv_dims(dims: ConvDims) -> DialectAttr:
    return DialectAttr(f"#mhlo.conv<{conv_dims_text(dims)}>")


def _read_conv_dims(op: Operation, key: str) -> ConvDims:
    dims = decode_attrs.conv_dims(op)
    sides = (
        (dims.input_batch, dims.input_feature, *dims.input_spatial),
        (dims.kernel_input_feature, dims.kernel_output_feature, *dims.kernel_spatial),
        (dims.output_batch, dims.output_feature, *dims.output_spatial),
    )
    if any(sorted(side) != list(range(len(sides[0]))) for side in sides):
        raise decode_attrs.missing(op, key, "each dimension of three arrays of equal rank once")
    return dims


def conv_dims_text(dims: ConvDims) -> str:
    """`[b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1]`."""
    parts = (
        (("b", dims.input_batch), ("f", dims.input_feature), dims.input_spatial),
        (("i", dims.kernel_input_feature), ("o", dims.kernel_output_feature), dims.kernel_spatial),
        (("b", dims.output_batch), ("f", dims.output_feature), dims.output_spatial),
    )
    texts = []
    for first, second, spatial in parts:
        labels = [""] * (2 + len(spatial))
        labels[first[1]], labels[second[1]] = first[0], second[0]
        for number, place in enumerate(spatial):
            labels[place] = str(number)
        texts.append(f"[{', '.join(labels)}]")
    return f"{texts[0]}x{texts[1]}->{texts[2]}"


DOT_DIMS = _record(DotDims, "mhlo.dot", skip_empty=True)
CHANNEL = _record(ChannelHandle, "mhlo.channel_handle")
CONV_CONFIG = _record(ConvConfig, "lmhlo_gpu.convolution_backend_config")
ARG_MAPPING = _record(ArgMapping, "lmhlo.custom_call_target_arg_mapping")
CONV_DIMS = Codec(_write_conv_dims, _read_conv_dims)
