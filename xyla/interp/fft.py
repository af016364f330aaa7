"""fft over the innermost dimensions. Spec: XLA operation semantics (Fft): inverse transforms divide by the length."""

from __future__ import annotations

import numpy as np

from xyla.hlo import ops
from xyla.hlo.attr_types import FftType
from xyla.hlo.module import Instruction
from xyla.interp.session import Session
from xyla.interp.table import EVAL, Array, Kernel


@EVAL.rule(ops.FFT)
def _fft(inst: Instruction, session: Session) -> Kernel:
    kind, length, shape = inst.attrs.fft_type, tuple(inst.attrs.fft_length), inst.shape
    axes = tuple(range(-len(length), 0))
    real = kind in (FftType.RFFT, FftType.IRFFT)

    def kernel(x: Array) -> Array:
        from scipy import fft as sp

        x = np.asarray(x)
        if x.size == 0 or 0 in shape.dims or 0 in length:
            return np.zeros(shape.dims, shape.element_type.np)
        if kind is FftType.RFFT:
            out = sp.rfftn(x, s=length, axes=axes)
        elif kind is FftType.IRFFT:
            out = sp.irfftn(x, s=length, axes=axes)
        else:
            assert not real
            out = (sp.fftn if kind is FftType.FFT else sp.ifftn)(x, s=length, axes=axes)
        return np.asarray(out).astype(shape.element_type.np)

    return kernel
