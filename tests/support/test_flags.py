from __future__ import annotations

from pathlib import Path

import pytest

from xyla.support import flags
from xyla.support.status import Status, XylaError


def failure(text: str) -> XylaError:
    with pytest.raises(XylaError) as caught:
        flags.parse(text)
    assert caught.value.status is Status.INVALID_ARGUMENT
    return caught.value


def test_types_follow_the_fields() -> None:
    got = flags.parse(
        "--xla_dump_to=/d --xla_dump_hlo_as_proto --xla_cpu_enable_fast_math=false "
        "--xla_disable_hlo_passes=dce,cse --xla_force_host_platform_device_count=8"
    ).flags
    assert got.xla_dump_to == "/d"
    assert got.xla_dump_hlo_as_proto is True
    assert got.xla_cpu_enable_fast_math is False
    assert got.xla_disable_hlo_passes == ("dce", "cse")
    assert got.xla_force_host_platform_device_count == 8


def test_quotes_protect_blanks() -> None:
    assert flags.parse("""--xla_dump_to="a b" '--xla_dump_hlo_pass_re=x y'""").flags.xla_dump_to == "a b"


def test_xyla_flags_win_over_xla_flags() -> None:
    env = {"XLA_FLAGS": "--xla_dump_to=a --xla_dump_hlo_as_proto", "XYLA_FLAGS": "--xla_dump_to=b"}
    got = flags.from_environment(env).flags
    assert (got.xla_dump_to, got.xla_dump_hlo_as_proto) == ("b", True)


def test_unknown_flag_suggests_and_locates() -> None:
    error = failure("--xla_dump_hlo_as_proto --xla_dmp_to=x")
    assert "XLA_FLAGS:1:25" in error.render()
    assert error.hint == "did you mean --xla_dump_to?"


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("--xla_dump_to", "needs a value"),
        ("--xla_dump_hlo_as_proto=maybe", "expected true or false"),
        ("--xla_force_host_platform_device_count=many", "expected an integer"),
        ("--xla_force_host_platform_device_count=0", "1 to 4096"),
        ("--xla_dump_hlo_pass_re=(", "not a regular expression"),
        ("--xla_dump_to='x", "quote is not closed"),
        ("stray", "unknown flag"),
    ],
)
def test_bad_values_are_refused(text: str, part: str) -> None:
    assert part in failure(text).message


def test_flags_without_effect_are_named() -> None:
    assert flags.parse("--xla_gpu_autotune_level=0").ignored == ("xla_gpu_autotune_level",)


def test_a_file_may_hold_the_flags(tmp_path: Path) -> None:
    path = tmp_path / "flags"
    path.write_text("--xla_dump_to=z\n--xla_dump_hlo_as_proto\n")
    assert flags.from_environment({"XLA_FLAGS": str(path)}).flags.xla_dump_to == "z"
    with pytest.raises(XylaError, match="names a file of flags"):
        flags.from_environment({"XLA_FLAGS": str(tmp_path / "absent")})


def test_every_field_is_described_and_readable() -> None:
    for name, kind, _default, text in flags.describe():
        assert kind in flags._READERS, name
        assert text.endswith("."), name


def test_the_documentation_lists_every_flag() -> None:
    text = (Path(__file__).parents[2] / "docs" / "flags.md").read_text()
    for name, kind, default, about in flags.describe():
        row = f"| `{name}` | {kind} | `{default}` | {about} |".replace("``", "").replace("|  |", "| |")
        assert row in text, name
    for name, why in flags.WITHOUT_EFFECT.items():
        assert f"| `{name}` | {why} |" in text
