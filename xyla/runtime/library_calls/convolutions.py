"""The five convolutions `xla.gpu.conv.*`: forward, fused with bias, activation and side input, and both gradients.

All work on the forward convolution's window: each tap of the kernel reads a strided part of the dilated, padded input,
and the gradients write through the same parts. Source: XLA's convolution semantics, cuDNN's fused convolution.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np

from xyla.runtime.custom_calls import Handler
from xyla.runtime.library_calls.common import Array, arithmetic, library_call, plain, unused
from xyla.runtime.program import CustomCallStep
from xyla.support.status import invalid, unimplemented


class ActivationMode(Enum):
    """What a fused convolution applies, by cuDNN's numbers as XLA passes them."""

    NONE = 0
    SIGMOID = 1
    RELU = 2
    RELU6 = 3
    RELUX = 4
    TANH = 5
    BANDPASS = 6
    ELU = 7
    LEAKY_RELU = 8


_INTS = tuple[int, ...]
# An index of an array's last dimensions.
Index = tuple[Any, ...]
_CONV = {
    "input_batch_dim": int,
    "input_feature_dim": int,
    "input_spatial_dims": _INTS,
    "kernel_in_feature_dim": int,
    "kernel_out_feature_dim": int,
    "kernel_spatial_dims": _INTS,
    "output_batch_dim": int,
    "output_feature_dim": int,
    "output_spatial_dims": _INTS,
    "window_reversal": (_INTS, ()),
    "window_strides": (_INTS, ()),
    "lhs_dilation": (_INTS, ()),
    "rhs_dilation": (_INTS, ()),
    "padding": (_INTS, ()),
    "algorithm": (int, -1),
    "tensor_ops_enabled": (bool, False),
    "is_cudnn_frontend": (bool, False),
    "workspace_size": (int, 0),
    "knob_ids": (_INTS, ()),
    "knob_values": (_INTS, ()),
    "operand_0_layout": (_INTS, ()),
    "operand_1_layout": (_INTS, ()),
    "result_layout": (_INTS, ()),
    "feature_group_count": (int, 1),
    "result_scale": (float, 1.0),
}
_FUSED = {**_CONV, "activation_mode": ActivationMode}


@dataclass(frozen=True, slots=True)
class Window:
    """The forward convolution's window: one entry a spatial dimension."""

    strides: tuple[int, ...]
    padding: tuple[tuple[int, int], ...]
    input_dilation: tuple[int, ...]
    kernel_dilation: tuple[int, ...]
    reversal: tuple[bool, ...]

    @staticmethod
    def of(a: dict[str, Any]) -> Window:
        """The window of a call's attributes; absent lists are ones and zeros. Raises INVALID_ARGUMENT."""
        n = len(a["input_spatial_dims"])
        lengths = {"window_strides": n, "lhs_dilation": n, "rhs_dilation": n, "window_reversal": n, "padding": 2 * n}
        for key, length in lengths.items():
            if a[key] and len(a[key]) != length:
                raise invalid(f"{key} has {len(a[key])} entries, expected {length}")
        flat = a["padding"] or (0,) * (2 * n)
        return Window(
            a["window_strides"] or (1,) * n,
            tuple(zip(flat[::2], flat[1::2], strict=True)),
            a["lhs_dilation"] or (1,) * n,
            a["rhs_dilation"] or (1,) * n,
            tuple(bool(r) for r in a["window_reversal"]) or (False,) * n,
        )

    def places(self, sizes: tuple[int, ...]) -> tuple[list[int], Index, Index]:
        """(padded sizes, where the input's elements lie in the padded one, which elements those are)."""
        padded: list[int] = []
        inside: list[slice] = []
        taken: list[slice] = []
        for size, (low, high), dilation in zip(sizes, self.padding, self.input_dilation, strict=True):
            total = max((size - 1) * dilation + 1 if size else 0, 0) + low + high
            first = max(0, -(low // dilation)) if low < 0 else 0
            last = min(size - 1, (total - 1 - low) // dilation)
            padded.append(max(total, 0))
            taken.append(slice(first, last + 1))
            start = low + first * dilation
            inside.append(slice(start, start + (last - first) * dilation + 1, dilation) if last >= first else slice(0))
        return padded, (..., *inside), (..., *taken)

    def taps(self, kernel: tuple[int, ...], output: tuple[int, ...]) -> list[tuple[Index, Index]]:
        """(place in the kernel, part of the padded input that it reads) of each tap, as indices of the last ones."""
        out: list[tuple[Index, Index]] = []
        for tap in itertools.product(*(range(k) for k in kernel)):
            part = []
            for i, k in enumerate(tap):
                offset = (kernel[i] - 1 - k if self.reversal[i] else k) * self.kernel_dilation[i]
                part.append(slice(offset, offset + (output[i] - 1) * self.strides[i] + 1, self.strides[i]))
            out.append(((..., *tap), (..., *part)))
        return out


class Convolution:
    """A convolution between canonical arrays: input [n, g, i, *s], kernel [g, o, i, *k], output [n, g, o, *t]."""

    def __init__(self, a: dict[str, Any]) -> None:
        self.window = Window.of(a)
        self.groups: int = a["feature_group_count"]
        self._input = (a["input_batch_dim"], a["input_feature_dim"], *a["input_spatial_dims"])
        self._kernel = (a["kernel_out_feature_dim"], a["kernel_in_feature_dim"], *a["kernel_spatial_dims"])
        self._output = (a["output_batch_dim"], a["output_feature_dim"], *a["output_spatial_dims"])

    def input(self, x: Array) -> Array:
        """[n, g, i, *s]."""
        y = _widened(x).transpose(self._input)
        return y.reshape(y.shape[0], self.groups, -1, *y.shape[2:])

    def kernel(self, x: Array) -> Array:
        """[g, o, i, *k]."""
        y = _widened(x).transpose(self._kernel)
        return y.reshape(self.groups, -1, *y.shape[1:])

    def output(self, x: Array) -> Array:
        """[n, g, o, *t]."""
        y = _widened(x).transpose(self._output)
        return y.reshape(y.shape[0], self.groups, -1, *y.shape[2:])

    def forward(self, x: Array, w: Array, dims: tuple[int, ...]) -> Array:
        """The convolution of an input and a kernel as they lie in memory; `dims` of the result."""
        xs, ws = self.input(x), self.kernel(w)
        sizes = tuple(dims[d] for d in self._output[2:])
        total = np.zeros((xs.shape[0], self.groups, ws.shape[1], *sizes), xs.dtype)
        padded = self._padded(xs)
        for tap, part in self.window.taps(ws.shape[3:], sizes):
            total += np.einsum("ngi...,goi->ngo...", padded[part], ws[tap], optimize=True)
        return _restored(total.reshape(total.shape[0], -1, *sizes), self._output)

    def backward_input(self, dy: Array, w: Array, dims: tuple[int, ...]) -> Array:
        """The gradient of the input from that of the output."""
        ys, ws = self.output(dy), self.kernel(w)
        sizes = tuple(dims[d] for d in self._input[2:])
        padded, inside, taken = self.window.places(sizes)
        total = np.zeros((ys.shape[0], self.groups, ws.shape[2], *padded), ys.dtype)
        for tap, part in self.window.taps(ws.shape[3:], ys.shape[3:]):
            total[part] += np.einsum("ngo...,goi->ngi...", ys, ws[tap], optimize=True)
        dx = np.zeros((*total.shape[:3], *sizes), total.dtype)
        dx[taken] = total[inside]
        return _restored(dx.reshape(dx.shape[0], -1, *sizes), self._input)

    def backward_filter(self, x: Array, dy: Array, dims: tuple[int, ...]) -> Array:
        """The gradient of the kernel from that of the output."""
        xs, ys = self.input(x), self.output(dy)
        sizes = tuple(dims[d] for d in self._kernel[2:])
        padded = self._padded(xs)
        dw = np.zeros((self.groups, ys.shape[2], xs.shape[2], *sizes), xs.dtype)
        for tap, part in self.window.taps(sizes, ys.shape[3:]):
            dw[tap] = np.einsum("ngi...,ngo...->goi", padded[part], ys, optimize=True)
        return _restored(dw.reshape(-1, *dw.shape[2:]), self._kernel)

    def _padded(self, xs: Array) -> Array:
        padded, inside, taken = self.window.places(xs.shape[3:])
        out = np.zeros((*xs.shape[:3], *padded), xs.dtype)
        out[inside] = xs[taken]
        return out


def _widened(x: Array) -> Array:
    return x.astype(arithmetic(x.dtype))


def _restored(x: Array, order: tuple[int, ...]) -> Array:
    """An array whose dimensions are those named by `order`, back in memory's order."""
    return x.transpose(np.argsort(order))


def _activate(x: Array, mode: ActivationMode) -> Array:
    match mode:
        case ActivationMode.NONE:
            return x
        case ActivationMode.RELU:
            return np.maximum(x, 0)
        case ActivationMode.RELU6:
            return np.clip(x, 0, 6)
        case ActivationMode.SIGMOID:
            return np.asarray(1 / (1 + np.exp(-x)))
        case ActivationMode.TANH:
            return np.tanh(x)
        case ActivationMode.ELU:
            return np.where(x > 0, x, np.expm1(np.minimum(x, 0)))
        case _:
            raise unimplemented(f"activation {mode.name} of a convolution: its parameter is not part of the call")


def _results(step: CustomCallStep, value: Array) -> list[Array]:
    """The value in the result's type, and nothing for the work space."""
    (_, out), *scratch = step.outputs
    return [value.astype(out.dtype), *(unused(t) for _, t in scratch)]


@library_call("xla.gpu.conv.forward", _CONV)
def _forward(step: CustomCallStep, a: dict[str, Any]) -> Handler:
    conv, dims = Convolution(a), step.outputs[0][1].dims
    return plain(lambda x, w: _results(step, conv.forward(x, w, dims) * a["result_scale"]))


@library_call("xla.gpu.conv.backward.input", _CONV)
def _backward_input(step: CustomCallStep, a: dict[str, Any]) -> Handler:
    conv, dims = Convolution(a), step.outputs[0][1].dims
    return plain(lambda dy, w: _results(step, conv.backward_input(dy, w, dims) * a["result_scale"]))


@library_call("xla.gpu.conv.backward.filter", _CONV)
def _backward_filter(step: CustomCallStep, a: dict[str, Any]) -> Handler:
    conv, dims = Convolution(a), step.outputs[0][1].dims
    return plain(lambda x, dy: _results(step, conv.backward_filter(x, dy, dims) * a["result_scale"]))


@library_call("xla.gpu.conv.forward.fused", _FUSED)
def _fused(step: CustomCallStep, a: dict[str, Any]) -> Handler:
    conv, dims, feature = Convolution(a), step.outputs[0][1].dims, a["output_feature_dim"]

    def run(x: Array, w: Array, bias: Array) -> list[Array]:
        value = conv.forward(x, w, dims) * a["result_scale"] + _along(bias, feature, len(dims))
        return _results(step, _activate(value, a["activation_mode"]))

    return plain(run)


@library_call("xla.gpu.conv.forward.fused.side_input", {**_FUSED, "side_input_scale": float})
def _fused_side_input(step: CustomCallStep, a: dict[str, Any]) -> Handler:
    conv, dims, feature = Convolution(a), step.outputs[0][1].dims, a["output_feature_dim"]

    def run(x: Array, w: Array, bias: Array, side: Array) -> list[Array]:
        value = conv.forward(x, w, dims) * a["result_scale"] + a["side_input_scale"] * _widened(side)
        return _results(step, _activate(value + _along(bias, feature, len(dims)), a["activation_mode"]))

    return plain(run)


def _along(bias: Array, dimension: int, rank: int) -> Array:
    """A vector laid along one dimension of `rank`."""
    return _widened(bias).reshape([-1 if d == dimension else 1 for d in range(rank)])
