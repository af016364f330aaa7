"""Chains of reshapes and transposes as one rearrangement of atoms, and the shortest way to write it.

The dimensions of the source are split into atoms (none of size 1), finely enough that every reshape of the chain only
groups them. The chain is then a permutation of atoms and a grouping into the result's dimensions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from xyla.hlo import ops
from xyla.hlo.module import Instruction


@dataclass(slots=True)
class Atoms:
    """Sizes by atom, the atoms of each source dimension, and those of each dimension of the current value."""

    sizes: list[int] = field(default_factory=list)
    source: list[list[int]] = field(default_factory=list)
    current: list[list[int]] = field(default_factory=list)

    @staticmethod
    def of(dims: Sequence[int]) -> Atoms:
        """One atom for each dimension that is not of size 1."""
        self = Atoms()
        for d in dims:
            self.source.append([] if d == 1 else [self._new(d)])
        self.current = [list(a) for a in self.source]
        return self

    def _new(self, size: int) -> int:
        self.sizes.append(size)
        return len(self.sizes) - 1

    def transpose(self, perm: Sequence[int]) -> None:
        """Permutes the current dimensions."""
        self.current = [self.current[p] for p in perm]

    def reshape(self, dims: Sequence[int]) -> bool:
        """Regroups the current atoms into `dims`, splitting where needed. False when they do not divide."""
        flat = [a for group in self.current for a in group]
        flat.reverse()
        groups: list[list[int]] = []
        for d in dims:
            group: list[int] = []
            left = d
            while left > 1:
                if not flat:
                    return False
                atom = flat.pop()
                size = self.sizes[atom]
                if left % size == 0:
                    left //= size
                elif size % left == 0:
                    rest = self._split(atom, left)
                    flat.append(rest)
                    left = 1
                else:
                    return False
                group.append(atom)
            groups.append(group)
        self.current = groups
        return not flat

    def _split(self, atom: int, major: int) -> int:
        """Makes `atom` the major part and returns the new atom that is the rest."""
        rest = self._new(self.sizes[atom] // major)
        self.sizes[atom] = major
        for group in self.source:
            if atom in group:
                group.insert(group.index(atom) + 1, rest)
        return rest


# One step of a rearrangement: ("reshape", dims) or ("transpose", permutation).
Step = tuple[str, tuple[int, ...]]


def chain(inst: Instruction, limit: int = 8) -> tuple[Instruction, list[Instruction]]:
    """The source under a chain of reshapes and transposes ending at `inst`, and the chain, source side first."""
    links: list[Instruction] = []
    source = inst
    while source.op in (ops.RESHAPE, ops.TRANSPOSE) and len(links) < limit:
        links.append(source)
        source = source.operands[0]
        if source.shape.dynamic or 0 in source.shape.dims:
            break
    return source, links[::-1]


def rearrangement(source: Instruction, links: Sequence[Instruction]) -> Atoms | None:
    """The atoms after the chain; None when a reshape cuts across sizes that do not divide."""
    atoms = Atoms.of(source.shape.dims)
    for link in links:
        if link.op is ops.TRANSPOSE:
            atoms.transpose(link.attrs.dimensions)
        elif not atoms.reshape(link.shape.dims):
            return None
    return atoms


def shortest(dims: Sequence[int], result: Sequence[int], atoms: Atoms) -> list[Step]:
    """Fewest reshapes and transposes that take `dims` to `result` as the atoms say (at most three)."""
    order = [a for g in atoms.source for a in g]
    place = {a: i for i, a in enumerate(order)}
    flat = [place[a] for g in atoms.current for a in g]
    if flat == sorted(flat):
        return [] if tuple(dims) == tuple(result) else [("reshape", tuple(result))]
    perm = _direct(atoms, dims, result)
    if perm is not None:
        return [("transpose", perm)]
    return _before(atoms, order, place, result) or _after(atoms, dims, result) or _general(atoms, flat, order, result)


def _direct(atoms: Atoms, dims: Sequence[int], result: Sequence[int]) -> tuple[int, ...] | None:
    """The permutation, when every dimension of the result is a whole dimension of the source."""
    if len(dims) != len(result):
        return None
    whole = {tuple(g): d for d, g in enumerate(atoms.source) if g}
    ones = [d for d, g in enumerate(atoms.source) if not g]
    ones.reverse()
    perm: list[int] = []
    for group in atoms.current:
        if not group:
            if not ones:
                return None
            perm.append(ones.pop())
            continue
        d = whole.get(tuple(group))
        if d is None:
            return None
        perm.append(d)
    return tuple(perm)


def _before(atoms: Atoms, order: list[int], place: dict[int, int], result: Sequence[int]) -> list[Step] | None:
    """Reshape, then transpose straight into the result: each result dimension is a run of the source's atoms."""
    starts: list[tuple[int, int]] = []
    for d, group in enumerate(atoms.current):
        places = [place[a] for a in group]
        if places and places != list(range(places[0], places[0] + len(places))):
            return None
        # Dimensions of size 1 go last in the reshaped form; they may stand anywhere.
        starts.append((places[0] if places else len(order), d))
    ranked = [d for _, d in sorted(starts)]
    perm = [0] * len(ranked)
    for i, d in enumerate(ranked):
        perm[d] = i
    return [("reshape", tuple(result[d] for d in ranked)), ("transpose", tuple(perm))]


def _after(atoms: Atoms, dims: Sequence[int], result: Sequence[int]) -> list[Step] | None:
    """Transpose the source, then reshape: each source dimension stays together in the result."""
    flat = [a for g in atoms.current for a in g]
    perm: list[int] = []
    owner = {a: d for d, g in enumerate(atoms.source) for a in g}
    i = 0
    while i < len(flat):
        group = atoms.source[owner[flat[i]]]
        if flat[i : i + len(group)] != group:
            return None
        perm.append(owner[flat[i]])
        i += len(group)
    perm += [d for d, g in enumerate(atoms.source) if not g]
    return [("transpose", tuple(perm)), ("reshape", tuple(result))]


def _general(atoms: Atoms, flat: list[int], order: list[int], result: Sequence[int]) -> list[Step]:
    """Reshape to the runs that move together, transpose them, reshape to the result."""
    runs: list[list[int]] = []
    for p in flat:
        if runs and runs[-1][-1] + 1 == p:
            runs[-1].append(p)
        else:
            runs.append([p])
    ranked = sorted(range(len(runs)), key=lambda r: runs[r][0])
    sizes = []
    for r in ranked:
        size = 1
        for p in runs[r]:
            size *= atoms.sizes[order[p]]
        sizes.append(size)
    at = {r: i for i, r in enumerate(ranked)}
    return [
        ("reshape", tuple(sizes)),
        ("transpose", tuple(at[r] for r in range(len(runs)))),
        ("reshape", tuple(result)),
    ]
