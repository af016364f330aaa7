from __future__ import annotations

import sys

import pytest

from xyla.formats.mlir.attributes import (
    AffineAttr,
    ArrayAttr,
    BoolAttr,
    DenseArrayAttr,
    DenseAttr,
    DialectAttr,
    DictAttr,
    FloatAttr,
    IntegerAttr,
    StringAttr,
    SymbolRef,
    TypeAttr,
    UnitAttr,
)
from xyla.formats.mlir.dialects import Dialects
from xyla.formats.mlir.ir import AliasLoc, CallSiteLoc, FileLoc, FusedLoc, MlirModule, NameLoc, Operation
from xyla.formats.mlir.parser import Parser, parse_module, split_source
from xyla.formats.mlir.printer import print_module
from xyla.formats.mlir.types import (
    DYNAMIC,
    F32,
    I32,
    I64,
    INDEX,
    ComplexType,
    DialectType,
    FunctionType,
    MemRefType,
    ScalarType,
    TensorType,
    TupleType,
    Type,
    UnrankedTensorType,
    VectorType,
)
from xyla.support.status import Status, XylaError


def op_of(text: str) -> Operation:
    """The first operation of the text."""
    return parse_module(text, "t").body[0]


def attr_of(text: str) -> object:
    return op_of(f'"t.op"() {{a = {text}}} : () -> ()').get("a")


def type_of(text: str) -> Type:
    attr = attr_of(text)
    assert isinstance(attr, TypeAttr)
    return attr.type


def fault(text: str) -> XylaError:
    with pytest.raises(XylaError) as caught:
        parse_module(text, "t.mlir")
    assert caught.value.status is Status.INVALID_ARGUMENT
    assert caught.value.span is not None
    return caught.value


TYPES: list[tuple[str, Type]] = [
    ("i32", I32),
    ("si8", ScalarType("si8")),
    ("bf16", ScalarType("bf16")),
    ("f8E4M3B11FNUZ", ScalarType("f8E4M3B11FNUZ")),
    ("index", INDEX),
    ("tensor<f32>", TensorType((), F32)),
    ("tensor<2x3xf32>", TensorType((2, 3), F32)),
    ("tensor<0x3xf32>", TensorType((0, 3), F32)),
    ("tensor<2x?xf32>", TensorType((2, DYNAMIC), F32)),
    ("tensor<*xf32>", UnrankedTensorType(F32)),
    ("tensor<4xcomplex<f32>>", TensorType((4,), ComplexType(F32))),
    ("tensor<?xf32, #stablehlo.bounds<4>>", TensorType((DYNAMIC,), F32, DialectAttr("#stablehlo.bounds<4>"))),
    (
        "tensor<2x!quant.uniform<i8:f32:0, {0.1:-30,0.5:-20}>>",
        TensorType((2,), DialectType("!quant.uniform<i8:f32:0, {0.1:-30,0.5:-20}>")),
    ),
    ("vector<4x[8]xf32>", VectorType((4, 8), F32, (False, True))),
    ("memref<4x?xf32>", MemRefType((4, DYNAMIC), F32)),
    ("memref<*xf32, 1 : i64>", MemRefType(None, F32, None, IntegerAttr(1, I64))),
    (
        "memref<4xf32, affine_map<(d0) -> (d0 + 1)>>",
        MemRefType((4,), F32, AffineAttr("affine_map<(d0) -> (d0 + 1)>")),
    ),
    ("tuple<i32, tuple<>>", TupleType((I32, TupleType(())))),
    ("(i32) -> (i64, i32)", FunctionType((I32,), (I64, I32))),
    ("() -> ()", FunctionType((), ())),
    ("!stablehlo.token", DialectType("!stablehlo.token")),
]


@pytest.mark.parametrize(("text", "want"), TYPES, ids=[t for t, _ in TYPES])
def test_types_read_and_print_back(text: str, want: Type) -> None:
    got = type_of(text)
    assert got == want
    assert type_of(str(got)) == want


ATTRS: list[tuple[str, object]] = [
    ("3", IntegerAttr(3, I64)),
    ("-3 : i32", IntegerAttr(-3, I32)),
    ("0x10 : i32", IntegerAttr(16, I32)),
    ("1.5e+1 : f32", FloatAttr(15.0, F32)),
    ("true", BoolAttr(True)),
    ("unit", UnitAttr()),
    ('"a\\22\\\\\\0Ab"', StringAttr('a"\\\nb')),
    ('"\\A4"', StringAttr("\udca4")),
    ("[1, @f, []]", ArrayAttr((IntegerAttr(1, I64), SymbolRef("f"), ArrayAttr(())))),
    ('@"<lambda>"::@g', SymbolRef("<lambda>", ("g",))),
    ("{x, y = 2 : i32}", DictAttr((("x", UnitAttr()), ("y", IntegerAttr(2, I32))))),
    ("array<i64: 1, -2>", DenseArrayAttr(I64, (1, -2))),
    ("array<i64>", DenseArrayAttr(I64, ())),
    ("array<i1: true, false>", DenseArrayAttr(ScalarType("i1"), (True, False))),
    ('#d.x<[a], ">" -> {b}>', DialectAttr('#d.x<[a], ">" -> {b}>')),
    ("affine_map<(d0, d1) -> (d1)>", AffineAttr("affine_map<(d0, d1) -> (d1)>")),
]


@pytest.mark.parametrize(("text", "want"), ATTRS, ids=[t for t, _ in ATTRS])
def test_attributes_read_and_print_back(text: str, want: object) -> None:
    got = attr_of(text)
    assert got == want
    assert attr_of(str(got)) == want


def test_float_bits_are_kept() -> None:
    attr = attr_of("0x7FC00000 : f32")
    assert isinstance(attr, FloatAttr)
    assert attr.bits == 0x7FC00000
    assert str(attr) == "0x7FC00000 : f32"


def test_dialect_attr_head_and_body_of_both_spellings() -> None:
    assert DialectAttr("#d.x<a = 1>").head == DialectAttr("#d<x a = 1>").head == "d.x"
    assert DialectAttr("#d.x<a = 1>").body == DialectAttr("#d<x a = 1>").body == "a = 1"


def test_dense_payload_is_text_until_decoded() -> None:
    attr = attr_of('dense<"0x0102"> : tensor<2xi8>')
    assert attr == DenseAttr("0102", TensorType((2,), ScalarType("i8")), attr.start, hex=True)  # type: ignore[attr-defined]
    assert str(attr) == 'dense<"0x0102"> : tensor<2xi8>'


def test_generic_operation_with_everything() -> None:
    op = op_of(
        """
        "t.outer"() ({
          %a, %b:2 = "t.three"() : () -> (i32, i64, i64)
          "t.inner"(%a, %b#1) <{p = 1 : i32}> ({
          ^bb0(%x: i32):
            "t.branch"(%x)[^bb1] : (i32) -> ()
          ^bb1:
            "t.use"(%a) : (i32) -> ()
          }, {}) {q} : (i32, i64) -> ()
        }) : () -> ()
        """
    )
    three, inner = op.regions[0].blocks[0].operations
    assert [str(t) for t in three.result_types] == ["i32", "i64", "i64"]
    assert inner.operands == [three.results[0], three.results[2]]
    assert inner.properties == {"p": IntegerAttr(1, I32)}
    assert inner.attributes == {"q": UnitAttr()}
    first, second = inner.regions[0].blocks
    assert first.operations[0].successors[0].block is second
    assert second.operations[0].operands == [three.results[0]]
    assert inner.regions[1].blocks == []


def test_multiple_results_by_name_alone_mean_the_first() -> None:
    _, use = parse_module('%a:2 = "t.x"() : () -> (i32, i64)\n"t.y"(%a) : (i32) -> ()').body
    assert use.operands[0].index == 0


def test_value_may_be_used_before_it_is_defined() -> None:
    use, define = parse_module('"t.y"(%a) : (i32) -> ()\n%a = "t.x"() : () -> i32').body
    assert use.operands[0] is define.results[0]
    assert use.operands[0].owner is define


def test_sibling_regions_may_reuse_names_and_functions_see_no_outer_ones() -> None:
    text = """
    func.func @f(%a: i32) -> i32 { return %a : i32 }
    func.func @g(%a: i64) -> i64 { return %a : i64 }
    """
    assert len(parse_module(text).body) == 2
    error = fault('%a = "t.x"() : () -> i32\nfunc.func @f() -> i32 { return %a : i32 }')
    assert "value %a is not defined" in error.message


def test_function_signature_attributes_and_declarations() -> None:
    text = """module @m attributes {a.b = 1 : i32} {
      func.func private @d(tensor<f32>, i32) -> i32
      func.func public @f(%x: i32 {k = true} loc("x")) -> (i32 {r}, i64) attributes {z} {
        %0 = "t.x"() : () -> i64
        func.return %x, %0 : i32, i64
      }
    }"""
    module = parse_module(text)
    declaration, function = module.body
    assert module.op.symbol_name == "m"
    assert module.op.attributes == {"a.b": IntegerAttr(1, I32)}
    assert declaration.regions == []
    assert str(declaration.get("function_type")) == "(tensor<f32>, i32) -> i32"
    assert str(function.get("arg_attrs")) == "[{k = true}]"
    assert str(function.get("res_attrs")) == "[{r}, {}]"
    argument = function.regions[0].blocks[0].arguments[0]
    assert argument.loc == NameLoc("x")
    assert module.symbols() == {"d": declaration, "f": function}


def test_locations() -> None:
    text = """#loc = loc("f.py":1:2 to :5)
    "t.a"() : () -> () loc(#loc)
    "t.b"() : () -> () loc(callsite("g"(#loc) at fused<"m">[unknown, "h.py":3:4 to 5:6]))
    """
    module = parse_module(text)
    a, b = module.body
    assert a.loc == AliasLoc("loc")
    assert module.resolve(a.loc) == FileLoc("f.py", 1, 2, (0, 5))
    assert isinstance(b.loc, CallSiteLoc)
    assert b.loc.callee == NameLoc("g", AliasLoc("loc"))
    assert isinstance(b.loc.caller, FusedLoc)
    assert b.loc.caller.parts[1] == FileLoc("h.py", 3, 4, (5, 6))


def test_circular_and_missing_location_aliases_are_unknown() -> None:
    module = parse_module('#a = loc(#b)\n#b = loc(#a)\n"t.a"() : () -> () loc(#a)\n"t.b"() : () -> () loc(#c)')
    assert [str(module.resolve(op.loc)) for op in module.body] == ["unknown", "unknown"]


def test_aliases_before_and_after_their_use() -> None:
    text = """!t = tensor<4xf32>
    "t.a"() {m = #map, t = !t, u = !later} : () -> ()
    #map = affine_map<(d0) -> (d0)>
    !later = i8
    """
    op = op_of(text)
    assert str(op.get("m")) == "affine_map<(d0) -> (d0)>"
    assert str(op.get("t")) == "tensor<4xf32>"
    assert str(op.get("u")) == "i8"


def test_resources_and_comments_are_skipped() -> None:
    text = '// a\n"t.a"() : () -> () // b\n{-# dialect_resources: { x: { y: "0x00" } } #-}\n'
    assert len(parse_module(text).body) == 1


def test_split_source() -> None:
    assert [s.strip() for s in split_source("a\n// -----\nb\n  // ----- x\nc")] == ["a", "b", "c"]


def test_a_dialect_plugs_in_its_assembly() -> None:
    def parse_pair(p: Parser, op: Operation) -> list[Type]:
        names = p.parse_operand_names()
        p.expect(":")
        type_ = p.parse_type()
        op.operands = p.resolve(names, [type_] * len(names))
        return [type_]

    dialects = Dialects({"t.pair": parse_pair})
    text = '%a = "t.x"() : () -> i32\n%b = t.pair %a, %a : i32\n'
    module = parse_module(text, "t", dialects)
    assert module.body[1].operand_types == [I32, I32]
    with pytest.raises(ValueError, match="two assembly parsers"):
        dialects.plus(dialects)


ROUND_TRIP = """
#loc = loc("x")
module @m {
  func.func @f(%a: tensor<2xf32> loc("arg"), %n: i32) -> (tensor<2xf32>, i32) {
    %0:2 = "t.x"(%a) <{v = dense<[1.0, 2.0]> : tensor<2xf32>, s = "q\\22"}> ({
    ^bb0(%x: i32):
      "t.br"(%x)[^bb1] : (i32) -> ()
    ^bb1:
      "t.end"() : () -> ()
    }, {
      "t.plain"(%n) : (i32) -> ()
    }) {d} : (tensor<2xf32>) -> (tensor<2xf32>, i32) loc(#loc)
    return %0#0, %0#1 : tensor<2xf32>, i32
  }
}
"""


@pytest.mark.parametrize("locations", [False, True])
def test_generic_form_round_trips(locations: bool) -> None:
    module = parse_module(ROUND_TRIP, "t")
    text = print_module(module, locations=locations)
    again = parse_module(text, "t")
    assert print_module(again, locations=locations) == text
    assert _names(again) == _names(module)
    assert ('loc("arg")' in text) is locations


def _names(module: MlirModule) -> list[str]:
    return [op.name for op in module.op.walk()]


FAULTS = [
    ('"t.a"(%x) : (i32) -> ()', 1, 7, "value %x is not defined"),
    ('%a = "t.x"() : () -> i32\n%a = "t.x"() : () -> i32', 2, 1, "value %a is defined twice"),
    ('%a = "t.x"() : () -> i32\n"t.y"(%a) : (i64) -> ()', 2, 7, "%a has type i32, but i64 is stated here"),
    ('%a:2 = "t.x"() : () -> i32', 1, 1, "t.x has 1 results, but 2 are named"),
    ('"t.x"(', 1, 7, "expected ')', found the end of the text"),
    ('"t.x"() {a = 1, a = 2} : () -> ()', 1, 17, "attribute 'a' is given twice"),
    ('"t.x"() {a = "b} : () -> ()', 1, 14, "expected an attribute, found a string without an end"),
    ('"t.x"() {a = tensor<4xq32>} : () -> ()', 1, 14, "'q32' is not a type"),
    ('"t.x"() {a = i0} : () -> ()', 1, 14, "'i0' is not a type"),
    ('"t.x"() {a = #d<[}>} : () -> ()', 1, 18, "expected ']', found '}'"),
    ('"t.x"() ({ "t.b"()[^bb1] : () -> () }) : () -> ()', 1, 12, "block ^bb1 is not defined"),
    ("t.nothing", 1, 1, "operation 't.nothing' has no custom assembly here"),
    ("#a = #b\n#b = #a", 1, 6, "alias '#b' is defined through itself"),
    ('"t.x"() {a = "\\q"} : () -> ()', 1, 15, "unknown escape '\\q' in a string"),
]


@pytest.mark.parametrize(("text", "line", "column", "message"), FAULTS, ids=[m for *_, m in FAULTS])
def test_faults_are_located(text: str, line: int, column: int, message: str) -> None:
    error = fault(text)
    assert error.span is not None
    assert message in error.message
    assert error.span.where() == f"t.mlir:{line}:{column}"


def test_misspelt_names_get_a_suggestion() -> None:
    assert fault('%value = "t.x"() : () -> i32\n"t.y"(%valeu) : (i32) -> ()').hint == "did you mean %value?"
    assert fault("func.funk @f()").hint == "did you mean 'func.func'?"


DEEP = 5_000
DEEP_TEXTS = {
    "arrays": "module attributes {a = " + "[" * DEEP,
    "dictionaries": "module attributes " + "{a=" * DEEP,
    "types": "func.func @f(%a: " + "tuple<" * DEEP,
    "functions": "func.func @f(%a: " + "(" * DEEP,
    "regions": '"t.a"() ({' * DEEP,
    "modules": "module {" * DEEP,
    "locations": '"t.a"() : () -> () loc(' + '"a"(' * DEEP,
    "aliases": "\n".join(f"#a{i} = #a{i + 1}" for i in range(DEEP)),
}


@pytest.mark.parametrize("text", DEEP_TEXTS.values(), ids=DEEP_TEXTS)
def test_deep_nesting_is_refused(text: str) -> None:
    message = fault(text).message
    assert "nesting is" in message
    assert "deep" in message


def test_the_nesting_limit_holds_where_the_stack_is_large() -> None:
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(50_000)
    try:
        message = fault("module attributes {a = " + "[" * 2_000).message
    finally:
        sys.setrecursionlimit(before)
    assert message == "nesting is deeper than 500 levels"


def test_numbers_without_end_and_huge_dims_are_refused() -> None:
    assert "digits is out of range" in fault("module attributes {a = " + "9" * 100_000 + "}").message
    assert "does not fit 64 bits" in fault('"t.x"() {a = tensor<99999999999999999999xf32>} : () -> ()').message
