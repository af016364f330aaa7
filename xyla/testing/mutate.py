"""Deterministic damage to an input: what a bad disk, a bad editor or a bad program does to a file.

`mutations(data, seed)` yields endless variants of one input; the same seed gives the same variants on every
run, so that a failure is reproduced by its seed and index alone. No mutation grows the input beyond twice its
size + 64 KiB.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator

Mutation = Callable[[bytes, random.Random], bytes]

_TOKEN = re.compile(rb"[A-Za-z_][\w.-]*|\d+|[^\s\w]")
_NUMBER = re.compile(rb"\d+")
_EXTREMES = (
    b"4611686018427387904",
    b"-1",
    b"0",
    b"9223372036854775807",
    b"18446744073709551616",
    b"1e400",
    b"999999",
)
_BRACKETS = b"(){}[]<>\"',:=%#@"


def _truncate(data: bytes, rng: random.Random) -> bytes:
    return data[: rng.randrange(len(data))]


def _drop_range(data: bytes, rng: random.Random) -> bytes:
    start = rng.randrange(len(data))
    return data[:start] + data[start + rng.randint(1, 64) :]


def _flip_bit(data: bytes, rng: random.Random) -> bytes:
    at = rng.randrange(len(data))
    return data[:at] + bytes([data[at] ^ (1 << rng.randrange(8))]) + data[at + 1 :]


def _insert_bytes(data: bytes, rng: random.Random) -> bytes:
    at = rng.randrange(len(data) + 1)
    return data[:at] + rng.randbytes(rng.randint(1, 8)) + data[at:]


def _bracket(data: bytes, rng: random.Random) -> bytes:
    at = rng.randrange(len(data))
    mark = bytes([rng.choice(_BRACKETS)])
    return data[:at] + mark * rng.choice((1, 1, 1, 1000)) + data[at + rng.randrange(2) :]


def _swap_lines(data: bytes, rng: random.Random) -> bytes:
    lines = data.split(b"\n")
    a, b = rng.randrange(len(lines)), rng.randrange(len(lines))
    lines[a], lines[b] = lines[b], lines[a]
    return b"\n".join(lines)


def _delete_line(data: bytes, rng: random.Random) -> bytes:
    lines = data.split(b"\n")
    del lines[rng.randrange(len(lines))]
    return b"\n".join(lines)


def _duplicate_line(data: bytes, rng: random.Random) -> bytes:
    lines = data.split(b"\n")
    at = rng.randrange(len(lines))
    return b"\n".join(lines[: at + 1] + lines[at:])


def _any_match(pattern: re.Pattern[bytes], data: bytes, rng: random.Random) -> re.Match[bytes] | None:
    start = rng.randrange(len(data))
    return pattern.search(data, start) or pattern.search(data)


def _delete_token(data: bytes, rng: random.Random) -> bytes:
    found = _any_match(_TOKEN, data, rng)
    return data[: found.start()] + data[found.end() :] if found else data


def _copy_token(data: bytes, rng: random.Random) -> bytes:
    source, target = _any_match(_TOKEN, data, rng), _any_match(_TOKEN, data, rng)
    if source is None or target is None:
        return data
    return data[: target.start()] + source.group() + data[target.end() :]


def _extreme_number(data: bytes, rng: random.Random) -> bytes:
    found = _any_match(_NUMBER, data, rng)
    return data[: found.start()] + rng.choice(_EXTREMES) + data[found.end() :] if found else data


def _misspell(data: bytes, rng: random.Random) -> bytes:
    found = _any_match(re.compile(rb"[A-Za-z]{3,}"), data, rng)
    if found is None:
        return data
    at = rng.randrange(found.start(), found.end() - 1)
    return data[:at] + data[at + 1 : at + 2] + data[at : at + 1] + data[at + 2 :]


KINDS: dict[str, Mutation] = {
    "truncate": _truncate,
    "drop-range": _drop_range,
    "flip-bit": _flip_bit,
    "insert-bytes": _insert_bytes,
    "bracket": _bracket,
    "swap-lines": _swap_lines,
    "delete-line": _delete_line,
    "duplicate-line": _duplicate_line,
    "delete-token": _delete_token,
    "copy-token": _copy_token,
    "extreme-number": _extreme_number,
    "misspell": _misspell,
}


def mutate(data: bytes, seed: int) -> tuple[str, bytes]:
    """One mutation of a non-empty `data`: (its kind, the damaged bytes); the same for the same seed."""
    rng = random.Random(seed)
    kind = rng.choice(list(KINDS))
    return kind, KINDS[kind](data, rng)


def mutations(data: bytes, seed: int = 0) -> Iterator[tuple[str, bytes]]:
    """Endless single mutations of `data`, each of one kind; one in four is damaged a second time."""
    while True:
        kind, damaged = mutate(data, seed)
        if seed % 4 == 3 and damaged:
            second, damaged = mutate(damaged, seed ^ 0x5EED)
            kind = f"{kind}+{second}"
        yield kind, damaged
        seed += 1
