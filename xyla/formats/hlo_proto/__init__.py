"""HloProto, HloModuleProto and HloSnapshot: read and written, binary and text. README.md describes the package."""

from xyla.formats.hlo_proto.files import (
    Snapshot,
    load_bytes,
    load_snapshot,
    load_text,
    snapshot_to_bytes,
    to_bytes,
    to_text,
)

__all__ = ["Snapshot", "load_bytes", "load_snapshot", "load_text", "snapshot_to_bytes", "to_bytes", "to_text"]
