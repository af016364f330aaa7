"""The runtime program's text: every kind of step comes back equal, mlir-opt takes it, faults are located."""

import shutil
import subprocess
from collections.abc import Sequence
from functools import partial

import numpy as np
import pytest

from xyla.lowering.gemm_steps import gemm_step
from xyla.lowering.rt_reader import parse_program
from xyla.lowering.rt_text import MAX_NESTING, print_program
from xyla.runtime.program import (
    Allocation,
    AllocationKind,
    Argument,
    ArrayType,
    Attribute,
    CallStep,
    CopyStep,
    CustomCallStep,
    Deferred,
    GemmCall,
    GemmStep,
    KernelStep,
    Output,
    Program,
    Slice,
    Step,
    StepList,
    SwitchStep,
    WhileStep,
    slices_of,
)
from xyla.support.status import Status, XylaError

F32 = np.dtype(np.float32)
MATRIX = ArrayType(F32, (4, 4), (16, 4))
COLUMNS = ArrayType(F32, (4, 4), (4, 16))
PAIR = ArrayType(np.dtype(np.int32), (2,), (4,))
A, B, C = Slice(0, 0, 64), Slice(1, 0, 64), Slice(1, 64, 64)
FLAG = Slice(1, 128, 1)
NUMBER = Slice(1, 132, 4)
DOT: dict[str, Attribute] = {"lhs_contracting_dimensions": (1,), "rhs_contracting_dimensions": (0,), "uid": 3}


def program(*steps: Step, kernels: tuple[str, ...] = ()) -> Program:
    data = np.arange(8, dtype=np.uint8)
    allocations = [
        Allocation(AllocationKind.PARAMETER, 64, 0, is_written=True),
        Allocation(AllocationKind.TEMP, 256),
        Allocation(AllocationKind.CONSTANT, 8, data=data),
        Allocation(AllocationKind.OUTPUT, 64, 0),
    ]
    if any(s.allocation > 3 for step in steps for s in slices_of(step)):
        allocations.append(Allocation(AllocationKind.CONSTANT, 8, data=data[::-1].copy(), on_host=True))
        allocations.append(Allocation(AllocationKind.TEMP, 64, on_host=True))
    arguments = [Argument("parameter 0 (x)", MATRIX, "f32[4,4]")]
    outputs = [Output(MATRIX, Slice(3, 0, 64)), Output(COLUMNS, A, must_alias=True)]
    hlo = [Deferred(partial("HloModule {}\n".format, k)) for k in kernels]
    return Program("m", allocations, arguments, outputs, StepList("entry", list(steps)), list(kernels), hlo)


def same(a: Program, b: Program) -> None:
    assert (a.name, a.arguments, a.outputs, a.kernel_names) == (b.name, b.arguments, b.outputs, b.kernel_names)
    assert a.kernel_hlo == b.kernel_hlo
    assert a.body == b.body
    for x, y in zip(a.allocations, b.allocations, strict=True):
        assert (x.kind, x.size, x.index, x.on_host) == (y.kind, y.size, y.index, y.on_host)
        assert x.is_written == y.is_written
        held, again = (None if d is None else d.tobytes() for d in (x.data, y.data))
        assert held == again


def gemm(types: Sequence[ArrayType] = (MATRIX, MATRIX, MATRIX), **attributes: Attribute) -> CustomCallStep:
    a, b, c = types
    return CustomCallStep("dot", "xla.gpu.gemm", ((A, a), (B, b)), ((C, c),), {**DOT, **attributes})


SHARED = StepList("callee", [CopyStep("copy.1", A, C)])


def by_blas(step: CustomCallStep) -> GemmStep:
    made = gemm_step(step)
    assert made is not None
    return made


STEPS: dict[str, list[Step]] = {
    "copy": [CopyStep("copy", A, C)],
    "kernel": [KernelStep("add", 0, (A, B, C, Slice(2, 0, 8)), 7, (MATRIX, COLUMNS, MATRIX), 2, 3)],
    "wide kernel": [KernelStep("add", 0, (A,), 1 << 40)],
    "custom call": [
        CustomCallStep(
            "call",
            "some.target",
            ((A, MATRIX), (Slice(2, 0, 8), PAIR)),
            ((C, COLUMNS),),
            {
                "flag": True,
                "number": -3,
                "scale": 0.1,
                "word": 'a "b"\n',
                "ints": (1, 2),
                "none": (),
                "floats": (1.5, float("inf")),
                "record": {"mode": 1, "inner": {"x": "y"}},
                "blob": b"\x00\xff",
                "type": COLUMNS,
            },
            "no kernel",
            location="model.hlo:7:3",
        )
    ],
    "gemm for blas": [by_blas(gemm())],
    "swapped gemm": [by_blas(gemm((COLUMNS, COLUMNS, COLUMNS)))],
    "scaled gemm": [gemm(alpha_real=2.0)],
    "gemm without types": [GemmStep("dot", F32, GemmCall(4, 4, 4, True, False, 4, 4, 4, batch=2), A, B, C)],
    "while": [WhileStep("loop", StepList("cond", [CopyStep("c", A, B)]), FLAG, StepList("body", [by_blas(gemm())]))],
    "switch": [
        SwitchStep("sw", NUMBER, False, (StepList("a", [CopyStep("c", A, B)]), StepList("b"), StepList("last")))
    ],
    "switch of one": [SwitchStep("sw", NUMBER, False, (StepList("only", [CopyStep("c", A, B)]),))],
    "predicated switch": [SwitchStep("sw", FLAG, True, (StepList("yes", [CopyStep("c", A, B)]), StepList("no")))],
    "shared calls": [
        CallStep("first", SHARED, ((A, B),), pure=True),
        CopyStep("copy", A, C),
        CallStep("second", SHARED, ((C, B), (A, B))),
        WhileStep("loop", StepList("cond"), FLAG, StepList("body", [CallStep("third", SHARED)])),
    ],
    "host memory": [
        CustomCallStep("to", "xla.gpu.memcpy.d2h", ((A, MATRIX),), ((Slice(5, 0, 64), MATRIX),)),
        CustomCallStep("from", "xla.gpu.memcpy.h2d", ((Slice(4, 0, 8), PAIR),), ((Slice(1, 0, 8), PAIR),)),
        CustomCallStep("turn", "xla.gpu.memcpy.d2d", ((A, MATRIX),), ((B, COLUMNS),)),
        CopyStep("within", Slice(4, 0, 8), Slice(5, 0, 8)),
    ],
    "odd names": [CallStep("x", StepList("main")), CallStep("y", StepList("gemm")), gemm(alpha_real=3.0)],
}


@pytest.mark.parametrize("name", STEPS)
def test_every_step_reads_back_equal(name: str) -> None:
    made = program(*STEPS[name], kernels=("add_kernel",))
    same(parse_program(print_program(made)), made)


@pytest.mark.skipif(shutil.which("mlir-opt-19") is None, reason="mlir-opt-19 (Debian's mlir-19-tools) is not installed")
@pytest.mark.parametrize("form", ["generic", "custom"])
@pytest.mark.parametrize("name", STEPS)
def test_mlir_opt_takes_the_text_and_what_it_prints_reads_back(name: str, form: str) -> None:
    made = program(*STEPS[name], kernels=("add_kernel",))
    command = ["mlir-opt-19", "--allow-unregistered-dialect"]
    if form == "generic":
        command.append("-mlir-print-op-generic")
    done = subprocess.run(command, input=print_program(made), capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    same(parse_program(done.stdout), made)


def test_a_shared_sequence_is_one_function_and_one_object() -> None:
    made = parse_program(print_program(program(*STEPS["shared calls"])))
    bodies = [s.body for s in made.body.steps if isinstance(s, CallStep)]
    assert bodies[0] is bodies[1]
    assert print_program(made).count('sym_name = "callee"') == 1


def test_a_chain_of_shared_calls_costs_no_stack() -> None:
    steps = StepList("last", [CopyStep("c", A, B)])
    for i in range(1200):
        steps = StepList(f"f{i}", [CallStep(f"call{i}", steps)])
    text = print_program(program(CallStep("call", steps)))
    assert len(parse_program(text).body.steps) == 1


def test_the_text_of_loops_nested_past_the_limit_is_refused() -> None:
    steps = StepList("body", [CopyStep("c", A, B)])
    for i in range(MAX_NESTING + 1):
        steps = StepList("body", [WhileStep(f"w{i}", StepList("cond"), FLAG, steps)])
    with pytest.raises(XylaError) as error:
        print_program(program(*steps.steps))
    assert error.value.status is Status.UNIMPLEMENTED


def test_a_product_that_blas_takes_is_a_gemm_step_and_others_are_calls() -> None:
    narrow = ArrayType(np.dtype(np.int32), (4, 4), (16, 4))
    kinds = [gemm(), gemm(beta=1.0), gemm(alpha_imag=1.0), gemm((narrow, narrow, narrow))]
    read = parse_program(print_program(program(*kinds))).body.steps
    assert [type(s) for s in read] == [GemmStep, CustomCallStep, CustomCallStep, CustomCallStep]


BROKEN = {
    'callee = @"memcpy.d2d"': ("callee = @nowhere", "@nowhere is not declared"),
    "value = 64 : index": ("value = 640 : index", "the view takes bytes 640"),
    'sym_name = "main"': ('sym_name = "maim"', "no function @main"),
    '"memref.load"': ('"memref.lode"', "no memref.lode"),
    "cases = array<i64: 0, 1>": ("cases = array<i64: 0, 2>", "the cases are [0, 2]"),
    "strided<[1, 4]>": ("strided<[1, 400]>", "elements that do not lie side by side"),
    "dense<[3, 0, 64]>": ("dense<[3, 32, 64]>", "not inside allocation 3"),
}


@pytest.mark.parametrize("old", BROKEN)
def test_faults_are_located(old: str) -> None:
    text = print_program(program(*STEPS["copy"], *STEPS["while"], *STEPS["switch"], *STEPS["custom call"]))
    new, message = BROKEN[old]
    old = old if old in text else old.replace('@"memcpy.d2d"', "@memcpy.d2d")
    assert old in text
    with pytest.raises(XylaError) as error:
        parse_program(text.replace(old, new), "p.mlir")
    wanted = Status.UNIMPLEMENTED if "strided" in old else Status.INVALID_ARGUMENT
    assert error.value.status is wanted
    assert message in error.value.message
    assert error.value.render().startswith("p.mlir:")


def test_a_kernel_that_is_not_listed_is_refused() -> None:
    text = print_program(program(*STEPS["kernel"], kernels=("add_kernel",)))
    with pytest.raises(XylaError, match=r"does not list the kernel 'other'"):
        parse_program(text.replace('{kernel = "add_kernel"', '{kernel = "other"'))
