"""From LLVM IR text to loaded machine code: compile, cache on disk, link with JITLink.

A kernel is a `KernelSource`: one function under a placeholder name, with the declarations and internal helpers that it
needs. Its symbol is a hash of its text, so equal kernels are compiled once, in a process and on a disk. The cache holds
one object file a compiled group and one small index file a kernel; each is written atomically and carries a checksum.
"""

from __future__ import annotations

import hashlib
import os
import re
import struct
import tempfile
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from itertools import count
from pathlib import Path
from typing import ClassVar
from warnings import warn

import llvmlite.binding as llvm

from xyla.support.status import XylaError, internal

# Part of every cache key: raise it when the pass list, the code model or an attribute below changes.
OBJECT_FORMAT = 1
# Kernels a cold LLVM module: one module's fixed cost (0.7 ms) is spread, and a group stays a useful unit of reuse.
GROUP = 8
_MAGIC = b"xylaobj1"


@dataclass(frozen=True, slots=True)
class KernelSource:
    """One kernel as text. `definition` defines `@SYMBOL`; `helpers` are (name, definition) of internal functions."""

    SYMBOL: ClassVar[str] = "xyla_kernel"

    definition: str
    declarations: tuple[str, ...] = ()
    helpers: tuple[tuple[str, str], ...] = ()

    @property
    def symbol(self) -> str:
        """The name the compiled kernel gets: derived from everything that decides its machine code."""
        parts = [self.definition, *self.declarations, *(text for _, text in self.helpers)]
        return "xyla_" + hashlib.sha256("\0".join(parts).encode()).hexdigest()[:24]

    def text(self) -> str:
        """The kernel alone as a readable module (for dumps)."""
        return module_text([self])


@dataclass(frozen=True, slots=True)
class Kernel:
    """A loaded kernel: call `address` with the signature its source defines. It stays loaded with its store."""

    symbol: str
    address: int


@dataclass(slots=True)
class CompileStats:
    """What a store did, since it was made: kernel counts and seconds."""

    requested: int = 0
    reused: int = 0
    disk_hits: int = 0
    compiled: int = 0
    compile_seconds: float = 0.0
    link_seconds: float = 0.0


@dataclass(frozen=True)
class Host:
    """The machine that code is generated for."""

    cpu: str
    features: str
    triple: str

    @cached_property
    def key(self) -> str:
        """Text that differs whenever generated code may differ."""
        return f"{OBJECT_FORMAT}|{self.triple}|{self.cpu}|{self.features}|{llvm.llvm_version_info}"

    def target_machine(self, opt: int = 2) -> llvm.TargetMachine:
        """A position-independent target machine. `opt` is never 0: level 0 aborts on vectors of i1."""
        target = llvm.Target.from_triple(self.triple)
        return target.create_target_machine(
            cpu=self.cpu, features=self.features, opt=opt, reloc="pic", codemodel="small"
        )


@cache
def host() -> Host:
    """This machine; initialises LLVM's native target on the first call."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    features = llvm.get_host_cpu_features().flatten()
    return Host(llvm.get_host_cpu_name(), features, llvm.get_process_triple())


@cache
def _machine() -> llvm.TargetMachine:
    return host().target_machine()


@cache
def _header() -> str:
    where = host()
    return (
        f'target datalayout = "{_machine().target_data}"\n'
        f'target triple = "{where.triple}"\n'
        f'attributes #0 = {{ nounwind "prefer-vector-width"="512" "target-cpu"="{where.cpu}" }}\n'
        "!0 = !{i32 1}\n"
    )


def module_text(sources: Iterable[KernelSource]) -> str:
    """One LLVM module that defines every source under its symbol; declarations and helpers are merged."""
    declarations: dict[str, None] = {}
    helpers: dict[str, str] = {}
    bodies = []
    for source in sources:
        declarations.update(dict.fromkeys(source.declarations))
        helpers.update(source.helpers)
        bodies.append(source.definition.replace(f"@{KernelSource.SYMBOL}(", f"@{source.symbol}(", 1))
    return "\n".join([_header(), *declarations, *helpers.values(), *bodies]) + "\n"


def compile_ir(text: str) -> bytes:
    """Compiles a module to a relocatable object. Raises INTERNAL, with the line at fault, when LLVM rejects the text."""
    machine = _machine()
    try:
        module = llvm.parse_assembly(text, llvm.create_context())
    except RuntimeError as error:
        raise _rejected(text, str(error)) from None
    tuning = llvm.create_pipeline_tuning_options(speed_level=2)
    builder = llvm.create_pass_builder(machine, tuning)
    passes = llvm.create_new_module_pass_manager()
    passes.add_instruction_combine_pass()
    passes.add_new_gvn_pass()
    passes.add_simplify_cfg_pass()
    passes.add_global_dead_code_eliminate_pass()
    passes.run(module, builder)
    return bytes(machine.emit_object(module))


def _rejected(text: str, message: str) -> XylaError:
    at = re.search(r":(\d+):(\d+): error: (.*)", message)
    if at is None:
        return internal(f"LLVM rejects generated code: {message.strip().splitlines()[-1]}")
    lines = text.splitlines()
    number = int(at[1])
    excerpt = "\n".join(f"  {n + 1}: {lines[n]}" for n in range(max(0, number - 3), min(len(lines), number + 1)))
    return internal(f"LLVM rejects generated code, line {number}, column {at[2]}: {at[3]}\n{excerpt}")


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


def pack_names(names: Sequence[str]) -> bytes:
    """Encodes a list of names (each length-prefixed)."""
    return b"".join(struct.pack("<I", len(n.encode())) + n.encode() for n in names)


@dataclass
class ObjectStore:
    """Compiles, caches and loads kernels. `cache=None` keeps nothing on disk. Safe to use from several threads."""

    cache: DiskCache | None = None
    stats: CompileStats = field(default_factory=CompileStats)

    def __post_init__(self) -> None:
        self._loaded: dict[str, Kernel] = {}
        self._trackers: list[llvm.ResourceTracker] = []
        self._lock = threading.Lock()
        self._serial = count()

    @cached_property
    def _jit(self) -> llvm.LLJIT:
        return llvm.create_lljit_compiler(host().target_machine(), use_jit_link=True)

    def load(self, sources: Sequence[KernelSource]) -> list[Kernel]:
        """The kernels, in order; each distinct text is compiled once. Raises INTERNAL when LLVM rejects one."""
        with self._lock:
            wanted = dict(zip((s.symbol for s in sources), sources, strict=True)) if sources else {}
            symbols = [s.symbol for s in sources]
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
            self._link(image, names)
            self.stats.disk_hits += len(names)
            for name in names:
                del missing[name]

    def _compile(self, missing: dict[str, KernelSource]) -> None:
        pending = list(missing.items())
        for at in range(0, len(pending), GROUP):
            group = pending[at : at + GROUP]
            start = _seconds()
            image = compile_ir(module_text(source for _, source in group))
            self.stats.compile_seconds += _seconds() - start
            self.stats.compiled += len(group)
            names = [name for name, _ in group]
            self._link(image, names)
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

    def _link(self, image: bytes, names: list[str]) -> None:
        start = _seconds()
        library = llvm.JITLibraryBuilder().add_object_img(image).add_current_process()
        for name in names:
            library.export_symbol(name)
        tracker = library.link(self._jit, f"xyla{next(self._serial)}")
        self._trackers.append(tracker)
        for name in names:
            self._loaded[name] = Kernel(name, tracker[name])
        self.stats.link_seconds += _seconds() - start


def _seconds() -> float:
    from time import perf_counter

    return perf_counter()


@cache
def default_store() -> ObjectStore:
    """The process's store, over the disk cache. XYLA_CACHE=0 switches the disk off."""
    disk = None if os.environ.get("XYLA_CACHE") == "0" else DiskCache(cache_dir())
    return ObjectStore(disk)


def compile_kernels(sources: Sequence[KernelSource]) -> list[Kernel]:
    """Compiles (or finds) kernels through the process's store."""
    return default_store().load(sources)
