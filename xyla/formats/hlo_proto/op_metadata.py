"""OpMetadata from and to the items of `metadata={...}` text (as shardings carry it)."""

from __future__ import annotations

from xyla.formats.hlo_proto import hlo_pb2 as pb
from xyla.formats.hlo_proto.tokens import Tokens, escape

STRINGS = ("op_type", "op_name", "source_file", "deduplicated_name", "scheduling_name")
INTEGERS = (
    "source_line", "source_end_line", "source_column", "source_end_column", "stack_frame_id",
    "size_of_generated_code_in_bytes", "size_of_memory_working_set_in_bytes",
)  # fmt: skip
# The order in which XLA prints.
ORDER = (
    "op_type", "op_name", "source_file", "source_line", "source_end_line", "source_column", "source_end_column",
    "stack_frame_id", "size_of_generated_code_in_bytes", "size_of_memory_working_set_in_bytes", "deduplicated_name",
    "scheduling_name",
)  # fmt: skip


def read_metadata(tokens: Tokens, proto: pb.OpMetadata) -> None:
    """`op_name="a" source_line=3}`, the closing brace included, into an empty proto."""
    while not tokens.accept("}"):
        if tokens.accept(","):
            continue
        key = tokens.take()
        tokens.expect("=")
        if key in STRINGS:
            setattr(proto, key, tokens.string())
        elif key in INTEGERS:
            setattr(proto, key, tokens.integer())
        else:
            raise tokens.error(f"unknown metadata {key!r}")


def print_metadata(proto: pb.OpMetadata) -> str:
    """The items, without braces."""
    parts = []
    for key in ORDER:
        value = getattr(proto, key)
        if value:
            parts.append(f"{key}={value}" if key in INTEGERS else f'{key}="{escape(value.encode())}"')
    return " ".join(parts)
