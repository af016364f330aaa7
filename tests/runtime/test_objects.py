"""Object compilation: the disk cache, damage, errors, worker processes."""

from __future__ import annotations

import ctypes
from pathlib import Path

import pytest

from xyla.codegen.llvm import Function, Param, constant
from xyla.runtime import compile_pool
from xyla.runtime.objects import DiskCache, KernelSource, ObjectStore, cache_dir, compile_ir, module_text
from xyla.support.status import Status, XylaError


def answer(value: int) -> KernelSource:
    """A kernel that stores a number."""
    f = Function([Param("ptr", "p")])
    f.builder.store(constant(value, "i64"), f.arg(0))
    f.builder.ret()
    return f.source()


def ask(address: int) -> int:
    out = ctypes.c_int64()
    ctypes.CFUNCTYPE(None, ctypes.c_void_p)(address)(ctypes.addressof(out))
    return out.value


def test_equal_sources_compile_once_and_keep_their_order() -> None:
    store = ObjectStore()
    kernels = store.load([answer(1), answer(2), answer(1)])
    assert [ask(k.address) for k in kernels] == [1, 2, 1]
    assert (store.stats.compiled, store.stats.reused) == (2, 1)
    store.load([answer(2)])
    assert store.stats.compiled == 2
    assert store.load([]) == []


def test_a_second_process_finds_objects_on_disk(tmp_path: Path) -> None:
    ObjectStore(DiskCache(tmp_path)).load([answer(k) for k in range(10)])
    again = ObjectStore(DiskCache(tmp_path))
    kernels = again.load([answer(7), answer(3), answer(99)])
    assert [ask(k.address) for k in kernels] == [7, 3, 99]
    assert (again.stats.disk_hits, again.stats.compiled) == (2, 1)


@pytest.mark.parametrize("damage", ["cut", "flip", "empty"])
def test_a_damaged_entry_is_compiled_again_with_a_warning(tmp_path: Path, damage: str) -> None:
    ObjectStore(DiskCache(tmp_path)).load([answer(5)])
    for path in sorted(tmp_path.rglob("*")):
        if path.is_file():
            raw = path.read_bytes()
            bad = {"cut": raw[: len(raw) // 2], "flip": raw[:-1] + bytes([raw[-1] ^ 1]), "empty": b""}[damage]
            path.write_bytes(bad)
    store = ObjectStore(DiskCache(tmp_path))
    with pytest.warns(RuntimeWarning, match="damaged cache entry"):
        (kernel,) = store.load([answer(5)])
    assert ask(kernel.address) == 5
    assert store.stats.compiled == 1
    fresh = ObjectStore(DiskCache(tmp_path))
    fresh.load([answer(5)])
    assert fresh.stats.disk_hits == 1


def test_an_unwritable_cache_is_no_error(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    (kernel,) = ObjectStore(DiskCache(blocked / "cache")).load([answer(6)])
    assert ask(kernel.address) == 6


def test_cache_location(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XYLA_CACHE_DIR", str(tmp_path))
    assert cache_dir() == tmp_path
    monkeypatch.delenv("XYLA_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_dir() == tmp_path / "xyla"


def test_rejected_code_is_an_internal_error_that_shows_the_line() -> None:
    source = KernelSource("define void @xyla_kernel(ptr %p) #0 {\nentry:\n  %x = add i32 1, %nowhere\n  ret void\n}\n")
    with pytest.raises(XylaError, match="undefined value") as caught:
        ObjectStore().load([source])
    assert caught.value.status is Status.INTERNAL
    assert "%x = add i32 1, %nowhere" in caught.value.message


def test_workers_compile_what_the_process_would(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [module_text([answer(k), answer(100 + k)]) for k in range(4)]
    monkeypatch.setenv("XYLA_COMPILE_WORKERS", "1")
    assert compile_pool.compile_in_parallel(texts) == [compile_ir(t) for t in texts]


def test_a_workers_error_arrives(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XYLA_COMPILE_WORKERS", "1")
    good, bad = module_text([answer(1)]), "define void @f() { junk }\n"
    with pytest.raises(XylaError, match="LLVM rejects"):
        compile_pool.compile_in_parallel([bad] * 6 + [good])
