"""Which gathers index a source array along one dimension, and what their dimensions come from."""

from __future__ import annotations

from dataclasses import dataclass

from xyla.hlo import ops
from xyla.hlo.module import Instruction

# What a dimension of an indexed array comes from: ("source", dimension of the source) or ("index", dimension of the
# indices).
Label = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Indexed:
    """An array whose elements are source[..., clamp(indices[...]), ...], the index at dimension `source_dim`.

    labels: what each of its dimensions comes from; those of the source (but `source_dim`) in order, and those of the
    indices in order, mixed in any way. `vector_dim` is the dimension of size one that the indices have beside those, if
    they have one. Source: XLA's IndexedArrayAnalysis (its "scalar-indexed" arrays).
    """

    gather: Instruction
    source_dim: int
    vector_dim: int | None
    labels: tuple[Label, ...]

    @property
    def source(self) -> Instruction:
        """The array that is indexed."""
        return self.gather.operands[0]

    @property
    def indices(self) -> Instruction:
        """The indices, `vector_dim` included."""
        return self.gather.operands[1]

    @property
    def index_dims(self) -> tuple[int, ...]:
        """Sizes of the indices' dimensions, without `vector_dim`."""
        return tuple(d for i, d in enumerate(self.indices.shape.dims) if i != self.vector_dim)


def indexed_array(inst: Instruction) -> Indexed | None:
    """`inst` as an indexed array: a gather of whole slices along one dimension, which it drops; else None."""
    if inst.op is not ops.GATHER or any(i.shape.is_dynamic for i in (inst, *inst.operands)):
        return None
    attrs: ops.GatherAttrs = inst.attrs
    source, indices = inst.operands
    if len(attrs.start_index_map) != 1 or attrs.operand_batching_dims:
        return None
    (dim,) = attrs.start_index_map
    whole = all(s == d for i, (s, d) in enumerate(zip(attrs.slice_sizes, source.shape.dims, strict=True)) if i != dim)
    if tuple(attrs.collapsed_slice_dims) != (dim,) or not whole or not source.shape.dims[dim]:
        return None
    kept = iter([i for i in range(source.shape.rank) if i != dim])
    batch = iter(range(inst.shape.rank))
    offsets = set(attrs.offset_dims)
    labels: list[Label] = [
        ("source", next(kept)) if d in offsets else ("index", next(batch)) for d in range(inst.shape.rank)
    ]
    vector = attrs.index_vector_dim if attrs.index_vector_dim < indices.shape.rank else None
    return Indexed(inst, dim, vector, tuple(labels))
