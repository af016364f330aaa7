"""HLO text: XLA's own notation for modules, in every form found from 2019 to 2026."""

from xyla.formats.hlo_text.codecs import parse_shape
from xyla.formats.hlo_text.parser import parse

__all__ = ["parse", "parse_shape"]
