"""Both levels below HLO, as text, for every model: mlir-opt takes it, and the runtime program reads back equal."""

import shutil
import subprocess
from pathlib import Path

import pytest

from xyla.clients.devices import Job
from xyla.compiler.driver import Compilation
from xyla.formats.detect import load_file
from xyla.hlo.module import Module
from xyla.lowering.lmhlo_text import print_module
from xyla.lowering.rt_reader import parse_program
from xyla.lowering.rt_text import print_program
from xyla.testing.data import ABSENT, shared_dir

MLIR_OPT = shutil.which("mlir-opt-19") or shutil.which("mlir-opt")


def models() -> list[Path]:
    shared = shared_dir()
    return sorted((shared / "models").glob("*.hlo")) if shared is not None else []


@pytest.fixture(scope="module")
def texts() -> list[tuple[str, str, str]]:
    """(name, LMHLO, runtime program) of each model."""
    if not models():
        pytest.skip(ABSENT)
    found = []
    for path in models():
        module = load_file(path)
        assert isinstance(module, Module)
        compilation = Compilation(Job(module).module)
        text = print_program(compilation.program)
        back = parse_program(text, path.name)
        assert (back.body, back.arguments, back.outputs) == (
            compilation.program.body,
            compilation.program.arguments,
            compilation.program.outputs,
        ), path.name
        found.append((path.stem, print_module(compilation.lmhlo), text))
    return found


def test_every_model_has_a_text_that_reads_back_equal(texts: list[tuple[str, str, str]]) -> None:
    assert len(texts) >= 48


@pytest.mark.skipif(MLIR_OPT is None, reason="mlir-opt (Debian's mlir-19-tools) is not installed")
@pytest.mark.parametrize("level", ["lmhlo", "rt"])
def test_mlir_opt_takes_the_text_of_every_model(level: str, texts: list[tuple[str, str, str]]) -> None:
    pieces = [lmhlo if level == "lmhlo" else rt for _, lmhlo, rt in texts]
    command = [str(MLIR_OPT), "--allow-unregistered-dialect", "-split-input-file", "-o", "/dev/null"]
    text = "\n// -----\n".join(pieces)
    done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr[:2000]
