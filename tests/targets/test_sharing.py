"""Kernels that write over an operand give what they give elsewhere, in any order of their parts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from xyla.clients.random_args import random_args
from xyla.codegen.kernel import KernelSpec
from xyla.codegen.kernels import kernel_or_reason
from xyla.formats.hlo_text import parse
from xyla.hlo.module import Instruction
from xyla.runtime.objects import ObjectStore
from xyla.targets.cpu.sharing import can_share
from xyla.testing.kernels import KernelCall, array_leaves, run_kernel, to_physical

Array = np.ndarray[Any, np.dtype[Any]]
PARTS = 3

UNARY = ["abs", "ceil", "cosine", "exponential", "exponential-minus-one", "floor", "log", "log-plus-one", "logistic",
         "negate", "round-nearest-afz", "rsqrt", "sign", "sine", "sqrt", "cbrt", "tan", "tanh", "erf"]  # fmt: skip
BINARY = ["add", "atan2", "divide", "maximum", "minimum", "multiply", "power", "remainder", "subtract"]
SIZES = ["f32[]", "f32[3]", "f32[16,129]{0,1}", "f32[70000]"]


def written_over(spec: KernelSpec, inst: Instruction, arrays: list[Array], operand: int, output: int) -> list[bytes]:
    """The results' bytes when output number `output` is written over operand number `operand`, last part first."""
    buffers = [
        to_physical(a, s).copy() for a, s in zip(arrays, array_leaves([o.shape for o in inst.operands]), strict=True)
    ]
    results = [np.zeros(max(s.num_bytes, 1), np.uint8) for s in array_leaves([inst.shape])]
    results[output] = buffers[operand].reshape(-1).view(np.uint8)
    every = [*buffers, *results, *(np.ascontiguousarray(x.array) for x in spec.literals)]
    call, n = KernelCall(ObjectStore(None), spec), spec.launch_size
    for k in reversed(range(PARTS)):
        call(every, n * k // PARTS, n * (k + 1) // PARTS)
    return [r[: s.num_bytes].tobytes() for r, s in zip(results, array_leaves([inst.shape]), strict=True)]


def check_all(text: str) -> int:
    """Tries every pair that the hook allows of the entry's root; returns how many there are."""
    module = parse(text if text.startswith("HloModule") else "HloModule m\n" + text)
    inst = module.entry.root
    spec = kernel_or_reason(inst)
    if not isinstance(spec, KernelSpec):
        return 0
    arguments = random_args(module.entry_parameter_shapes(), 0)
    values = dict(zip(module.entry.parameters, arguments, strict=True))
    arrays = [np.asarray(values[o], o.shape.element_type.np) for o in inst.operands]
    want = [to_physical(r, s).tobytes() for r, s in
            zip(run_kernel(spec, inst, arrays), array_leaves([inst.shape]), strict=True)]  # fmt: skip
    tried = 0
    for number in range(len(inst.operands)):
        for output in range(len(want)):
            if can_share(inst, number, 0, output) and inst.operands.count(inst.operands[number]) == 1:
                assert written_over(spec, inst, arrays, number, output) == want, (str(module), number, output)
                tried += 1
    return tried


@pytest.mark.parametrize("shape", SIZES)
def test_elementwise(shape: str) -> None:
    for op in UNARY:
        assert check_all(f"ENTRY e {{ x = {shape} parameter(0)  ROOT r = {shape} {op}(x) }}") == 1
    for op in BINARY:
        text = f"ENTRY e {{ x = {shape} parameter(0)  y = {shape} parameter(1)  ROOT r = {shape} {op}(x, y) }}"
        assert check_all(text) == 2


def test_conversions_of_one_width() -> None:
    text = "ENTRY e {{ x = {}[1000] parameter(0)  ROOT r = {}[1000] {}(x) }}"
    assert check_all(text.format("f32", "s32", "convert")) == 1
    assert check_all(text.format("s32", "f32", "bitcast-convert")) == 0  # data movement: not asked for
    assert check_all(text.format("f32", "f16", "convert")) == 0
    assert check_all(text.format("s8", "f32", "convert")) == 0


def test_mixed_operands() -> None:
    assert (
        check_all("""ENTRY e { p = pred[] parameter(0)  x = f32[999] parameter(1)  y = f32[999] parameter(2)
  ROOT r = f32[999] select(p, x, y) }""")
        == 2
    )
    assert (
        check_all("""ENTRY e { p = pred[999] parameter(0)  x = u8[999] parameter(1)  y = u8[999] parameter(2)
  ROOT r = u8[999] select(p, x, y) }""")
        == 3
    )
    assert (
        check_all("""ENTRY e { x = f32[9,8]{1,0} parameter(0)  y = f32[9,8]{0,1} parameter(1)
  ROOT r = f32[9,8]{1,0} add(x, y) }""")
        == 0
    )


FUSED = """
f {{ {body} }}
ENTRY e {{ x = f32[64,33] parameter(0)  y = f32[64,33] parameter(1)  s = f32[] parameter(2)
  ROOT r = {shape} fusion(x, y, s), kind=kLoop, calls=f }}
"""
PARAMETERS = "x = f32[64,33] parameter(0)  y = f32[64,33] parameter(1)  s = f32[] parameter(2)  "


def test_fusions_of_one_flat_loop() -> None:
    body = (
        PARAMETERS
        + """b = f32[64,33] broadcast(s), dimensions={}  m = f32[64,33] multiply(x, b)
  t = f32[64,33] tanh(m)  ROOT a = f32[64,33] add(t, y)"""
    )
    assert check_all(FUSED.format(body=body, shape="f32[64,33]")) == 2


def test_several_results_are_computed_before_any_is_stored() -> None:
    body = (
        PARAMETERS
        + """b = f32[64,33] broadcast(s), dimensions={}  m = f32[64,33] multiply(x, b)
  a = f32[64,33] add(x, y)  i = s32[64,33] convert(x)  ROOT t = (f32[64,33], f32[64,33], s32[64,33]) tuple(m, a, i)"""
    )
    assert check_all(FUSED.format(body=body, shape="(f32[64,33], f32[64,33], s32[64,33])")) == 6


def test_results_of_two_loops_are_left_alone() -> None:
    """The second loop reads what the first would have written over."""
    body = (
        PARAMETERS
        + """n = f32[64,33] negate(x)  r = f32[33,64] reshape(x)
  ROOT t = (f32[64,33], f32[33,64]) tuple(n, r)"""
    )
    assert check_all(FUSED.format(body=body, shape="(f32[64,33], f32[33,64])")) == 0


def test_fusions_that_look_elsewhere_are_left_alone() -> None:
    for line in ("ROOT v = f32[64,33] reverse(x), dimensions={0}",
                 "d = f32[33,64] transpose(x), dimensions={1,0}  ROOT v = f32[64,33] reshape(d)",
                 "k = f32[] constant(0)  c = f32[1,33] slice(x), slice={[0:1], [0:33]}  "
                 "ROOT v = f32[64,33] pad(c, k), padding=63_0x0_0"):  # fmt: skip
        assert check_all(FUSED.format(body=PARAMETERS + line, shape="f32[64,33]")) == 0
