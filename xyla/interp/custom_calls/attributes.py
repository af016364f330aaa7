"""What a custom-call states, as attributes of the runtime's call of functions that users registered."""

from __future__ import annotations

from xyla.hlo.attr_types import CustomCallApiVersion
from xyla.hlo.module import Instruction
from xyla.runtime.program import Attribute

# By XLA's numbers: CustomCallApiVersion in xla_data.proto.
API_VERSIONS = {version: number for number, version in enumerate(CustomCallApiVersion)}


def call_attributes(inst: Instruction) -> dict[str, Attribute]:
    """The attributes of `xla.gpu.custom_call`."""
    return {
        "api_version": API_VERSIONS[inst.attrs.api_version],
        "backend_config": inst.backend_config,
        "call_target_name": inst.attrs.custom_call_target,
    }
