"""Saved executables: what comes back, what is refused, damage of every byte."""

from __future__ import annotations

import hashlib
import json
import random
import re
import struct
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xyla
from tests.runtime.programs import ADD, F32, S32, Array, Maker, of, python_call, sum_program
from tests.runtime.test_engines import counting_loop, doubling_dag
from xyla.clients.api import load_executable
from xyla.clients.cli.main import main
from xyla.runtime import aot, aot_codec, custom_calls
from xyla.runtime.custom_calls import CallContext, Handler
from xyla.runtime.executable import Executable
from xyla.runtime.program import (
    CopyStep,
    CustomCallStep,
    Deferred,
    GemmCall,
    GemmStep,
    Program,
    StepList,
    SwitchStep,
    all_steps,
)
from xyla.support.status import Status, XylaError

X, Y = np.arange(16, dtype=np.int32), np.full(16, 3, np.int32)


def switching() -> Maker:
    m = Maker()
    which, x, out = m.parameter(of(S32)), m.parameter(of(S32, 16)), m.output(of(S32, 16))
    branches = (StepList("a", [CopyStep("c", x, out)]), StepList("b", [m.kernel(ADD, x, x, out, size=16)]))
    return m.add(SwitchStep("s", which, False, branches))


def product() -> Maker:
    m = Maker()
    a, b = m.parameter(of(F32, 4, 5)), m.parameter(of(F32, 5, 6))
    call = GemmCall(4, 6, 5, False, False, 5, 6, 6)
    return m.add(GemmStep("dot", np.dtype(np.float32), call, a, b, m.output(of(F32, 4, 6))))


A, B = np.ones((4, 5), np.float32), np.arange(30, dtype=np.float32).reshape(5, 6)
PROGRAMS: list[tuple[Callable[[], Maker], list[Array]]] = [
    (sum_program, [X, Y]),
    (lambda: counting_loop(7)[0], []),
    (switching, [np.array(1, np.int32), X]),
    (product, [A, B]),
]


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("aot") / "loop.xyla"
    counting_loop(7)[0].executable().save(path)
    return path


@pytest.mark.parametrize(("make", "args"), PROGRAMS)
def test_a_loaded_executable_does_the_same(make: Callable[[], Maker], args: list[Array], tmp_path: Path) -> None:
    path = tmp_path / "p.xyla"
    run = make().executable()
    run.save(path)
    loaded = load_executable(path)
    for a, b in zip(run(*args), loaded(*args), strict=True):
        np.testing.assert_array_equal(a, b)
    assert loaded.fingerprint == run.fingerprint
    assert [repr(s) for s in all_steps(loaded.program)] == [repr(s) for s in all_steps(run.program)]
    loaded.save(tmp_path / "again.xyla")
    assert (tmp_path / "again.xyla").read_bytes() == path.read_bytes()


def test_shared_sequences_stay_shared() -> None:
    program = doubling_dag(30, pure=True)[0].program()
    parts, blobs = aot_codec.encode(program)
    back = aot_codec.decode(json.loads(json.dumps(parts)), blobs)
    assert len(all_steps(back)) == len(all_steps(program))
    assert len(json.dumps(parts)) < 20_000


def test_attributes_of_custom_calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    attributes: dict[str, Any] = {
        "flag": True, "one": 1, "real": 1.0, "nan": float("inf"), "text": "é", "raw": b"\0\xff", "none": (),
        "nested": {"list": (1, (2.5, "x")), "type": of(F32, 2)}, "later": Deferred(lambda: "text"),
    }  # fmt: skip
    seen: list[CustomCallStep] = []

    def prepare(step: CustomCallStep) -> Handler:
        seen.append(step)

        def run(_: CallContext, arrays: Sequence[Array]) -> list[Array]:
            return [arrays[0] * 2]

        return run

    monkeypatch.setattr(custom_calls, "_TARGETS", dict(custom_calls._TARGETS))
    custom_calls.register("test.double", prepare)
    m = Maker()
    x, out = m.parameter(of(S32, 16)), m.output(of(S32, 16))
    step = CustomCallStep("c", "test.double", ((x, of(S32, 16)),), ((out, of(S32, 16)),), attributes, "why")
    m.add(step).executable().save(tmp_path / "c.xyla")
    loaded = load_executable(tmp_path / "c.xyla")
    np.testing.assert_array_equal(loaded(X)[0], X * 2)
    assert seen[-1] == step
    assert [type(v) for v in seen[-1].attributes.values()] == [type(v) for v in attributes.values()]


DYNAMIC = """HloModule m
ENTRY e {
  x = f32[<=8] parameter(0)
  ROOT y = f32[<=8] add(x, x)
}
"""


def test_programs_of_dynamic_sizes(tmp_path: Path) -> None:
    path = tmp_path / "d.xyla"
    xyla.compile(DYNAMIC).save(path)
    loaded = load_executable(path)
    for size in (0, 3, 8):
        np.testing.assert_array_equal(loaded(np.full(size, 4, np.float32))[0], np.full(size, 8, np.float32))
    assert main(["run", str(path), "--random-args", "0"]) == 0


def test_values_that_are_equal_and_of_other_types_stay_apart() -> None:
    steps = [CustomCallStep("c", "t", (), (), {"a": value}) for value in (1, True, 1.0, 1)]
    parts, _ = aot_codec.encode(Program("p", [], [], [], StepList("b", list(steps))))
    back = aot_codec.decode(json.loads(json.dumps(parts)), []).body.steps
    kinds = [type(step.attributes["a"]) for step in back if isinstance(step, CustomCallStep)]
    assert kinds == [int, bool, float, int]


def test_functions_of_this_process_are_refused(tmp_path: Path) -> None:
    m = Maker()
    x, out = m.parameter(of(S32)), m.output(of(S32))
    run = m.add(python_call(lambda _, arrays: arrays, [(x, of(S32))], [(out, of(S32))])).executable()
    with pytest.raises(XylaError, match="a file cannot hold it") as caught:
        run.save(tmp_path / "f.xyla")
    assert caught.value.status is Status.UNIMPLEMENTED
    assert not list(tmp_path.iterdir())


def test_an_executable_without_its_kernels_text_is_refused(tmp_path: Path) -> None:
    made = sum_program().executable()
    bare = Executable(made.program, made._native.functions, made.stats, made)
    with pytest.raises(XylaError, match="without the text of its kernels"):
        bare.save(tmp_path / "f.xyla")


def refusal(path: Path) -> XylaError:
    with pytest.raises(XylaError) as caught:
        load_executable(path)
    return caught.value


def test_every_flipped_byte_is_noticed(saved: Path, tmp_path: Path) -> None:
    whole, path = saved.read_bytes(), tmp_path / "bad.xyla"
    rng = random.Random(0)
    places = [*range(64), *range(64, len(whole), 61), len(whole) - 1]
    for at in places:
        bad = bytearray(whole)
        bad[at] ^= 1 << rng.randrange(8)
        path.write_bytes(bad)
        assert refusal(path).status in (Status.DATA_LOSS, Status.INVALID_ARGUMENT), at


def test_cut_and_grown_files_are_noticed(saved: Path, tmp_path: Path) -> None:
    whole, path = saved.read_bytes(), tmp_path / "bad.xyla"
    for size in [0, 1, 7, 8, 16, 55, 56, 60, len(whole) // 2, len(whole) - 1]:
        path.write_bytes(whole[:size])
        assert refusal(path).status in (Status.DATA_LOSS, Status.INVALID_ARGUMENT), size
    path.write_bytes(whole + b"\0")
    assert "were written" in refusal(path).message
    assert refusal(tmp_path / "none.xyla").status is Status.NOT_FOUND


def rewritten(whole: bytes, change: Callable[[dict[str, Any]], None]) -> bytes:
    """The file with another header and a right checksum."""
    (length,) = struct.unpack_from("<Q", whole, 48)
    header = json.loads(whole[56 : 56 + length])
    change(header)
    text = json.dumps(header).encode()
    blobs = whole[-(-(56 + length) // 64) * 64 :]
    body = struct.pack("<Q", len(text)) + text + bytes(-(56 + len(text)) % 64) + blobs
    size = 48 + len(body)
    return struct.pack("<8sQ32s", aot.MAGIC, size, hashlib.sha256(body).digest()) + body


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("version", "0.0.1", "written by xyla 0.0.1"),
        ("format", 99, r"\(format 99\)"),
        ("cpu", "i386", "compiled for .* i386, this is"),
        ("triple", "riscv64-linux", "compiled for riscv64-linux"),
        ("features", "+sse2,+warp-drive,-mmx", "with warp-drive, which this one lacks"),
    ],
)
def test_another_machine_or_version_is_refused(
    field: str, value: object, message: str, saved: Path, tmp_path: Path
) -> None:
    path = tmp_path / "other.xyla"
    path.write_bytes(rewritten(saved.read_bytes(), lambda header: header.update({field: value})))
    error = refusal(path)
    assert error.status is Status.FAILED_PRECONDITION
    assert error.hint == "compile it again here"
    assert re.search(message, error.message)


def test_headers_that_make_no_sense_are_refused(saved: Path, tmp_path: Path) -> None:
    """Any value of the header replaced by another, under a right checksum: an error or an executable, never a crash."""
    whole, path = saved.read_bytes(), tmp_path / "odd.xyla"
    rng = random.Random(1)
    path.write_bytes(rewritten(whole, lambda header: None))
    load_executable(path)
    refused = 0
    for _ in range(150):
        path.write_bytes(rewritten(whole, lambda header: _spoil(header, rng)))
        status = outcome(path)
        assert status in (Status.OK, Status.DATA_LOSS, Status.FAILED_PRECONDITION)
        refused += status is not Status.OK
    assert refused > 100


def outcome(path: Path) -> Status:
    try:
        load_executable(path)
    except XylaError as error:
        return error.status
    return Status.OK


def _spoil(value: Any, rng: random.Random) -> None:
    """Replaces one value somewhere inside."""
    while True:
        keys = list(value) if isinstance(value, dict) else list(range(len(value)))
        key = rng.choice(keys)
        inner = value[key]
        if isinstance(inner, (dict, list)) and inner and rng.random() < 0.8:
            value = inner
            continue
        value[key] = rng.choice([None, -1, 10**20, "junk", [], {}, [7, 7], 0.5, [0, 10**6]])
        return


SCRIPT = """
import sys
import numpy as np
from xyla.runtime import aot, compile_pool, llvm_compile, objects
def no(*_): raise AssertionError("compiled or parsed")
objects.compile_ir = objects.compile_images = llvm_compile.compile_ir = no
run = aot.load(sys.argv[1])
above = ("xyla.formats", "xyla.hlo", "xyla.codegen", "xyla.passes")
print(run()[0], any(name.startswith(above) for name in sys.modules))
"""


def test_a_fresh_process_compiles_and_parses_nothing(saved: Path, tmp_path: Path) -> None:
    env = {"PATH": "/usr/bin:/bin", "XYLA_CACHE_DIR": str(tmp_path / "empty"), "PYTHONPATH": ":".join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(saved)], capture_output=True, text=True, env=env, timeout=120, check=False
    )
    assert done.stdout.split() == ["7", "False"], done.stderr
    assert not (tmp_path / "empty").exists()


def test_programs_with_unknown_parts_are_an_error() -> None:
    program = Program("p", [], [], [], StepList("b", [object()]))  # type: ignore[list-item]
    with pytest.raises(XylaError, match="holds a object"):
        aot_codec.encode(program)
