"""Native kernels by family, and the table of which op gets which: `build_kernel(inst)`."""

from xyla.codegen.kernels.table import KERNEL, build_kernel, kernel_or_reason

__all__ = ["KERNEL", "build_kernel", "kernel_or_reason"]
