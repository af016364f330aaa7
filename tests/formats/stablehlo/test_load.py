"""The entry: what a program says beside its operations, programs that are not HLO, faults, the corpus."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import pytest

from xyla.formats.hlo_text import parse
from xyla.formats.mlir.parser import split_source
from xyla.formats.stablehlo import StablehloProgram, is_bytecode, load
from xyla.hlo.module import BufferDonor, InputOutputAlias, Metadata, Module
from xyla.support.status import Status, XylaError

F = "tensor<4xf32>"


def module_of(text: str) -> Module:
    module = load(text, "t.mlir")
    assert isinstance(module, Module)
    return module


def test_bytecode_is_recognised() -> None:
    assert is_bytecode(b"ML\xefR\x0d")
    assert not is_bytecode(b"module {}")


def test_module_attributes() -> None:
    module = module_of(
        """module @jit_f attributes {mhlo.num_partitions = 2 : i32, mhlo.num_replicas = 4 : i32,
          mhlo.frontend_attributes = {k = "v"}} {
          sdy.mesh @mesh = <["a"=2]>
          func.func public @main(%a: tensor<f32>) -> tensor<f32> { return %a : tensor<f32> }
        }"""
    )
    assert module.name == "jit_f"
    assert (module.config.replica_count, module.config.num_partitions) == (4, 2)
    assert module.config.frontend_attributes == (("k", "v"), ("xla.sdy.meshes", '{mesh = #sdy.mesh<["a"=2]>}'))


def test_argument_attributes() -> None:
    module = module_of(
        f"""func.func @main(%a: {F} {{tf.aliasing_output = 1 : i32, mhlo.sharding = "{{replicated}}"}},
          %b: {F} {{jax.buffer_donor = true}}, %c: {F} {{jax.buffer_donor = false}}) -> ({F}
          {{mhlo.sharding = "{{replicated}}"}}, {F} {{mhlo.sharding = "{{maximal device=0}}"}}) {{
          return %a, %b : {F}, {F}
        }}"""
    )
    assert module.config.input_output_aliases == (InputOutputAlias((1,), 0, ()),)
    assert module.config.buffer_donors == (BufferDonor(1, ()),)
    assert module.entry.parameters[0].sharding == "{replicated}"
    assert module.entry.root.sharding == "{{replicated}, {maximal device=0}}"


def test_alias_of_the_only_result_has_no_index() -> None:
    module = module_of(f"func.func @main(%a: {F} {{tf.aliasing_output = 0 : i32}}) -> {F} {{ return %a : {F} }}")
    assert module.config.input_output_aliases == (InputOutputAlias((), 0, ()),)


def test_operation_attributes() -> None:
    root = module_of(
        f"""func.func @main(%a: {F}) -> {F} {{
          %0 = stablehlo.negate %a {{mhlo.frontend_attributes = {{b = "2", a = "1"}}, mhlo.sharding = "{{replicated}}"}}
            : {F}
          return %0 : {F}
        }}"""
    ).entry.root
    assert root.frontend_attributes == (("a", "1"), ("b", "2"))
    assert root.sharding == "{replicated}"


def test_locations_become_metadata() -> None:
    root = module_of(
        f"""#loc1 = loc("model.py":12:3 to :9)
        #loc2 = loc("layer"(#loc1))
        #loc3 = loc("jit(f)/neg"(callsite(#loc2 at #loc1)))
        func.func @main(%a: {F} loc("x")) -> {F} {{
          %0 = stablehlo.negate %a : {F} loc(#loc4)
          return %0 : {F}
        }}
        #loc4 = loc("neg:"(#loc3))"""
    ).entry.root
    assert root.metadata == Metadata("neg", "jit(f)/neg", "model.py", 12, 12, 3, 9)
    assert root.operands[0].metadata == Metadata(op_name="x")


def test_spans_point_at_the_operation() -> None:
    root = module_of(
        f"func.func @main(%a: {F}) -> {F} {{\n  %0 = stablehlo.negate %a : {F}\n return %0 : {F} }}"
    ).entry.root
    assert root.span is not None
    assert root.span.where() == "t.mlir:2:3"


def test_the_entry_without_main_is_the_only_public_function() -> None:
    module = module_of(
        f"func.func @f(%a: {F}) -> {F} {{ return %a : {F} }} func.func private @g(%a: {F}) -> {F} {{ return %a : {F} }}"
    )
    assert module.entry.name == "f"


def test_a_module_that_holds_only_a_module_stands_for_it() -> None:
    inner = f"module @inner {{ func.func @main(%a: {F}) -> {F} {{ return %a : {F} }} }}"
    assert module_of("module @outer { " + inner + " }").name == "inner"


def test_recursion_is_found_in_programs_that_wait_for_refinement() -> None:
    text = "func.func @main(%a: tensor<?xf32>) { call @main(%a) : (tensor<?xf32>) -> () return }"
    with pytest.raises(XylaError, match="function @main calls itself"):
        load(text, "t.mlir")


PROGRAMS = [
    ("func.func @main(%a: tensor<?xf32>) -> tensor<?xf32> { return %a : tensor<?xf32> }", "dynamic dimensions", 1),
    (
        "func.func @main(%a: tensor<1xi32>) -> tensor<4xf32> {\n%0 = stablehlo.dynamic_iota %a, dim = 0 : "
        "(tensor<1xi32>) -> tensor<?xf32>\n%1 = stablehlo.reshape %0 : (tensor<?xf32>) -> tensor<4xf32>\n"
        "return %1 : tensor<4xf32> }",
        "dynamic dimensions",
        2,
    ),
    (
        "func.func @main(%a: tensor<4xf32>, %p: tensor<1xi32>) -> tensor<2xf32> {\n%c = stablehlo.constant dense<1> : "
        "tensor<1xi32>\n%0 = stablehlo.real_dynamic_slice %a, %c, %c, %p : (tensor<4xf32>, tensor<1xi32>, "
        "tensor<1xi32>, tensor<1xi32>) -> tensor<2xf32>\nreturn %0 : tensor<2xf32> }",
        "operand 3 of stablehlo.real_dynamic_slice is not a constant",
        3,
    ),
    (
        'func.func @main(%a: tensor<4xf32>) {\n%0 = "shape.any"(%a) : (tensor<4xf32>) -> tensor<1xindex>\nreturn }',
        "operation shape.any",
        2,
    ),
]


@pytest.mark.parametrize(("text", "reason", "line"), PROGRAMS, ids=[r for _, r, _ in PROGRAMS])
def test_what_hlo_cannot_express_is_a_program_with_a_reason(text: str, reason: str, line: int) -> None:
    program = load(text, "t.mlir")
    assert isinstance(program, StablehloProgram)
    assert reason in program.reason
    assert program.span is not None
    assert program.span.where().startswith(f"t.mlir:{line}:")
    assert len(program.parameter_types) == text.split("{")[0].count(": ")


MAIN = f"func.func @main(%a: {F}, %s: tensor<f32>) -> {F} {{\n"
FAULTS = [
    (f'%0 = "stablehlo.add"(%a) : ({F}) -> {F}', Status.INVALID_ARGUMENT, "stablehlo.add needs 2 operands, has 1"),
    (f"%0 = stablehlo.add %a, %s : ({F}, tensor<f32>) -> {F}", Status.INVALID_ARGUMENT, "add"),
    (f"%0 = call @f(%a) : ({F}) -> {F}", Status.INVALID_ARGUMENT, "function @f is not defined"),
    (f"%0 = call @main(%a, %s) : ({F}, tensor<f32>) -> {F}", Status.INVALID_ARGUMENT, "function @main calls itself"),
    (f'%0 = "stablehlo.bad"(%a) : ({F}) -> {F}', Status.UNIMPLEMENTED, "no conversion of stablehlo.bad to HLO"),
    (
        f"%0 = stablehlo.constant dense<[1, 2]> : {F}",
        Status.INVALID_ARGUMENT,
        "2 elements for shape [4], which has 4",
    ),
    (
        "%1 = stablehlo.reduce(%a init: %s) across dimensions = [0] : (tensor<4xf32>, tensor<f32>) -> tensor<f32> "
        "reducer(%x: tensor<f32>, %y: tensor<f32>) {\nstablehlo.return %s : tensor<f32> }",
        Status.UNIMPLEMENTED,
        "the region of stablehlo.reduce uses %s from outside",
    ),
    (
        f'%0 = "stablehlo.slice"(%a) <{{start_indices = array<i64: 0>, limit_indices = 4 : i64}}> : ({F}) -> {F}',
        Status.INVALID_ARGUMENT,
        "stablehlo.slice needs attribute 'limit_indices', a list of integers; it is 4 : i64",
    ),
    (
        '%0 = "stablehlo.compare"(%a, %a) <{comparison_direction = #stablehlo<comparison_direction XX>}> : '
        f"({F}, {F}) -> tensor<4xi1>",
        Status.INVALID_ARGUMENT,
        "one of EQ, NE, GE, GT, LE, LT",
    ),
]


@pytest.mark.parametrize(("line", "status", "message"), FAULTS, ids=[m for *_, m in FAULTS])
def test_faults_are_located(line: str, status: Status, message: str) -> None:
    with pytest.raises(XylaError) as caught:
        load(MAIN + line + f"\nreturn %a : {F} }}", "t.mlir")
    assert caught.value.status is status
    assert message in caught.value.message
    assert caught.value.span is not None
    assert caught.value.span.where().startswith("t.mlir:")


def test_a_misspelt_operation_gets_a_suggestion() -> None:
    with pytest.raises(XylaError) as caught:
        load(MAIN + f'%0 = "stablehlo.negte"(%a) : ({F}) -> {F}\nreturn %0 : {F} }}', "t.mlir")
    assert caught.value.hint == "did you mean stablehlo.negate?"


@pytest.mark.parametrize("text", ["", "  \n", "// nothing\n", "module {}"])
def test_a_program_without_functions_is_refused(text: str) -> None:
    with pytest.raises(XylaError, match="the program has no function"):
        load(text, "t.mlir")


def test_nested_regions_past_the_stack_are_refused() -> None:
    depth = 400
    head = "".join(f'%r{i} = "stablehlo.if"(%p) ({{ ' for i in range(depth))
    tail = "".join(
        f"}}, {{ stablehlo.return %x : tensor<f32> }}) : (tensor<i1>) -> tensor<f32> "
        f"{'return' if not i else 'stablehlo.return'} %r{i} : tensor<f32> "
        for i in reversed(range(depth))
    )
    inner = f"{head} stablehlo.return %x : tensor<f32> {tail}"
    text = f"func.func @main(%p: tensor<i1>, %x: tensor<f32>) -> tensor<f32> {{ {inner} }}"
    with pytest.raises(XylaError, match="nest"):
        load(text, "t.mlir")


# -- the shared corpus ------------------------------------------------------------------------------------------

SETS = {
    "corpus/stablehlo/testdata": 40,
    "corpus/stablehlo/testdata/dynamic": 20,
    "corpus/stablehlo/testdata/quantized": 10,
    "corpus/stablehlo/tests/interpret": 4,
    "corpus/jax_exports": 8,
    "models": 4,
    "bugs": 2,
}


@pytest.mark.parametrize("folder", SETS)
def test_corpus_files_load_and_print_as_hlo_text(shared: Path, folder: str) -> None:
    for path in islice(sorted((shared / folder).glob("*.mlir")), 0, None, SETS[folder]):
        text = path.read_text()
        for section in split_source(text) if "/tests/" in folder or "quantized" in folder else [text]:
            if "func.func" in section:
                _check(section, path)


def _check(text: str, path: Path) -> None:
    try:
        program = load(text, path.name)
    except XylaError as error:
        # Running several programs at once is the test runner's business, not a program's.
        if "interpreter.run_parallel" not in error.message and "several others" not in error.message:
            raise
        return
    if isinstance(program, Module):
        printed = str(program)
        assert str(parse(printed, path.name)) == printed
    else:
        assert "dynamic" in str(path) or "quantized" in str(path), program.reason
