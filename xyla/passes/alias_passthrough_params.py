"""Parameters that are returned as they came."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from xyla.analysis.alias import donated_leaves, entry_aliases
from xyla.analysis.dataflow import Dataflow, Value
from xyla.hlo.module import InputOutputAlias, Module
from xyla.passmgr.base import Pass, register
from xyla.passmgr.context import PassContext


@register
@dataclass(frozen=True, slots=True)
class AliasPassthroughParams(Pass):
    """Lets an output live in the parameter that it is, if the caller gives that up.

        ENTRY main { x = f32[8] parameter(0)
          ROOT t = (f32[8], f32[8]) tuple(x, y) }      ==>      input_output_alias={ {0}: (0, {}, may-alias) }

    Each parameter once; outputs and parameters that are spoken for stay as they are.

    when_asked: only in modules whose header says `alias_passthrough_params=true`.
    """

    name: ClassVar[str] = "alias-passthrough-params"
    when_asked: bool = False

    def run(self, module: Module, ctx: PassContext) -> bool:
        """Linear in the module's size."""
        if self.when_asked and (self.name.replace("-", "_"), "true") not in module.config.raw:
            return False
        entry = module.entry
        dataflow = Dataflow(module)
        aliases = entry_aliases(module)
        outputs = {a.output for a in aliases}
        taken = {(a.parameter, a.leaf) for a in aliases} | set(donated_leaves(module))
        free: dict[Value, InputOutputAlias] = {}
        for p in entry.parameters:
            for leaf, (index, _) in enumerate(p.shape.leaves()):
                value = dataflow.values(p)[leaf]
                if value is not None and (p.attrs.number, leaf) not in taken:
                    free[value] = InputOutputAlias((), p.attrs.number, index)
        made: list[InputOutputAlias] = []
        for leaf, (index, _) in enumerate(entry.root.shape.leaves()):
            value = dataflow.values(entry.root)[leaf]
            found = free.get(value) if value is not None and leaf not in outputs else None
            if value is None or found is None or not ctx.permit("alias-passed-through", value.instruction):
                continue
            del free[value]
            made.append(replace(found, output_index=index))
        if made:
            both = (*module.config.input_output_aliases, *made)
            module.config.input_output_aliases = tuple(sorted(both, key=lambda a: a.output_index))
            entry.revision += 1
        return bool(made)
