"""LMHLO -> runtime program: the one path to both engines. `pipeline.lower` does it; see README.md of `lowering`."""

from xyla.lowering.lmhlo_to_rt.pipeline import PIPELINE, Lowered, Options, lower

__all__ = ["PIPELINE", "Lowered", "Options", "lower"]
