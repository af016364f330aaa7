"""Arguments that several subcommands take."""

from __future__ import annotations

from enum import Enum
from typing import Annotated

import typer


class Format(str, Enum):  # noqa: UP042 - typer reads the values of a str enum
    """The language of an input file."""

    HLO = "hlo"
    STABLEHLO = "stablehlo"
    PROTO = "proto"
    TEXT_PROTO = "text-proto"
    SNAPSHOT = "snapshot"


FileArgument = Annotated[str, typer.Argument(metavar="FILE", help="Program to read; - is standard input.")]
OptionalFileArgument = Annotated[
    str | None, typer.Argument(metavar="FILE", help="Program to read; - is standard input.", show_default=False)
]
FromOption = Annotated[
    Format | None, typer.Option("--from", help="The file's language; found from its content when not given.")
]
