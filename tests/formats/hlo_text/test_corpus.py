"""A sample of the shared corpus loads, and reads back as it was printed (bench/hlo_text_corpus.py takes all of it)."""

from __future__ import annotations

from pathlib import Path

from xyla.formats.hlo_text import parse
from xyla.hlo.equality import difference
from xyla.support.status import XylaError
from xyla.testing import data

EVERY = 16


def test_modules_round_trip(shared: Path) -> None:
    faults = []
    for case in [case for case in data.hlo_modules() if case.loadable][::EVERY]:
        try:
            module = parse(case.path.read_text(), case.path.name)
            text = str(module)
            back = parse(text, "printed")
        except XylaError as error:
            faults.append(error.render())
            continue
        if found := difference(module, back):
            faults.append(f"{case.path.name}: {found}")
        elif str(back) != text:
            faults.append(f"{case.path.name}: no fixpoint")
    assert not faults, "\n".join(faults)


def test_what_the_reference_parser_refuses_never_crashes(shared: Path) -> None:
    errors = []
    refused = [case for case in data.hlo_modules() if case.reference_parse != "ok"]
    for case in refused:
        try:
            str(parse(case.path.read_text(), case.path.name))
        except XylaError as error:
            errors.append(error)
    assert len(errors) > len(refused) * 0.6
    assert not [error.message for error in errors if error.span is None or not error.render()]
