"""Custom calls that users register: typed attributes and arguments, every engine, failures with their text."""

import ctypes
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np
import pytest

import xyla
from xyla.runtime import custom_calls
from xyla.runtime.call_config import attributes_of_config, unquoted
from xyla.runtime.call_types import AttributeType, Kind, attribute_type, attribute_types, decode_all
from xyla.runtime.custom_calls import CallContext
from xyla.runtime.host_program import Encoder
from xyla.runtime.program import ArrayType, CustomCallStep, Slice
from xyla.runtime.run_options import DEFAULT_OPTIONS
from xyla.support.status import Status, XylaError

Array = np.ndarray[Any, np.dtype[Any]]
X = np.arange(4, dtype=np.float32)
ENGINES = ["compiled", "reference"]
NAME = "test_custom_calls.f"


class Mode(Enum):
    SUM = 0
    DIFFERENCE = 1


@dataclass(frozen=True)
class Window:
    size: int
    pads: tuple[int, ...] = (0, 0)
    weight: float = 1.0


@pytest.fixture(autouse=True)
def _forget() -> Iterator[None]:
    yield
    custom_calls.unregister(NAME)


def program(config: str = "", results: str = "f32[4]", name: str = NAME) -> str:
    config = f", api_version=API_VERSION_TYPED_FFI, backend_config={config}" if config else ""
    return f"""HloModule m
ENTRY main {{
  x = f32[4] parameter(0)
  y = f32[4] parameter(1)
  ROOT r = {results} custom-call(x, y), custom_call_target="{name}"{config}
}}
"""


def call(config: str = "", engine: str = "compiled", results: str = "f32[4]") -> list[Array]:
    return xyla.run(program(config, results), [X, X + 1], engine=engine)


def failure(config: str = "", engine: str = "compiled", results: str = "f32[4]") -> XylaError:
    with pytest.raises(XylaError) as error:
        call(config, engine, results)
    return error.value


@pytest.mark.parametrize("engine", ENGINES)
def test_a_registered_function_is_called_with_its_attributes(engine: str) -> None:
    @xyla.register_custom_call(NAME)
    def function(x: Array, y: Array, *, scale: float, mode: Mode = Mode.SUM, window: Window = Window(1)) -> Array:
        combined = x + y if mode is Mode.SUM else x - y
        return (combined * scale + window.size + sum(window.pads) * window.weight).astype(np.float32)

    assert function(X, X, scale=0.0).tolist() == [1, 1, 1, 1]
    assert call("{scale = 2.0 : f64}", engine)[0].tolist() == [3, 7, 11, 15]
    config = '{mode = "DIFFERENCE", scale = 1 : i64, window = {pads = array<i64: 1, 2>, size = 5 : i64}}'
    assert call(config, engine)[0].tolist() == [7, 7, 7, 7]
    assert call("{mode = 1 : i32, scale = 1.0 : f64}", engine)[0].tolist() == [0, 0, 0, 0]


@pytest.mark.parametrize("engine", ENGINES)
def test_several_results_and_none(engine: str) -> None:
    seen: list[float] = []
    xyla.register_custom_call(NAME, lambda x, y: (x * 2, (x + y).sum().astype(np.float32)))
    assert [r.tolist() for r in call(results="(f32[4], f32[])", engine=engine)] == [[0, 2, 4, 6], 16]
    xyla.register_custom_call(NAME, lambda x, y: seen.append(float(x[1])))
    text = (
        program(results="()")
        .replace("ROOT r", "r")
        .replace("\n}", ", custom_call_has_side_effect=true\n  ROOT z = f32[4] add(x, y)\n}")
    )
    assert xyla.run(text, [X, X], engine=engine)[0].tolist() == [0, 2, 4, 6]
    assert seen == [1.0]


def test_the_context_says_who_calls() -> None:
    seen: list[CallContext] = []

    def function(x: Array, y: Array, *, context: CallContext) -> Array:
        seen.append(context)
        return x

    xyla.register_custom_call(NAME, function)
    call()
    assert (seen[0].step, seen[0].options.device_ordinal) == ("r", 0)


def test_the_configuration_may_be_asked_for_as_it_is() -> None:
    seen: list[str] = []

    def function(x: Array, y: Array, *, backend_config: str) -> Array:
        seen.append(backend_config)
        return x

    xyla.register_custom_call(NAME, function)
    for text in ('"opaque \\"text\\""', "{a = 1 : i64}"):
        call(text)
    assert seen == ['opaque "text"', "{a = 1 : i64}"]


def test_operands_are_read_only() -> None:
    def function(x: Array, y: Array) -> Array:
        x[0] = 1
        return x

    xyla.register_custom_call(NAME, function)
    assert "read-only" in failure().message


WRONG = {
    "{scalar = 1.0 : f64}": "has no attribute 'scalar': it takes scale, mode, count",
    '{scale = "x"}': "attribute 'scale' is 'x', expected f64",
    "{scale = 1.0 : f64, mode = 7 : i64}": "attribute 'mode' is 7, expected one of SUM, DIFFERENCE",
    '{scale = 1.0 : f64, mode = "SUMM"}': "attribute 'mode' is 'SUMM', expected one of SUM, DIFFERENCE",
    "{mode = 0 : i64}": "lacks the attribute 'scale' (f64)",
    "{scale = 1.0 : f64, count = 3000000000 : i64}": "attribute 'count' is 3000000000, which does not fit i32",
    "{scale = true}": "attribute 'scale' is True, expected f64",
    '"text"': "takes attributes, but the configuration is",
}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("config", WRONG)
def test_wrong_attributes_are_refused_before_anything_runs(config: str, engine: str) -> None:
    def function(x: Array, y: Array) -> Array:
        raise AssertionError

    kinds = {"scale": float, "mode": (Mode, Mode.SUM), "count": (np.int32, 0)}
    xyla.register_custom_call(NAME, function, attributes=kinds)
    error = failure(config, engine)
    assert error.status is Status.INVALID_ARGUMENT
    assert WRONG[config] in error.message


def test_a_misspelt_attribute_gets_a_hint() -> None:
    xyla.register_custom_call(NAME, lambda x, y: x, attributes={"scale": float})
    assert failure("{scele = 1.0 : f64}").hint == "did you mean 'scale'?"


@pytest.mark.parametrize("engine", ENGINES)
def test_what_a_function_raises_comes_out_with_its_text_and_place(engine: str) -> None:
    def function(x: Array, y: Array) -> Array:
        raise ValueError("the tape is full")

    xyla.register_custom_call(NAME, function)
    error = failure(engine=engine)
    assert error.status is Status.UNKNOWN
    assert f"%r: the custom call {NAME!r} failed: ValueError: the tape is full" in error.message
    assert ":5:" in error.render()
    assert engine == "reference" or isinstance(error.__cause__, ValueError)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_status_that_a_function_raises_is_kept(engine: str) -> None:
    def function(x: Array, y: Array) -> Array:
        raise XylaError(Status.UNAVAILABLE, "come back later")

    xyla.register_custom_call(NAME, function)
    assert failure(engine=engine).status is Status.UNAVAILABLE


def test_an_executable_runs_on_after_a_failed_call() -> None:
    fail = [True]

    def function(x: Array, y: Array) -> Array:
        if fail[0]:
            raise RuntimeError("once")
        return x + y

    xyla.register_custom_call(NAME, function)
    executable = xyla.compile(program())
    with pytest.raises(XylaError, match="once"):
        executable(X, X)
    fail[0] = False
    assert executable(X, X)[0].tolist() == [0, 2, 4, 6]


BAD_RESULTS: dict[str, Callable[[Array, Array], Any]] = {
    "it returned 2 arrays, the program says 1": lambda x, y: (x, y),
    "result 0 has shape [3], the program says [4]": lambda x, y: x[:3],
    "result 0 is an array of complex64, the program says float32": lambda x, y: x.astype(np.complex64),
}


@pytest.mark.parametrize("message", BAD_RESULTS)
def test_results_have_to_be_those_of_the_program(message: str) -> None:
    xyla.register_custom_call(NAME, BAD_RESULTS[message])
    assert message in failure().message


def test_arguments_and_results_are_checked_against_the_signature() -> None:
    xyla.register_custom_call(NAME, lambda x, y: x, arguments=[np.float32, np.int32])
    assert "argument 1 is an array of float32, expected int32" in failure().message
    xyla.register_custom_call(NAME, lambda x, y: x, arguments=[np.float32])
    assert "takes 1 argument(s), 2 given" in failure().message
    xyla.register_custom_call(NAME, lambda x, y: x, results=[np.float64])
    assert "result 0 is an array of float32, expected float64" in failure().message
    xyla.register_custom_call(NAME, lambda x, y: x, arguments=[None, np.float32], results=[None])
    assert call()[0].tolist() == X.tolist()


NATIVE = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.POINTER(ctypes.c_void_p), ctypes.c_char_p, ctypes.c_int64)


def test_native_code_gets_buffers_and_configuration_and_fails_with_a_text() -> None:
    seen: list[bytes] = []
    trouble = ctypes.create_string_buffer(b"the valve is stuck")

    def add(buffers: Any, config: bytes, size: int) -> int | None:
        seen.append(config[:size])
        if b"bad" in config:
            return ctypes.addressof(trouble)
        x, y, out = (np.ctypeslib.as_array((ctypes.c_float * 4).from_address(buffers[i])) for i in range(3))
        out[:] = x + 10 * y
        return None

    function = NATIVE(add)
    address = ctypes.cast(function, ctypes.c_void_p).value
    assert address is not None
    xyla.register_custom_call(NAME, address)
    for engine in ("compiled", "interpreted", "reference"):
        seen.clear()
        assert call('"good"', engine)[0].tolist() == [10, 21, 32, 43]
        error = failure('"bad"', engine)
        assert error.status is Status.UNKNOWN
        assert f"%r: the custom call {NAME!r} failed: the valve is stuck" in error.message
        assert seen == [b"good", b"bad"]
    assert call("{a = 1 : i64}")[0].tolist() == [10, 21, 32, 43]
    assert seen[-1] == b"{a = 1 : i64}"
    executable = xyla.compile(program())
    code = Encoder(executable.program, [0] * len(executable.program.kernel_names)).encode()
    assert (len(code.custom_calls), len(code.native_calls)) == (0, 1)


def test_attributes_of_native_code_are_checked_too() -> None:
    function = NATIVE(lambda buffers, config, size: None)
    address = ctypes.cast(function, ctypes.c_void_p).value
    assert address is not None
    xyla.register_custom_call(NAME, address, attributes={"scale": float}, arguments=[np.float32, np.float32])
    assert len(call("{scale = 1.0 : f64}")) == 1
    assert "has no attribute 'scele'" in failure("{scele = 1.0 : f64}").message
    xyla.register_custom_call(NAME, address, arguments=[np.float32, np.int32])
    assert "argument 1 is an array of float32, expected int32" in failure().message


def test_an_unknown_target_names_the_nearest_one() -> None:
    xyla.register_custom_call(NAME, lambda x, y: x)
    with pytest.raises(XylaError) as error:
        xyla.run(program(name="test_custom_calls.g"), [X, X])
    assert error.value.status is Status.UNIMPLEMENTED
    assert error.value.hint == f"did you mean {NAME!r}?"


def test_the_last_registration_counts_and_an_executable_keeps_its_own() -> None:
    xyla.register_custom_call(NAME, lambda x, y: x)
    first = xyla.compile(program())
    xyla.register_custom_call(NAME, lambda x, y: y)
    assert call()[0].tolist() == (X + 1).tolist()
    assert first(X, X + 1)[0].tolist() == X.tolist()


def test_what_cannot_be_registered_is_refused() -> None:
    with pytest.raises(XylaError, match="expected a function or an address"):
        xyla.register_custom_call(NAME, "f")  # type: ignore[call-overload]
    with pytest.raises(XylaError, match="needs a name"):
        xyla.register_custom_call("", lambda x: x)
    with pytest.raises(XylaError, match="an attribute cannot be of type complex"):
        xyla.register_custom_call(NAME, lambda x: x, attributes={"z": complex})


# -- the registry ------------------------------------------------------------------------------------------------


def test_a_step_without_a_registered_target_is_refused_with_the_nearest_name() -> None:
    step = CustomCallStep("s", "xla.gpu.gem", (), ())
    custom_calls.find("xla.gpu.gemm")
    with pytest.raises(XylaError) as error:
        custom_calls.handler_of(step)
    assert error.value.hint == "did you mean 'xla.gpu.gemm'?"


def test_holes_are_left_out_of_what_a_function_gets() -> None:
    hole = (Slice(0, 0, 0), ArrayType(np.dtype(np.int8), (0,), (1,)))
    array = (Slice(0, 0, 16), ArrayType(np.dtype(np.float32), (4,), (4,)))
    xyla.register_custom_call(NAME, lambda x: x + 1)
    attributes = {"call_target_name": NAME}
    handler = custom_calls.handler_of(
        CustomCallStep("s", "xla.gpu.custom_call", (hole, array), (array, hole), attributes)
    )
    results = handler(CallContext(DEFAULT_OPTIONS, "s"), [np.empty(0, np.int8), X])
    assert [r.tolist() for r in results] == [[1, 2, 3, 4], []]


# -- types and configurations --------------------------------------------------------------------------------------


def test_attribute_types_come_from_pythons() -> None:
    assert attribute_type(int).kind is Kind.I64
    assert attribute_type(np.float32).kind is Kind.F32
    assert attribute_type(tuple[int, ...]).kind is Kind.I64S
    assert attribute_type(list[str]).element == AttributeType(Kind.STRING)
    assert attribute_type({"a": int}).fields["a"].kind is Kind.I64
    window = attribute_type(Window)
    assert (window.record, window.fields["pads"].default) == (Window, (0, 0))
    kinds = attribute_types({"names": list[str], "blob": (bytes, b""), "flag": bool})
    assert decode_all(kinds, {"names": ("a", "b"), "flag": True}, "f") == {
        "names": ("a", "b"),
        "blob": b"",
        "flag": True,
    }


CONFIGS: dict[str, Any] = {
    "": {},
    "{}": {},
    '"{}"': {},
    "{a = 1 : i64, b = -2, c = 0x10 : i32}": {"a": 1, "b": -2, "c": 16},
    "{x = 1.5 : f32, y = 2 : f64, z = 1e3}": {"x": 1.5, "y": 2.0, "z": 1000.0},
    "{flag, on = true, off = false, u = unit}": {"flag": True, "on": True, "off": False, "u": True},
    '{s = "a\\22b\\n", "quoted key" = 1}': {"s": 'a"b\n', "quoted key": 1},
    "{r = {a = 1, b = {c = [1, 2]}}}": {"r": {"a": 1, "b": {"c": (1, 2)}}},
    "{e = [], d = array<i64>, t = array<i64: 1, -2>, f = array<f32: 1, 2.5>}": {
        "e": (), "d": (), "t": (1, -2), "f": (1.0, 2.5),
    },
    "{d = dense<[1, 2]> : tensor<2xi64>, s = dense<3> : tensor<2xi64>, o = dense<4> : tensor<i64>}": {
        "d": (1, 2), "s": (3, 3), "o": 4,
    },
    "{b = array<i1: true, false>}": {"b": (True, False)},
    '{"a": 1, "b": [1, 2.5, "x"], "c": {"d": true}}': {"a": 1, "b": (1, 2.5, "x"), "c": {"d": True}},
    '"{\\"a\\": 1}"': {"a": 1},
    "just text": None,
    '"just text"': None,
}  # fmt: skip


@pytest.mark.parametrize("text", CONFIGS)
def test_configurations_are_read(text: str) -> None:
    found = attributes_of_config(text)
    assert found == CONFIGS[text]
    assert repr(found) == repr(CONFIGS[text])


DAMAGED = [
    "{", "{a", "{a =", "{a = }", "{a = 1", "{a = 1 : }", "{a = [1, }", "{a = 1} b", "{= 1}", "{a = <}", "{a = array<",
    "{a = ;}", '{"a": null}', "{a = dense<1> : tensor<2x2xi64>}", "{a = dense<1> : tensor<9999999999xi64>}",
    "{a = " + "[" * 100 + "]" * 100 + "}",
]  # fmt: skip


@pytest.mark.parametrize("text", DAMAGED)
def test_damaged_configurations_are_refused(text: str) -> None:
    with pytest.raises(XylaError) as error:
        attributes_of_config(text)
    assert error.value.status is Status.INVALID_ARGUMENT


def test_escapes_of_both_languages() -> None:
    assert unquoted('"a\\101\\5C\\t"') == "aA\\\t"
    assert unquoted("plain") == "plain"


@pytest.mark.parametrize("name", ["xla.gpu.gemm", "xyla.evaluate"])
def test_xylas_own_calls_are_not_replaced(name: str) -> None:
    with pytest.raises(XylaError, match="xyla's own"):
        xyla.register_custom_call(name, lambda x: x)
