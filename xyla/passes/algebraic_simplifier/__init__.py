"""The algebraic simplifier: XLA's rule set by op family, each rule a named equation."""

from xyla.passes.algebraic_simplifier.simplifier import AlgebraicSimplifier

__all__ = ["AlgebraicSimplifier"]
