"""Readers and writers: every format becomes an `hlo.Module` or a generic MLIR module."""
