"""Modules written between passes, under XLA's file names.

    module_0001.NAME.0003.PIPELINE.after_P.before_Q.txt

The first number is the module's, the second counts its dumps. As in XLA: a module is dumped before the first step and
after each step that changed it, when the name of the step before or after matches; with an expression other than
`.*` also after steps that changed nothing. Source: XLA's HloPassPipeline and dump.cc (names, when).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from xyla.hlo.module import Module
from xyla.passmgr.pipeline import Pipeline, Step
from xyla.support import flags
from xyla.support.status import invalid

Writer = Callable[[Module], bytes]


def text_writer(module: Module) -> bytes:
    """HLO text."""
    return module.to_string().encode()


@dataclass(slots=True)
class Dumper:
    """An observer of a pipeline run (`RunOptions.observers`) that writes the module to `folder`.

    around: dump before and after passes whose step or pass name matches (XLA's `xla_dump_hlo_pass_re`). before, after:
    only on that side. writers: how to write, by file ending. The expressions must be valid (see `check_expression`).
    """

    pipeline: Pipeline
    folder: Path
    around: str = ""
    before: str = ""
    after: str = ""
    disabled: frozenset[str] = frozenset()
    writers: dict[str, Writer] = field(default_factory=lambda: {"txt": text_writer})
    written: list[Path] = field(default_factory=list)
    _stem: str = ""
    _step: int = 0
    _begun: set[str] = field(default_factory=set)
    _places: dict[str, _Place] = field(default_factory=dict)

    def __call__(self, name: str, when: str, module: Module, changed: bool) -> None:
        """Sees a step begin or end."""
        if not self._places:
            self._places = dict(_places(self.pipeline, self.disabled))
        place = self._places.get(name)
        if place is None:
            return
        if when == "after":
            if self._wants_after(place, changed):
                self._write(module, place.pipeline, name, place.next)
            return
        begins = place.previous == "pipeline-start" and place.pipeline not in self._begun
        self._begun.add(place.pipeline)
        if self._matches(self.before, place.step) or (begins and self._matches(self.around, place.step)):
            self._write(module, place.pipeline, place.previous, name)

    def go_on(self, earlier: Dumper) -> None:
        """Takes over the module's number and the count of its dumps."""
        self._stem, self._step = earlier._stem, earlier._step

    def _wants_after(self, place: _Place, changed: bool) -> bool:
        if self._matches(self.after, place.step):
            return True
        near = [place.step, *([place.next_step] if place.next_step else [])]
        return any(self._matches(self.around, step) for step in near) and (changed or self.around != ".*")

    @staticmethod
    def _matches(expression: str, step: Step) -> bool:
        return bool(expression) and any(re.search(expression, name) for name in (step.name, step.run.name))

    def _write(self, module: Module, pipeline: str, after: str, before: str) -> None:
        if not self._stem:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._stem = f"module_{_next_number(self.folder):04d}.{_clean(module.name)}"
        middle = f"{self._step:04d}.{_clean(pipeline)}.after_{_clean(after)}.before_{_clean(before)}"
        self._step += 1
        for ending, writer in self.writers.items():
            path = self.folder / f"{self._stem}.{middle}.{ending}"
            path.write_bytes(writer(module))
            self.written.append(path)


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a step stands: its pipeline's name, and the names of its neighbours there."""

    step: Step
    pipeline: str
    previous: str
    next: str
    next_step: Step | None


def _places(pipeline: Pipeline, disabled: frozenset[str]) -> Iterator[tuple[str, _Place]]:
    """Every step's place. A fixpoint counts as a pipeline of its own, and as one step of the outer one."""
    outer: list[tuple[str, Step | None]] = []
    for item in pipeline.steps:
        if isinstance(item, Step):
            if not {item.name, item.run.name} & disabled:
                outer.append((item.name, item))
            continue
        outer.append((item.name, None))
        inner: list[tuple[str, Step | None]] = [(s.name, s) for s in item.steps if not {s.name, s.run.name} & disabled]
        yield from _row(item.name, inner)
    yield from _row(pipeline.name, outer)


def _row(name: str, row: list[tuple[str, Step | None]]) -> Iterator[tuple[str, _Place]]:
    for i, (step_name, step) in enumerate(row):
        if step is None:
            continue
        previous = row[i - 1][0] if i else "pipeline-start"
        following, next_step = row[i + 1] if i + 1 < len(row) else ("pipeline-end", None)
        yield step_name, _Place(step, name, previous, following, next_step)


def check_expression(option: str, text: str) -> str:
    """The expression itself. Raises INVALID_ARGUMENT, naming the option, when it is not one."""
    try:
        re.compile(text)
    except re.error as error:
        raise invalid(f"{option}: {text!r} is not a regular expression: {error}") from error
    return text


def _next_number(folder: Path) -> int:
    """The first module number that no file of the folder has: earlier dumps are never overwritten."""
    taken = [int(m[1]) for p in folder.iterdir() if (m := re.match(r"module_(\d{4,})\.", p.name))]
    return max(taken, default=0) + 1


def _clean(name: str) -> str:
    return re.sub(r"[^\w-]", "_", name)[:100]


@dataclass(frozen=True, slots=True)
class DumpOptions:
    """What to dump beside what XLA_FLAGS asks for: a folder, expressions for step names, more formats."""

    folder: Path | None = None
    before: str = ""
    after: str = ""
    proto: bool = False
    dot: bool = False


NO_DUMPS = DumpOptions()


def dumpers(
    pipeline: Pipeline,
    module: Module,
    disabled: frozenset[str],
    options: DumpOptions = NO_DUMPS,
    after: Dumper | None = None,
) -> list[Dumper]:
    """The observers that dump `module` as the options and XLA_FLAGS say: none or one.

    after: what dumped the module in the pipeline before; its number and its count go on.
    Raises INVALID_ARGUMENT for a bad expression, and when the options ask for dumps but nothing names a folder.
    """
    chosen = flags.current()
    first = check_expression("--dump-before", options.before)
    then = check_expression("--dump-after", options.after)
    folder = options.folder or (Path(chosen.xla_dump_to) if chosen.xla_dump_to else None)
    around = chosen.xla_dump_hlo_pass_re
    if not (first or then or around) or not re.search(chosen.xla_dump_hlo_module_re, module.name):
        return []
    if folder is None and not (first or then):
        return []  # as in XLA: an expression alone dumps nothing
    if folder is None:
        raise invalid("passes are to be dumped, but there is no folder", hint="give --dump-to or xla_dump_to")
    writers: dict[str, Writer] = {"txt": text_writer}
    if options.proto or chosen.xla_dump_hlo_as_proto:
        from xyla.formats import hlo_proto

        writers["hlo.pb"] = hlo_proto.to_bytes
    if options.dot:
        writers["dot"] = _dot_writer
    dumper = Dumper(pipeline, folder, around, first, then, disabled, writers)
    if after is not None and after.folder == folder:
        dumper.go_on(after)
    return [dumper]


def _dot_writer(module: Module) -> bytes:
    from xyla.passmgr.dot import to_dot

    return to_dot(module).encode()
