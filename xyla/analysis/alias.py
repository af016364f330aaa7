"""Which values must share memory, and which may.

Must: a phi and its inputs (loop state, a conditional's result); an op that updates its operand in place and that
operand; what the module's input_output_alias joins. May: what a target's hook says of one instruction's operand and
result.

Sources: XLA's HloAliasAnalysis and HloDataflowAnalysis::GetInPlaceInputOutputPairs (behaviour).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from xyla.analysis.dataflow import Dataflow, Value
from xyla.hlo import ops
from xyla.hlo.module import Instruction, Module
from xyla.hlo.op_def import Trait
from xyla.hlo.shape import Shape
from xyla.support.status import unimplemented

# (instruction, operand number, operand leaf, output leaf): whether the output may be written where the operand lies,
# when nothing needs the operand afterwards.
CanShare = Callable[[Instruction, int, int, int], bool]
# (operand number, operand leaf, output leaf) of an in-place update.
Pair = tuple[int, int, int]


def same_memory(a: Shape, b: Shape) -> bool:
    """Whether two arrays have every element at the same byte: equal width, dimensions and memory order."""
    return a is b or (
        a.element_type.itemsize == b.element_type.itemsize
        and a.dims == b.dims
        and a.dynamic == b.dynamic
        and _strides(a) == _strides(b)
    )


def _strides(shape: Shape) -> tuple[int, ...]:
    """Strides where they matter: a dimension of one element has none."""
    return tuple(s for s, d in zip(shape.strides(), shape.dims, strict=True) if d != 1)


def share_nothing(inst: Instruction, number: int, leaf: int, output: int) -> bool:
    """The hook of a target that never writes over an operand."""
    return False


def share_elementwise(inst: Instruction, number: int, leaf: int, output: int) -> bool:
    """The hook that suits every target: an element-wise op writes where an operand of equal memory order lies."""
    if not inst.op.has(Trait.ELEMENTWISE) or not inst.shape.is_array or leaf or output:
        return False
    return same_memory(inst.operands[number].shape, inst.shape)


# -- in-place updates --------------------------------------------------------------------------------------------------


def in_place_pairs(inst: Instruction) -> tuple[Pair, ...]:
    """The operands that `inst` updates in place: each output of a pair lives where its operand does.

    Raises UNIMPLEMENTED when a custom call wants two results in one operand.
    """
    if inst.op is ops.DYNAMIC_UPDATE_SLICE:
        return ((0, 0, 0),) if same_memory(inst.operands[0].shape, inst.shape) else ()
    if inst.op is ops.SCATTER:
        return _scatter_pairs(inst)
    if inst.op is ops.FUSION:
        # What a fusion declares is no more than a wish: its kernel updates in place where its root does.
        return _fusion_pairs(inst)
    if inst.op is ops.CUSTOM_CALL:
        return _declared_pairs(inst)
    if inst.op in (ops.COLLECTIVE_PERMUTE, ops.COLLECTIVE_PERMUTE_START) and inst.attrs.slice_sizes:
        return _received_pairs(inst)
    if inst.op is ops.RAGGED_ALL_TO_ALL:
        return ((1, 0, 0),)
    return ()


def _scatter_pairs(inst: Instruction) -> tuple[Pair, ...]:
    count = len(inst.operands) // 2
    outputs = inst.shape.tuple_shapes if inst.shape.is_tuple else (inst.shape,)
    pairs = zip(inst.operands[:count], outputs, strict=True)
    return tuple((i, 0, i) for i, (o, out) in enumerate(pairs) if same_memory(o.shape, out))


def _received_pairs(inst: Instruction) -> tuple[Pair, ...]:
    """(inputs, outputs, ...): slices are received into operand 1, which the result is, or a start op's element 1."""
    first = 0
    if inst.op is ops.COLLECTIVE_PERMUTE_START:
        first = sum(1 for _ in inst.shape.tuple_shapes[0].leaves())
    return tuple((1, i, first + i) for i, _ in enumerate(inst.operands[1].shape.leaves()))


def _declared_pairs(inst: Instruction) -> tuple[Pair, ...]:
    """output_to_operand_aliasing, leaf by leaf."""
    out: list[Pair] = []
    for a in inst.attrs.output_to_operand_aliasing:
        outputs = _leaves_under(inst.shape, a.output_index)
        operands = _leaves_under(inst.operands[a.operand].shape, a.operand_index)
        out.extend((a.operand, o, r) for o, r in zip(operands, outputs, strict=True))
    if len({pair[:2] for pair in out}) < len(out):
        raise unimplemented(f"two results of %{inst.name} live in one operand", span=inst.span)
    return tuple(out)


def _leaves_under(shape: Shape, index: tuple[int, ...]) -> list[int]:
    n = len(index)
    return [
        i for i, (path, leaf) in enumerate(shape.leaves()) if path[:n] == index and (leaf.is_array or leaf.is_buffer)
    ]


def _fusion_pairs(inst: Instruction) -> tuple[Pair, ...]:
    """A fusion that ends in an update of one of its parameters, which it reads nowhere else."""
    root = inst.called[0].root
    if root.op is not ops.DYNAMIC_UPDATE_SLICE and (root.op is not ops.SCATTER or root.shape.is_tuple):
        return ()
    source = root.operands[0]
    while source.op is ops.BITCAST and len(source.users) == 1:
        source = source.operands[0]
    updated = source.op is ops.PARAMETER and source.users == {_last_user(source): 1}
    if not updated or not source.shape.is_array or root.operands.count(root.operands[0]) != 1:
        return ()
    same = same_memory(root.operands[0].shape, inst.shape) and source.shape.num_bytes == inst.shape.num_bytes
    return ((source.attrs.number, 0, 0),) if same else ()


def _last_user(inst: Instruction) -> Instruction | None:
    return next(reversed(inst.users), None)


# -- the entry's interface ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class EntryAlias:
    """Leaf `output` of the entry's root lives in leaf `leaf` of parameter number `parameter`."""

    output: int
    parameter: int
    leaf: int
    must: bool


def entry_aliases(module: Module) -> list[EntryAlias]:
    """The module's input_output_alias, leaf by leaf."""
    entry = module.entry
    out: list[EntryAlias] = []
    root = _numbering(entry.root.shape)
    parameters = [_numbering(p.shape) for p in entry.parameters]
    for a in module.config.input_output_aliases:
        outputs = _under(root, a.output_index)
        leaves = _under(parameters[a.parameter], a.parameter_index)
        out.extend(EntryAlias(o, a.parameter, leaf, a.must) for o, leaf in zip(outputs, leaves, strict=True))
    return out


def donated_leaves(module: Module) -> list[tuple[int, int]]:
    """(parameter number, leaf) of every array that the caller gives up without an output being put there."""
    parameters = module.entry.parameters
    numbers = [_numbering(p.shape) for p in parameters]
    donors = module.config.buffer_donors
    return [(d.parameter, leaf) for d in donors for leaf in _under(numbers[d.parameter], d.parameter_index)]


def _numbering(shape: Shape) -> dict[tuple[int, ...], int]:
    return {index: i for i, (index, _) in enumerate(shape.leaves())}


def _under(numbers: dict[tuple[int, ...], int], index: tuple[int, ...]) -> list[int]:
    """The leaf at a shape index, or all below it."""
    exact = numbers.get(index)
    if exact is not None:
        return [exact]
    n = len(index)
    return [leaf for path, leaf in numbers.items() if path[:n] == index]


# -- alias sets --------------------------------------------------------------------------------------------------------


class AliasSet:
    """Values that live in one buffer, in the order of their ids."""

    __slots__ = ("id", "values")

    def __init__(self, id_: int) -> None:
        self.id = id_
        self.values: list[Value] = []

    @property
    def size(self) -> int:
        """Bytes of the buffer."""
        return max(v.size for v in self.values)

    def __repr__(self) -> str:
        return f"<alias set {self.id}: {', '.join(v.name for v in self.values)}>"


class Aliases:
    """The alias sets of a module's values: every value is in exactly one. `can_share` is the target's hook.

    Whether sharing is right is another matter: copy insertion makes it so, `xyla.analysis.interference` proves it.
    """

    def __init__(self, dataflow: Dataflow, can_share: CanShare = share_elementwise) -> None:
        self.dataflow = dataflow
        self.can_share = can_share
        self._root = list(range(len(dataflow.all_values)))
        for a, b in must_pairs(dataflow):
            self._join(a.id, b.id)
        self.sets: list[AliasSet] = []
        made: dict[int, AliasSet] = {}
        for value in dataflow.all_values:
            root = self._find(value.id)
            found = made.get(root)
            if found is None:
                found = made[root] = AliasSet(len(self.sets))
                self.sets.append(found)
            found.values.append(value)
        self._sets = [made[self._find(v.id)] for v in dataflow.all_values]

    def set_of(self, value: Value) -> AliasSet:
        """The set that a value is in."""
        return self._sets[value.id]

    def _find(self, i: int) -> int:
        root = self._root
        while root[i] != i:
            root[i] = root[root[i]]
            i = root[i]
        return i

    def _join(self, a: int, b: int) -> None:
        a, b = self._find(a), self._find(b)
        # The smaller number wins, so that the sets' order does not depend on the order of joining.
        self._root[max(a, b)] = min(a, b)


def must_pairs(dataflow: Dataflow) -> Iterator[tuple[Value, Value]]:
    """(source, target) of every pair of values that must share memory."""
    for value in dataflow.all_values:
        for source in value.inputs:
            yield source, value
    for comp in dataflow.graph.control:
        for inst in comp.instructions:
            for number, leaf, output in in_place_pairs(inst):
                yield from _pair(dataflow.values(inst.operands[number])[leaf], dataflow.values(inst)[output])
    entry = dataflow.module.entry
    for a in entry_aliases(dataflow.module):
        parameter = dataflow.values(entry.parameters[a.parameter])
        yield from _pair(parameter[a.leaf], dataflow.values(entry.root)[a.output])


def _pair(source: Value | None, target: Value | None) -> Iterator[tuple[Value, Value]]:
    if source is not None and target is not None:
        yield source, target


def may_take_over(value: Value, old: Value, can_share: CanShare) -> bool:
    """Whether the instruction that defines `value` may write it over `old`, which it reads: at every one of its reads.

    False when it does not read `old` at all.
    """
    inst = value.instruction
    if value.is_phi:
        return False
    reads = [u for u in old.uses if u.instruction is inst]
    pairs = in_place_pairs(inst)
    return bool(reads) and all(
        (u.operand_number, u.operand_leaf, value.leaf) in pairs
        or can_share(inst, u.operand_number, u.operand_leaf, value.leaf)
        for u in reads
    )
