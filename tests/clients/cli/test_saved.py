"""`xyla compile -o`, `xyla run` on saved executables, and the options that watch a run."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from xyla.clients.cli.main import main

PROGRAM = """HloModule roots

ENTRY main {
  x = bf16[4] parameter(0)
  y = f32[2,2] parameter(1)
  z = f32[4] reshape(y)
  w = f32[4] convert(x)
  shifted = f32[4] subtract(w, z)
  ROOT root = f32[4] sqrt(shifted)
}
"""
Y = np.zeros((2, 2), np.float32)


@pytest.fixture
def program(tmp_path: Path) -> str:
    path = tmp_path / "roots.hlo"
    path.write_text(PROGRAM)
    return str(path)


@pytest.fixture
def saved(program: str, tmp_path: Path) -> Path:
    path = tmp_path / "roots.xyla"
    assert main(["compile", program, "-o", str(path)]) == 0
    return path


def archive(tmp_path: Path, values: list[float], **more: np.ndarray) -> str:
    import ml_dtypes

    path = tmp_path / "in.npz"
    np.savez(path, arg0=np.array(values, ml_dtypes.bfloat16), arg1=Y, **more)
    return str(path)


def test_a_saved_executable_runs(saved: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert main(["run", str(saved), "--args", archive(tmp_path, [4, 9, 16, 1])]) == 0
    assert capsys.readouterr().out == "out0 = f32[4]\n[2. 3. 4. 1.]\n"
    assert main(["run", str(saved), "--random-args", "0", "--stats", "--engine", "interpreted"]) == 0
    assert "kernels: 3" in capsys.readouterr().out


REPLICAS = """HloModule sums, replica_count=2

add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}

ENTRY e {
  x = f32[3] parameter(0)
  ROOT r = f32[3] all-reduce(x), replica_groups={}, to_apply=add
}
"""


@pytest.mark.parametrize("lead", [(), (2,)])
def test_a_saved_executable_runs_on_all_its_devices(
    lead: tuple[int, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, saved, args, out = (tmp_path / name for name in ("s.hlo", "s.xyla", "a.npz", "o.npz"))
    source.write_text(REPLICAS)
    x = np.arange(6 if lead else 3, dtype=np.float32).reshape(*lead, 3)
    np.savez(args, arg0=x)
    assert main(["compile", str(source), "-o", str(saved)]) == 0
    for file in (source, saved):
        assert main(["run", str(file), "--args", str(args), "--out", str(out)]) == 0
        want = x.sum(0) if lead else 2 * x
        with np.load(out) as results:
            np.testing.assert_array_equal(results["out0"], np.stack([want, want]))


def test_results_of_a_saved_executable_are_compared_with_the_archive(saved: Path, tmp_path: Path) -> None:
    right = archive(tmp_path, [4, 9, 16, 1], expected0=np.array([2, 3, 4, 1], np.float32))
    assert main(["run", str(saved), "--args", right, "--compare"]) == 0
    wrong = archive(tmp_path, [4, 9, 16, 1], expected0=np.array([2, 3, 4, 2], np.float32))
    assert main(["run", str(saved), "--args", wrong, "--compare"]) == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--engine", "reference"], "the reference engine needs the program itself"),
        (["--compare"], "--compare needs expected results"),
        (["--break", "rot"], "no step 'rot'"),
        (["--passes=dce"], "--passes comes too late"),
        (["--fp", "fast"], "--fp comes too late"),
        (["--dump-to", "dumps"], "--dump-to comes too late"),
    ],
)
def test_what_a_saved_executable_cannot_do(
    options: list[str], message: str, saved: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", str(saved), "--random-args", "0", *options]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("command", ["opt", "memory", "validate", "compile"])
def test_a_saved_executable_is_no_program(command: str, saved: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert main([command, str(saved), *(["--stage=hlo"] if command == "compile" else [])]) == 2
    assert "is a saved executable, not a program" in capsys.readouterr().err


def test_where_a_saved_executable_cannot_be(saved: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import xyla

    executable = xyla.load_executable(saved)
    for place in (tmp_path, tmp_path / "absent" / "a.xyla"):
        with pytest.raises(xyla.XylaError, match=f"cannot write {place}: "):
            executable.save(place)
    assert not list(tmp_path.glob(".xyla-*"))
    with pytest.raises(xyla.XylaError, match="Is a directory"):
        xyla.load_executable(tmp_path)


@pytest.mark.parametrize("damage", ["flip", "cut", "junk", "text"])
def test_a_damaged_file_is_one_message_and_exit_2(damage: str, saved: Path, capsys: pytest.CaptureFixture[str]) -> None:
    whole = saved.read_bytes()
    at = len(whole) // 2
    flipped = whole[:at] + bytes([whole[at] ^ 8]) + whole[at + 1 :]
    saved.write_bytes({"flip": flipped, "cut": whole[:-1], "junk": b"\0" * 99, "text": PROGRAM.encode()}[damage])
    capsys.readouterr()
    assert main(["run", str(saved), "--random-args", "0"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(("DATA_LOSS: ", "INVALID_ARGUMENT: "))
    assert err.count("\n") <= 2


def test_the_first_nan_ends_the_run(program: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", program, "--args", archive(tmp_path, [4, -9, 16, 1]), "--check-nan"]) == 2
    assert "makes the first NaN: output 0[1], 1 of 4 elements" in capsys.readouterr().err
    assert main(["run", program, "--args", archive(tmp_path, [4, 9, 16, 1]), "--check-nan"]) == 0


def test_steps_are_shown(program: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace, args = tmp_path / "trace.json", archive(tmp_path, [4, 9, 16, 1])
    assert main(["run", program, "--args", args, "--trace", "--profile", "--chrome-trace", str(trace)]) == 0
    out = capsys.readouterr().out
    assert "  in0 = bf16[4] [4, 9, 16, 1]" in out
    assert "  out0 = f32[4] [2., 3., 4., 1.]" in out
    assert "step" in out
    events = json.loads(trace.read_text())["traceEvents"]
    assert len(events) == 3
    for event in events:
        assert event["ph"] == "X"
        assert f"%{event['name']} (kernel)" in out


def test_a_breakpoint_shows_its_step(program: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    args = archive(tmp_path, [4, 9, 16, 1])
    assert main(["run", program, "--args", args, "--trace"]) == 0
    name = capsys.readouterr().out.split(" ", 1)[0]
    assert main(["run", program, "--args", args, "--break", name]) == 0
    assert f"stopped behind {name}\n" in capsys.readouterr().out


def test_watching_needs_steps(program: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", program, "--random-args", "0", "--engine", "reference", "--trace"]) == 2
    assert "no steps to watch" in capsys.readouterr().err
