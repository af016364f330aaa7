from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from xyla.formats.hlo_proto import annotations as notes
from xyla.formats.hlo_proto import hlo_pb2 as pb
from xyla.support.status import Status, XylaError

PAIRS: dict[str, tuple[type[Any], Callable[..., None], Callable[..., str]]] = {
    "origin": (pb.OriginalValueProto, notes.write_origin, notes.print_origin),
    "statistics": (pb.StatisticsViz, notes.write_statistics, notes.print_statistics),
    "accuracy": (pb.ResultAccuracy, notes.write_accuracy, notes.print_accuracy),
    "domain": (pb.HloInstructionProto, notes.write_domain, notes.print_domain),
}


def both_ways(what: str, text: str) -> str:
    kind, write, show = PAIRS[what]
    proto = kind()
    write(text, proto)
    return show(proto)


@pytest.mark.parametrize(
    ("what", "text"),
    [
        ("origin", '{{"constant"}}'),
        ("origin", '{{"while" {0}}}'),
        ("origin", '{({"while" {0}}, {"while" {1,2}})}'),
        ("origin", '{(({}, {"v2"}), {"v3"})}'),
        ("origin", '{({"a"}, (({"b"}), ({"c"}, {"d"})))}'),
        ("origin", "{[synthetic_call]}"),
        ("statistics", "{visualizing_index=1,stat-1=33.2,stat-2=44}"),
        ("accuracy", "{tolerance={atol=0,rtol=0.5,ulps=3}}"),
        ("accuracy", "{mode=highest}"),
        ("domain", '{kind="sharding", entry={maximal device=0}, exit={{replicated}, {manual}}}'),
    ],
)
def test_text_and_back(what: str, text: str) -> None:
    assert both_ways(what, text) == text


@pytest.mark.parametrize(
    ("what", "text"),
    [
        ("origin", '{{"a"}'),
        ("origin", "{(,)}"),
        ("statistics", "{stat-1=x}"),
        ("accuracy", "{1.5}"),
        ("accuracy", "{mode=fast}"),
        ("accuracy", "{tolerance={ulps=0.5}}"),
        ("domain", '{kind="other", entry={replicated}}'),
        ("domain", "{entry={replicated}"),
    ],
)
def test_forms_without_a_proto_are_refused(what: str, text: str) -> None:
    with pytest.raises(XylaError) as caught:
        both_ways(what, text)
    assert caught.value.status is Status.UNIMPLEMENTED


def test_original_values_that_describe_no_tree() -> None:
    for indices in ([[1]], [[0], [2]], [[0], [0]], [[0], [0, 1]], [[0] * 200]):
        proto = pb.OriginalValueProto()
        for index in indices:
            proto.elements.add(shape_index=index)
        with pytest.raises(XylaError) as caught:
            notes.print_origin(proto)
        assert caught.value.status is Status.INVALID_ARGUMENT


@pytest.mark.parametrize(
    ("text", "data"),
    [
        ('{"a":{"b":1}}', b'{"a":{"b":1}}'),
        ('{"brace":"}"}', b'{"brace":"}"}'),
        ('"plain"', b"plain"),
        ('"a\\"b\\n\\001\\377"', b'a"b\n\x01\xff'),
        ('"{not json"', b"{not json"),
        ('"{} {}"', b"{} {}"),
    ],
)
def test_backend_configurations(text: str, data: bytes) -> None:
    assert notes.backend_config_bytes(text) == data
    assert notes.backend_config_text(data) == text
