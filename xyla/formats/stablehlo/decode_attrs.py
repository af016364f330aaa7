"""Reading the attributes of StableHLO operations: dimension numbers, enums, windows, replica groups, channels.

Each reader takes the operation, so that a missing or malformed attribute is an error naming both.
Source: the StableHLO specification, section "Ops"; attribute spellings as the dialect prints them.
"""

from __future__ import annotations

import re
from enum import Enum
from typing import TypeVar

import numpy as np

from xyla.formats.mlir import dense
from xyla.formats.mlir.attributes import (
    ArrayAttr,
    Attribute,
    BoolAttr,
    DenseArrayAttr,
    DenseAttr,
    DialectAttr,
    FloatAttr,
    IntegerAttr,
    StringAttr,
    SymbolRef,
    UnitAttr,
)
from xyla.formats.mlir.ir import Operation
from xyla.hlo.attr_types import ConvDims, DotAlgorithm, Precision, ReplicaGroups, Window, WindowDim
from xyla.support.status import XylaError, invalid, unimplemented

E = TypeVar("E", bound=Enum)

_FIELD = re.compile(r"(\w+)\s*=\s*(\[[^\]]*\]|[^\s,<>]+)")
_INTEGER = re.compile(r"-?\d{1,18}")
_CONV = re.compile(r"\s*\[([^\]]*)\]\s*x\s*\[([^\]]*)\]\s*->\s*\[([^\]]*)\]\s*\Z")


def missing(op: Operation, name: str, what: str) -> XylaError:
    """'op needs attribute name, what', to raise."""
    found = op.get(name)
    tail = f"; it is {str(found)[:60]}" if found is not None else ""
    return invalid(f"{op.name} needs attribute '{name}', {what}{tail}")


def integer(op: Operation, name: str, default: int | None = None) -> int:
    """An integer attribute."""
    attr = op.get(name)
    if isinstance(attr, IntegerAttr):
        return attr.value
    if attr is None and default is not None:
        return default
    raise missing(op, name, "an integer")


def boolean(op: Operation, name: str, default: bool = False) -> bool:
    """A boolean attribute; a unit attribute means true."""
    attr = op.get(name)
    if attr is None:
        return default
    if isinstance(attr, BoolAttr):
        return attr.value
    if isinstance(attr, UnitAttr):
        return True
    raise missing(op, name, "true or false")


def floating(op: Operation, name: str) -> float:
    """A float attribute, as its f32 value when it says f32."""
    attr = op.get(name)
    if isinstance(attr, FloatAttr):
        if attr.bits is not None:
            if str(attr.type) == "f32":
                return float(np.array([attr.bits & 0xFFFFFFFF], np.uint32).view(np.float32)[0])
            raise unimplemented(f"{op.name}: hexadecimal {attr.type} attribute '{name}'")
        return float(np.float32(attr.value)) if str(attr.type) == "f32" else attr.value
    raise missing(op, name, "a float")


def string(op: Operation, name: str, default: str | None = None) -> str:
    """A string attribute."""
    attr = op.get(name)
    if isinstance(attr, StringAttr):
        return attr.value
    if attr is None and default is not None:
        return default
    raise missing(op, name, "a string")


def symbol(op: Operation, name: str) -> str:
    """A flat symbol reference."""
    attr = op.get(name)
    if isinstance(attr, SymbolRef) and not attr.nested:
        return attr.root
    raise missing(op, name, "a function name")


def ints(op: Operation, name: str, default: tuple[int, ...] | None = None) -> tuple[int, ...]:
    """A list of integers: `array<i64: ...>`, `dense<...>` or `[1, 2]`."""
    attr = op.get(name)
    if attr is None and default is not None:
        return default
    found = dense.ints(attr)
    if found is None and isinstance(attr, ArrayAttr) and all(isinstance(i, IntegerAttr) for i in attr.items):
        found = tuple(i.value for i in attr.items if isinstance(i, IntegerAttr))
    if found is None:
        raise missing(op, name, "a list of integers")
    return found


def pairs(op: Operation, name: str, count: int) -> tuple[tuple[int, int], ...]:
    """An N x 2 table of integers; zeros when the attribute is absent. `count` is the N expected (-1: any)."""
    attr = op.get(name)
    if attr is None:
        return ((0, 0),) * max(count, 0)
    flat = ints(op, name)
    if len(flat) % 2 or (count >= 0 and len(flat) != 2 * count):
        raise missing(op, name, f"{count if count >= 0 else 'a list of'} pairs of integers")
    return tuple(zip(flat[::2], flat[1::2], strict=True))


def word(attr: Attribute | None) -> str:
    """The enum word in `#stablehlo<kind WORD>` (or a plain string); "" if there is none."""
    if isinstance(attr, DialectAttr):
        return attr.body.strip()
    return attr.value if isinstance(attr, StringAttr) else ""


def enum(op: Operation, name: str, table: dict[str, E], default: E | None = None) -> E:
    """An enum attribute through `table`."""
    attr = op.get(name)
    if attr is None and default is not None:
        return default
    found = table.get(word(attr))
    if found is None:
        raise missing(op, name, f"one of {', '.join(table)}")
    return found


def fields(op: Operation, name: str) -> dict[str, str]:
    """The `key = value` entries of a dialect attribute, values as text."""
    attr = op.get(name)
    if not isinstance(attr, DialectAttr):
        raise missing(op, name, "dimension numbers")
    return dict(_FIELD.findall(attr.body))


def field_ints(entries: dict[str, str], key: str) -> tuple[int, ...]:
    """The integers of an entry; () if it is absent."""
    return tuple(int(m) for m in _INTEGER.findall(entries.get(key, "")))


def field_int(entries: dict[str, str], key: str, default: int = 0) -> int:
    """The one integer of an entry."""
    found = field_ints(entries, key)
    return found[0] if found else default


PRECISIONS = {p.name: p for p in Precision}


def precision(op: Operation, name: str = "precision_config") -> tuple[Precision, ...]:
    """Operand precisions; () when all are DEFAULT."""
    attr = op.get(name)
    if attr is None:
        return ()
    if not isinstance(attr, ArrayAttr):
        raise missing(op, name, "a list of precisions")
    out = []
    for item in attr.items:
        found = PRECISIONS.get(word(item))
        if found is None:
            raise missing(op, name, "a list of precisions")
        out.append(found)
    return tuple(out) if any(p is not Precision.DEFAULT for p in out) else ()


def dot_algorithm(op: Operation) -> DotAlgorithm:
    """The preset that a dot_algorithm attribute describes. Raises UNIMPLEMENTED for one that XLA has no name for."""
    if op.get("algorithm") is None:
        return DotAlgorithm.UNSET
    entries = fields(op, "algorithm")
    lhs, rhs, acc = (
        entries.get(k, "").lower() for k in ("lhs_precision_type", "rhs_precision_type", "accumulation_type")
    )
    steps = field_int(entries, "num_primitive_operations", 1)
    fast = entries.get("allow_imprecise_accumulation", "false") == "true"
    if lhs.startswith("f8") and rhs.startswith("f8"):
        base = f"dot_any_f8_any_f8_{'f32' if acc == 'f32' else 'any'}{'_fast_accum' if fast else ''}"
    else:
        base = f"dot_{lhs}_{rhs}_{acc}{f'_x{steps}' if steps != 1 else ''}"
    for candidate in DotAlgorithm:
        if candidate.value == base:
            return candidate
    raise unimplemented(f"{op.name}: no XLA dot algorithm corresponds to {op.get('algorithm')}")


def conv_dims(op: Operation) -> ConvDims:
    """Convolution dimension numbers, from `[b, 0, f]x[0, i, o]->[b, 0, f]` or the `raw` form."""
    attr = op.get("dimension_numbers")
    if not isinstance(attr, DialectAttr):
        raise missing(op, "dimension_numbers", "convolution dimension numbers")
    if attr.body.lstrip().startswith("raw"):
        return _raw_conv_dims(fields(op, "dimension_numbers"))
    m = _CONV.match(attr.body)
    if m is None:
        raise missing(op, "dimension_numbers", "such as [b, 0, f]x[0, i, o]->[b, 0, f]")
    lhs = _labels(op, m[1], "b", "f")
    rhs = _labels(op, m[2], "i", "o")
    out = _labels(op, m[3], "b", "f")
    return ConvDims(lhs[0], lhs[1], lhs[2], rhs[0], rhs[1], rhs[2], out[0], out[1], out[2])


def _labels(op: Operation, text: str, first: str, second: str) -> tuple[int, int, tuple[int, ...]]:
    labels = [t.strip() for t in text.split(",")]
    spatial = [t for t in labels if t not in (first, second)]
    wanted = sorted([first, second, *(str(i) for i in range(len(spatial)))])
    # `?` stands for a dimension that plays no part; HLO has no such thing.
    if sorted(labels) != wanted:
        raise missing(op, "dimension_numbers", f"each label once: '{first}', '{second}', 0, 1, ...")
    positions = {label: i for i, label in enumerate(labels)}
    return positions[first], positions[second], tuple(positions[str(i)] for i in range(len(spatial)))


def _raw_conv_dims(entries: dict[str, str]) -> ConvDims:
    def dims(key: str) -> tuple[int, ...]:
        return field_ints(entries, key + "_spatial_dimensions")

    def one(key: str) -> int:
        return field_int(entries, key)

    return ConvDims(
        one("input_batch_dimension"),
        one("input_feature_dimension"),
        dims("input"),
        one("kernel_input_feature_dimension"),
        one("kernel_output_feature_dimension"),
        dims("kernel"),
        one("output_batch_dimension"),
        one("output_feature_dimension"),
        dims("output"),
    )


def window(
    op: Operation,
    sizes: tuple[int, ...],
    *,
    strides: str = "window_strides",
    lhs_dilations: str = "",
    rhs_dilations: str = "",
    reversal: str = "",
    padding: tuple[tuple[int, int], ...] | None = None,
) -> Window:
    """A window of `sizes`; the other arguments name the attributes of its parts. `padding` overrides its attribute."""
    rank = len(sizes)
    ones = (1,) * rank
    stride = _per_dim(op, strides, ones)
    lhs = _per_dim(op, lhs_dilations, ones) if lhs_dilations else ones
    rhs = _per_dim(op, rhs_dilations, ones) if rhs_dilations else ones
    reverse = _per_dim(op, reversal, (0,) * rank) if reversal else (0,) * rank
    pad = padding if padding is not None else pairs(op, "padding", rank)
    dims = (WindowDim(sizes[i], stride[i], pad[i][0], pad[i][1], lhs[i], rhs[i], bool(reverse[i])) for i in range(rank))
    return Window(tuple(dims))


def _per_dim(op: Operation, name: str, default: tuple[int, ...]) -> tuple[int, ...]:
    found = ints(op, name, default)
    if len(found) != len(default):
        raise missing(op, name, f"{len(default)} values")
    return found


def replica_groups(op: Operation) -> ReplicaGroups:
    """Replica groups; -1 pads the shorter ones."""
    attr = op.get("replica_groups")
    if attr is None:
        return ReplicaGroups()
    if not isinstance(attr, DenseAttr):
        raise unimplemented(f"{op.name}: replica groups given as {str(attr)[:60]}")
    dims, _ = dense.shape_of(attr.type)
    flat = ints(op, "replica_groups")
    if len(dims) != 2:
        raise missing(op, "replica_groups", "a table of rank 2")
    width = dims[1]
    rows = (flat[i : i + width] for i in range(0, len(flat), width)) if width else ()
    return ReplicaGroups(tuple(tuple(d for d in row if d >= 0) for row in rows))


def channel_id(op: Operation) -> int:
    """The channel of a collective; 0 when there is none."""
    if op.get("channel_handle") is None:
        return integer(op, "channel_id", 0)
    return max(0, field_int(fields(op, "channel_handle"), "handle"))


def channel_type(op: Operation) -> int:
    """The channel type: 1 device to device, 2 device to host, 3 host to device."""
    return field_int(fields(op, "channel_handle"), "type") if op.get("channel_handle") is not None else 0


def accuracy(op: Operation) -> str:
    """result_accuracy as HLO text spells it; "" for the default."""
    attr = op.get("result_accuracy")
    if not isinstance(attr, DialectAttr):
        return ""
    body = attr.body
    mode = re.search(r"mode\s*=\s*(?:#stablehlo\.result_accuracy_mode<)?(\w+)", body)
    entries = dict(_FIELD.findall(body))
    if mode is not None and mode[1] in ("DEFAULT", "HIGHEST"):
        return "" if mode[1] == "DEFAULT" else "{mode=highest}"
    parts = [f"{k}={entries[k]}" for k in ("atol", "rtol", "ulps") if k in entries]
    return "{tolerance={" + ",".join(parts) + "}}" if parts else ""


def bools(op: Operation, name: str, count: int) -> tuple[bool, ...]:
    """`count` booleans, all false when absent."""
    attr = op.get(name)
    if attr is None:
        return (False,) * count
    if isinstance(attr, DenseArrayAttr):
        return tuple(bool(v) for v in attr.values)
    return tuple(bool(v) for v in ints(op, name))
