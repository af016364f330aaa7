"""Structured control flow over the instruction writer: loops with carried values, conditionals."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from xyla.codegen.llvm.memory import Memory
from xyla.codegen.llvm.values import Cx, Operand, Val, Value, constant


class Loop:
    """A counted loop being written. `i` is the index, `carried` this iteration's values, `results` the final ones."""

    __slots__ = ("_next", "carried", "i", "results")

    def __init__(self, i: Val, carried: list[Value]) -> None:
        self.i = i
        self.carried = carried
        self.results: list[Value] = []
        self._next: list[Value] | None = None

    def next(self, *values: Value) -> None:
        """States the next iteration's carried values: once, at the end of the body, when any is carried."""
        self._next = list(values)

    def take_next(self) -> list[Value]:
        """What `next` was told. Raises ValueError when the body forgot to say."""
        if self._next is None or len(self._next) != len(self.carried):
            if not self.carried:
                return []
            raise ValueError(f"loop carries {len(self.carried)} values, next() was given {self._next}")
        return self._next


class Builder(Memory):
    """The function-body writer that emitters use: instructions, memory, control flow."""

    @contextmanager
    def loop(self, lo: Operand, hi: Operand, step: Operand = 1, carry: Sequence[Value] = ()) -> Iterator[Loop]:
        """`for (i64 i = lo; i < hi; i += step)`, bottom-tested.

        The zero-trip guard is left out when Python can see that there is a trip. Bodies may nest loops and branch.
        """
        guarded = isinstance(lo, Val) or isinstance(hi, Val) or lo >= hi
        first, last = self._i64(lo), self._i64(hi)
        name, origin = self.fresh("loop"), self.block_name
        enter = self.icmp("slt", first, last) if guarded else None
        self._branch(enter, f"{name}.body", f"{name}.exit")
        self.label(f"{name}.body")
        index = Val(f"%{name}.i", "i64")
        at = len(self.lines)
        self.lines.append("")
        flat = _flatten(carry)
        phis = [Val(f"%{name}.c{k}", v.ty, v.lanes) for k, v in enumerate(flat)]
        self.lines.extend("" for _ in flat)
        loop = Loop(index, _like(carry, phis))
        yield loop
        latest = _flatten(loop.take_next())
        bumped = self.binary("add nsw", index, self._i64(step))
        again = self.icmp("slt", bumped, last)
        latch = self.block_name
        self.line(f"br i1 {again.text}, label %{name}.body, label %{name}.exit")
        self.lines[at] = _phi(index, first.text, origin, bumped.text, latch)
        for k, (phi, init, new) in enumerate(zip(phis, flat, latest, strict=True)):
            self.lines[at + 1 + k] = _phi(phi, init.text, origin, new.text, latch)
        self.label(f"{name}.exit")
        if guarded:
            outs = [Val(f"%{name}.r{k}", v.ty, v.lanes) for k, v in enumerate(flat)]
            for out, init, new in zip(outs, flat, latest, strict=True):
                self.lines.append(_phi(out, init.text, origin, new.text, latch))
            latest = outs
        loop.results = _like(carry, latest)

    def while_loop(
        self,
        init: Sequence[Value],
        cond: Callable[[list[Value]], Val],
        body: Callable[[list[Value]], Sequence[Value]],
    ) -> list[Value]:
        """Top-tested loop over carried values; returns the values for which `cond` was false."""
        name, origin = self.fresh("while"), self.block_name
        flat = _flatten(init)
        self.line(f"br label %{name}.head")
        self.label(f"{name}.head")
        at = len(self.lines)
        self.lines.extend("" for _ in flat)
        phis = [Val(f"%{name}.c{k}", v.ty, v.lanes) for k, v in enumerate(flat)]
        state = _like(init, phis)
        test = cond(state)
        self.line(f"br i1 {test.text}, label %{name}.body, label %{name}.exit")
        self.label(f"{name}.body")
        new = _flatten(body(state))
        self.line(f"br label %{name}.head")
        for k, (phi, first, nxt) in enumerate(zip(phis, flat, new, strict=True)):
            self.lines[at + k] = _phi(phi, first.text, origin, nxt.text, self.block_name)
        self.label(f"{name}.exit")
        return state

    @contextmanager
    def when(self, cond: Val) -> Iterator[None]:
        """Runs the body only if the scalar `cond` holds. Values made inside do not leave it: use `cond` for those."""
        name = self.fresh("if")
        self.line(f"br i1 {cond.text}, label %{name}.then, label %{name}.end")
        self.label(f"{name}.then")
        yield
        self.line(f"br label %{name}.end")
        self.label(f"{name}.end")

    def cond(
        self,
        cond: Val,
        then: Callable[[], Sequence[Value]],
        orelse: Callable[[], Sequence[Value]],
        *,
        unlikely: bool = False,
    ) -> list[Value]:
        """if/else on a scalar; both branches return the same number and types of values.

        `unlikely`: the condition seldom holds; registers are kept for the other branch.
        """
        name = self.fresh("if")
        hint = ", !prof !1" if unlikely else ""
        self.line(f"br i1 {cond.text}, label %{name}.then, label %{name}.else{hint}")
        self.label(f"{name}.then")
        model = then()
        yes, yes_from = _flatten(model), self.block_name
        self.line(f"br label %{name}.end")
        self.label(f"{name}.else")
        no = _flatten(orelse())
        no_from = self.block_name
        self.line(f"br label %{name}.end")
        self.label(f"{name}.end")
        outs = []
        for k, (a, b) in enumerate(zip(yes, no, strict=True)):
            out = Val(f"%{name}.v{k}", a.ty, a.lanes)
            self.lines.append(_phi(out, a.text, yes_from, b.text, no_from))
            outs.append(out)
        return _like(model, outs)

    def ret(self, value: Val | None = None) -> None:
        """Returns from the function."""
        self.line("ret void" if value is None else f"ret {value.typed}")

    def _i64(self, v: Operand) -> Val:
        return v if isinstance(v, Val) else constant(v, "i64")

    def _branch(self, cond: Val | None, yes: str, no: str) -> None:
        if cond is None:
            self.line(f"br label %{yes}")
        else:
            self.line(f"br i1 {cond.text}, label %{yes}, label %{no}")


def _phi(out: Val, a: str, a_from: str, b: str, b_from: str) -> str:
    return f"  {out.text} = phi {out.type} [ {a}, %{a_from} ], [ {b}, %{b_from} ]"


def _flatten(values: Sequence[Value]) -> list[Val]:
    flat: list[Val] = []
    for v in values:
        if isinstance(v, Cx):
            flat += (v.re, v.im)
        else:
            flat.append(v)
    return flat


def _like(model: Sequence[Value], flat: Sequence[Val]) -> list[Value]:
    """Groups flat values into the shape of `model` (complex pairs where it has them)."""
    it = iter(flat)
    return [Cx(next(it), next(it)) if isinstance(m, Cx) else next(it) for m in model]
