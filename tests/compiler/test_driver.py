"""The driver: stages, hooks, what is kept, alarms."""

from __future__ import annotations

import logging
import time

import numpy as np
import pytest

import xyla
from xyla.compiler.alarm import slow_operation
from xyla.compiler.driver import Compilation, CompileOptions
from xyla.hlo import ops, rewriter
from xyla.hlo.module import Module
from xyla.support.status import XylaError

ADD = """HloModule add
ENTRY e { x = f32[3] parameter(0)
          ROOT y = f32[3] add(x, x) }
"""
X = np.array([1, 2, 3], np.float32)


def square(module: Module) -> None:
    """x + x becomes x * x."""
    root = module.entry.root
    if root.op is ops.ADD:
        rewriter.replace_with(root, ops.MULTIPLY, root.operands)


@pytest.mark.parametrize("passes", ["default", "none"])
@pytest.mark.parametrize("point", ["before_passes", "after_passes"])
def test_hooks_see_and_change_the_compilations_own_module(passes: str, point: str) -> None:
    module = xyla.load(ADD)
    before = str(module)
    options = {"before_passes": CompileOptions(passes, before_passes=square)}
    options["after_passes"] = CompileOptions(passes, after_passes=square)
    (y,) = Compilation(module, options[point]).executable(X)
    np.testing.assert_array_equal(y, X * X)
    assert str(module) == before


def test_what_a_hook_breaks_is_found() -> None:
    def broken(module: Module) -> None:
        rewriter.set_shape(module.entry.root, module.entry.root.shape.tuple_of([module.entry.root.shape]))

    with pytest.raises(XylaError, match="add"):
        Compilation(xyla.load(ADD), CompileOptions(after_passes=broken)).executable(X)


def test_kernel_text_is_kept_on_request() -> None:
    module = xyla.load(ADD)
    assert Compilation(module).executable.ir_text == ""
    assert "fadd" in Compilation(module, CompileOptions(embed_ir=True)).executable.ir_text


def test_a_slow_operation_is_reported_while_it_runs(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "xyla"):
        with slow_operation("quick", 5):
            pass
        with slow_operation("compiling module 'm'", 0.01):
            time.sleep(0.1)
            assert "compiling module 'm' takes more than 0.01 s" in caplog.text
    assert "quick" not in caplog.text


def test_each_stage_is_there() -> None:
    compilation = Compilation(xyla.load(ADD))
    assert compilation.assignment.module.config.is_scheduled
    assert [op.name for op in compilation.lmhlo.entry.body.ops] == ["y"]
    assert compilation.program.kernel_names == [s.symbol for s in compilation.kernel_sources]
