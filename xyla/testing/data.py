"""The shared corpus: programs that others wrote, with what is known of each.

It lies outside the repository: in $XYLA_SHARED, or in `shared/` beside the checkout. A test that needs it
takes the `shared` fixture (conftest.py), which skips with a reason where the corpus is absent. Listings are
sorted by path.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ABSENT = "the shared corpus is absent: set XYLA_SHARED, or lay it in shared/ beside the repository"
REPOSITORY = Path(__file__).resolve().parents[2]


def shared_dir() -> Path | None:
    """The corpus folder, or None where there is none."""
    given = os.environ.get("XYLA_SHARED")
    path = Path(given) if given else REPOSITORY.parent / "shared"
    return path if (path / "corpus").is_dir() else None


def require_shared() -> Path:
    """The corpus folder; raises FileNotFoundError, saying how to provide it, where there is none."""
    path = shared_dir()
    if path is None:
        raise FileNotFoundError(ABSENT)
    return path


@dataclass(frozen=True, slots=True)
class HloCase:
    """One row of hlo_modules.jsonl: an HLO text from XLA's unit tests and what its parser said of it."""

    path: Path
    kind: str  # module, module_noheader, fragment, module_frag
    templated: bool  # placeholders were left in the text
    expect: str  # what the test around it expected of its passes (a guess)
    passes: tuple[str, ...]
    reference_parse: str  # "ok", or the reference parser's complaint

    @property
    def loadable(self) -> bool:
        """A whole module without placeholders that the reference parser takes."""
        return self.kind == "module" and not self.templated and self.reference_parse == "ok"


@dataclass(frozen=True, slots=True)
class Bug:
    """One case of bugs/: a program that a real compiler got wrong, with its arguments and right answers.

    `mode` is run (values must match), run_or_error, error, parse_error or compile_only.
    With `replicas` > 1 the leading axis of every array is the replica.
    """

    name: str
    files: tuple[Path, ...]
    data: Path
    mode: str
    replicas: int
    rtol: float
    atol: float
    budget_seconds: float | None
    temp_budget_mb: float | None


@dataclass(frozen=True, slots=True)
class Model:
    """One speed program, in both languages."""

    name: str
    stablehlo: Path
    hlo: Path


def hlo_modules() -> Iterator[HloCase]:
    """Every labelled module of corpus/hlo_modules*; 6,441 of them, 5,116 `loadable`."""
    corpus = require_shared() / "corpus"
    rows = [json.loads(line) for line in (corpus / "hlo_modules.jsonl").read_text().splitlines()]
    for row in sorted(rows, key=lambda row: str(row["file"])):
        yield HloCase(
            corpus / row["file"],
            row["kind"],
            row["templated"],
            row["expect"],
            tuple(row["passes"]),
            row["reference_parse"],
        )


def hlo_files() -> list[Path]:
    """The larger HLO texts of corpus/hlo: pass tests, benchmarks, whole models."""
    return sorted((require_shared() / "corpus" / "hlo").rglob("*.hlo"))


def stablehlo_files(folder: str = "testdata") -> list[Path]:
    """The .mlir files directly in corpus/stablehlo/`folder`: testdata/quantized, tests/interpret, ..."""
    return sorted((require_shared() / "corpus" / "stablehlo" / folder).glob("*.mlir"))


def jax_exports(suffix: str = ".mlir") -> list[Path]:
    """Programs that JAX exported, by file ending: .mlir, .vhlo.bc (portable bytecode), .npz (in*, out*)."""
    return sorted((require_shared() / "corpus" / "jax_exports").glob(f"*{suffix}"))


def models() -> list[Model]:
    """The 50 speed programs of models/."""
    folder = require_shared() / "models"
    names = sorted(path.name.removesuffix(".stablehlo.mlir") for path in folder.glob("*.stablehlo.mlir"))
    return [Model(name, folder / f"{name}.stablehlo.mlir", folder / f"{name}.hlo") for name in names]


def bugs() -> list[Bug]:
    """Every case of bugs/, in the order of their names; those outside the manifest must match within 1e-3."""
    folder = require_shared() / "bugs"
    rows = {row["name"]: row for row in json.loads((folder / "manifest.json").read_text())["cases"]}
    return [_bug(folder, path.stem, rows.get(path.stem, {})) for path in sorted(folder.glob("*.npz"))]


def _bug(folder: Path, name: str, row: dict[str, Any]) -> Bug:
    files = (path for path in folder.glob(f"{name}.*") if path.suffix != ".npz")
    return Bug(
        name,
        tuple(sorted(files)),
        folder / f"{name}.npz",
        row.get("mode", "run"),
        row.get("replicas", 1),
        row.get("rtol", 1e-3),
        row.get("atol", 1e-3),
        row.get("budget_seconds"),
        row.get("temp_budget_mb"),
    )
