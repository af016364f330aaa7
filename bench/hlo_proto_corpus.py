"""HLO text -> proto -> HLO text over the labelled corpus, and how fast protos are read and written.

python -m bench.hlo_proto_corpus [EVERY]    (EVERY 10: one module in ten)
"""

from __future__ import annotations

import sys
from collections import Counter
from time import perf_counter

import numpy as np

from bench.tables import show
from xyla.formats import hlo_proto, hlo_text
from xyla.hlo.literal import Literal
from xyla.hlo.module import Module
from xyla.support.status import XylaError
from xyla.testing import data


def difference(module: Module) -> tuple[str, str]:
    """How a module comes back from its proto: ("same" | "respelt" | "changed", what differs).

    Respelt: annotations that the IR keeps as text (shardings, configurations) have other spacing, the proto is equal.
    """
    try:
        written = hlo_proto.to_bytes(module)
        back = hlo_proto.load_bytes(written, "written")
    except XylaError as error:
        return "changed", error.message
    if hlo_proto.to_bytes(back) != written:
        return "changed", "the proto of what was read differs"
    before, after = str(module).splitlines(), str(back).splitlines()
    if before == after:
        return "same", ""
    if hlo_proto.to_bytes(hlo_text.parse(str(back), "back")) == written:
        return "respelt", ""
    first = next((pair for pair in zip(before, after, strict=False) if pair[0] != pair[1]), ("", ""))
    return "changed", "\n  became\n".join(first)


def corpus(every: int) -> list[str]:
    """Prints each module that does not come back unchanged; returns the counts as a table row."""
    counts: Counter[str] = Counter()
    for case in [case for case in data.hlo_modules() if case.loadable][::every]:
        counts["modules"] += 1
        try:
            module = hlo_text.parse(case.path.read_text(), case.path.name)
        except XylaError:
            counts["unread"] += 1
            continue
        verdict, problem = difference(module)
        counts[verdict] += 1
        if problem:
            print(f"{case.path.name}: {problem[:400]}")
    return ["corpus", *(str(counts[key]) for key in ("modules", "unread", "same", "respelt", "changed"))]


def speed() -> list[tuple[str, float, float, float]]:
    """(what, MB, seconds to write, seconds to read) of the largest texts and of large constants."""
    modules = []
    for path in sorted(data.hlo_files(), key=lambda path: -path.stat().st_size)[:2]:
        modules.append((path.name, hlo_text.parse(path.read_text(), path.name)))
    for kind in ("float32", "int32", "bool"):
        values = np.random.default_rng(0).integers(-(2**31), 2**31, 16_000_000).astype(kind)
        module = hlo_text.parse("HloModule m\nENTRY e { ROOT c = f32[] constant(0) }", "m")
        root, literal = module.entry.root, Literal.of(values)
        root.shape, root.attrs = literal.shape, type(root.attrs)(literal)
        modules.append((f"16 million {kind}", module))
    rows = []
    for name, module in modules:
        start = perf_counter()
        written = hlo_proto.to_bytes(module)
        middle = perf_counter()
        hlo_proto.load_bytes(written, name)
        rows.append((name, len(written) / 1e6, middle - start, perf_counter() - middle))
    return rows


def main(every: int) -> None:
    """Prints the tables."""
    show(
        "text -> proto -> text",
        ("set", "modules", "not read as text", "same text", "other spelling", "changed"),
        [corpus(every)],
    )
    show("speed", ("module", "MB", "write s", "read s"), speed())


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1)
