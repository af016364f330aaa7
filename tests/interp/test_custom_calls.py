"""Custom calls. Factorisations are checked by multiplying back, so that LAPACK's sign choices do not matter."""

from __future__ import annotations

import numpy as np
import pytest

from tests.interp.hlo import one, run
from xyla.support.status import XylaError

RNG = np.random.default_rng(0)
M = RNG.standard_normal((4, 4)).astype(np.float32)
SPD = (M @ M.T + 4 * np.eye(4)).astype(np.float32)
P = "p = f32[4,4] parameter(0)\n"


def call(target: str, shape: str, operands: str, config: str = "{}") -> str:
    return f'ROOT r = {shape} custom-call({operands}), custom_call_target="{target}", backend_config={config}'


@pytest.mark.parametrize("target", ["Sharding", "MoveToHost", "annotate_device_placement", "LayoutConstraint"])
def test_markers_pass_their_operand_on(target: str) -> None:
    assert one(P + call(target, "f32[4,4]", "p"), M).tolist() == M.tolist()


def test_a_marker_that_would_change_the_shape_is_refused() -> None:
    with pytest.raises(XylaError, match=r"MoveToHost gives its operand, f32\[4,4\]"):
        run(P + call("MoveToHost", "f32[1,4]", "p"), M)


def test_topk() -> None:
    values, where = run(P + call("TopK", "(f32[4,2], s32[4,2])", "p"), np.float32([[1, 3, 2, 3]] * 4))
    assert values[0].tolist() == [3, 3]
    assert where[0].tolist() == [1, 3]


def test_approx_topk_is_exact() -> None:
    comps = """c { a = f32[] parameter(0)
      b = f32[] parameter(1)
      i = s32[] parameter(2)
      j = s32[] parameter(3)
      ROOT r = pred[] compare(a, b), direction=GT }"""
    body = """p = f32[5] parameter(0)
    q = s32[5] iota(), iota_dimension=0
    a = f32[] constant(-inf)
    b = s32[] constant(-1)
    ROOT r = (f32[2], s32[2]) custom-call(p, q, a, b), custom_call_target="ApproxTopK", called_computations={c},
      backend_config={aggregate_to_topk = true, reduction_dim = 0 : i64}"""
    values, where = run(body, np.float32([5, 1, 9, 2, 3]), computations=comps)
    assert values.tolist() == [9, 5]
    assert where.tolist() == [2, 0]


def test_potrf() -> None:
    factor, info = run(P + call("lapack_spotrf_ffi", "(f32[4,4], s32[])", "p", "{uplo = 76 : ui8}"), SPD)
    np.testing.assert_allclose(np.tril(factor) @ np.tril(factor).T, SPD, rtol=1e-5)
    assert info == 0
    assert run(P + call("cusolver_potrf_ffi", "(f32[4,4], s32[])", "p", "{lower = true}"), -SPD)[1] > 0


def test_getrf_counts_pivots_from_one() -> None:
    lu, pivots, info = run(P + call("lapack_sgetrf_ffi", "(f32[4,4], s32[4], s32[])", "p"), M)
    assert info == 0
    x = M.copy()
    for i, p in enumerate(pivots):
        x[[i, p - 1]] = x[[p - 1, i]]
    np.testing.assert_allclose((np.tril(lu, -1) + np.eye(4)) @ np.triu(lu), x, rtol=1e-4, atol=1e-5)


def test_lu_decomposition_gives_the_permutation() -> None:
    lu, _, order = run(P + call("LuDecomposition", "(f32[4,4], s32[4], s32[4])", "p"), M)
    np.testing.assert_allclose((np.tril(lu, -1) + np.eye(4)) @ np.triu(lu), M[order], rtol=1e-4, atol=1e-5)


def test_pivots_to_permutation() -> None:
    body = "p = s32[2] parameter(0)\n" + call("cu_lu_pivots_to_permutation", "s32[4]", "p")
    assert one(body, np.int32([2, 3])).tolist() == [2, 3, 0, 1]


def test_qr() -> None:
    body = (
        P
        + """f = (f32[4,4], f32[4]) custom-call(p), custom_call_target="lapack_sgeqrf_ffi"
    a = f32[4,4] get-tuple-element(f), index=0
    t = f32[4] get-tuple-element(f), index=1
    q = f32[4,4] custom-call(a, t), custom_call_target="lapack_sorgqr_ffi"
    ROOT r = (f32[4,4], f32[4,4]) tuple(q, a)"""
    )
    q, a = run(body, M)
    np.testing.assert_allclose(q @ np.triu(a), M, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(q @ q.T, np.eye(4), atol=1e-5)


@pytest.mark.parametrize(("side", "want"), [(76, lambda x: np.tril(M) @ x), (82, lambda x: x @ np.tril(M))])
def test_trsm(side: int, want) -> None:  # type: ignore[no-untyped-def]
    config = f"{{diag = 78 : ui8, side = {side} : ui8, trans_x = 78 : ui8, uplo = 76 : ui8}}"
    body = P + "b = f32[4,4] parameter(1)\n" + call("lapack_strsm_ffi", "f32[4,4]", "p, b", config)
    t = np.tril(M).astype(np.float32) + 3 * np.eye(4, dtype=np.float32)
    got = one(body, t, SPD)
    np.testing.assert_allclose(t @ got if side == 76 else got @ t, SPD, rtol=1e-4, atol=1e-4)


def test_tridiagonal_solve() -> None:
    dl, d, du = np.float32([0, 1, 1]), np.float32([4, 4, 4]), np.float32([2, 2, 0])
    b = np.float32([[1], [2], [3]])
    params = "a = f32[3] parameter(0)\nb = f32[3] parameter(1)\nc = f32[3] parameter(2)\nd = f32[3,1] parameter(3)\n"
    matrix = np.diag(d) + np.diag(dl[1:], -1) + np.diag(du[:-1], 1)
    x = one(params + call("cusparse_gtsv2_ffi", "f32[3,1]", "a, b, c, d"), dl, d, du, b)
    np.testing.assert_allclose(matrix @ x, b, rtol=1e-5)
    shape = "(f32[3], f32[3], f32[3], f32[3,1], s32[])"
    *_, x, info = run(params + call("lapack_sgtsv_ffi", shape, "a, b, c, d"), dl, d, du, b)
    np.testing.assert_allclose(matrix @ x, b, rtol=1e-5)
    assert info == 0


def test_eigh() -> None:
    v, w, info = run(
        P + call("lapack_ssyevd_ffi", "(f32[4,4], f32[4], s32[])", "p", "{mode = 86 : ui8, uplo = 76 : ui8}"), SPD
    )
    assert info == 0
    np.testing.assert_allclose(SPD @ v, v * w, rtol=1e-4, atol=1e-4)
    assert (np.diff(w) >= 0).all()


def test_geev() -> None:
    shape = "(f32[4], f32[4], c64[4,4], c64[4,4], s32[])"
    config = "{compute_left = 86 : ui8, compute_right = 86 : ui8}"
    re, im, left, right, info = run(P + call("lapack_sgeev_ffi", shape, "p", config), M)
    w = re + 1j * im
    assert info == 0
    assert (im != 0).any()  # the case that matters: conjugate pairs
    np.testing.assert_allclose(M @ right, right * w, atol=1e-4)
    np.testing.assert_allclose(left.conj().T @ M, w[:, None] * left.conj().T, atol=1e-4)


def test_schur() -> None:
    shape = "(f32[4,4], f32[4,4], f32[4], f32[4], s32[], s32[])"
    t, z, *_ = run(P + call("lapack_sgees_ffi", shape, "p", "{mode = 86 : ui8, sort = 78 : ui8}"), M)
    np.testing.assert_allclose(z @ t @ z.T, M, atol=1e-5)


@pytest.mark.parametrize("target", ["lapack_sgesdd_ffi", "cusolver_gesvd_ffi", "cusolver_gesvdj_ffi"])
def test_svd(target: str) -> None:
    config = "{mode = 65 : ui8}" if "gesdd" in target else "{compute_uv = true, full_matrices = true}"
    shape = "(f32[4,4], f32[4], f32[4,4], f32[4,4], s32[])"
    _, s, u, v, _ = run(P + call(target, shape, "p", config), M)
    vh = v.T if "gesvdj" in target else v
    np.testing.assert_allclose(u * s @ vh, M, atol=1e-5)


def test_hessenberg_and_tridiagonal_forms_keep_the_spectrum() -> None:
    h, _, _ = run(P + call("lapack_sgehrd_ffi", "(f32[4,4], f32[3], s32[])", "p", "{high = 4 : i32, low = 1 : i32}"), M)
    upper = np.triu(h, -1)
    np.testing.assert_allclose(np.trace(upper), np.trace(M), rtol=1e-4)
    np.testing.assert_allclose(np.linalg.det(upper), np.linalg.det(M), rtol=1e-3)
    shape = "(f32[4,4], f32[4], f32[3], f32[3], s32[])"
    _, d, e, _, _ = run(P + call("lapack_ssytrd_ffi", shape, "p", "{uplo = 76 : ui8}"), SPD)
    tri = np.diag(d) + np.diag(e, 1) + np.diag(e, -1)
    np.testing.assert_allclose(np.linalg.eigvalsh(tri), np.linalg.eigvalsh(SPD), rtol=1e-4)


def test_batches_run_one_matrix_at_a_time() -> None:
    body = "p = f32[2,4,4] parameter(0)\n" + call("lapack_spotrf_ffi", "(f32[2,4,4], s32[2])", "p", "{uplo = 76 : ui8}")
    factor, info = run(body, np.stack([SPD, 2 * SPD]))
    assert info.tolist() == [0, 0]
    np.testing.assert_allclose(np.tril(factor[1]) @ np.tril(factor[1]).T, 2 * SPD, rtol=1e-5)


def test_threefry_call() -> None:
    body = "z = u32[1] parameter(0)\n" + call("cu_threefry2x32_ffi", "(u32[1], u32[1])", "z, z, z, z")
    assert [int(v[0]) for v in run(body, np.zeros(1, np.uint32))] == [0x6B200159, 0x99BA4EFE]


def test_dynamic_and_wide_value_calls() -> None:
    body = """p = f32[4] parameter(0)
    n = s32[] parameter(1)
    d = f32[<=4] custom-call(p, n), custom_call_target="SliceToDynamic"
    ROOT r = (f32[4], s32[]) custom-call(d), custom_call_target="PadToStatic\""""
    padded, size = run(body, np.float32([1, 2, 3, 4]), np.int32(2))
    assert padded.tolist() == [1, 2, 0, 0]
    assert size == 2
    body = "a = u32[1] parameter(0)\nb = u32[1] parameter(1)\n" + call("X64Combine", "u64[1]", "a, b")
    assert one(body, np.uint32([1]), np.uint32([2])).tolist() == [(2 << 32) + 1]
