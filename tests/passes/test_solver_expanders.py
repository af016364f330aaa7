"""Expanded solvers and factorisations against LAPACK's, in every type and form."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from xyla import interp
from xyla.formats.hlo_text import parse
from xyla.passes import load_all
from xyla.passmgr.base import parse_passes
from xyla.testing.pass_check import apply_pass

load_all()

TYPES = {"f32": np.float32, "f64": np.float64, "c64": np.complex64}
Array = np.ndarray[Any, np.dtype[Any]]


def _matrix(kind: str, *dims: int, seed: int = 0) -> Array:
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(dims)
    if kind.startswith("c"):
        x = x + 1j * rng.standard_normal(dims)
    return np.asarray(x.astype(TYPES[kind]))


def _tolerance(kind: str) -> float:
    return 1e-12 if kind == "f64" else 1e-4


def _both(passes: str, body: str, *args: Array) -> tuple[list[Array], list[Array]]:
    """(results of the expanded program, of the program)."""
    module = parse("HloModule m\nENTRY e {\n" + body + "\n}")
    outcome = apply_pass(parse_passes(passes)[0], module)
    assert outcome.changed
    return interp.run(outcome.module, list(args)), interp.run(module, list(args))


def _close(got: list[Array], want: list[Array], kind: str) -> None:
    for x, y in zip(got, want, strict=True):
        np.testing.assert_allclose(x, y, rtol=_tolerance(kind), atol=_tolerance(kind))


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("lower", ["true", "false"])
def test_cholesky_reads_one_triangle(kind: str, lower: str) -> None:
    n = 7
    a = _matrix(kind, 2, n, n)
    a = (a @ a.conj().swapaxes(1, 2) + n * np.eye(n)).astype(TYPES[kind])
    other = np.triu_indices(n, 1) if lower == "true" else np.tril_indices(n, -1)
    a[:, other[0], other[1]] = np.nan
    body = f"a = {kind}[2,{n},{n}] parameter(0)\nROOT r = {kind}[2,{n},{n}] cholesky(a), lower={lower}"
    _close(*_both("cholesky-expander", body, a), kind)


def test_a_matrix_that_is_not_positive_definite_has_no_factor() -> None:
    a = np.stack([np.eye(3), np.diag([1.0, -1, 1]), 4 * np.eye(3)]).astype(np.float32)
    body = "a = f32[3,3,3] parameter(0)\nROOT r = f32[3,3,3] cholesky(a), lower=true"
    _close(*_both("cholesky-expander", body, a), "f32")


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("left", ["true", "false"])
@pytest.mark.parametrize("transpose", ["NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"])
def test_triangular_solve(kind: str, left: str, transpose: str) -> None:
    n = 9
    for lower, unit in (("true", "false"), ("false", "true")):
        a = (_matrix(kind, 2, n, n) / 4 + 2 * np.eye(n)).astype(TYPES[kind])
        other = np.triu_indices(n, 1) if lower == "true" else np.tril_indices(n, -1)
        a[:, other[0], other[1]] = np.nan
        dims = f"2,{n},4" if left == "true" else f"2,4,{n}"
        rhs = _matrix(kind, *map(int, dims.split(",")), seed=1)
        body = (
            f"a = {kind}[2,{n},{n}] parameter(0)\nb = {kind}[{dims}] parameter(1)\nROOT r = {kind}[{dims}] "
            f"triangular-solve(a, b), lower={lower}, left_side={left}, transpose_a={transpose}, unit_diagonal={unit}"
        )
        got, want = _both("triangular-solve-expander{block_size=4}", body, a, rhs)
        np.testing.assert_allclose(
            got[0] / np.abs(want[0]).max(), want[0] / np.abs(want[0]).max(), atol=_tolerance(kind)
        )


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("dims", [(7, 4), (4, 7), (5, 5), (1, 1)])
def test_qr_by_lapack_conventions(kind: str, dims: tuple[int, int]) -> None:
    m, n = dims
    k = min(dims)
    a = _matrix(kind, 2, m, n)
    a[1] = 0  # nothing to reflect
    body = (
        f"a = {kind}[2,{m},{n}] parameter(0)\nq = ({kind}[2,{m},{n}], {kind}[2,{k}]) custom-call(a), "
        f'custom_call_target="Qr"\nROOT t = tuple(q)'
    )
    got, want = _both("qr-expander", body, a)
    _close(got, want, kind)
    if m >= n:
        body = (
            f"a = {kind}[2,{m},{n}] parameter(0)\nt = {kind}[2,{k}] parameter(1)\nROOT q = {kind}[2,{m},{n}] "
            f'custom-call(a, t), custom_call_target="ProductOfElementaryHouseholderReflectors"'
        )
        _close(*_both("qr-expander", body, *want), kind)


def test_reflectors_of_large_columns_do_not_overflow() -> None:
    a = (_matrix("f32", 6, 3) * 1e30).astype(np.float32)
    body = (
        'a = f32[6,3] parameter(0)\nq = (f32[6,3], f32[3]) custom-call(a), custom_call_target="Qr"\nROOT t = tuple(q)'
    )
    got, want = _both("qr-expander", body, a)
    np.testing.assert_allclose(got[1], want[1], atol=1e-5)
    np.testing.assert_allclose(np.triu(got[0]) / 1e30, np.triu(want[0]) / 1e30, atol=1e-5)


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("n", [1, 2, 5, 8])
def test_eigh(kind: str, n: int) -> None:
    a = _matrix(kind, 3, n, n)
    parts = "f32" if kind == "c64" else kind
    body = (
        f"a = {kind}[3,{n},{n}] parameter(0)\nROOT q = ({kind}[3,{n},{n}], {parts}[3,{n}]) custom-call(a), "
        f'custom_call_target="Eigh", backend_config="1,1,100,{1e-13 if kind == "f64" else 1e-6}"'
    )
    (v, w), want = _both("eigh-expander", body, a)
    below = np.tril(a, -1)
    whole = below + below.conj().swapaxes(1, 2) + np.real(a) * np.eye(n)
    np.testing.assert_allclose(w, want[1], atol=10 * _tolerance(kind))
    np.testing.assert_allclose(whole @ v, v * w[:, None, :], atol=10 * _tolerance(kind))
    np.testing.assert_allclose(
        v.conj().swapaxes(1, 2) @ v, np.broadcast_to(np.eye(n), (3, n, n)), atol=_tolerance(kind)
    )
