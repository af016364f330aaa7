"""What an order costs: the most bytes that are alive at once, and a bound that no order can beat."""

from __future__ import annotations

from collections.abc import Sequence

from xyla.schedule.graph import Graph


def at_once(graph: Graph) -> list[int]:
    """Bytes that each node itself needs alive while it runs, in any order: what it uses and what it defines."""
    sizes, out = graph.sizes, []
    for node, uses in enumerate(graph.uses):
        saved = _saved(graph, node, uses) if node in graph.in_place else 0
        out.append(sum([sizes[b] for b in uses]) + _grown(graph, node, saved))
    return out


def lower_bound(graph: Graph) -> int:
    """No order needs less than this many bytes."""
    sizes = graph.sizes
    start = sum(sizes[b] for b in graph.given)
    end = sum(sizes[b] for b in graph.kept)
    return max(start, end, max(at_once(graph), default=0))


def peak(graph: Graph, order: Sequence[int]) -> int:
    """The most bytes alive at once when the nodes run in `order` (a valid one)."""
    sizes, born = graph.sizes, graph.born
    left = [len(users) for users in graph.users]
    for b in graph.kept:
        left[b] += 1
    live = most = sum(sizes[b] for b in graph.given)
    for node in order:
        if graph.free[node]:
            continue
        died = 0
        dying = []
        for b in graph.uses[node]:
            left[b] -= 1
            if left[b] == 0:
                dying.append(b)
                died += sizes[b]
        saved = _saved(graph, node, dying) if dying and node in graph.in_place else 0
        most = max(most, live + _grown(graph, node, saved))
        # What nothing uses is gone at once.
        live += born[node] - died - graph.wasted[node]
    return most


def _saved(graph: Graph, node: int, dying: Sequence[int]) -> int:
    """Bytes of results that are written over operands of which this is the last use."""
    sizes, saved = graph.sizes, 0
    taken: set[int] = set()
    for old, new in graph.in_place[node]:
        if old in dying and old not in graph.kept and old not in taken and new not in taken:
            taken.update((old, new))
            saved += min(sizes[old], sizes[new])
    return saved


def _grown(graph: Graph, node: int, saved: int) -> int:
    """Bytes beyond the live ones while a node runs, with `saved` bytes of its results written over dying operands."""
    inner = graph.inner[node]
    if inner and graph.holds_results[node]:
        return max(graph.born[node], inner)
    return graph.born[node] - saved + inner
