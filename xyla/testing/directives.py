"""Finds check directives that filecheck would silently ignore."""

from __future__ import annotations

import re
from collections.abc import Iterator
from difflib import SequenceMatcher

_PREFIX_OPTION = re.compile(r"--?check-prefix(?:es)?[= ]([\w,-]+)")
_SUFFIX = r"(?:-(?:DAG|COUNT-\d+|NOT|EMPTY|NEXT|SAME|LABEL))?(?:\{LITERAL\})?:"
_COMMENT_WORD = re.compile(r"^\s*(?://+|#+|;+)\s*([A-Za-z][\w-]*(?:\{\w*\})?)\s*(:?)")


def prefixes_of(commands: list[str]) -> list[str]:
    """The check prefixes that a test's RUN lines name; CHECK where a filecheck names none."""
    found: dict[str, None] = {}
    for command in commands:
        for stage in command.split("|"):
            words = stage.split()
            if not words or words[0].lower() != "filecheck":
                continue
            named = [prefix for group in _PREFIX_OPTION.findall(stage) for prefix in group.split(",")]
            found.update(dict.fromkeys(named or ["CHECK"]))
    return list(found)


def misspelt_directives(text: str, commands: list[str]) -> list[str]:
    """`line: complaint` for each line that looks like a directive but is none, and each prefix never used."""
    prefixes = prefixes_of(commands)
    if not prefixes:
        return []
    alternatives = "|".join(map(re.escape, sorted(prefixes, key=len, reverse=True)))
    valid = re.compile(rf"(?:^|[^\w-])(?:{alternatives}){_SUFFIX}")
    shaped = re.compile(rf"(?<![\w-])(?:{alternatives})[\w-]*(?:\{{\w*\}})?\s*:")
    wrong = [
        f"{number}: not a check directive: {line.strip()!r}"
        for number, line in enumerate(text.splitlines(), 1)
        if not re.search(r"\b(?:RUN|COM)\s*:", line)
        and not valid.search(line)
        and (shaped.search(line) or _resembles(line, prefixes))
    ]
    return wrong + list(_unused(text, prefixes))


def _resembles(line: str, prefixes: list[str]) -> bool:
    """A comment whose first word is a misspelt prefix: CHEKC:, check-next:, `CHECK NEXT:`, `CHECK-NEXT x`."""
    match = _COMMENT_WORD.match(line)
    if match is None:
        return False
    word, colon = match.groups()
    head = word.split("{")[0]
    for prefix in prefixes:
        if head == prefix or head.startswith(prefix + "-"):
            return True
        if colon and head.upper().startswith(prefix):
            return True
        if colon and SequenceMatcher(None, head.upper()[: len(prefix) + 1], prefix).ratio() > 0.75:
            return True
    return False


def _unused(text: str, prefixes: list[str]) -> Iterator[str]:
    for prefix in prefixes:
        if not re.search(rf"(?:^|[^\w-]){re.escape(prefix)}{_SUFFIX}", text, re.M):
            yield f"1: no directive has the prefix {prefix}, which a RUN line names"
