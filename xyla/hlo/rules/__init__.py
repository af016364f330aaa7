"""What each op requires and what it yields: shape inference and verify rules, by family.

`infer(operand_shapes, attrs, called) -> Shape` and `verify(inst)` are attached to the op declarations in
`xyla.hlo.ops`. Both raise INVALID_ARGUMENT with a message that starts at the fact ("operand 1 is f32[4], expected
f32[8]"): the caller knows the instruction and puts its name before it.
"""
