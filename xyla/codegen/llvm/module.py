"""Assembly of functions into module text; what a function needs (intrinsics, helpers) is collected on the way."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from xyla.codegen.llvm.builder import Builder
from xyla.codegen.llvm.values import Val
from xyla.runtime.objects import KernelSource


@dataclass(frozen=True, slots=True)
class Param:
    """A function parameter: LLVM type, name (without %), attributes such as "noalias align 64"."""

    ty: str
    name: str
    attrs: str = ""

    @property
    def value(self) -> Val:
        """The parameter as an operand."""
        return Val(f"%{self.name}", self.ty)


class Needs:
    """Declarations and internal helper functions that emitted code refers to, in first-use order."""

    def __init__(self) -> None:
        self.declarations: dict[str, None] = {}
        self.helpers: dict[str, str] = {}

    def declare(self, text: str) -> None:
        """Adds a `declare` (or a constant global) once."""
        self.declarations[text] = None

    def helper(self, name: str, params: Sequence[Param], ret: str, body: Callable[[Builder], None]) -> None:
        """Adds an internal function once; `body` must emit it up to and including its `ret`."""
        if name in self.helpers:
            return
        self.helpers[name] = ""  # claims the name, so that a helper that needs itself does not loop
        builder = Builder(self)
        body(builder)
        plist = ", ".join(_param(p) for p in params)
        self.helpers[name] = f"define internal {ret} @{name}({plist}) noinline #0 {{\n{builder.text()}}}\n"


class Function:
    """A kernel function being written: `builder` writes its body; `source()` closes it."""

    def __init__(self, params: Sequence[Param], ret: str = "void") -> None:
        self.params = tuple(params)
        self.ret = ret
        self.needs = Needs()
        self.builder = Builder(self.needs)

    def arg(self, i: int) -> Val:
        """Parameter `i` as an operand."""
        return self.params[i].value

    def source(self) -> KernelSource:
        """The finished function. Its symbol is derived from its text, so equal kernels are one kernel."""
        plist = ", ".join(_param(p) for p in self.params)
        head = f"define {self.ret} @{KernelSource.SYMBOL}({plist}) #0 {{\n"
        return KernelSource(
            head + self.builder.text() + "}\n",
            tuple(self.needs.declarations),
            tuple(self.needs.helpers.items()),
        )


def _param(p: Param) -> str:
    return f"{p.ty} {p.attrs} %{p.name}" if p.attrs else f"{p.ty} %{p.name}"
