from __future__ import annotations

import pytest

from xyla.formats import hlo_proto, hlo_text
from xyla.formats.detect import detect
from xyla.formats.hlo_proto import hlo_pb2 as pb

TEXT = "HloModule m\nENTRY e { ROOT p = f32[] parameter(0) }\n"


@pytest.mark.parametrize("length", [6, 9, 10, 13, 32, 35, 37, 128])
def test_a_module_proto_whose_first_bytes_look_like_text(length: int) -> None:
    proto = pb.HloProto.FromString(hlo_proto.to_bytes(hlo_text.parse(TEXT, "t"))).hlo_module
    proto.name = "module.xx" if length == 9 else "%" * length
    assert detect(proto.SerializeToString(), "x") == "proto"


@pytest.mark.parametrize("text", [TEXT, TEXT + "\x01", "\n% \x02 \xff"])
def test_a_damaged_text_is_still_a_text(text: str) -> None:
    assert detect(text.encode("latin-1"), "x") == "hlo"


def test_kinds() -> None:
    module = hlo_text.parse(TEXT, "t")
    assert detect(hlo_proto.to_bytes(module), "x") == "proto"
    assert detect(hlo_proto.to_text(module).encode(), "x") == "text-proto"
    assert detect(b"module { func.func @main() { return } }", "x") == "stablehlo"


def test_an_endless_number_is_not_read_through() -> None:
    assert detect(b"\n" + b"\x80" * 2_000_000 + b"\x01", "x") == "proto"
