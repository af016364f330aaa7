"""chlo operations as HLO compositions: `CHLO` maps an operation's name to its rule."""

from __future__ import annotations

from xyla.formats.stablehlo.body import Rule

CHLO: dict[str, Rule] = {}
