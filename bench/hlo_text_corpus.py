"""HLO text over the corpus: loaded, round-tripped (equal, and text a fixpoint), refused with the reason; load speed.

python -m bench.hlo_text_corpus [EVERY]    (EVERY 10: one text in ten)
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterator
from time import perf_counter

from bench.tables import show
from xyla.formats.detect import load_file
from xyla.formats.hlo_text import parse
from xyla.hlo.equality import difference
from xyla.hlo.module import Module
from xyla.support.status import XylaError
from xyla.testing import data

_SPLIT = re.compile(r"^// -----[^\n]*\n", re.MULTILINE)


def labelled(kinds: tuple[str, ...], accepted: bool) -> Iterator[tuple[str, str]]:
    """(name, text) of the labelled texts of these kinds that the reference parser accepted, or did not."""
    for case in data.hlo_modules():
        if case.kind in kinds and not case.templated and (case.reference_parse == "ok") == accepted:
            yield f"{case.path.parent.name}/{case.path.name}", case.path.read_text()


def files() -> Iterator[tuple[str, str]]:
    """(name, text) of the modules in corpus/hlo; a file of several modules is split where its marks are."""
    for path in data.hlo_files():
        for piece in _SPLIT.split(path.read_text()):
            if re.sub(r"(//|#)[^\n]*", "", piece).strip():
                yield path.name, piece


def fault(module: Module) -> str:
    """What a round trip changes, long and short; "" for nothing."""
    text = str(module)
    try:
        back = parse(text, "printed")
    except XylaError as error:
        return f"its text is refused: {error.message}"
    if found := difference(module, back):
        return f"{found[0]} became {found[1]}"[:300]
    if str(back) != text:
        return "its text is no fixpoint"
    short = module.to_string(short=True)
    return "" if parse(short, "short").to_string(short=True) == short else "its short text is no fixpoint"


def row(title: str, texts: Iterator[tuple[str, str]], every: int, listed: bool) -> list[object]:
    """One table row; what fails is printed before the table when `listed`."""
    counts: Counter[str] = Counter()
    start = perf_counter()
    for name, text in list(texts)[::every]:
        counts["texts"] += 1
        try:
            module = load_file(text.encode(), name)
        except XylaError as error:
            counts["refused"] += 1
            if listed:
                print(error.render())
            continue
        counts["loaded"] += 1
        problem = fault(module) if isinstance(module, Module) else "not an HLO module"
        if problem:
            print(f"{name}: {problem}")
        counts["same"] += not problem
    return [title, *(counts[key] for key in ("texts", "loaded", "same", "refused")), perf_counter() - start]


def main(every: int) -> None:
    """Prints the tables."""
    rows = [
        row("modules", labelled(("module",), accepted=True), every, listed=True),
        row("other kinds", labelled(("module_noheader", "fragment", "module_frag"), True), every, listed=True),
        row("corpus/hlo", files(), every, listed=True),
        row("not taken by the reference parser", labelled(("module",), accepted=False), every, listed=False),
    ]
    show("HLO text", ("set", "texts", "loaded", "round-tripped", "refused", "s"), rows)
    speed = []
    for path in sorted(data.hlo_files(), key=lambda path: -path.stat().st_size)[:2]:
        text = path.read_text()
        start = perf_counter()
        module = parse(text, path.name)
        middle = perf_counter()
        str(module)
        speed.append((path.name, module.num_instructions, middle - start, perf_counter() - middle))
    show("largest texts", ("file", "instructions", "read s", "write s"), speed)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1)
