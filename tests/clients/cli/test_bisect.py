from __future__ import annotations

import random
import re
import time
from pathlib import Path

import numpy as np
import pytest

from xyla.clients.cli.main import main

BROKEN = Path(__file__).parent / "data" / "broken_rules.py"

# What the wrong rule of each table meets, once, in a program of right rewrites.
SPOTS = {
    "square": "sq = s32[2,2] multiply(x, x)\n"
    '  size = s32[2,2] abs(sq), metadata={{source_file="model.py" source_line=42}}\n'
    "  {name} = s32[2,2] add({a}, size)",
    "subtract": "{name} = s32[2,2] subtract({a}, three)",
    "transpose": "flat = s32[1,4] reshape({a})\n  turned = s32[4,1] transpose(flat), dimensions={{1,0}}\n"
    "  opposite = s32[4,1] negate(turned)\n  {name} = s32[2,2] reshape(opposite)",
    "crash": "both = s32[2,2] or({a}, {a})\n  {name} = s32[2,2] xor(both, {b})",
    "hang": "both = s32[2,2] or({a}, {a})\n  {name} = s32[2,2] xor(both, {b})",
    "endless": "{name} = s32[2,2] add({a}, {b})",
}


def program(kind: str, size: int, seed: int = 0) -> str:
    """A module of `size` instructions and a few; integers, so that every difference counts."""
    rng = random.Random(seed)
    lines = ["x = s32[2,2] parameter(0)"]
    for name, value in (("two", 2), ("three", 3)):
        lines += [f"{name}.s = s32[] constant({value})", f"{name} = s32[2,2] broadcast({name}.s), dimensions={{}}"]
    values = ["x"]
    for i in range(size):
        # Each uses the last value, so that nothing is dead.
        a, b, name = values[-1], rng.choice(values[-8:-1] or values), f"v{i}"
        if i == size * 7 // 10:
            lines.append(SPOTS[kind].format(a=a, b=b, name=name))
        elif rng.random() < 0.3:
            right = f"or({b}, {b})" if kind in ("crash", "hang") else f"multiply({b}, two)"
            lines += [f"{name}.t = s32[2,2] {right}", f"{name} = s32[2,2] subtract({a}, {name}.t)"]
        else:
            lines.append(f"{name} = s32[2,2] subtract({a}, {b})")
        values.append(name)
    results = ", ".join(values[-6:])
    lines.append(f"ROOT r = ({', '.join(['s32[2,2]'] * 6)}) tuple({results})")
    return "HloModule big\n\nENTRY main {\n  " + "\n  ".join(lines) + "\n}\n"


def bisect(tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str, size: int, *more: str) -> tuple[int, str]:
    """Exit code and output of a search in a program of `kind`."""
    file = tmp_path / "program.hlo"
    file.write_text(program(kind, size))
    passes = more[0] if more and not more[0].startswith("-") else f"dce,broken{{rules={kind}}},dce"
    options = [m for m in more if m.startswith("-")]
    np.savez(tmp_path / "args.npz", arg0=np.array([[70000, 3], [-5, 90001]], np.int32))
    code = main([
        "bisect", str(file), f"--passes={passes}", f"--load-pass={BROKEN}", f"--args={tmp_path / 'args.npz'}",
        f"--out={tmp_path / 'out'}", *options,
    ])  # fmt: skip
    return code, capsys.readouterr().out


@pytest.mark.parametrize(
    ("kind", "size", "rule", "words"),
    [
        ("square", 2000, "abs_of_square", ["wrong result", "abs(%sq)", "multiply(", "model.py:42"]),
        ("subtract", 2000, "subtract_commutes", ["wrong result", "subtract(%", "%three)", "program.hlo:1"]),
        ("transpose", 300, "transpose_forgets_shape", ["ill-formed module", "transpose(%flat)"]),
        ("crash", 60, "or_of_same_is_and", ["crash", "exit code 70", "%both = ", "ends in a crash"]),
    ],
)
def test_the_rule_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str, size: int, rule: str, words: list[str]
) -> None:
    start = time.perf_counter()
    code, out = bisect(tmp_path, capsys, kind, size)
    assert time.perf_counter() - start < 30
    assert code == 1
    assert re.search(rf"rewrite \d+ of \d+, by rule {rule} in step broken", out), out
    for word in words:
        assert word in out, out
    before, after = ((tmp_path / "out" / f"{name}.hlo").read_text() for name in ("before", "after"))
    assert before != after
    with np.load(tmp_path / "out" / "args.npz") as archive:
        assert sorted(archive.files) == ["arg0", *(f"expected{i}" for i in range(6))]


def test_a_hang_is_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out = bisect(tmp_path, capsys, "hang", 10, "--timeout=2")
    assert code == 1
    assert "hang: no end after 2 s" in out
    assert "by rule or_of_same_is_and" in out
    assert "step broken ends in a hang" in out


def test_rules_that_undo_each_other_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out = bisect(tmp_path, capsys, "endless", 30, "--timeout=2")
    assert code == 1
    assert "step broken goes on rewriting" in out
    assert "add_commutes in step broken" in out


def test_a_change_without_permission_is_blamed_on_its_step(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out = bisect(tmp_path, capsys, "subtract", 60, "dce,unpermitted,dce")
    assert code == 1
    assert "step unpermitted is to blame, but not by a numbered rewrite" in out


def test_a_right_pipeline(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out = bisect(tmp_path, capsys, "square", 60, "dce")
    assert code == 0
    assert "no difference" in out


def test_a_tolerance_may_hide_a_difference(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "f.hlo"
    file.write_text(
        "HloModule f\nENTRY main {\n  x = f32[] parameter(0)\n  c = f32[] constant(3)\n"
        "  d = f32[] subtract(x, c)\n  e = f32[] constant(1000)\n  ROOT r = f32[] add(d, e)\n}\n"
    )
    common = ["bisect", str(file), "--passes=broken{rules=subtract}", f"--load-pass={BROKEN}", f"--out={tmp_path}"]
    assert main([*common, "--tolerance=0.5"]) == 0
    assert main(common) == 1
    assert "by at most" in capsys.readouterr().out


def test_a_bad_file_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bisect", str(tmp_path / "absent.hlo")]) == 2
    assert "cannot read" in capsys.readouterr().err


def test_validate_names_step_rewrite_and_distance(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "p.hlo"
    file.write_text(program("square", 100))
    np.savez(tmp_path / "args.npz", arg0=np.array([[70000, 3], [-5, 90001]], np.int32))
    common = ["validate", str(file), f"--load-pass={BROKEN}", f"--args={tmp_path / 'args.npz'}"]
    assert main([*common, "--passes=dce,broken{rules=square},dce"]) == 1
    out = capsys.readouterr().out
    assert re.search(r"dce +\d+ +\d+ +0 +ok", out)
    assert "step broken changes the results: result" in out
    assert "by rule abs_of_square" in out
    assert "model.py:42" in out
    assert main([*common, "--passes=dce"]) == 0
    assert "none changed its results" in capsys.readouterr().out
