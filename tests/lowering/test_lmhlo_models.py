"""Whole programs as LMHLO: loops, fusions and products of the speed models verify and read back; loops copy nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from xyla.compiler.driver import Compilation
from xyla.formats.hlo_text import parse as parse_hlo
from xyla.lowering import lmhlo
from xyla.lowering.lmhlo_reader import parse
from xyla.lowering.lmhlo_text import print_module
from xyla.lowering.lmhlo_verify import verify
from xyla.testing import data


@pytest.mark.parametrize("name", ["kvcache_loop256", "while_scalar_1M", "lstm_scan128", "mlp_train_step"])
def test_a_model_reads_back_equal(name: str, shared: Path) -> None:
    path = next(m.hlo for m in data.models() if m.name == name)
    module = Compilation(parse_hlo(path.read_text(), name)).lmhlo
    verify(module)
    text = print_module(module)
    assert parse(text, name) == module
    for loop in (op for op in module.entry.body.walk() if isinstance(op, lmhlo.While)):
        assert not [op for op in loop.body.ops if isinstance(op, lmhlo.Copy)]
