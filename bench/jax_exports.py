"""The table of exported JAX programs: each with recorded results runs and is compared with them.

    python bench/jax_exports.py [--engine reference|compiled] [--filter REGEX] [--all]

Equal to a tolerance by dtype. Eigenvalue, singular value and Schur decompositions, whose vectors are unique only up to
a phase and an order, may instead rebuild the matrix that the recorded ones rebuild, with orthonormal vectors. Prints
what does neither (--all: everything). Exit code 1 if a program fails that is not listed here with a reason.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

Arrays = list[np.ndarray]
# Why these cannot match: kernels of other hardware, and an init value that one backend adds several times.
EXPECTED = {
    "mosaic_gpu_add_one__kernel_data_2025_09_07": "a GPU kernel in the call",
    "mosaic_gpu_add_one__kernel_data_2026_06_12": "a GPU kernel in the call",
    "mosaic_matmul__data_2024_09_24": "a TPU kernel in the call",
    "tpu_stablehlo_dynamic_reduce_window__data_variadic_2023_06_17": "the init value, 1, was counted nine times",
}
TWO_DEVICES = {
    "shardy_sharding_ops_with_different_meshes__data_2025_06_30",
    "tpu_Sharding__data_2025_06_30_gspmd",
    "tpu_Sharding__data_2025_06_30_shardy",
}
TOLERANCE = {"float32": 2e-4, "complex64": 2e-4, "float64": 1e-9, "complex128": 1e-9, "float16": 1e-2, "bfloat16": 2e-2}


def adjoint(m: np.ndarray) -> np.ndarray:
    """The conjugate transpose of each matrix."""
    out: np.ndarray = np.conj(np.swapaxes(m, -1, -2))
    return out


def _eig(found: Arrays) -> Arrays:
    """(values, left, right vectors) -> what both kinds of vectors say the matrix is."""
    w, left, right = found
    return [
        (right * w[..., None, :]) @ np.linalg.inv(right),
        np.linalg.inv(adjoint(left)) @ (w[..., :, None] * adjoint(left)),
    ]


def _eigh(found: Arrays) -> Arrays:
    v, w = found if found[0].ndim > found[1].ndim else found[::-1]
    return [(v * w[..., None, :]) @ adjoint(v), adjoint(v) @ v]


def _svd(found: Arrays) -> Arrays:
    u, s, vt = found
    k = s.shape[-1]
    return [(u[..., :, :k] * s[..., None, :]) @ vt[..., :k, :], adjoint(u) @ u, vt @ adjoint(vt), s]


def _schur(found: Arrays) -> Arrays:
    t, z = found
    return [z @ t @ adjoint(z), adjoint(z) @ z]


REBUILT: tuple[tuple[str, Callable[[Arrays], Arrays]], ...] = (
    (r"_eig_", _eig),
    (r"(?i)eigh", _eigh),
    (r"_svd_", _svd),
    (r"_schur_", _schur),
)


def recorded(path: Path) -> tuple[Arrays, Arrays]:
    """Arguments and results of a program, as they were recorded."""
    with np.load(path.with_suffix(".npz")) as data:
        names = sorted(data.files, key=lambda k: int(re.sub(r"\D", "", k)))
        return [data[k] for k in names if k.startswith("in")], [data[k] for k in names if k.startswith("out")]


def error(got: Arrays, want: Arrays) -> float:
    """The largest difference over its tolerance, at the scale of each array; infinite for unlike shapes or dtypes."""
    worst = 0.0 if len(got) == len(want) else np.inf
    for a, b in zip(got, want, strict=False):
        b = b.view(a.dtype) if b.dtype.kind == "V" and b.dtype.itemsize == a.dtype.itemsize else b
        if a.shape != b.shape or a.dtype != b.dtype:
            return float(np.inf)
        if not a.size:
            continue
        x, y = a.astype(np.complex128), b.astype(np.complex128)
        same = (x == y) | (np.isnan(x) & np.isnan(y))
        scale = 1 + np.abs(y[np.isfinite(y)]).max(initial=0)
        with np.errstate(invalid="ignore"):
            gap = np.where(same, 0, np.abs(x - y)) / scale / TOLERANCE.get(a.dtype.name, 1e-30)
        worst = max(worst, float(np.nan_to_num(gap, nan=np.inf).max()))
    return worst


def judge(name: str, got: Arrays, want: Arrays) -> str:
    """ "equal", "rebuilds" or "differs"."""
    if error(got, want) <= 1:
        return "equal"
    for pattern, rebuild in REBUILT:
        if re.search(pattern, name) and [(a.shape, a.dtype) for a in got] == [(b.shape, b.dtype) for b in want]:
            return "rebuilds" if error(rebuild(got), rebuild(want)) <= 1 else "differs"
    return "differs"


def outcome(path: Path, run: Callable[..., Any]) -> tuple[str, str]:
    """(verdict, why) of one program."""
    from xyla.support.status import XylaError

    args, want = recorded(path)
    try:
        got = run(path.read_text(), args)
    except XylaError as problem:
        return problem.status.name.lower(), problem.message.splitlines()[0][:90]
    return judge(path.stem, got, want), ""


def main() -> None:
    """Prints the table and the totals."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--engine", default="reference", choices=("reference", "compiled"))
    parser.add_argument("--filter", default="")
    parser.add_argument("--all", action="store_true", help="also print what is equal")
    options = parser.parse_args()
    import xyla
    from xyla.testing import data

    expected = dict(EXPECTED)
    if options.engine == "compiled":
        expected.update(dict.fromkeys(TWO_DEVICES, "two devices: evaluator only"))
    totals: Counter[str] = Counter()
    failed = False
    for path in data.jax_exports():
        if not re.search(options.filter, path.stem) or not path.with_suffix(".npz").exists():
            continue
        verdict, why = outcome(path, lambda text, args: xyla.run(text, args, engine=options.engine))
        totals[verdict] += 1
        good = verdict in ("equal", "rebuilds")
        failed |= not good and path.stem not in expected
        if not good or options.all:
            print(f"{path.stem:64} {verdict:16} {expected.get(path.stem, why)}")
    print(", ".join(f"{count} {verdict}" for verdict, count in sorted(totals.items())))
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
