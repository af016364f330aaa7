"""Comparators as keys: what a sort comparator compares, found by looking at its instructions.

less(a, b) is recognised as one of
    key(a) < key(b)                                     (or >: the key is reversed)
    select(eq(k(a), k(b)), less'(a, b), k(a) < k(b))     and its or/and spelling
where `key` is any element-wise function of one side's parameters.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from xyla.hlo import ops
from xyla.hlo.attr_types import ComparisonDirection, ComparisonType
from xyla.hlo.module import Computation, Instruction
from xyla.hlo.op_def import Trait
from xyla.interp.monoid import skip_calls
from xyla.interp.numeric import total_order_key, widen
from xyla.interp.plan import literal_value
from xyla.interp.session import Session
from xyla.interp.table import EVAL, Array
from xyla.support.dtypes import PRED

Keys = Callable[[Sequence[Array]], list[Array]]


@dataclass(frozen=True)
class _Key:
    """One sort key: the instruction that computes it from the left side's parameters; descending or not."""

    inst: Instruction
    descending: bool
    total: bool  # TOTALORDER comparison


def sort_keys(comp: Computation, session: Session) -> Keys | None:
    """The function from rows to key arrays (most significant first), or None for any other comparator."""
    chain = _chain(skip_calls(comp).root, {})
    if chain is None:
        return None

    def keys(rows: Sequence[Array]) -> list[Array]:
        memo: dict[Instruction, Array] = {}
        return [_rank(_evaluate(k.inst, rows, session, memo), k) for k in chain]

    return keys


def _rank(values: Array, key: _Key) -> Array:
    et = key.inst.shape.element_type
    if et.is_float:
        ranks = total_order_key(values, et)
        if not key.total:
            # Plain comparison: -0 equals +0, and every NaN sorts after the numbers (it is below nothing).
            wide = np.asarray(widen(values, et))
            ranks = np.where(wide == 0, ranks.dtype.type(0), ranks)
            ranks = np.where(np.isnan(wide), ranks.dtype.type(np.iinfo(ranks.dtype).max), ranks)
    else:
        ranks = np.asarray(widen(values, et))
    if not key.descending:
        return ranks
    if et.is_float and not key.total:
        nan = np.isnan(np.asarray(widen(values, et)))
        return np.where(nan, np.iinfo(ranks.dtype).max, np.invert(ranks)).astype(ranks.dtype)
    return np.logical_not(ranks) if et is PRED else np.invert(ranks)


# -- recognition ---------------------------------------------------------------------------------------------------


def _chain(root: Instruction, memo: dict[tuple[int, int], bool]) -> list[_Key] | None:
    """The keys of a lexicographic comparator. Iterative: the chain may be long."""
    keys: list[_Key] = []
    while True:
        split = _split(root, memo)
        if split is None:
            return None
        first, rest = split
        keys.append(first)
        if rest is None:
            return keys
        root = rest


def _split(root: Instruction, memo: dict[tuple[int, int], bool]) -> tuple[_Key, Instruction | None] | None:
    """(most significant key, comparator for ties or None)."""
    key = _simple(root, memo)
    if key is not None:
        return key, None
    if root.op is ops.SELECT:  # select(eq, rest, less) or select(ne, less, rest)
        pred, on_true, on_false = root.operands
        for direction, less, rest in ((_EQ, on_false, on_true), (_NE, on_true, on_false)):
            if _same_key(pred, direction, _simple(less, memo), memo):
                found = _simple(less, memo)
                return (found, rest) if found is not None else None
    if root.op is ops.OR:  # or(less, and(eq, rest)) in any operand order
        for less, both in (root.operands, root.operands[::-1]):
            found = _simple(less, memo)
            if found is None or both.op is not ops.AND:
                continue
            for eq, rest in (both.operands, both.operands[::-1]):
                if _same_key(eq, _EQ, found, memo):
                    return found, rest
    return None


_EQ, _NE = ComparisonDirection.EQ, ComparisonDirection.NE


def _simple(inst: Instruction, memo: dict[tuple[int, int], bool]) -> _Key | None:
    """key(a) < key(b), written in any of the four ways."""
    if inst.op is not ops.COMPARE or inst.attrs.direction not in (ComparisonDirection.LT, ComparisonDirection.GT):
        return None
    x, y = inst.operands
    descending = inst.attrs.direction is ComparisonDirection.GT
    if _side(x) == 1:
        x, y, descending = y, x, not descending
    if _side(x) != 0 or not _mirror(x, y, memo):
        return None
    return _Key(x, descending, inst.attrs.type is ComparisonType.TOTALORDER)


def _same_key(
    inst: Instruction, direction: ComparisonDirection, key: _Key | None, memo: dict[tuple[int, int], bool]
) -> bool:
    """Whether `inst` tests `key` for (in)equality between the two sides.

    Written k(a) == k(b), or as a tie: (k(a) < k(b)) == (k(b) < k(a)).
    """
    if key is None or inst.op is not ops.COMPARE or inst.attrs.direction is not direction:
        return False
    one, other = (_simple(o, memo) for o in inst.operands)
    if one is not None and other is not None:
        return (
            one.descending != other.descending
            and one.total == other.total == key.total
            and _equal(one.inst, key.inst)
            and _equal(other.inst, key.inst)
        )
    if (inst.attrs.type is ComparisonType.TOTALORDER) != key.total and key.inst.shape.element_type.is_float:
        return False
    x, y = inst.operands
    if _side(x) == 1:
        x, y = y, x
    return _equal(x, key.inst) and _mirror(x, y, memo)


def _equal(x: Instruction, y: Instruction) -> bool:
    """Structural equality of two same-side expressions."""
    stack = [(x, y)]
    while stack:
        a, b = stack.pop()
        if a is b:
            continue
        if a.op is not b.op or a.attrs != b.attrs or a.shape is not b.shape or len(a.operands) != len(b.operands):
            return False
        stack.extend(zip(a.operands, b.operands, strict=True))
    return True


def _side(inst: Instruction) -> int | None:
    """0 when the expression reads only left (even) parameters, 1 only right ones, None otherwise."""
    sides: dict[int, None] = {}
    seen = {inst}
    stack = [inst]
    while stack:
        i = stack.pop()
        if i.op is ops.PARAMETER:
            sides[i.attrs.number % 2] = None
        elif i.op is not ops.CONSTANT and not (i.op.has(Trait.ELEMENTWISE) or i.op is ops.BITCAST_CONVERT):
            return None
        for o in i.operands:
            if o not in seen:
                seen.add(o)
                stack.append(o)
    return next(iter(sides)) if len(sides) == 1 else None


def _mirror(x: Instruction, y: Instruction, memo: dict[tuple[int, int], bool]) -> bool:
    """Whether y is x with every left parameter replaced by its right partner."""
    stack = [(x, y)]
    while stack:
        a, b = stack.pop()
        if memo.get((a.id, b.id)):
            continue
        if a.op is not b.op or a.shape is not b.shape or len(a.operands) != len(b.operands):
            return False
        if a.op is ops.PARAMETER:
            if b.attrs.number != a.attrs.number + 1 or a.attrs.number % 2:
                return False
        elif a.attrs != b.attrs or a.called or b.called:
            return False
        memo[(a.id, b.id)] = True  # assumed while its operands are checked; any mismatch ends the whole walk
        stack.extend(zip(a.operands, b.operands, strict=True))
    return True


def _evaluate(root: Instruction, rows: Sequence[Array], session: Session, memo: dict[Instruction, Any]) -> Array:
    """A left-side expression on whole rows."""
    stack = [root]
    while stack:
        inst = stack[-1]
        todo = [o for o in inst.operands if o not in memo]
        if todo:
            stack.extend(todo)
            continue
        stack.pop()
        if inst in memo:
            continue
        if inst.op is ops.PARAMETER:
            memo[inst] = rows[inst.attrs.number // 2]
        elif inst.op is ops.CONSTANT:
            memo[inst] = literal_value(inst.attrs.literal)
        else:
            memo[inst] = EVAL[inst.op](inst, session)(*[memo[o] for o in inst.operands])
    return np.broadcast_to(np.asarray(memo[root]), rows[0].shape)
