"""`xyla memory`: its report, the limit's exit code, sizes, bad input."""

from __future__ import annotations

from pathlib import Path

import pytest

from xyla.clients.cli.main import main
from xyla.clients.cli.memory import parse_size
from xyla.formats.hlo_proto import hlo_pb2 as pb
from xyla.support.status import XylaError

PROGRAM = """
HloModule demo
add { x = f32[] parameter(0) y = f32[] parameter(1) ROOT r = f32[] add(x, y) }
ENTRY e {
  p = f32[1000] parameter(0)
  z = f32[] constant(0)
  s = f32[1000,100] broadcast(p), dimensions={0}, metadata={op_name="spread" source_file="net.py" source_line=12}
  ROOT r = f32[1000] reduce(s, z), dimensions={1}, to_apply=add
}
"""


@pytest.fixture
def program(tmp_path: Path) -> str:
    path = tmp_path / "demo.hlo"
    path.write_text(PROGRAM)
    return str(path)


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = main(["memory", *arguments])
    out, err = capsys.readouterr()
    return code, out, err


def test_report(program: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, program, "--passes=none")
    assert (code, err) == (0, "")
    assert out.startswith("demo needs 398.44KiB\n")
    assert "temporaries 390.62KiB; no packing needs less than 390.62KiB" in out
    assert "net.py:12   %s f32[1000,100]" in out
    assert "donate argument 0" not in out  # it would save less than 2%
    assert "░" in out
    assert "▁" in out or "█" in out


def test_limit(program: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, program, "--passes=none", "--limit", "1MiB")[0] == 0
    code, out, _ = run(capsys, program, "--passes=none", "--limit=100KiB")
    assert code == 1
    assert out.splitlines()[-1] == "398.44KiB: over the limit of 100.00KiB by 298.44KiB"


def test_dumps(program: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, program, "--dump-to", str(tmp_path / "d"))[0] == 0
    assert sorted(p.name for p in (tmp_path / "d").iterdir()) == [
        "demo-buffer-assignment.txt", "demo-live-range.txt", "demo-memory-usage-report.txt",
    ]  # fmt: skip


def test_the_dumped_proto_is_the_program_with_its_buffers(
    program: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(capsys, program, "--passes=none", "--dump-to", str(tmp_path), "--dump-proto")[0] == 0
    proto = pb.HloProto.FromString((tmp_path / "demo.hlo.pb").read_bytes())
    names = {i.id: i.name for c in proto.hlo_module.computations for i in c.instructions}
    buffers = proto.buffer_assignment.logical_buffers
    assert [b.defined_at.instruction_name for b in buffers] == [names[b.defined_at.instruction_id] for b in buffers]
    assert main(["opt", str(tmp_path / "demo.hlo.pb"), "--verify"]) == 0
    assert "is_scheduled=true" in capsys.readouterr().out


def test_bad_input(program: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = run(capsys, program, "--limit", "lots")
    assert code == 2
    assert "'lots' is not a size" in err
    assert run(capsys, program + "x")[0] == 2


@pytest.mark.parametrize(
    ("text", "bytes_"),
    [("4096", 4096), ("8GiB", 8 << 30), ("500MB", 500_000_000), ("1.5 k", 1500), ("2Mi", 2 << 20), ("3b", 3)],
)
def test_sizes(text: str, bytes_: int) -> None:
    assert parse_size(text) == bytes_


@pytest.mark.parametrize("text", ["", "GiB", "-1", "1iB", "1e9", "8 EiB"])
def test_no_sizes(text: str) -> None:
    with pytest.raises(XylaError):
        parse_size(text)
