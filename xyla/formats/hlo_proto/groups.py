"""Replica groups of collectives: explicit lists, iota tilings and mesh axes.

Source: xla_data.proto (CollectiveDeviceListProto and its successors). Written in the fields of the newest release; read
from those of every release.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from xyla.formats.hlo_proto import hlo_pb2 as pb
from xyla.formats.hlo_proto.mesh import print_axes, print_mesh, read_axes, read_mesh
from xyla.formats.hlo_proto.tokens import Tokens
from xyla.formats.hlo_text.groups import expand_iota
from xyla.hlo.attr_types import ReplicaGroups
from xyla.hlo.op_def import AttrSpec


def write_groups(proto: pb.HloInstructionProto, field: str, groups: ReplicaGroups) -> None:
    """Fills the one field that holds this form. Raises UNIMPLEMENTED for a mesh given by name."""
    if groups.text:
        tokens = Tokens(groups.text, "replica_groups")
        mesh_list = proto.mesh_axes_replica_group_list
        read_mesh(tokens, mesh_list.mesh)
        read_axes(tokens, mesh_list.mesh, mesh_list.axes)
        tokens.finish()
    elif groups.iota_dims:
        iota = proto.iota_collective_device_list
        iota.num_replica_groups, iota.num_devices_per_group = groups.iota_dims
        iota.iota_reshape_dims.extend(groups.reshape_dims)
        iota.iota_transpose_perm.extend(groups.transpose_perm or range(len(groups.reshape_dims)))
    else:
        proto.collective_device_list.SetInParent()
        for ids in groups.groups:
            proto.collective_device_list.replica_groups.add(replica_ids=ids)


def read_groups(proto: pb.HloInstructionProto, field: str, spec: AttrSpec) -> ReplicaGroups:
    """The groups, whichever release wrote them. Raises INVALID_ARGUMENT for an impossible tiling."""
    if proto.replica_groups:
        return _explicit(proto.replica_groups)
    if proto.HasField("mesh_axes_replica_group_list"):
        mesh_list = proto.mesh_axes_replica_group_list
        return ReplicaGroups(text=f"{print_mesh(mesh_list.mesh)} {print_axes(mesh_list.axes, mesh_list.mesh)}")
    if proto.HasField("iota_collective_device_list"):
        return _iota(proto.iota_collective_device_list)
    if proto.collective_device_list.HasField("iota_replica_group_list"):
        return _iota(proto.collective_device_list.iota_replica_group_list)
    return _explicit(proto.collective_device_list.replica_groups)


def _explicit(groups: Iterable[pb.ReplicaGroup]) -> ReplicaGroups:
    return ReplicaGroups(tuple(tuple(g.replica_ids) for g in groups))


def _iota(proto: Any) -> ReplicaGroups:
    dims = (proto.num_replica_groups, proto.num_devices_per_group)
    reshape, perm = tuple(proto.iota_reshape_dims), tuple(proto.iota_transpose_perm)
    if perm == tuple(range(len(reshape))):
        perm = ()
    return ReplicaGroups(expand_iota(dims, reshape, perm), dims, reshape, perm)
