"""MLIR text: a generic structure of operations, regions, types and attributes; any dialect, custom assembly by table.

Entries: `parser.parse_module`, `printer.print_module`, `dense.decode`.
"""
