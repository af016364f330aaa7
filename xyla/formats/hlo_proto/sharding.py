"""OpSharding from and to the sharding text that instructions carry.

`{replicated}`, `{maximal device=0}`, `{devices=[2,2]<=[4]T(1,0) last_tile_dim_replicate}`, tuples of these, and the
mesh forms of `mesh.py`. Source: xla_data.proto (OpSharding) and the text that XLA's HloSharding prints.
"""

from __future__ import annotations

from xyla.formats.hlo_proto import hlo_pb2 as pb
from xyla.formats.hlo_proto.mesh import print_named_sharding, read_named_sharding
from xyla.formats.hlo_proto.op_metadata import print_metadata, read_metadata
from xyla.formats.hlo_proto.shapes import MAX_NESTING
from xyla.formats.hlo_proto.tokens import Tokens
from xyla.support.status import invalid

_WORDS = {
    "replicated": pb.OpSharding.REPLICATED,
    "maximal": pb.OpSharding.MAXIMAL,
    "manual": pb.OpSharding.MANUAL,
    "unknown": pb.OpSharding.UNKNOWN,
    "unreduced": pb.OpSharding.UNREDUCED,
}
_NAMES = {number: word for word, number in _WORDS.items()}


def write_sharding(text: str, proto: pb.OpSharding) -> None:
    """Fills an empty proto from `{...}`. Raises UNIMPLEMENTED for a form that OpSharding cannot hold."""
    tokens = Tokens(text, "sharding")
    proto.SetInParent()
    tokens.expect("{")
    if tokens.next not in ("{", "}"):
        _write_single(tokens, proto)
    else:
        # Tuple shardings list the leaves flat, so they never nest.
        proto.type = pb.OpSharding.TUPLE
        while not tokens.accept("}"):
            if proto.tuple_shardings:
                tokens.expect(",")
            tokens.expect("{")
            _write_single(tokens, proto.tuple_shardings.add())
    tokens.finish()


def _write_single(tokens: Tokens, proto: pb.OpSharding) -> None:
    """The items up to and including `}`."""
    if tokens.next == "mesh":
        read_named_sharding(tokens, proto.named_sharding)
        tokens.expect("}")
        return
    while not tokens.accept("}"):
        word = tokens.take()
        if word in _WORDS:
            proto.type = _WORDS[word]
        elif word in _ITEMS:
            _ITEMS[word](tokens, proto)
        elif word != ",":
            raise tokens.error(f"unknown item {word!r}")


def _device(tokens: Tokens, proto: pb.OpSharding) -> None:
    tokens.expect("=")
    proto.tile_assignment_dimensions.append(1)
    proto.tile_assignment_devices.append(tokens.integer())


def _devices(tokens: Tokens, proto: pb.OpSharding) -> None:
    tokens.expect("=")
    proto.type = pb.OpSharding.OTHER
    proto.tile_assignment_dimensions.extend(tokens.integers("[", "]"))
    if tokens.accept("<="):
        proto.iota_reshape_dims.extend(tokens.integers("[", "]"))
        if tokens.accept("T"):
            _extend_int32(tokens, proto)
        else:
            proto.iota_transpose_perm.extend(range(len(proto.iota_reshape_dims)))
        return
    proto.tile_assignment_devices.append(tokens.integer())
    while tokens.next == ",":
        tokens.take()
        proto.tile_assignment_devices.append(tokens.integer())


def _extend_int32(tokens: Tokens, proto: pb.OpSharding) -> None:
    perm = tokens.integers("(", ")")
    if sorted(perm) != list(range(len(proto.iota_reshape_dims))):
        raise tokens.error("T(...) is not a permutation")
    proto.iota_transpose_perm.extend(perm)


def _last_tile_dim_replicate(tokens: Tokens, proto: pb.OpSharding) -> None:
    proto.replicate_on_last_tile_dim = True


def _last_tile_dims(tokens: Tokens, proto: pb.OpSharding) -> None:
    tokens.expect("=")
    tokens.expect("{")
    while not tokens.accept("}"):
        if proto.last_tile_dims:
            tokens.expect(",")
        word = tokens.take()
        if word not in _WORDS:
            raise tokens.error(f"unknown last tile dimension {word!r}")
        proto.last_tile_dims.append(_WORDS[word])


def _shard_group(kind: pb.OpSharding.ShardGroupType, tokens: Tokens, proto: pb.OpSharding) -> None:
    proto.is_shard_group = True
    proto.shard_group_type = kind
    proto.shard_group_id = tokens.integer()


def _metadata(tokens: Tokens, proto: pb.OpSharding) -> None:
    tokens.expect("=")
    tokens.expect("{")
    if tokens.next != "{":
        read_metadata(tokens, proto.metadata.add())
        return
    while not tokens.accept("}"):
        tokens.accept(",")
        tokens.expect("{")
        read_metadata(tokens, proto.metadata.add())


_ITEMS = {
    "device": _device,
    "devices": _devices,
    "last_tile_dim_replicate": _last_tile_dim_replicate,
    "last_tile_dims": _last_tile_dims,
    "shard_as": lambda tokens, proto: _shard_group(pb.OpSharding.AS, tokens, proto),
    "shard_like": lambda tokens, proto: _shard_group(pb.OpSharding.LIKE, tokens, proto),
    "metadata": _metadata,
}


def print_sharding(proto: pb.OpSharding) -> str:
    """The text XLA prints for a sharding. Raises INVALID_ARGUMENT for contradictory fields."""
    if proto.type == pb.OpSharding.TUPLE and not proto.HasField("named_sharding"):
        # XLA numbers every fifth element, as in tuple shapes.
        parts = (
            (f"/*index={i}*/" if i and i % 5 == 0 else "") + "{" + _single_text(element) + "}"
            for i, element in enumerate(proto.tuple_shardings)
        )
        return "{" + ", ".join(parts) + "}"
    return "{" + _single_text(proto) + "}"


def _single_text(proto: pb.OpSharding) -> str:
    if proto.HasField("named_sharding"):
        return print_named_sharding(proto.named_sharding)
    if proto.type == pb.OpSharding.TUPLE:
        raise invalid(f"tuple shardings nest; they are flat lists of at most {MAX_NESTING} levels of shape")
    parts = [_tiles_text(proto) if proto.type == pb.OpSharding.OTHER else _name(proto.type)]
    if proto.type == pb.OpSharding.MAXIMAL:
        if len(proto.tile_assignment_devices) != 1:
            raise invalid(f"a maximal sharding names one device, {len(proto.tile_assignment_devices)} given")
        parts.append(f"device={proto.tile_assignment_devices[0]}")
    if proto.replicate_on_last_tile_dim:
        parts.append("last_tile_dim_replicate")
    if proto.last_tile_dims:
        parts.append("last_tile_dims={" + ", ".join(map(_name, proto.last_tile_dims)) + "}")
    if proto.is_shard_group:
        word = "shard_like" if proto.shard_group_type == pb.OpSharding.LIKE else "shard_as"
        parts.append(f"{word} {proto.shard_group_id}")
    if proto.metadata:
        texts = ["{" + print_metadata(m) + "}" for m in proto.metadata]
        parts.append("metadata=" + (texts[0] if len(texts) == 1 else "{" + ", ".join(texts) + "}"))
    return " ".join(parts)


def _name(number: int) -> str:
    word = _NAMES.get(number)  # type: ignore[call-overload]
    if word is None:
        raise invalid(f"there is no sharding type number {number} here")
    return str(word)


def _tiles_text(proto: pb.OpSharding) -> str:
    text = "devices=[" + ",".join(map(str, proto.tile_assignment_dimensions)) + "]"
    if not proto.iota_reshape_dims:
        return text + ",".join(map(str, proto.tile_assignment_devices))
    text += "<=[" + ",".join(map(str, proto.iota_reshape_dims)) + "]"
    perm = list(proto.iota_transpose_perm)
    return text if perm == sorted(perm) else text + "T(" + ",".join(map(str, perm)) + ")"
