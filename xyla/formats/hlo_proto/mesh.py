"""Device meshes: named shardings and mesh-axes replica groups, from and to their text.

`mesh['x'=2,'y'=4], [{'x'}, {}, {'y':(1)2, ?}], replicated={'z'}` and `mesh['x'=2,'y'=2] {'x'}`.
Source: xla_data.proto (MeshProto, AxisRefProto, NamedShardingProto), Shardy's documentation.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from xyla.formats.hlo_proto import hlo_pb2 as pb
from xyla.formats.hlo_proto.op_metadata import print_metadata, read_metadata
from xyla.formats.hlo_proto.tokens import Tokens
from xyla.support.status import invalid

if TYPE_CHECKING:
    from google.protobuf.internal.containers import RepeatedCompositeFieldContainer


def read_mesh(tokens: Tokens, proto: pb.MeshProto) -> None:
    """`mesh['x'=2,'y'=2, device_ids=(...)]` into an empty proto."""
    proto.SetInParent()
    tokens.expect("mesh")
    tokens.expect("[")
    while not tokens.accept("]"):
        tokens.accept(",")
        if tokens.accept("device_ids"):
            tokens.expect("=")
            _read_device_ids(tokens, proto)
        else:
            name = tokens.string()
            tokens.expect("=")
            proto.axes.add(name=name, size=tokens.integer())


def _read_device_ids(tokens: Tokens, proto: pb.MeshProto) -> None:
    if tokens.next == "(":
        proto.device_ids.extend(tokens.integers("(", ")"))
        return
    tokens.integers("[", "]")
    tokens.expect("<=")
    proto.iota_transform.reshape_dims.extend(tokens.integers("[", "]"))
    if tokens.accept("T"):
        proto.iota_transform.transpose_perm.extend(tokens.integers("(", ")"))


def print_mesh(proto: pb.MeshProto) -> str:
    """The text of a mesh."""
    items = [f"'{axis.name}'={axis.size}" for axis in proto.axes]
    if proto.device_ids:
        items.append("device_ids=(" + _numbers(proto.device_ids) + ")")
    elif proto.HasField("iota_transform"):
        iota = proto.iota_transform
        perm = f"T({_numbers(iota.transpose_perm)})" if iota.transpose_perm else ""
        sizes = _numbers(axis.size for axis in proto.axes)
        items.append(f"device_ids=[{sizes}]<=[{_numbers(iota.reshape_dims)}]{perm}")
    return "mesh[" + ",".join(items) + "]"


def _numbers(values: Iterable[int]) -> str:
    return ",".join(map(str, values))


def _read_axis(tokens: Tokens, mesh: pb.MeshProto, proto: pb.AxisRefProto) -> None:
    """`'x'`, or `'x':(1)2`: the part of size 2 after a part of size 1."""
    name = tokens.string()
    found = [i for i, axis in enumerate(mesh.axes) if axis.name == name]
    if not found:
        raise tokens.error(f"the mesh has no axis {name!r}")
    proto.mesh_axis_index = found[0]
    if tokens.accept(":"):
        tokens.expect("(")
        proto.sub_axis_info.pre_size = tokens.integer()
        tokens.expect(")")
        proto.sub_axis_info.size = tokens.integer()


def read_axes(tokens: Tokens, mesh: pb.MeshProto, into: RepeatedCompositeFieldContainer[pb.AxisRefProto]) -> bool:
    """`{'x', 'y', ?}`; whether it ends in `?`."""
    tokens.expect("{")
    is_open = False
    while not tokens.accept("}"):
        tokens.accept(",")
        if tokens.accept("?"):
            is_open = True
        else:
            _read_axis(tokens, mesh, into.add())
    return is_open


def _axis_text(ref: pb.AxisRefProto, mesh: pb.MeshProto) -> str:
    if not 0 <= ref.mesh_axis_index < len(mesh.axes):
        raise invalid(f"the mesh has no axis number {ref.mesh_axis_index}")
    text = f"'{mesh.axes[ref.mesh_axis_index].name}'"
    if ref.HasField("sub_axis_info"):
        text += f":({ref.sub_axis_info.pre_size}){ref.sub_axis_info.size}"
    return text


def print_axes(refs: Iterable[pb.AxisRefProto], mesh: pb.MeshProto, *, is_open: bool = False) -> str:
    """`{'x', 'y', ?}`."""
    return "{" + ", ".join([_axis_text(ref, mesh) for ref in refs] + ["?"] * is_open) + "}"


def read_named_sharding(tokens: Tokens, proto: pb.NamedShardingProto) -> None:
    """The inside of `{mesh[...], [...], ...}`, up to but not including its closing brace."""
    read_mesh(tokens, proto.mesh)
    while tokens.next not in ("}", ""):
        if tokens.accept(",") or (tokens.accept("replicated") and tokens.next == "}"):
            continue
        if tokens.next == "[":
            _read_dims(tokens, proto)
            continue
        _read_named_item(tokens, proto)


def _read_dims(tokens: Tokens, proto: pb.NamedShardingProto) -> None:
    tokens.expect("[")
    while not tokens.accept("]"):
        tokens.accept(",")
        dim = proto.dim_shardings.add()
        dim.is_closed = not read_axes(tokens, proto.mesh, dim.axes)


def _read_named_item(tokens: Tokens, proto: pb.NamedShardingProto) -> None:
    word = tokens.take() if tokens.next != "=" else "replicated"
    if word not in ("replicated", "unreduced", "manual", "metadata"):
        raise tokens.error(f"unknown item {word!r}")
    tokens.expect("=")
    if word != "metadata":
        read_axes(tokens, proto.mesh, getattr(proto, f"{word}_axes"))
        return
    tokens.expect("{")
    if tokens.next != "{":
        read_metadata(tokens, proto.metadata.add())
        return
    while not tokens.accept("}"):
        tokens.accept(",")
        tokens.expect("{")
        read_metadata(tokens, proto.metadata.add())


def print_named_sharding(proto: pb.NamedShardingProto) -> str:
    """The inside of `{mesh[...], [...], ...}`."""
    parts = [print_mesh(proto.mesh)]
    axes = ("replicated", "unreduced", "manual")
    if not proto.mesh.axes and not proto.dim_shardings and not any(getattr(proto, f"{a}_axes") for a in axes):
        parts.append("replicated")
    else:
        dims = (print_axes(d.axes, proto.mesh, is_open=not d.is_closed) for d in proto.dim_shardings)
        parts.append("[" + ", ".join(dims) + "]")
    for word in axes:
        refs = getattr(proto, f"{word}_axes")
        if refs:
            parts.append(f"{word}={print_axes(refs, proto.mesh)}")
    if proto.metadata:
        parts.append("metadata={" + ", ".join("{" + print_metadata(m) + "}" for m in proto.metadata) + "}")
    return ", ".join(parts)
