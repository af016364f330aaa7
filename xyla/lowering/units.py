"""What a target says of one instruction: the unit of work that does it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from xyla.codegen.kernel import KernelSpec
from xyla.runtime.custom_calls import Handler
from xyla.runtime.program import Attribute, GemmCall


@dataclass(frozen=True, slots=True)
class HandlerUnit:
    """Call `target` of the custom-call registry, and why there is no kernel.

    handler: that function, prepared; None leaves that to the executable, which asks the registry.
    """

    target: str
    handler: Handler | None
    reason: str
    attributes: Mapping[str, Attribute] = field(default_factory=dict)


Unit = KernelSpec | GemmCall | HandlerUnit
