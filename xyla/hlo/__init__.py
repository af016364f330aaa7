"""The IR: shapes, literals, op declarations, instructions, modules, the rewriter and the verifier."""
