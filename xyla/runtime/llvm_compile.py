"""From LLVM IR text to object code: kernel sources, the host's target, one compilation."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache, cached_property
from typing import ClassVar

import llvmlite.binding as llvm

from xyla.support.status import XylaError, internal

# Part of every cache key: raise it when the pass list, the code model or an attribute below changes.
OBJECT_FORMAT = 1


@dataclass(frozen=True)
class KernelSource:
    """One kernel as text. `definition` defines `@SYMBOL`; `helpers` are (name, definition) of internal functions."""

    SYMBOL: ClassVar[str] = "xyla_kernel"

    definition: str
    declarations: tuple[str, ...] = ()
    helpers: tuple[tuple[str, str], ...] = ()

    @cached_property
    def symbol(self) -> str:
        """The name the compiled kernel gets: derived from everything that decides its machine code."""
        parts = [self.definition, *self.declarations, *(text for _, text in self.helpers)]
        return "xyla_" + hashlib.sha256("\0".join(parts).encode()).hexdigest()[:24]

    def text(self) -> str:
        """The kernel alone as a readable module (for dumps)."""
        return module_text([self])


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
        '!1 = !{!"branch_weights", i32 1, i32 2000}\n'
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
    """Compiles a module to a relocatable object. Raises INTERNAL with the line at fault if LLVM rejects it."""
    return bytes(_machine().emit_object(_optimised(text)))


def assembly(text: str) -> str:
    """The machine code of a module as assembly, for reading. Raises as `compile_ir`."""
    return str(_machine().emit_assembly(_optimised(text)))


def _optimised(text: str) -> llvm.ModuleRef:
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
    return module


def _rejected(text: str, message: str) -> XylaError:
    at = re.search(r":(\d+):(\d+): error: (.*)", message)
    if at is None:
        return internal(f"LLVM rejects generated code: {message.strip().splitlines()[-1]}")
    lines = text.splitlines()
    number = int(at[1])
    excerpt = "\n".join(f"  {n + 1}: {lines[n]}" for n in range(max(0, number - 3), min(len(lines), number + 1)))
    return internal(f"LLVM rejects generated code, line {number}, column {at[2]}: {at[3]}\n{excerpt}")
