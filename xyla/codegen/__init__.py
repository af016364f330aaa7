"""Code generation: element emitters and kernels as LLVM IR text."""
