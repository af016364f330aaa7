"""Which dimensions of a reshape's source become which of its result."""

from __future__ import annotations

from collections.abc import Sequence


def common_factors(source: Sequence[int], target: Sequence[int]) -> list[tuple[list[int], list[int]]]:
    """Groups of source and target dimensions (by number) with equal element counts, in order and as small as can be.

    Dimensions of size one go with the group at hand, or make one alone at the end. No size is 0.
    """
    groups: list[tuple[list[int], list[int]]] = []
    i = j = 0
    while i < len(source) or j < len(target):
        left: list[int] = []
        right: list[int] = []
        p = q = 1
        while True:
            if p <= q and i < len(source) and (p < q or not left):
                left.append(i)
                p *= source[i]
                i += 1
            elif j < len(target) and (q < p or not right):
                right.append(j)
                q *= target[j]
                j += 1
            else:
                break
        groups.append((left, right))
    return groups
