"""Replica groups in text: `{{0,1},{2,3}}`, `[2,4]<=[4,2]T(1,0)`, `mesh['x'=2,'y'=2] {'x'}`."""

from __future__ import annotations

import math
import re

import numpy as np

from xyla.formats.hlo_text.lexer import checked_int
from xyla.hlo.attr_types import ReplicaGroups
from xyla.support.diagnostics import did_you_mean
from xyla.support.status import invalid

# An iota form expands to this many devices at most: the largest real meshes stay far below.
MAX_DEVICES = 1 << 20
_IOTA = re.compile(r"\[([0-9,\s]+)\]\s*<=\s*\[([0-9,\s]+)\]\s*(?:T\(([0-9,\s]+)\))?")
_MESH = re.compile(
    r"mesh\s*\[([^\[\]()]*?)(?:,\s*(device_ids)\s*=\s*(\([0-9,\s]*\)|\[[0-9,\s]*\](?:\s*<=\s*\[[0-9,\s]+\])?"
    r"(?:\s*T\([0-9,\s]+\))?))?\s*\]\s*\{([^{}]*)\}"
)
_AXIS = re.compile(r"'([^']*)'\s*=\s*([0-9]+)")
_AXIS_REF = re.compile(r"'([^']*)'\s*(?::\s*\(([0-9]+)\)([0-9]+))?")
_GROUP = re.compile(r"\{([0-9,\s]*)\}")


def read_replica_groups(text: str) -> ReplicaGroups:
    """The groups of a `replica_groups=` value. Raises INVALID_ARGUMENT (not located)."""
    if text.startswith("{"):
        return ReplicaGroups(_explicit(text))
    if text.startswith("["):
        return _iota(text)
    if text.startswith("mesh"):
        return _mesh(text)
    if text.startswith("@"):
        return ReplicaGroups(text=text)
    raise invalid(f"replica_groups takes {{{{0,1}},{{2,3}}}}, [2,4]<=[8] or a mesh, found '{text[:40]}'")


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(map(checked_int, text.split(","))) if text.strip() else ()


def _explicit(text: str) -> tuple[tuple[int, ...], ...]:
    inner = text[1:-1].strip()
    groups = tuple(_numbers(m.group(1)) for m in _GROUP.finditer(inner))
    left = _GROUP.sub("", inner).replace(",", "").strip()
    if not text.endswith("}") or (left and groups):
        raise invalid(f"replica_groups takes {{{{0,1}},{{2,3}}}}, found '{text[:40]}'")
    # Old texts write one flat group: {0,1,2}.
    return (_numbers(inner),) if inner and not groups else groups


def expand_iota(dims: tuple[int, ...], reshape: tuple[int, ...], perm: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
    """The explicit groups of `[dims]<=[reshape]T(perm)`. Raises INVALID_ARGUMENT when the sizes disagree."""
    count = math.prod(reshape)
    if len(dims) != 2 or math.prod(dims) != count or 0 in dims:
        raise invalid(f"replica groups of dims {list(dims)} do not hold the {count} devices of {list(reshape)}")
    if count > MAX_DEVICES:
        raise invalid(f"replica groups over {count} devices; the most is {MAX_DEVICES}")
    if perm and sorted(perm) != list(range(len(reshape))):
        raise invalid(f"T({','.join(map(str, perm))}) does not permute the {len(reshape)} dimensions")
    ids = np.arange(count).reshape(reshape)
    ids = (ids.transpose(perm) if perm else ids).reshape(dims)
    return tuple(map(tuple, ids.tolist()))


def _iota(text: str) -> ReplicaGroups:
    match = _IOTA.fullmatch(text)
    if match is None:
        raise invalid(f"replica_groups looks like [2,4]<=[4,2]T(1,0), found '{text[:40]}'")
    dims, reshape, perm = (_numbers(g or "") for g in match.groups())
    return ReplicaGroups(expand_iota(dims, reshape, perm), dims, reshape, perm)


def _mesh(text: str) -> ReplicaGroups:
    """Kept as text, once its axes are known to exist and its device list to have the mesh's size."""
    match = _MESH.fullmatch(text)
    if match is None:
        raise invalid(f"replica_groups looks like mesh['x'=2,'y'=2] {{'x'}}, found '{text[:40]}'")
    axes_text, has_ids, ids_text, refs = match.groups()
    axes = {m.group(1): checked_int(m.group(2)) for m in _AXIS.finditer(axes_text)}
    size = math.prod(axes.values())
    if has_ids and ids_text.startswith("("):
        ids = _numbers(ids_text[1:-1])
        if len(ids) != size:
            raise invalid(f"the mesh has {size} devices but device_ids lists {len(ids)}")
    for ref in _AXIS_REF.finditer(refs):
        name, before, part = ref.groups()
        if name not in axes:
            near = did_you_mean(name, axes)
            raise invalid(
                f"the mesh has no axis '{name}'",
                hint=f"did you mean '{near}'?" if near else f"its axes are {', '.join(axes)}",
            )
        if before and axes[name] % max(1, checked_int(before) * checked_int(part)):
            raise invalid(f"axis '{name}' of size {axes[name]} has no part ({before}){part}")
    return ReplicaGroups(text=text)
