"""From LLVM IR text to loaded machine code: compile, cache on disk, link with JITLink.

A kernel is a `KernelSource`: one function under a placeholder name, with the declarations and internal helpers that it
needs. Its symbol is a hash of its text, so equal kernels are compiled once, in a process and on a disk. The cache holds
one object file a compiled group and one small index file a kernel; each is written atomically and carries a checksum.
"""

from __future__ import annotations

import hashlib
import os
import struct
import tempfile
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from itertools import count
from pathlib import Path
from time import perf_counter
from warnings import warn

import llvmlite.binding as llvm

from xyla.runtime.compile_pool import compile_in_parallel
from xyla.runtime.llvm_compile import KernelSource, compile_ir, host, module_text

# Kernels a cold LLVM module: a module of its own costs each kernel 4 ms more than a place in a shared one.
GROUP = 8
# With more kernels than this to compile, worker processes (0.1 s to start) pay.
PARALLEL_FROM = 40
_MAGIC = b"xylaobj1"


@dataclass(frozen=True, slots=True)
class Library:
    """Loaded code. The tracker's end unloads it and needs the JIT: slots are cleared in this order."""

    tracker: llvm.ResourceTracker
    jit: llvm.LLJIT


@dataclass(frozen=True, slots=True)
class Kernel:
    """A loaded kernel: call `address` with the signature its source defines. It is loaded while this object lives."""

    symbol: str
    address: int
    library: Library = field(repr=False, compare=False)
    size: int = 0  # bytes of machine code


@dataclass(slots=True)
class CompileStats:
    """What a store did, since it was made: kernel counts and seconds."""

    requested: int = 0
    reused: int = 0
    disk_hits: int = 0
    compiled: int = 0
    compile_seconds: float = 0.0
    link_seconds: float = 0.0


def cache_dir() -> Path:
    """Where objects are kept: $XYLA_CACHE_DIR, else $XDG_CACHE_HOME/xyla, else ~/.cache/xyla."""
    explicit = os.environ.get("XYLA_CACHE_DIR")
    if explicit:
        return Path(explicit)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "xyla"


class DiskCache:
    """Checksummed blobs by key. Concurrent processes may share it; a bad entry is a miss with a warning."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def read(self, name: str) -> bytes | None:
        """The blob, or None when it is absent or damaged."""
        path = self.root / name
        try:
            raw = path.read_bytes()
        except OSError:
            return None
        body = raw[40:]
        if raw[:8] != _MAGIC or hashlib.sha256(body).digest() != raw[8:40]:
            warn(f"damaged cache entry {path} is ignored and compiled again", RuntimeWarning, stacklevel=3)
            return None
        return body

    def write(self, name: str, body: bytes) -> None:
        """Stores a blob under a temporary name and renames it. A cache that cannot be written is no error."""
        path = self.root / name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            handle, temporary = tempfile.mkstemp(dir=path.parent)
            with os.fdopen(handle, "wb") as out:
                out.write(_MAGIC + hashlib.sha256(body).digest() + body)
            os.replace(temporary, path)
        except OSError:
            return


@dataclass
class ObjectStore:
    """Compiles, caches and loads kernels. `cache=None` keeps nothing on disk. Safe to use from several threads."""

    cache: DiskCache | None = None
    stats: CompileStats = field(default_factory=CompileStats)

    def __post_init__(self) -> None:
        self._loaded: dict[str, Kernel] = {}
        self._lock = threading.Lock()
        self._serial = count()

    @cached_property
    def _jit(self) -> llvm.LLJIT:
        return llvm.create_lljit_compiler(host().target_machine(), use_jit_link=True)

    def load(self, sources: Sequence[KernelSource]) -> list[Kernel]:
        """The kernels, in order; each distinct text is compiled once. Raises INTERNAL when LLVM rejects one."""
        with self._lock:
            symbols = [s.symbol for s in sources]
            wanted = dict(zip(symbols, sources, strict=True))
            missing = {name: src for name, src in wanted.items() if name not in self._loaded}
            self.stats.requested += len(sources)
            self.stats.reused += len(sources) - len(missing)
            self._load_from_disk(missing)
            self._compile(missing)
            return [self._loaded[name] for name in symbols]

    def _load_from_disk(self, missing: dict[str, KernelSource]) -> None:
        """Loads what the cache has and takes it out of `missing`."""
        if self.cache is None or not missing:
            return
        groups: dict[str, list[str]] = {}
        for name in missing:
            index = self.cache.read(self._index_name(name))
            if index is not None:
                groups.setdefault(index.decode(), []).append(name)
        for group, names in groups.items():
            image = self.cache.read(group)
            if image is None:
                continue
            self._link([image], names)
            self.stats.disk_hits += len(names)
            for name in names:
                del missing[name]

    def _compile(self, missing: dict[str, KernelSource]) -> None:
        if not missing:
            return
        start = perf_counter()
        images = compile_images(list(missing.values()))
        self.stats.compile_seconds += perf_counter() - start
        self.stats.compiled += len(missing)
        for names, image in images:
            self._link([image], names)
            self._remember(image, names)

    def _remember(self, image: bytes, names: list[str]) -> None:
        if self.cache is None:
            return
        blob = "o/" + hashlib.sha256("|".join([host().key, *names]).encode()).hexdigest()[:32]
        self.cache.write(blob, image)
        for name in names:
            self.cache.write(self._index_name(name), blob.encode())

    def _index_name(self, symbol: str) -> str:
        digest = hashlib.sha256(f"{host().key}|{symbol}".encode()).hexdigest()[:32]
        return f"k/{digest[:2]}/{digest[2:]}"

    def code_bytes(self, symbols: Sequence[str]) -> int:
        """Machine code of loaded kernels, in bytes."""
        with self._lock:
            return sum(self._loaded[name].size for name in symbols if name in self._loaded)

    def adopt(self, images: Sequence[bytes], symbols: Sequence[str]) -> list[Kernel]:
        """The kernels of these symbols, from objects that were compiled before; what is loaded already is not again."""
        with self._lock:
            if any(name not in self._loaded for name in symbols):
                self._link(images, list(symbols))
            return [self._loaded[name] for name in symbols]

    def _link(self, images: Sequence[bytes], names: list[str]) -> None:
        start = perf_counter()
        library = llvm.JITLibraryBuilder().add_current_process()
        for image in images:
            library.add_object_img(image)
        for name in names:
            library.export_symbol(name)
        tracker = library.link(self._jit, f"xyla{next(self._serial)}")
        loaded = Library(tracker, self._jit)
        sizes = {name: size for image in images for name, size in function_sizes(image).items()}
        for name in names:
            self._loaded[name] = Kernel(name, tracker[name], loaded, sizes.get(name, 0))
        self.stats.link_seconds += perf_counter() - start


_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_SYMBOL_TABLE = 2


def function_sizes(image: bytes) -> dict[str, int]:
    """Bytes of machine code by symbol of a little-endian 64-bit ELF object; empty for other objects."""
    if image[:6] != b"\x7fELF\x02\x01":
        return {}
    sections_at, entry, count = struct.unpack_from("<Q", image, 40)[0], *struct.unpack_from("<HH", image, 58)
    sections = [_SECTION.unpack_from(image, sections_at + i * entry) for i in range(count)]
    sizes: dict[str, int] = {}
    for _, kind, _, _, start, length, link, _, _, each in sections:
        if kind != _SYMBOL_TABLE:
            continue
        names = sections[link][4]
        for name, _, _, _, _, size in _SYMBOL.iter_unpack(image[start : start + length - length % (each or 24)]):
            text = image[names + name : image.index(b"\0", names + name)]
            if size and text:
                sizes[text.decode()] = size
    return sizes


def compile_images(sources: Sequence[KernelSource]) -> list[tuple[list[str], bytes]]:
    """Compiles kernels of different texts, several to a module: (symbols, object) of each."""
    groups = [sources[at : at + GROUP] for at in range(0, len(sources), GROUP)]
    texts = [module_text(group) for group in groups]
    images = compile_in_parallel(texts) if len(sources) > PARALLEL_FROM else [compile_ir(text) for text in texts]
    return [([s.symbol for s in group], image) for group, image in zip(groups, images, strict=True)]


@cache
def default_store() -> ObjectStore:
    """The process's store, over the disk cache. XYLA_CACHE=0 switches the disk off."""
    disk = None if os.environ.get("XYLA_CACHE") == "0" else DiskCache(cache_dir())
    return ObjectStore(disk)


def compile_kernels(sources: Sequence[KernelSource]) -> list[Kernel]:
    """Compiles (or finds) kernels through the process's store."""
    return default_store().load(sources)


__all__ = [
    "CompileStats",
    "DiskCache",
    "Kernel",
    "KernelSource",
    "ObjectStore",
    "cache_dir",
    "compile_images",
    "compile_ir",
    "compile_kernels",
    "default_store",
    "host",
    "module_text",
]
