"""Helpers of the evaluator's tests: HLO text in, arrays out."""

from __future__ import annotations

from typing import Any

import numpy as np

import xyla.interp
from xyla.formats.hlo_text import parse

ADD = "add { a = T[] parameter(0) b = T[] parameter(1) ROOT r = T[] add(a, b) }"


def run(body: str, *args: Any, computations: str = "", **options: Any) -> list[np.ndarray]:
    """Evaluates `ENTRY e { body }` after the given computations."""
    text = f"HloModule m\n{computations}\nENTRY e {{\n{body}\n}}\n"
    return xyla.interp.run(parse(text, "test"), args, **options)


def one(body: str, *args: Any, computations: str = "", **options: Any) -> np.ndarray:
    """The only result of `run`."""
    (result,) = run(body, *args, computations=computations, **options)
    return result


def apply(op: str, dtype: str, *args: Any, result: str = "", attrs: str = "") -> np.ndarray:
    """One element-wise op on vectors (lists or arrays) of `dtype`; `result` is its element type if another."""
    from xyla.support.dtypes import by_name

    arrays = [a if isinstance(a, np.ndarray) else np.array(a).astype(by_name(dtype).np) for a in args]
    n = arrays[0].size
    params = "\n".join(f"p{i} = {by_numpy_name(a)}[{n}] parameter({i})" for i, a in enumerate(arrays))
    names = ", ".join(f"p{i}" for i in range(len(arrays)))
    return one(f"{params}\nROOT r = {result or dtype}[{n}] {op}({names}){attrs}", *arrays)


def by_numpy_name(a: np.ndarray) -> str:
    """The HLO name of an array's element type."""
    from xyla.support.dtypes import by_numpy

    return by_numpy(a.dtype).name


def bits(a: np.ndarray) -> list[int]:
    """The bit patterns of an array: tells -0 from +0 and NaN from NaN."""
    return np.ascontiguousarray(a).view(f"u{a.dtype.itemsize}").reshape(-1).tolist()
