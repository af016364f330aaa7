from __future__ import annotations

import io
import signal
import subprocess
import sys
import time
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from xyla.clients.cli.main import main

ADD = """HloModule add

ENTRY e {
  a = f32[4] parameter(0)
  b = f32[4] parameter(1)
  ROOT r = f32[4] add(a, b)
}
"""
A, B = np.arange(4, dtype=np.float32), np.full(4, 10, np.float32)


@pytest.fixture
def add(tmp_path: Path) -> str:
    path = tmp_path / "add.hlo"
    path.write_text(ADD)
    return str(path)


def archive(tmp_path: Path, **arrays: np.ndarray) -> str:
    path = tmp_path / "in.npz"
    np.savez(path, **arrays)
    return str(path)


@pytest.mark.parametrize("engine", ["compiled", "interpreted", "reference"])
def test_results_go_to_an_archive(engine: str, add: str, tmp_path: Path) -> None:
    out = tmp_path / "out.npz"
    assert main(["run", add, "--args", archive(tmp_path, arg0=A, arg1=B), "--out", str(out), "--engine", engine]) == 0
    with np.load(out) as results:
        assert results.files == ["out0"]
        np.testing.assert_array_equal(results["out0"], A + B)


def test_results_are_printed(add: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", add, "--args", archive(tmp_path, in0=A, in1=B)]) == 0
    assert capsys.readouterr().out == "out0 = f32[4]\n[10. 11. 12. 13.]\n"


def test_compare_with_the_evaluator(add: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", add, "--random-args", "0", "--compare"]) == 0
    out = capsys.readouterr().out
    assert "evaluator" in out
    assert "ok" in out


def test_a_wrong_stored_result_exits_1(add: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    args = archive(tmp_path, arg0=A, arg1=B, expected=A)
    assert main(["run", add, "--args", args, "--compare"]) == 1
    assert "4 differ" in capsys.readouterr().out
    assert main(["run", add, "--args", archive(tmp_path, arg0=A, arg1=B, out0=A + B), "--compare"]) == 0


def test_bench_and_stats(add: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", add, "--random-args", "1", "--bench", "3", "--stats"]) == 0
    out = capsys.readouterr().out
    assert "3 runs: min" in out
    for name in ("kernels: 1", "library calls: 0", "cache hits:", "compile ms:"):
        assert name in out


def test_standard_input(add: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(ADD.encode())))
    assert main(["run", "-", "--random-args", "0"]) == 0
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"HloModule x\n\nENTRY e {\n  ROOT a = f32[] ad(")))
    assert main(["run", "-"]) == 2
    assert "<stdin>:4:" in capsys.readouterr().err


def test_dumps(add: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "dump"
    monkeypatch.setenv("XLA_FLAGS", f"--xla_dump_to={folder} --xla_dump_hlo_as_proto")
    assert main(["run", add, "--random-args", "0"]) == 0
    suffixes = {path.suffix for path in folder.iterdir()}
    assert suffixes == {".txt", ".ll", ".pb"}
    reports = {path.stem.rpartition("-")[2] for path in folder.glob("*-*.txt")}
    assert reports == {"assignment", "range", "report", "thunk_schedule"}
    monkeypatch.setenv("XLA_FLAGS", f"--xla_dump_to={tmp_path / 'other'} --xla_dump_hlo_module_re=^mul")
    assert main(["run", add, "--random-args", "0"]) == 0
    assert not (tmp_path / "other").exists()


@pytest.mark.parametrize(
    ("extra", "text"),
    [
        ([], r"takes 2 argument(s): give --args or --random-args"),
        (["--args", "{short}"], "takes 2 argument(s), the archive has 1"),
        (["--args", "{wide}"], "f32[4]"),
        (["--args", "{typed}"], "f32[4]"),
        (["--args", "{short}", "--random-args", "0"], "give one"),
        (["--args", "/nonexistent.npz"], "cannot read"),
        (["--random-args", "0", "--engine", "reference", "--dump-to", "d"], "nothing to write"),
    ],
)
def test_wrong_arguments_exit_2(
    extra: list[str], text: str, add: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = {
        "short": {"arg0": A},
        "wide": {"arg0": A, "arg1": np.zeros(5, np.float32)},
        "typed": {"arg0": A, "arg1": np.zeros(4, np.float64)},
    }
    for name, arrays in files.items():
        np.savez(tmp_path / f"{name}.npz", **arrays)
    given = [word.format(**{name: tmp_path / f"{name}.npz" for name in files}) for word in extra]
    assert main(["run", add, *given]) == 2
    err = capsys.readouterr().err
    assert text in err
    assert "Traceback" not in err


def test_small_types_survive_the_archives(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "neg.hlo"
    path.write_text("HloModule n\n\nENTRY e {\n  a = bf16[3] parameter(0)\n  ROOT r = bf16[3] negate(a)\n}\n")
    value = np.array([1.5, -2, 0], ml_dtypes.bfloat16)
    args = archive(tmp_path, arg0=value, expected0=-value)
    assert main(["run", str(path), "--args", args, "--compare", "--out", str(tmp_path / "o.npz")]) == 0
    with np.load(tmp_path / "o.npz") as results:
        assert results["out0"].view(ml_dtypes.bfloat16).tolist() == [-1.5, 2, -0.0]


def test_what_is_not_implemented_exits_3(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    portable = tmp_path / "portable.bc"
    portable.write_bytes(b"ML\xefR\x01\x02")
    assert main(["run", str(portable)]) == 3


def test_ctrl_c_ends_an_endless_program(tmp_path: Path) -> None:
    path = tmp_path / "endless.hlo"
    path.write_text("""HloModule endless
yes { s = s32[] parameter(0)
      ROOT p = pred[] constant(true) }
step { s = s32[] parameter(0)
       ROOT t = s32[] add(s, s) }
ENTRY e { x = s32[] parameter(0)
          ROOT w = s32[] while(x), condition=yes, body=step }
""")
    dumps = tmp_path / "dumps"
    command = [sys.executable, "-m", "xyla.clients.cli.main", "run", str(path), "--random-args", "0"]
    process = subprocess.Popen([*command, "--dump-to", str(dumps)])
    while not list(dumps.glob("*.ll")):  # written when all but the kernels' code is there
        time.sleep(0.05)
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    assert process.wait(20) in (-signal.SIGINT, 130)
