"""`xyla compile --stage`: every stage of one program, from each language, and what it refuses."""

from pathlib import Path

import numpy as np
import pytest

import xyla
from xyla.clients.cli.main import main

HLO = """HloModule axpy
ENTRY main {
  x = f32[8] parameter(0)
  y = f32[8] parameter(1)
  two = f32[] constant(2)
  b = f32[8] broadcast(two), dimensions={}
  m = f32[8] multiply(x, b)
  ROOT r = f32[8] add(m, y)
}
"""
STAGES = {
    "hlo": "ROOT ",
    "schedule": "is_scheduled=true",
    "buffers": "BufferAssignment:",
    "lmhlo": '"lmhlo.add"',
    "rt": 'rt.direct_custom_call = "xla.gpu.func.launch"',
    "llvm": "define void @xyla_",
    "asm": ".globl\txyla_",
}
X = np.arange(8, dtype=np.float32)


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "axpy.hlo"
    path.write_text(HLO)
    return path


def stage(path: Path, name: str, capsys: pytest.CaptureFixture[str]) -> str:
    assert main(["compile", str(path), "--stage", name]) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("name", STAGES)
def test_each_stage_is_printed(name: str, program: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = stage(program, name, capsys)
    assert STAGES[name] in text
    assert text == stage(program, name, capsys)


@pytest.mark.parametrize("level", ["lmhlo", "rt"])
def test_a_stage_below_hlo_goes_on_from_its_text(level: str, program: Path, capsys: pytest.CaptureFixture[str]) -> None:
    written = program.with_suffix(f".{level}.mlir")
    assert main(["compile", str(program), "--stage", level, "-o", str(written)]) == 0
    assert stage(written, "llvm", capsys) == stage(program, "llvm", capsys)
    np.savez(program.with_suffix(".npz"), arg0=X, arg1=X)
    out = program.with_suffix(".out.npz")
    assert main(["run", str(written), "--args", str(program.with_suffix(".npz")), "--out", str(out)]) == 0
    assert np.load(out)["out0"].tobytes() == xyla.run(HLO, [X, X])[0].tobytes()
    saved = program.with_suffix(".xyla")
    assert main(["compile", str(written), "-o", str(saved)]) == 0
    assert xyla.load_executable(saved)(X, X)[0].tobytes() == xyla.run(HLO, [X, X])[0].tobytes()


def test_what_makes_no_sense_is_refused(program: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compile", str(program)]) == 2
    assert "give -o MODEL.xyla or --stage" in capsys.readouterr().err
    below = program.with_suffix(".lmhlo.mlir")
    assert main(["compile", str(program), "--stage", "lmhlo", "-o", str(below)]) == 0
    assert main(["compile", str(below), "--stage", "buffers"]) == 2
    assert "starts below HLO: it is lmhlo already" in capsys.readouterr().err
    assert main(["compile", str(below), "--stage", "rt", "--lowering", "lmhlo-to-gpu"]) == 2
    assert "is not lmhlo-to-rt" in capsys.readouterr().err
    assert main(["run", str(below), "--random-args", "1", "--engine", "reference"]) == 2
    assert "the reference engine needs the program itself" in capsys.readouterr().err
