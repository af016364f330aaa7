"""`xyla compile`: a program as a saved executable, or as the text of one stage on the way there."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from xyla.clients.cli.common import FileArgument, FromOption
from xyla.clients.cli.pass_commands import FpMode, FpOption
from xyla.support.status import invalid

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xyla.compiler.driver import Compilation
    from xyla.compiler.from_text import TextCompilation
    from xyla.runtime.objects import KernelSource

PIPELINE = "lmhlo-to-rt"


class Stage(str, Enum):  # noqa: UP042 - typer reads the values of a str enum
    """What a program is on its way to native code, in order."""

    HLO = "hlo"
    SCHEDULE = "schedule"
    BUFFERS = "buffers"
    LMHLO = "lmhlo"
    RT = "rt"
    LLVM = "llvm"
    ASM = "asm"


def compile_(
    file: FileArgument,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="FILE", help="The file to write: MODEL.xyla, or text.")
    ] = None,
    stage: Annotated[Stage | None, typer.Option(help="Print this stage's text instead of saving.")] = None,
    source: FromOption = None,
    passes: Annotated[
        str, typer.Option(metavar="LIST", help="default: the CPU's pipeline; none; or passes as opt takes them.")
    ] = "default",
    fp: FpOption = FpMode.DEFAULT,
    lowering: Annotated[
        str, typer.Option(metavar="PIPELINE", help="How LMHLO is lowered: lmhlo-to-rt{min-num-elements=N}.")
    ] = PIPELINE,
) -> None:
    """Compile a program to a file that `xyla run` loads without compiling, or print a stage of the compilation.

    The program is in HLO or StableHLO, or starts further down: as LMHLO, or as the text of a runtime program.
    """
    if stage is None and output is None:
        raise invalid("nothing to do: give -o MODEL.xyla or --stage")
    compilation = compilation_of(file, source.value if source else None, passes, fp.value, lowering)
    if stage is not None:
        _write(STAGES[stage](compilation), output)
        return
    assert output is not None
    executable = compilation.executable
    executable.save(output)
    typer.echo(f"{output}: {output.stat().st_size} bytes, {executable.stats.kernels} kernels")


def compilation_of(
    file: str, kind: str | None, passes: str, fp: str, lowering: str = PIPELINE
) -> Compilation | TextCompilation:
    """The compilation of a file in any language; one below HLO is read by `buffer_level`."""
    from xyla.clients.cli import inputs

    below = buffer_level(file, lowering) if kind is None else None
    if below is not None:
        inputs.refuse_ignored(file, ("--passes", passes != "default"), ("--fp", fp != "default"))
        return below
    from xyla.clients.api import compiler_options
    from xyla.clients.devices import Job
    from xyla.compiler.driver import Compilation

    module = inputs.as_module(inputs.read_program(file, kind), ())
    return Compilation(Job(module).module, compiler_options(passes, fp))


def buffer_level(file: str, lowering: str = PIPELINE) -> TextCompilation | None:
    """The compilation of a file in LMHLO or of the text of a runtime program; None when it is neither."""
    from xyla.compiler.from_text import TextCompilation, kind_of

    path = Path(file)
    if not path.is_file():
        return None
    text = path.read_bytes().decode("utf-8", "replace")
    if kind_of(text) is None:
        return None
    from xyla.lowering.lmhlo_to_rt import Options

    return TextCompilation(text, file, Options.parse(lowering))


def _write(text: str, output: Path | None) -> None:
    text = text if text.endswith("\n") else text + "\n"
    if output is None:
        typer.echo(text, nl=False)
    else:
        output.write_text(text, encoding="utf-8")


# -- stages --------------------------------------------------------------------------------------------------------


def _hlo(compilation: Any) -> str:
    return str(_above(compilation).optimised)


def _schedule(compilation: Any) -> str:
    return str(_above(compilation).assignment.module)


def _buffers(compilation: Any) -> str:
    from xyla.buffers.dump import assignment_text

    return assignment_text(_above(compilation).assignment)


def _lmhlo(compilation: Any) -> str:
    from xyla.lowering.lmhlo_text import print_module

    return print_module(compilation.lmhlo)


def _rt(compilation: Any) -> str:
    from xyla.lowering.rt_text import print_program

    return print_program(compilation.program)


def _llvm(compilation: Any) -> str:
    from xyla.runtime.llvm_compile import module_text

    return module_text(_unique(compilation.kernel_sources))


def _asm(compilation: Any) -> str:
    from xyla.runtime.llvm_compile import assembly, module_text

    return assembly(module_text(_unique(compilation.kernel_sources)))


STAGES: dict[Stage, Callable[[Any], str]] = {
    Stage.HLO: _hlo,
    Stage.SCHEDULE: _schedule,
    Stage.BUFFERS: _buffers,
    Stage.LMHLO: _lmhlo,
    Stage.RT: _rt,
    Stage.LLVM: _llvm,
    Stage.ASM: _asm,
}


def _above(compilation: Any) -> Any:
    """The compilation of a program that starts as HLO. Raises INVALID_ARGUMENT for one that starts below."""
    from xyla.compiler.from_text import TextCompilation

    if isinstance(compilation, TextCompilation):
        raise invalid(f"{compilation.name} starts below HLO: it is {compilation.kind} already")
    return compilation


def _unique(sources: Sequence[KernelSource]) -> list[KernelSource]:
    return list({s.symbol: s for s in sources}.values())
