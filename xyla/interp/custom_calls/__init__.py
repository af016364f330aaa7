"""Custom calls the evaluator knows. `rule_of(inst)` also serves the compiled path, which runs them in a handler.

What a user registered under a name counts first.
"""

from __future__ import annotations

from xyla.hlo import ops
from xyla.hlo.module import Instruction
from xyla.interp.custom_calls import eigen, factor, markers, selection
from xyla.interp.custom_calls.registered import registered
from xyla.interp.custom_calls.table import CUSTOM_CALLS
from xyla.interp.session import Session
from xyla.interp.table import EVAL, Kernel, Rule
from xyla.runtime.custom_calls import in_hlo
from xyla.runtime.custom_calls import registered as known
from xyla.support.diagnostics import did_you_mean
from xyla.support.status import unimplemented


def rule_of(inst: Instruction) -> Rule:
    """The rule of a custom call's target. Raises UNIMPLEMENTED naming the target."""
    name = inst.attrs.custom_call_target
    if in_hlo(name):
        return registered
    rule = CUSTOM_CALLS.get(name)
    if rule is None:
        close = did_you_mean(name, [*(n for n in known() if in_hlo(n)), *CUSTOM_CALLS])
        hint = f"did you mean {close!r}?" if close else "xyla.register_custom_call makes a function known"
        raise unimplemented(f"custom-call target {name!r} is not known here", span=inst.span, hint=hint)
    return rule


@EVAL.rule(ops.CUSTOM_CALL)
def _custom_call(inst: Instruction, session: Session) -> Kernel:
    return rule_of(inst)(inst, session)
