"""LLVM IR as text: values, an instruction and control-flow writer, function assembly."""

from xyla.codegen.llvm.builder import Builder, Loop
from xyla.codegen.llvm.memory import byte_size
from xyla.codegen.llvm.module import Function, Needs, Param
from xyla.codegen.llvm.values import Cx, Operand, Val, Value, constant, llvm_type, vector_constant

__all__ = [
    "Builder",
    "Cx",
    "Function",
    "Loop",
    "Needs",
    "Operand",
    "Param",
    "Val",
    "Value",
    "byte_size",
    "constant",
    "llvm_type",
    "vector_constant",
]
