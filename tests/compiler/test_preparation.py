"""What a compilation does between optimising and assigning buffers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import xyla
from xyla.compiler.driver import Compilation, CompileOptions
from xyla.formats.hlo_text import parse
from xyla.hlo import ops
from xyla.targets.cpu.pipeline import pipelines

LOOP = """HloModule loop
body {
  s = (s32[], f32[8]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[8] get-tuple-element(s), index=1
  one.1-a = s32[] constant(1)
  n = s32[] add(i, one.1-a)
  v = f32[1] dynamic-slice(x, i), dynamic_slice_sizes={1}
  w = f32[1] exponential(v)
  y = f32[8] dynamic-update-slice(x, w, i)
  ROOT t = (s32[], f32[8]) tuple(n, y)
}
cond {
  s = (s32[], f32[8]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  k = s32[] constant(8)
  ROOT c = pred[] compare(i, k), direction=LT
}
ENTRY main {
  x = f32[8] parameter(0)
  z = s32[] constant(0)
  dead = f32[8] exponential(x)
  t = (s32[], f32[8]) tuple(z, x)
  ROOT w = (s32[], f32[8]) while(t), condition=cond, body=body
}
"""
STEPS = [step.name for step in pipelines()["emit-preparation"].flat()]


def prepared(text: str, **options: object) -> Compilation:
    done = Compilation(parse(text), CompileOptions(**options))  # type: ignore[arg-type]
    assert done.assignment.module.config.is_scheduled
    return done


def names(done: Compilation) -> set[str]:
    return {inst.name for inst in done.assignment.module.instructions()}


def test_a_program_is_prepared_step_by_step() -> None:
    done = prepared(LOOP, passes="none")
    assert "one_1_a" in names(done)
    assert "dead" not in names(done)
    ordered = [i for i in done.assignment.module.instructions() if i.control_predecessors]
    assert {i.op for i in ordered} == {ops.ADD, ops.DYNAMIC_UPDATE_SLICE}
    x = np.linspace(0, 1, 8, dtype=np.float32)
    stats = done.executable.stats
    assert list(stats.preparation_times) == STEPS
    assert 0 < sum(stats.preparation_times.values()) <= stats.preparation_ms <= stats.compile_ms
    np.testing.assert_allclose(done.executable(x)[1], np.exp(x), rtol=1e-6)


def test_flags_leave_what_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(
        "XLA_FLAGS", "--xla_disable_hlo_passes=sanitize-constant-names,copy-insertion,hlo_memory_scheduler"
    )
    done = prepared(LOOP, passes="none")
    assert "one.1-a" in names(done)
    assert "dead" not in names(done)
    monkeypatch.setenv("XLA_FLAGS", "--xla_disable_all_hlo_passes")
    done = prepared(LOOP)
    assert {"one.1-a", "dead"} <= names(done)
    x = np.linspace(0, 1, 8, dtype=np.float32)
    np.testing.assert_allclose(done.executable(x)[1], np.exp(x), rtol=1e-6)


def test_a_returned_parameter_is_aliased_where_the_module_asks() -> None:
    text = "HloModule m{}\nENTRY main {{\n  x = f32[8] parameter(0)\n  ROOT t = (f32[8]) tuple(x)\n}}\n"
    asked = prepared(text.format(", alias_passthrough_params=true"))
    assert [a.parameter for a in asked.assignment.module.config.input_output_aliases] == [0]
    x = np.arange(8, dtype=np.float32)
    (result,) = asked.executable.execute([x], donate=[0])
    assert np.shares_memory(result, x)
    assert not prepared(text.format("")).assignment.module.config.input_output_aliases


def test_dumps_go_on_where_those_of_the_passes_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XLA_FLAGS", f"--xla_dump_to={tmp_path} --xla_dump_hlo_pass_re=^(final-dce|copy-insertion)$")
    xyla.compile(LOOP)
    found = sorted(p.name for p in tmp_path.glob("module_*"))
    assert all(name.startswith(f"module_0001.loop.{i:04d}.") for i, name in enumerate(found))
    middles = [name.removeprefix(f"module_0001.loop.{i:04d}.") for i, name in enumerate(found)]
    assert middles[-2:] == [
        "emit-preparation.after_hlo-memory-scheduler.before_copy-insertion.txt",
        "emit-preparation.after_copy-insertion.before_pipeline-end.txt",
    ]
    assert middles[0].startswith(("cpu.", "simplification."))
    assert " copy(" in (tmp_path / found[-1]).read_text()
