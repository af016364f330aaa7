"""Orders of a graph, each by its own rule of thumb for little memory. All are near linear and deterministic.

None is best everywhere, so `xyla.schedule.order` measures several and takes the best.
"""

from __future__ import annotations

from collections import deque
from heapq import heapify, heappop, heappush

from xyla.schedule.graph import Graph


def given(graph: Graph) -> list[int]:
    """The order the computation came in."""
    return list(range(len(graph)))


def breadth_first(graph: Graph) -> list[int]:
    """Each node as soon as it can run, first come first served."""
    missing = [len(needs) for needs in graph.needs]
    ready = deque(node for node, count in enumerate(missing) if count == 0)
    order: list[int] = []
    while ready:
        node = ready.popleft()
        order.append(node)
        for after in graph.feeds[node]:
            missing[after] -= 1
            if missing[after] == 0:
                ready.append(after)
    return order


def depth_first(graph: Graph) -> list[int]:
    """Post-order that computes first the operand whose computation needs most beside its result (Sethi and Ullman).

    Exact for trees, a heuristic for graphs.
    """
    result = list(graph.born)
    need = [0] * len(graph)
    sorted_needs: list[list[int]] = []
    for node, before in enumerate(graph.needs):
        before = sorted(before, key=lambda o: (result[o] - need[o], o))
        sorted_needs.append(before)
        held = peak = 0
        for o in before:
            peak = max(peak, held + need[o])
            held += result[o]
        need[node] = max(peak, held + result[node] + graph.inner[node])
        if graph.free[node]:
            result[node] = held
    done = [False] * len(graph)
    order: list[int] = []
    # The node that ends most first: usually the root, whose tree is the whole program.
    for start in range(len(graph) - 1, -1, -1):
        if not graph.feeds[start]:
            _post_order(start, sorted_needs, done, order)
    return order


def _post_order(start: int, needs: list[list[int]], done: list[bool], order: list[int]) -> None:
    stack = [start]
    while stack:
        node = stack[-1]
        if done[node]:
            stack.pop()
            continue
        todo = [o for o in needs[node] if not done[o]]
        if not todo:
            stack.pop()
            done[node] = True
            order.append(node)
            continue
        stack.extend(reversed(todo))


class _Freed:
    """How many bytes running each node would free now: those of the buffers that only it still has to use."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.bytes = [0] * len(graph)
        self.left = [len(users) for users in graph.users]
        # The sum of the numbers of the nodes still to use a buffer: with one left, its number.
        self.rest = [sum(users) for users in graph.users]
        for buffer, left in enumerate(self.left):
            if left == 1 and buffer not in graph.kept:
                self.bytes[self.rest[buffer]] += graph.sizes[buffer]

    def run(self, node: int) -> list[int]:
        """Records that `node` ran; returns the nodes that would free more than before."""
        changed = []
        for buffer in self.graph.uses[node]:
            self.left[buffer] -= 1
            self.rest[buffer] -= node
            if self.left[buffer] == 1 and buffer not in self.graph.kept:
                last = self.rest[buffer]
                self.bytes[last] += self.graph.sizes[buffer]
                changed.append(last)
        return changed


def bytes_freed(graph: Graph) -> list[int]:
    """List scheduling: of the nodes that can run, the one that frees most bytes net of what it defines.

    Among equals an in-place updater waits for the readers of what it overwrites; then the given order decides.
    """
    freed = _Freed(graph)
    defined = graph.born
    missing = [len(needs) for needs in graph.needs]

    def key(node: int) -> tuple[int, int, int]:
        if graph.free[node]:
            return (-(1 << 62), 0, node)
        waits = any(freed.left[old] > 1 for old, _ in graph.in_place.get(node, ()))
        return (defined[node] - freed.bytes[node], int(waits), node)

    ready = [key(node) for node, count in enumerate(missing) if count == 0]
    heapify(ready)
    ran = [False] * len(graph)
    order: list[int] = []
    while ready:
        node = heappop(ready)[2]
        if ran[node]:
            continue
        ran[node] = True
        order.append(node)
        for last in freed.run(node):
            if missing[last] == 0 and not ran[last]:
                heappush(ready, key(last))
        for after in graph.feeds[node]:
            missing[after] -= 1
            if missing[after] == 0:
                heappush(ready, key(after))
    return order


def from_the_end(graph: Graph) -> list[int]:
    """List scheduling backwards: of the nodes whose users are placed, the one that makes fewest bytes live.

    Going backwards a node ends the lives of what it defines and begins those of what it uses.
    """
    defined = graph.born
    begun = [buffer in graph.kept for buffer in range(len(graph.sizes))]
    begins = [sum(graph.sizes[b] for b in uses if not begun[b]) for uses in graph.uses]
    missing = [len(feeds) for feeds in graph.feeds]

    def key(node: int) -> tuple[int, int]:
        return (begins[node] - defined[node], -node)

    ready = [key(node) for node, count in enumerate(missing) if count == 0]
    heapify(ready)
    placed = [False] * len(graph)
    order: list[int] = []
    while ready:
        node = -heappop(ready)[1]
        if placed[node]:
            continue
        placed[node] = True
        order.append(node)
        for buffer in graph.uses[node]:
            if begun[buffer]:
                continue
            begun[buffer] = True
            for other in graph.users[buffer]:
                begins[other] -= graph.sizes[buffer]
                if missing[other] == 0 and not placed[other]:
                    heappush(ready, key(other))
        for before in graph.needs[node]:
            missing[before] -= 1
            if missing[before] == 0:
                heappush(ready, key(before))
    order.reverse()
    return order


def start_early_finish_late(graph: Graph, order: list[int], starts: list[bool], dones: list[bool]) -> list[int]:
    """`order` with each asynchronous start right after what it needs and each done right before what needs it."""
    missing = [len(needs) for needs in graph.needs]
    placed = [False] * len(graph)
    out: list[int] = []

    def place(node: int) -> None:
        stack = [node]
        while stack:
            top = stack[-1]
            if placed[top]:
                stack.pop()
                continue
            todo = [o for o in graph.needs[top] if not placed[o]]
            if todo:
                stack.extend(reversed(todo))
                continue
            stack.pop()
            placed[top] = True
            out.append(top)
            for after in graph.feeds[top]:
                missing[after] -= 1
                if starts[after] and missing[after] == 0:
                    stack.append(after)

    for node in order:
        # A done waits until something needs it: `place` pulls it in then.
        if not dones[node]:
            place(node)
    for node in order:
        place(node)
    return out
