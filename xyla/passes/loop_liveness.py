"""Which elements of a loop's state matter."""

from __future__ import annotations

from collections.abc import Callable

from xyla.analysis.while_loops import reads_state
from xyla.hlo import ops
from xyla.hlo.module import Computation, Instruction
from xyla.passmgr.rules import has_effect


def live_indices(loop: Instruction, also: Callable[[Instruction], bool] | None = None) -> set[int]:
    """State elements on which a canonical loop's condition, its read results or its effects depend.

    An element that the body passes on unchanged is not live for being read after the loop: its value is known.
    also: further instructions of the body that count as effects. Linear in the loop's size.
    """
    cond, body = loop.called
    root = body.root
    passed = {i for i, value in enumerate(root.operands) if reads_state(value) == i}
    whole = loop.is_root or any(u.op is not ops.GET_TUPLE_ELEMENT for u in loop.users)
    asked = set(range(len(root.operands))) if whole else {u.attrs.index for u in loop.users if u.users or u.is_root}
    found = _reads([cond.root, *_effects(cond, also)]) | _reads(_effects(body, also))
    work = list(dict.fromkeys([*sorted(found), *sorted(asked - passed)]))
    live = set(work)
    seen: set[Instruction] = set()
    while work:
        for i in sorted(_reads([root.operands[work.pop()]], seen)):
            if i not in live:
                live.add(i)
                work.append(i)
    return live


def _effects(comp: Computation, also: Callable[[Instruction], bool] | None) -> list[Instruction]:
    return [
        i for i in comp.instructions if i.op is not ops.PARAMETER and (has_effect(i) or (also is not None and also(i)))
    ]


def _reads(start: list[Instruction], seen: set[Instruction] | None = None) -> set[int]:
    """The state elements that `start` depend on; what is in `seen` already is not looked at again."""
    seen = set() if seen is None else seen
    stack = [i for i in start if i not in seen]
    seen.update(stack)
    found: set[int] = set()
    while stack:
        inst = stack.pop()
        index = reads_state(inst)
        if index is not None:
            found.add(index)
        for need in (*inst.operands, *inst.control_predecessors):
            if need not in seen:
                seen.add(need)
                stack.append(need)
    return found
