"""Attribute values as text, by kind: the printing half of the codec table (the parsing half is formats/hlo_text)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

from xyla.hlo.attr_types import ConvDims, PaddingDim, ReplicaGroups, SliceDim, Sparsity, Window
from xyla.hlo.module import Metadata
from xyla.hlo.op_def import AttrKind, Attrs, AttrSpec, OpDef
from xyla.hlo.printer_literals import shaped_literal_text
from xyla.support.status import unimplemented

_ESCAPED = re.compile(r'[\\"\x00-\x1f\x7f]')
_NAMED = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\r": "\\r"}


def quote(text: str) -> str:
    """A C-escaped string with its quotes."""
    if _ESCAPED.search(text) is None:
        return f'"{text}"'
    return '"' + _ESCAPED.sub(lambda m: _NAMED.get(m.group()) or f"\\{ord(m.group()):03o}", text) + '"'


def ints(values: Iterable[int]) -> str:
    """`{0,1}`."""
    return "{" + ",".join(map(str, values)) + "}"


def _pairs(rows: Iterable[Iterable[int]]) -> str:
    return "{" + ",".join(map(ints, rows)) + "}"


def _float(value: float) -> str:
    return repr(value).removesuffix(".0")


def _window(window: Window) -> str:
    dims = window.dims

    def joined(values: Iterable[object]) -> str:
        return "x".join(map(str, values))

    parts = [f"size={joined(d.size for d in dims)}"] if dims else []
    if any(d.stride != 1 for d in dims):
        parts.append(f"stride={joined(d.stride for d in dims)}")
    if any(d.pad_low or d.pad_high for d in dims):
        parts.append(f"pad={joined(f'{d.pad_low}_{d.pad_high}' for d in dims)}")
    if any(d.lhs_dilate != 1 for d in dims):
        parts.append(f"lhs_dilate={joined(d.lhs_dilate for d in dims)}")
    if any(d.rhs_dilate != 1 for d in dims):
        parts.append(f"rhs_dilate={joined(d.rhs_dilate for d in dims)}")
    if any(d.reversal for d in dims):
        parts.append(f"rhs_reversal={joined(int(d.reversal) for d in dims)}")
    return "{" + " ".join(parts) + "}"


def _conv_dims(dims: ConvDims) -> str:
    lhs = _labels({dims.input_batch: "b", dims.input_feature: "f"}, dims.input_spatial)
    rhs = _labels({dims.kernel_input_feature: "i", dims.kernel_output_feature: "o"}, dims.kernel_spatial)
    out = _labels({dims.output_batch: "b", dims.output_feature: "f"}, dims.output_spatial)
    return f"{lhs}_{rhs}->{out}"


def _labels(letters: dict[int, str], spatial: tuple[int, ...]) -> str:
    where = {**letters, **{position: str(i) for i, position in enumerate(spatial)}}
    return "".join(where.get(i, "?") for i in range(max(where) + 1))


def _padding(dims: tuple[PaddingDim, ...]) -> str:
    interior = any(d.interior for d in dims)
    return "x".join(f"{d.low}_{d.high}" + (f"_{d.interior}" if interior else "") for d in dims)


def _slice(dims: tuple[SliceDim, ...]) -> str:
    strides = any(d.stride != 1 for d in dims)
    return "{" + ", ".join(f"[{d.start}:{d.limit}{f':{d.stride}' if strides else ''}]" for d in dims) + "}"


def _replica_groups(groups: ReplicaGroups) -> str:
    if groups.text:
        return groups.text
    if groups.iota_dims:
        perm = f"T({','.join(map(str, groups.transpose_perm))})" if groups.transpose_perm else ""
        dims, reshape = (",".join(map(str, d)) for d in (groups.iota_dims, groups.reshape_dims))
        return f"[{dims}]<=[{reshape}]{perm}"
    return _pairs(groups.groups)


def _sparsity(items: tuple[Sparsity, ...]) -> str:
    return "_".join(f"{'LR'[s.index]}.{s.dimension}@{s.n}:{s.m}" for s in items)


def _words(values: Iterable[Any]) -> str:
    return "{" + ",".join(v.value for v in values) + "}"


ENCODERS: dict[AttrKind, Callable[[Any], str]] = {
    AttrKind.BOOL: lambda v: "true" if v else "false",
    AttrKind.INT: str,
    AttrKind.INTS: ints,
    AttrKind.INT_IN_BRACES: lambda v: f"{{{v}}}",
    AttrKind.FLOAT: _float,
    AttrKind.STRING: quote,
    AttrKind.ENUM: lambda v: str(v.value),
    AttrKind.SHAPE: str,
    AttrKind.SHAPES: lambda v: "{" + ", ".join(map(str, v)) + "}",
    AttrKind.LITERAL: shaped_literal_text,
    AttrKind.WINDOW: _window,
    AttrKind.CONV_DIMS: _conv_dims,
    AttrKind.PADDING: _padding,
    AttrKind.SLICE: _slice,
    AttrKind.REPLICA_GROUPS: _replica_groups,
    AttrKind.PAIRS: _pairs,
    AttrKind.PRECISION: _words,
    AttrKind.SPARSITY: _sparsity,
    AttrKind.ALIASING: lambda v: (
        "{" + ", ".join(f"{ints(a.output_index)}: ({a.operand}, {ints(a.operand_index)})" for a in v) + "}"
    ),
    AttrKind.BIJECTIONS: str,
    AttrKind.RAW: str,
}


def attrs_text(op: OpDef[Any], attrs: Attrs) -> str:
    """`, key=value` for each attribute that is required, always printed or not at its default."""
    parts = []
    for spec in op.specs:
        value = getattr(attrs, spec.name)
        if spec.kind is AttrKind.OPERAND or (spec.kind is AttrKind.LITERAL and op.name == "constant"):
            continue
        if _is_shown(spec, value):
            encode = ENCODERS.get(spec.kind)
            if encode is None:
                raise unimplemented(f"attribute {spec.key} of kind {spec.kind.name} in text")
            parts.append(f", {spec.key}={encode(value)}")
    return "".join(parts)


def _is_shown(spec: AttrSpec, value: Any) -> bool:
    if value is None or (spec.kind is AttrKind.INT_IN_BRACES and value < 0):
        return False
    return bool(spec.required or spec.always or value != spec.default)


def frontend_text(pairs: Iterable[tuple[str, str]]) -> str:
    """`{key="value",other={...}}`; a value in braces is written as it is."""
    return "{" + ",".join(f"{_key(key)}={_value(value)}" for key, value in pairs) + "}"


def _key(key: str) -> str:
    return key if re.fullmatch(r"[A-Za-z_][\w.\-]*", key) else quote(key)


def _value(value: str) -> str:
    return value if value.startswith("{") and value.endswith("}") and _is_balanced(value) else quote(value)


def _is_balanced(value: str) -> bool:
    """Whether the brackets of `value` pair up and its first one closes at its end."""
    stack: list[str] = []
    for match in re.finditer(r'"(?:[^"\\]|\\.)*"|[{}()\[\]]|"', value, re.DOTALL):
        char = match.group()
        if char in "{([":
            stack.append({"{": "}", "(": ")", "[": "]"}[char])
        elif char == '"' or (char in "})]" and (not stack or stack.pop() != char)):
            return False
        if not stack and match.end() != len(value):
            return False
    return not stack


_META = (
    "op_type", "op_name", "source_file", "source_line", "source_end_line", "source_column", "source_end_column",
    "stack_frame_id", "deduplicated_name", "scheduling_name",
)  # fmt: skip


def metadata_text(metadata: Metadata) -> str:
    """`{op_type="x" op_name="y" source_line=3}`."""
    parts = []
    for key in _META:
        value = getattr(metadata, key)
        if value:
            parts.append(f"{key}={value if isinstance(value, int) else quote(value)}")
    parts += [f"{key}={text}" for key, text in metadata.extra]
    return "{" + " ".join(parts) + "}"
