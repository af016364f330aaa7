"""The reference evaluator: every op in NumPy. It is the living definition of what a program means.

Entry points: `run(program, args)` and, below it, `evaluate(module, values)` and `Evaluator`.
"""

from xyla.interp.api import Evaluator, evaluate, run, to_literal, to_module

__all__ = ["Evaluator", "evaluate", "run", "to_literal", "to_module"]
