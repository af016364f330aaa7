"""Loads and stores: plain, masked, gathered, scattered. Addresses are pointers plus element indices."""

from __future__ import annotations

from xyla.codegen.llvm.arith import Arith
from xyla.codegen.llvm.values import FLOAT_BITS, INT_BITS, Operand, Val, constant, llvm_type


def byte_size(ty: str) -> int:
    """Bytes one element of a scalar LLVM type takes in memory."""
    if ty == "ptr":
        return 8
    return FLOAT_BITS[ty] // 8 if ty in FLOAT_BITS else (INT_BITS[ty] + 7) // 8


class Memory(Arith):
    """Memory instructions. The default alignment is the element's own: buffers may come from anywhere."""

    def gep(self, base: Val, index: Operand, ty: str) -> Val:
        """base + index elements of `ty`. A vector index gives a vector of pointers."""
        if not isinstance(index, Val):
            index = constant(index, "i64")
        return self.emit(f"getelementptr {ty}, {base.typed}, {index.typed}", "ptr", index.lanes)

    def load(self, ptr: Val, ty: str, lanes: int = 1, *, align: int = 0) -> Val:
        """Loads `lanes` consecutive elements."""
        return self.emit(f"load {llvm_type(ty, lanes)}, {ptr.typed}, align {align or byte_size(ty)}", ty, lanes)

    def store(self, value: Val, ptr: Val, *, align: int = 0, nontemporal: bool = False) -> None:
        """Stores consecutive elements. `nontemporal` wants `align` equal to the vector's size to have any effect."""
        hint = ", !nontemporal !0" if nontemporal else ""
        self.line(f"store {value.typed}, {ptr.typed}, align {align or byte_size(value.ty)}{hint}")

    def masked_load(self, ptr: Val, mask: Val, ty: str, *, align: int = 0) -> Val:
        """Loads the lanes that `mask` sets; the others are zero and their memory is not touched."""
        lanes = mask.lanes
        if lanes == 1:
            return self._scalar_load_if(ptr, mask, ty)
        zero = Val("zeroinitializer", ty, lanes)
        where = f"ptr align {align or byte_size(ty)} {ptr.text}"
        symbol = self.declare_intrinsic("masked.load", [ptr, mask, zero], zero.type, ((ty, lanes), ("ptr", 1)))
        return self.emit(f"call {zero.type} @{symbol}({where}, {mask.typed}, {zero.typed})", ty, lanes)

    def masked_store(self, value: Val, ptr: Val, mask: Val, *, align: int = 0) -> None:
        """Stores the lanes that `mask` sets."""
        if value.lanes == 1:
            self._scalar_store_if(value, ptr, mask)
            return
        where = f"ptr align {align or byte_size(value.ty)} {ptr.text}"
        over = ((value.ty, value.lanes), ("ptr", 1))
        symbol = self.declare_intrinsic("masked.store", [value, ptr, mask], "void", over)
        self.line(f"call void @{symbol}({value.typed}, {where}, {mask.typed})")

    def gather(self, base: Val, index: Val, ty: str, mask: Val | None = None) -> Val:
        """Loads element `index[lane]` for each lane (of those that `mask` sets; the others are zero)."""
        if index.lanes == 1:
            ptr = self.gep(base, index, ty)
            return self.load(ptr, ty) if mask is None else self._scalar_load_if(ptr, mask, ty)
        lanes = index.lanes
        ptrs = self.gep(base, index, ty)
        keep = mask if mask is not None else constant(True, "i1", lanes)
        zero = Val("zeroinitializer", ty, lanes)
        over = ((ty, lanes), ("ptr", lanes))
        symbol = self.declare_intrinsic("masked.gather", [ptrs, keep, zero], zero.type, over)
        where = f"<{lanes} x ptr> align {byte_size(ty)} {ptrs.text}"
        return self.emit(f"call {zero.type} @{symbol}({where}, {keep.typed}, {zero.typed})", ty, lanes)

    def scatter(self, value: Val, base: Val, index: Val, mask: Val | None = None) -> None:
        """Stores each lane to element `index[lane]`; where indices repeat, the last lane wins."""
        if index.lanes == 1:
            ptr = self.gep(base, index, value.ty)
            if mask is None:
                self.store(value, ptr)
            else:
                self._scalar_store_if(value, ptr, mask)
            return
        lanes = index.lanes
        ptrs = self.gep(base, index, value.ty)
        keep = mask if mask is not None else constant(True, "i1", lanes)
        over = ((value.ty, lanes), ("ptr", lanes))
        symbol = self.declare_intrinsic("masked.scatter", [value, ptrs, keep], "void", over)
        where = f"<{lanes} x ptr> align {byte_size(value.ty)} {ptrs.text}"
        self.line(f"call void @{symbol}({value.typed}, {where}, {keep.typed})")

    def alloca(self, ty: str, count: int = 1, *, align: int = 64) -> Val:
        """Stack space for `count` elements. Call it in the entry block: a loop would grow the stack."""
        return self.emit(f"alloca {ty}, i64 {count}, align {align}", "ptr")

    def tail_mask(self, done: Operand, total: Operand, lanes: int) -> Val:
        """Lane l is set when done + l < total (i64, 0 <= total - done)."""
        if not isinstance(done, Val) and not isinstance(total, Val):
            total = constant(total, "i64")
        left = self.sub(total, done)
        if lanes == 1:
            return self.icmp("sgt", left, 0)
        few = self.cast("trunc", self.umin(left, lanes), "i32")
        return self.icmp("ult", self.iota("i32", lanes), self.splat(few, lanes))

    def _scalar_load_if(self, ptr: Val, mask: Val, ty: str) -> Val:
        zero = Val("zeroinitializer", ty, 1)
        name, origin = self.fresh("b"), self.block_name
        self.line(f"br i1 {mask.text}, label %{name}.load, label %{name}.join")
        self.label(f"{name}.load")
        got = self.load(ptr, ty)
        self.line(f"br label %{name}.join")
        self.label(f"{name}.join")
        return self.emit(f"phi {ty} [ {zero.text}, %{origin} ], [ {got.text}, %{name}.load ]", ty)

    def _scalar_store_if(self, value: Val, ptr: Val, mask: Val) -> None:
        name = self.fresh("b")
        self.line(f"br i1 {mask.text}, label %{name}.store, label %{name}.join")
        self.label(f"{name}.store")
        self.store(value, ptr)
        self.line(f"br label %{name}.join")
        self.label(f"{name}.join")

    def label(self, name: str) -> None:
        """Starts a basic block."""
        self.lines.append(f"{name}:")
        self.block_name = name
