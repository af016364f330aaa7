"""The native engine as LLVM IR: an interpreter of host code, compiled once and cached like any kernel.

`void run(ptr frame)`: the frame is an array of words (`Word`) that belongs to one execution; the code is an array of
words too (`Op`, then its operands), made by `host_program`. Nothing here allocates, and nothing calls Python but
`Op.CUSTOM`.
"""

from __future__ import annotations

from enum import IntEnum, auto

from xyla.runtime import pool_ir
from xyla.runtime.llvm_compile import KernelSource


class Word(IntEnum):
    """What the words of a frame hold. Pointers unless said otherwise."""

    ARGS = 0  # a Python tuple of arrays, or 0: the bases of parameters are there already
    OUTS = auto()  # a Python tuple of the arrays that take the results, or 0 likewise
    STATUS = auto()  # out: 0 done, n > 0: argument n-1 is not an array as `ARG_SPEC` says, < 0: see `Failure`
    CODE = auto()  # where to start
    TABLE = auto()  # the address of every slice of every step
    BASES = auto()  # the address of every allocation
    FIXUPS = auto()  # (slot, allocation, offset) of slices whose allocation moves from run to run
    NUM_FIXUPS = auto()  # a number
    ARG_SPEC = auto()  # a number n, then n times: allocation, dtype, rank, strided, dims, strides
    OUT_SPEC = auto()  # a number n, then n allocations
    POOL = auto()
    CALLBACK = auto()  # int(ptr owner, i64 index): does custom call `index`; not 0 when it failed
    OWNER = auto()  # a Python object for the callback
    RAN = auto()  # a byte for each shared sequence
    RAN_BYTES = auto()  # a number
    STACK = auto()
    ARRAY_TYPE = auto()  # numpy.ndarray
    HEAD = auto()  # bytes before an object's own fields
    ITEMS = auto()  # bytes before a tuple's items
    TEXT = auto()  # out: what native custom code says of its failure
    WHICH = auto()  # out: the index of the one that failed


class Failure(IntEnum):
    """Negative statuses."""

    COUNT = -1  # the wrong number of arguments
    CALLBACK = -2
    OPCODE = -3
    NATIVE = -4  # see `Word.TEXT`


class Op(IntEnum):
    """Instructions of host code and their operands. `slot`: the number of an entry of the table."""

    RETURN = 0  # to the caller of this sequence, or out
    BIND = auto()  # reads arguments and results, fills the table
    LAUNCH = auto()  # function, slot, size: on this thread
    SPLIT = auto()  # function, slot, size, grain: by the pool
    COPY = auto()  # slot, bytes: from table[slot] to table[slot + 1]
    GEMM = auto()  # record (`GEMM_WORDS`), slot, size, grain
    CUSTOM = auto()  # index
    NATIVE = auto()  # function, slot, configuration, its size, index: custom code that needs no Python
    CALL = auto()  # target, index into RAN or -1, slot, n, n sizes: copies n pairs, calls
    JUMP = auto()  # target
    JUMP_IF_ZERO = auto()  # slot of a byte, target
    SWITCH = auto()  # slot of an i32, n, n targets
    SWITCH_PRED = auto()  # slot of a byte, target if set, target if not


# A matrix product's record, in words: what BLAS takes by reference, then steps in bytes.
GEMM_WORDS = (
    "routine", "trans_b", "trans_a", "n", "m", "k", "ldb", "lda", "ldc", "alpha", "beta",
    "batch", "step_a", "step_b", "step_c", "split", "unit_a", "unit_b", "unit_c",
)  # fmt: skip
# What `lo` and `hi` of a part of a matrix product count.
SPLIT_ROWS, SPLIT_COLUMNS, SPLIT_BATCH = 0, 1, 2


class _Text:
    """IR lines with fresh names."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._names = 0

    def put(self, *lines: str) -> None:
        self.lines.extend(lines)

    def set(self, rhs: str) -> str:
        self._names += 1
        self.lines.append(f"  %v{self._names} = {rhs}")
        return f"%v{self._names}"

    def at(self, base: str, index: int | str) -> str:
        """The address of word `index`."""
        return self.set(f"getelementptr i64, ptr {base}, i64 {index}")

    def load(self, base: str, index: int | str, ty: str = "ptr") -> str:
        """Word `index` of an array of words."""
        return self.set(f"load {ty}, ptr {self.at(base, index)}, align 8")

    def field(self, base: str, offset: int | str, ty: str) -> str:
        """What lies `offset` bytes behind a pointer."""
        where = self.set(f"getelementptr i8, ptr {base}, i64 {offset}")
        return self.set(f"load {ty}, ptr {where}, align {4 if ty == 'i32' else 1 if ty == 'i8' else 8}")

    def go(self, target: str, at: str) -> None:
        """On to the instruction at pointer `at`."""
        self._names += 1
        self.put(f"  br label %{target}.to", f"{target}.to:", f"  %{target}.pc = getelementptr i8, ptr {at}, i64 0")
        self.put("  br label %loop")


def _gemm_part() -> str:
    """void gemm_part(ptr args, i64 lo, i64 hi): args are the record and the addresses of A, B, C.

    BLAS is column-major: row-major C = A B is column-major C^T = B^T A^T, so the operands trade places.
    """
    t = _Text()
    t.put("define internal void @gemm_part(ptr %args, i64 %lo, i64 %hi) noinline nounwind {", "entry:")
    record = t.load("%args", 0)
    where = [t.load("%args", i) for i in (1, 2, 3)]
    n_slot, m_slot = t.set("alloca i32"), t.set("alloca i32")
    names = {name: i for i, name in enumerate(GEMM_WORDS)}
    split = t.load(record, names["split"], "i64")
    size = t.set("sub i64 %hi, %lo")
    size32 = t.set(f"trunc i64 {size} to i32")
    rows = t.set(f"icmp eq i64 {split}, {SPLIT_ROWS}")
    columns = t.set(f"icmp eq i64 {split}, {SPLIT_COLUMNS}")
    batches = t.set(f"icmp eq i64 {split}, {SPLIT_BATCH}")
    n32 = t.set(f"trunc i64 {t.load(record, names['n'], 'i64')} to i32")
    m32 = t.set(f"trunc i64 {t.load(record, names['m'], 'i64')} to i32")
    t.put(f"  store i32 {t.set(f'select i1 {columns}, i32 {size32}, i32 {n32}')}, ptr {n_slot}")
    t.put(f"  store i32 {t.set(f'select i1 {rows}, i32 {size32}, i32 {m32}')}, ptr {m_slot}")
    starts = []
    for pointer, unit in zip(where, ("unit_a", "unit_b", "unit_c"), strict=True):
        bytes_ = t.set(f"mul i64 %lo, {t.load(record, names[unit], 'i64')}")
        starts.append(t.set(f"getelementptr i8, ptr {pointer}, i64 {bytes_}"))
    batch = t.load(record, names["batch"], "i64")
    count = t.set(f"select i1 {batches}, i64 {size}, i64 {batch}")
    routine = t.load(record, names["routine"])
    steps = [t.load(record, names[s], "i64") for s in ("step_a", "step_b", "step_c")]
    by_ref = {name: t.at(record, names[name]) for name in GEMM_WORDS[1:11]}
    t.put("  br label %each", "each:")
    t.put("  %i = phi i64 [0, %entry], [%i1, %each]")
    for name, start in zip("abc", starts, strict=True):
        t.put(f"  %{name} = phi ptr [{start}, %entry], [%{name}1, %each]")
    t.put(
        f"  call void {routine}(ptr {by_ref['trans_b']}, ptr {by_ref['trans_a']}, ptr {n_slot}, ptr {m_slot}, "
        f"ptr {by_ref['k']}, ptr {by_ref['alpha']}, ptr %b, ptr {by_ref['ldb']}, ptr %a, ptr {by_ref['lda']}, "
        f"ptr {by_ref['beta']}, ptr %c, ptr {by_ref['ldc']})"
    )
    for name, step in zip("abc", steps, strict=True):
        t.put(f"  %{name}1 = getelementptr i8, ptr %{name}, i64 {step}")
    t.put("  %i1 = add i64 %i, 1", f"  %more = icmp slt i64 %i1, {count}")
    t.put("  br i1 %more, label %each, label %exit", "exit:", "  ret void", "}", "")
    return "\n".join(t.lines)


def _bind() -> str:
    """i64 bind(ptr frame): checks arguments against their specification, notes bases, fills the table; a status.

    Reads arrays and tuples as the C interfaces of CPython and NumPy lay them out; `numpy_layout` has tried that here.
    """
    t = _Text()
    t.put("define internal i64 @bind(ptr %frame) noinline nounwind {", "entry:")
    bases, args = t.load("%frame", Word.BASES), t.load("%frame", Word.ARGS)
    head, items = t.load("%frame", Word.HEAD, "i64"), t.load("%frame", Word.ITEMS, "i64")
    t.put(f"  %no.args = icmp eq ptr {args}, null", "  br i1 %no.args, label %outs, label %check", "check:")
    spec = t.load("%frame", Word.ARG_SPEC)
    wanted, array_type = t.load(spec, 0, "i64"), t.load("%frame", Word.ARRAY_TYPE)
    given = t.field(args, head, "i64")
    type_at = t.set(f"sub i64 {head}, 8")
    first, spec1 = t.set(f"getelementptr i8, ptr {args}, i64 {items}"), t.at(spec, 1)
    t.put(f"  %right = icmp eq i64 {given}, {wanted}", "  br i1 %right, label %arg, label %miscount")
    t.put("miscount:", f"  ret i64 {Failure.COUNT}")
    t.put("arg:", "  %i = phi i64 [0, %check], [%i1, %arg.ok]")
    t.put(f"  %spec = phi ptr [{spec1}, %check], [%spec1, %arg.ok]")
    t.put(f"  %done = icmp eq i64 %i, {wanted}", "  br i1 %done, label %outs, label %arg.type", "arg.type:")
    obj = t.load(first, "%i")
    same = t.set(f"icmp eq ptr {t.field(obj, type_at, 'ptr')}, {array_type}")
    t.put(f"  br i1 {same}, label %arg.fields, label %slow", "arg.fields:")
    fields = t.set(f"getelementptr i8, ptr {obj}, i64 {head}")
    data, rank32, dims = t.field(fields, 0, "ptr"), t.field(fields, 8, "i32"), t.field(fields, 16, "ptr")
    strides, dtype, flags = t.field(fields, 24, "ptr"), t.field(fields, 40, "ptr"), t.field(fields, 48, "i32")
    allocation, rank = t.load("%spec", 0, "i64"), t.load("%spec", 2, "i64")
    strided = t.set(f"icmp ne i64 {t.load('%spec', 3, 'i64')}, 0")
    good = t.set(f"icmp eq ptr {dtype}, {t.load('%spec', 1)}")
    has_rank = t.set(f"zext i32 {rank32} to i64")
    good = t.set(f"and i1 {good}, {t.set(f'icmp eq i64 {has_rank}, {rank}')}")
    # Bits of NumPy's flags: 1 C-contiguous, 256 aligned.
    mask = t.set(f"select i1 {strided}, i32 256, i32 257")
    has_flags = t.set(f"and i32 {flags}, {mask}")
    good = t.set(f"and i1 {good}, {t.set(f'icmp eq i32 {has_flags}, {mask}')}")
    want = t.at("%spec", 4)
    want_strides = t.set(f"getelementptr i64, ptr {want}, i64 {rank}")
    t.put(f"  br i1 {good}, label %dim, label %slow", "dim:", "  %d = phi i64 [0, %arg.fields], [%d1, %dim.ok]")
    t.put(f"  %dims.done = icmp eq i64 %d, {rank}", "  br i1 %dims.done, label %arg.ok, label %dim.check", "dim.check:")
    equal = t.set(f"icmp eq i64 {t.load(dims, '%d', 'i64')}, {t.load(want, '%d', 'i64')}")
    close = t.set(f"icmp eq i64 {t.load(strides, '%d', 'i64')}, {t.load(want_strides, '%d', 'i64')}")
    loose = t.set(f"xor i1 {strided}, true")
    fine = t.set(f"and i1 {equal}, {t.set(f'or i1 {close}, {loose}')}")
    t.put("  %d1 = add i64 %d, 1", f"  br i1 {fine}, label %dim.ok, label %slow", "dim.ok:", "  br label %dim")
    t.put("arg.ok:")
    t.put(f"  store ptr {data}, ptr {t.at(bases, allocation)}, align 8", "  %i1 = add i64 %i, 1")
    words = t.set(f"shl i64 {rank}, 1")
    t.put(f"  %spec1 = getelementptr i64, ptr {want}, i64 {words}", "  br label %arg")
    t.put("slow:", "  %slow.one = add i64 %i, 1", "  ret i64 %slow.one")
    _bind_outputs(t, bases, head, items)
    return "\n".join(t.lines)


def _bind_outputs(t: _Text, bases: str, head: str, items: str) -> None:
    t.put("outs:")
    outs = t.load("%frame", Word.OUTS)
    t.put(f"  %no.outs = icmp eq ptr {outs}, null", "  br i1 %no.outs, label %table, label %outs.some", "outs.some:")
    spec = t.load("%frame", Word.OUT_SPEC)
    count, allocations = t.load(spec, 0, "i64"), t.at(spec, 1)
    first = t.set(f"getelementptr i8, ptr {outs}, i64 {items}")
    t.put("  br label %out", "out:", "  %o = phi i64 [0, %outs.some], [%o1, %out.one]")
    t.put(f"  %outs.done = icmp eq i64 %o, {count}", "  br i1 %outs.done, label %table, label %out.one", "out.one:")
    data = t.field(t.load(first, "%o"), head, "ptr")
    t.put(f"  store ptr {data}, ptr {t.at(bases, t.load(allocations, '%o', 'i64'))}, align 8")
    t.put("  %o1 = add i64 %o, 1", "  br label %out", "table:")
    table, fixups, number = (
        t.load("%frame", Word.TABLE),
        t.load("%frame", Word.FIXUPS),
        t.load("%frame", Word.NUM_FIXUPS, "i64"),
    )
    t.put("  br label %fix", "fix:", "  %f = phi i64 [0, %table], [%f1, %fix.one]")
    t.put(f"  %fixed = icmp eq i64 %f, {number}", "  br i1 %fixed, label %clear, label %fix.one", "fix.one:")
    fixup = t.at(fixups, t.set("mul i64 %f, 3"))
    slot, allocation, offset = (t.load(fixup, i, "i64") for i in range(3))
    address = t.set(f"getelementptr i8, ptr {t.load(bases, allocation)}, i64 {offset}")
    t.put(f"  store ptr {address}, ptr {t.at(table, slot)}, align 8", "  %f1 = add i64 %f, 1", "  br label %fix")
    t.put("clear:")
    ran, size = t.load("%frame", Word.RAN), t.load("%frame", Word.RAN_BYTES, "i64")
    t.put(f"  call void @llvm.memset.p0.i64(ptr {ran}, i8 0, i64 {size}, i1 false)", "  ret i64 0", "}", "")


def _interpreter() -> str:
    t = _Text()
    t.put(f"define void @{KernelSource.SYMBOL}(ptr %frame) nounwind {{", "entry:")
    code, table, stack = (t.load("%frame", w) for w in (Word.CODE, Word.TABLE, Word.STACK))
    pool = t.load("%frame", Word.POOL)
    t.put("  %gemm.args = alloca [4 x i64], align 8", "  br label %loop")
    cases = " ".join(f"i64 {op.value}, label %{op.name}" for op in Op)
    t.put("loop:", f"  %pc = phi ptr [{code}, %entry], %PCS%", f"  %sp = phi ptr [{stack}, %entry], %SPS%")
    op = t.set("load i64, ptr %pc, align 8")
    t.put(f"  switch i64 {op}, label %unknown [{cases}]")
    t.put("unknown:")
    t.put(f"  store i64 {Failure.OPCODE}, ptr {t.at('%frame', Word.STATUS)}", "  ret void")
    t.put("RETURN:", f"  %bottom = icmp eq ptr %sp, {stack}", "  br i1 %bottom, label %leave, label %pop")
    t.put("leave:")
    t.put(f"  store i64 0, ptr {t.at('%frame', Word.STATUS)}", "  ret void", "pop:")
    t.put("  %sp.pop = getelementptr i64, ptr %sp, i64 -1")
    t.go("pop", t.set("load ptr, ptr %sp.pop, align 8"))
    t.put("BIND:")
    status = t.set("call i64 @bind(ptr %frame)")
    t.put(f"  %bound = icmp eq i64 {status}, 0", "  br i1 %bound, label %bind.ok, label %fail")
    t.put(
        "fail:", f"  %why = phi i64 [{status}, %BIND], [{Failure.CALLBACK}, %CUSTOM], [{Failure.NATIVE}, %native.fail]"
    )
    t.put(f"  store i64 %why, ptr {t.at('%frame', Word.STATUS)}", "  ret void", "bind.ok:")
    t.go("bind", t.at("%pc", 1))
    _work(t, table, pool)
    _control(t, table)
    targets = [line[:-4] for line in t.lines if line.endswith(".to:")]
    pcs = ", ".join(f"[%{name}.pc, %{name}.to]" for name in targets)
    moved = {"pop": "%sp.pop", "enter": "%sp.push"}
    sps = ", ".join(f"[{moved.get(name, '%sp')}, %{name}.to]" for name in targets)
    return "\n".join([*t.lines, "}", ""]).replace("%PCS%", pcs).replace("%SPS%", sps)


def _work(t: _Text, table: str, pool: str) -> None:
    """Kernels, copies, matrix products, custom calls."""
    t.put("LAUNCH:")
    fn, slot, size = t.load("%pc", 1), t.load("%pc", 2, "i64"), t.load("%pc", 3, "i64")
    t.put(f"  call void {fn}(ptr {t.at(table, slot)}, i64 0, i64 {size})")
    t.go("launch", t.at("%pc", 4))
    t.put("SPLIT:")
    fn, slot, size, grain = t.load("%pc", 1), *(t.load("%pc", i, "i64") for i in (2, 3, 4))
    t.put(f"  call void @pool_run(ptr {pool}, ptr {fn}, ptr {t.at(table, slot)}, i64 {size}, i64 {grain})")
    t.go("split", t.at("%pc", 5))
    t.put("COPY:")
    slot, size = t.load("%pc", 1, "i64"), t.load("%pc", 2, "i64")
    pair = t.at(table, slot)
    source, target = t.load(pair, 0), t.load(pair, 1)
    t.put(f"  call void @llvm.memmove.p0.p0.i64(ptr {target}, ptr {source}, i64 {size}, i1 false)")
    t.go("copy", t.at("%pc", 3))
    t.put("GEMM:")
    record, slot, size, grain = t.load("%pc", 1), *(t.load("%pc", i, "i64") for i in (2, 3, 4))
    t.put(f"  store ptr {record}, ptr %gemm.args, align 8")
    for i in range(3):
        address = t.load(t.at(table, slot), i)
        t.put(f"  store ptr {address}, ptr {t.at('%gemm.args', i + 1)}, align 8")
    t.put(f"  call void @pool_run(ptr {pool}, ptr @gemm_part, ptr %gemm.args, i64 {size}, i64 {grain})")
    t.go("gemm", t.at("%pc", 5))
    t.put("CUSTOM:")
    callback, owner = t.load("%frame", Word.CALLBACK), t.load("%frame", Word.OWNER)
    failed = t.set(f"call i32 {callback}(ptr {owner}, i64 {t.load('%pc', 1, 'i64')})")
    t.put(f"  %fine = icmp eq i32 {failed}, 0", "  br i1 %fine, label %custom.ok, label %fail", "custom.ok:")
    t.go("custom", t.at("%pc", 2))
    t.put("NATIVE:")
    fn, slot, config, size = t.load("%pc", 1), t.load("%pc", 2, "i64"), t.load("%pc", 3), t.load("%pc", 4, "i64")
    text = t.set(f"call ptr {fn}(ptr {t.at(table, slot)}, ptr {config}, i64 {size})")
    t.put(f"  %native.fine = icmp eq ptr {text}, null", "  br i1 %native.fine, label %native.ok, label %native.fail")
    t.put("native.fail:")
    t.put(f"  store ptr {text}, ptr {t.at('%frame', Word.TEXT)}")
    t.put(f"  store i64 {t.load('%pc', 5, 'i64')}, ptr {t.at('%frame', Word.WHICH)}", "  br label %fail", "native.ok:")
    t.go("native", t.at("%pc", 6))


def _control(t: _Text, table: str) -> None:
    """Jumps, and calls of shared sequences: one that ran on the arguments that lie in its frame is not run again."""
    t.put("JUMP:")
    t.go("jump", t.load("%pc", 1))
    t.put("JUMP_IF_ZERO:")
    byte = t.set(f"load i8, ptr {t.load(table, t.load('%pc', 1, 'i64'))}, align 1")
    zero = t.set(f"icmp eq i8 {byte}, 0")
    t.go("jumpz", t.set(f"select i1 {zero}, ptr {t.load('%pc', 2)}, ptr {t.at('%pc', 3)}"))
    t.put("SWITCH_PRED:")
    byte = t.set(f"load i8, ptr {t.load(table, t.load('%pc', 1, 'i64'))}, align 1")
    zero = t.set(f"icmp eq i8 {byte}, 0")
    t.go("pred", t.set(f"select i1 {zero}, ptr {t.load('%pc', 3)}, ptr {t.load('%pc', 2)}"))
    t.put("SWITCH:")
    index = t.set(f"load i32, ptr {t.load(table, t.load('%pc', 1, 'i64'))}, align 4")
    wide, count = t.set(f"sext i32 {index} to i64"), t.load("%pc", 2, "i64")
    # Out of range on either side takes the last branch.
    inside = t.set(f"icmp ult i64 {wide}, {count}")
    chosen = t.set(f"select i1 {inside}, i64 {wide}, i64 {t.set(f'sub i64 {count}, 1')}")
    t.go("switch", t.load(t.at("%pc", 3), chosen))
    t.put("CALL:")
    target, flag, slot, pairs = t.load("%pc", 1), *(t.load("%pc", i, "i64") for i in (2, 3, 4))
    sizes, ran = t.at("%pc", 5), t.load("%frame", Word.RAN)
    after, entries = t.at(sizes, pairs), t.at(table, slot)
    t.put(f"  %pure = icmp sge i64 {flag}, 0", "  br i1 %pure, label %call.flag, label %call.args", "call.flag:")
    flag_at = t.set(f"getelementptr i8, ptr {ran}, i64 {flag}")
    t.put(f"  %flag = load i8, ptr {flag_at}, align 1", f"  store i8 1, ptr {flag_at}, align 1")
    t.put("  %before = icmp ne i8 %flag, 0", "  br label %call.args", "call.args:")
    t.put("  %known0 = phi i1 [false, %CALL], [%before, %call.flag]", "  br label %pair", "pair:")
    t.put("  %known = phi i1 [%known0, %call.args], [true, %pair.same], [false, %pair.copy]")
    t.put("  %p = phi i64 [0, %call.args], [%p1, %pair.same], [%p1, %pair.copy]")
    t.put(f"  %pairs.done = icmp eq i64 %p, {pairs}", "  br i1 %pairs.done, label %call.go, label %pair.one")
    t.put("pair.one:", "  %p1 = add i64 %p, 1")
    pair, size = t.at(entries, t.set("shl i64 %p, 1")), t.load(sizes, "%p", "i64")
    source, into = t.load(pair, 0), t.load(pair, 1)
    t.put("  br i1 %known, label %pair.test, label %pair.copy", "pair.test:")
    differs = t.set(f"call i32 @memcmp(ptr {source}, ptr {into}, i64 {size})")
    t.put(f"  %same = icmp eq i32 {differs}, 0", "  br i1 %same, label %pair.same, label %pair.copy")
    t.put("pair.same:", "  br label %pair", "pair.copy:")
    t.put(f"  call void @llvm.memmove.p0.p0.i64(ptr {into}, ptr {source}, i64 {size}, i1 false)", "  br label %pair")
    t.put("call.go:", "  br i1 %known, label %call.skip, label %call.enter", "call.skip:")
    t.go("skip", after)
    t.put("call.enter:", f"  store ptr {after}, ptr %sp, align 8", "  %sp.push = getelementptr i64, ptr %sp, i64 1")
    t.go("enter", target)


def interpreter_source() -> KernelSource:
    """The interpreter. Its symbol's address takes one pointer, the frame's."""
    declarations = (
        *pool_ir.declarations(),
        "declare i32 @memcmp(ptr, ptr, i64)",
        "declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)",
        "declare void @llvm.memmove.p0.p0.i64(ptr, ptr, i64, i1)",
    )
    helpers = (*pool_ir.helpers(), ("gemm_part", _gemm_part()), ("bind", _bind()))
    return KernelSource(_interpreter(), declarations, helpers)
