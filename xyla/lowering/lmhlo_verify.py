"""The rules of LMHLO that types alone do not hold: where views lie, what operands mean to one another, tokens, calls.

Every fault is an INVALID_ARGUMENT that names the operation and, where it was read from text, its place.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xyla.lowering import lmhlo
from xyla.support.status import XylaError, invalid

Check = Callable[[Any], "str | None"]


def verify(module: lmhlo.Module) -> None:
    """Checks a module. Raises INVALID_ARGUMENT at the first fault."""
    names = [f.name for f in module.functions]
    twice = next((n for n in names if names.count(n) > 1), None)
    if twice is not None:
        raise invalid(f"two functions are called @{twice}")
    declared = {g.name for g in module.globals}
    for f in module.functions:
        for a in f.arguments:
            if a.constant_name is not None and module.globals and a.constant_name not in declared:
                raise invalid(f"an argument of @{f.name} holds constant @{a.constant_name}, which is not declared")
        _Function(module, f).verify()


class _Function:
    def __init__(self, module: lmhlo.Module, function: lmhlo.Function) -> None:
        self.module = module
        self.function = function
        self.waiting: dict[lmhlo.Token, lmhlo.Op] = {}
        self.used: set[lmhlo.Token] = set()
        self.sizes = {
            lmhlo.Space.ARGUMENT: [a.size for a in function.arguments],
            lmhlo.Space.GLOBAL: [g.literal.shape.num_bytes for g in module.globals],
        }

    def verify(self) -> None:
        """Every operation, in order."""
        for op in self.function.body.walk():
            for view in lmhlo.views_of(op):
                self._view(op, view)
            fault = self._rule(op)
            if fault is not None:
                raise _at(op, fault)
            self._tokens(op)
        for token, op in self.waiting.items():
            if token not in self.used:
                raise _at(op, "nothing waits for it")

    def _view(self, op: lmhlo.Op, view: lmhlo.View) -> None:
        """The slice is inside its allocation, and the array inside the slice."""
        s = view.slice
        sizes = self.sizes.get(view.space)
        if sizes is None:
            # The host's memory is as large as the view that it is made for.
            sizes = [s.size] * (s.allocation + 1)
        if not 0 <= s.allocation < len(sizes):
            raise _at(op, f"a view of allocation {s.allocation}, but there are {len(sizes)}")
        if s.offset < 0 or s.offset + s.size > sizes[s.allocation]:
            raise _at(op, f"a view of bytes {s.offset} to {s.offset + s.size} of {sizes[s.allocation]}")
        if view.type.num_bytes > s.size:
            raise _at(op, f"an array of {view.type.num_bytes} bytes in a slice of {s.size}")

    def _rule(self, op: lmhlo.Op) -> str | None:
        if isinstance(op, lmhlo.Call):
            return self._call(op)
        check = next((_RULES[c] for c in type(op).__mro__ if c in _RULES), None)
        return check(op) if check is not None else None

    def _call(self, op: lmhlo.Call) -> str | None:
        callee = self.module.function(op.callee)
        if callee is None:
            return f"no function @{op.callee}"
        if not callee.private or callee is self.function:
            return f"@{op.callee} is not a shared function"
        return _pairs(op.sources, op.targets)

    def _tokens(self, op: lmhlo.Op) -> None:
        token = getattr(op, "token", None)
        if token is None:
            return
        if not isinstance(op, lmhlo.Done):
            if token in self.waiting:
                raise _at(op, f"token {token.number} is made twice")
            self.waiting[token] = op
            return
        start = self.waiting.get(token)
        if start is None:
            raise _at(op, f"waits for token {token.number}, which nothing before it makes")
        if token in self.used:
            raise _at(start, "its token has several uses")
        if type(start) is not lmhlo.START_OF[type(op)]:
            raise _at(op, f"waits for {start.mnemonic}")
        self.used.add(token)


def _at(op: lmhlo.Op, fault: str) -> XylaError:
    name = f" ({op.name})" if op.name else ""
    return invalid(f"{op.mnemonic}{name}: {fault}", span=op.span)


# -- rules -----------------------------------------------------------------------------------------------------


def _pairs(sources: tuple[lmhlo.View, ...], targets: tuple[lmhlo.View, ...]) -> str | None:
    for i, (s, t) in enumerate(zip(sources, targets, strict=True)):
        if s.type.num_bytes != t.type.num_bytes:
            return f"pair {i} is of {s.type.num_bytes} and {t.type.num_bytes} bytes"
    return None


def _copy(op: lmhlo.Copy) -> str | None:
    return _pairs((op.source,), (op.target,))


def _memcpy(op: lmhlo.Memcpy) -> str | None:
    return _pairs((op.src,), (op.dst,))


def _scalar(view: lmhlo.View, *dtypes: str) -> bool:
    return not view.type.dims and view.type.dtype.name in dtypes


def _while(op: lmhlo.While) -> str | None:
    return None if _scalar(op.predicate, "bool") else "its predicate is an i1 scalar"


def _case(op: lmhlo.Case) -> str | None:
    if not _scalar(op.index, "bool", "int32"):
        return "its index is an i1 or i32 scalar"
    if not op.branches:
        return "it has no branches"
    if _scalar(op.index, "bool") and len(op.branches) != 2:
        return f"a predicate decides between two branches, not {len(op.branches)}"
    return None


def _mapping(op: lmhlo.CustomCall) -> str | None:
    m = op.target_arg_mapping
    if m is None:
        return None
    sides = (("argument", op.args, m.args_to_target_args, m.num_args),
             ("result", op.output, m.results_to_target_results, m.num_results))  # fmt: skip
    for what, views, places, total in sides:
        if len(places) != len(views):
            return f"its mapping places {len(places)} {what}s, but it has {len(views)}"
        if any(not 0 <= p < total for p in places):
            return f"its mapping places {what}s outside of the target's {total}"
        if len(set(places)) < len(places):
            return f"its mapping places two {what}s at one place"
    return None


def _groups(op: lmhlo.Collective) -> str | None:
    ids = [i for group in op.replica_groups for i in group]
    if len(set(ids)) < len(ids):
        return "a device is in two groups"
    if any(i < 0 for i in ids):
        return "a device number is negative"
    if not op.inputs:
        return "it has no operands"
    for i, (x, y) in enumerate(zip(op.inputs, op.results, strict=True)):
        if x.type.dtype != y.type.dtype:
            return f"operand and result {i} have different element types"
    return None


def _peers(op: lmhlo.CollectivePermute) -> str | None:
    if any(len(p) != 2 for p in op.source_target_pairs):
        return "source_target_pairs are pairs"
    for side, what in ((0, "sources"), (1, "targets")):
        numbers = [p[side] for p in op.source_target_pairs]
        if len(set(numbers)) < len(numbers):
            return f"two pairs have equal {what}"
    return None


def _gemm(op: lmhlo.Gemm) -> str | None:
    return _dots(op.dot_dimension_numbers, op.a, op.b, op.c)


def _gemm_bias(op: lmhlo.GemmBias) -> str | None:
    return _dots(op.dot_dimension_numbers, op.lhs, op.rhs, op.output)


def _dots(d: lmhlo.DotDims, a: lmhlo.View, b: lmhlo.View, c: lmhlo.View) -> str | None:
    """Dimension numbers are in range and distinct, and pairs of dimensions are of one size."""
    sides = (
        (a, d.lhs_batching_dimensions + d.lhs_contracting_dimensions),
        (b, d.rhs_batching_dimensions + d.rhs_contracting_dimensions),
    )
    for view, numbers in sides:
        if any(not 0 <= n < len(view.type.dims) for n in numbers) or len(set(numbers)) < len(numbers):
            return f"dimension numbers {list(numbers)} of an operand of {len(view.type.dims)} dimensions"
    left, right = (tuple(v.type.dims[n] for n in numbers) for v, numbers in sides)
    if left != right or len(d.lhs_batching_dimensions) != len(d.rhs_batching_dimensions):
        return f"batch and contracting dimensions are {left} and {right}"
    batch = left[: len(d.lhs_batching_dimensions)]
    free = [s for v, numbers in sides for i, s in enumerate(v.type.dims) if i not in numbers]
    if c.type.dims != (*batch, *free):
        return f"the result is {c.type.dims}, expected {(*batch, *free)}"
    return None


def _square(view: lmhlo.View) -> str | None:
    dims = view.type.dims
    if len(dims) < 2 or dims[-1] != dims[-2]:
        return f"its operand is a (batched) square matrix, not {dims}"
    return None


def _cholesky(op: lmhlo.Cholesky) -> str | None:
    return _square(op.a)


def _gpu_cholesky(op: lmhlo.GpuCholesky) -> str | None:
    return _square(op.input)


def _solve(op: lmhlo.TriangularSolve) -> str | None:
    return _square(op.a) or (None if op.b.type.dims == op.output.type.dims else "the result has the shape of b")


def _fft(op: lmhlo.Fft) -> str | None:
    rank = len(op.input.type.dims)
    return None if 1 <= len(op.fft_length) <= rank else f"{len(op.fft_length)} lengths for {rank} dimensions"


def _launch_func(op: lmhlo.LaunchFunc) -> str | None:
    sizes = (*op.grid, *op.block)
    return None if len(sizes) == 6 and min(sizes) > 0 else f"grid {op.grid} and block {op.block} are three sizes each"


def _identity(op: lmhlo.ReplicaId | lmhlo.PartitionId) -> str | None:
    return None if _scalar(op.output, "uint32") else "its result is a ui32 scalar"


_RULES: dict[type[lmhlo.Op], Check] = {
    lmhlo.Copy: _copy,
    lmhlo.Memcpy: _memcpy,
    lmhlo.While: _while,
    lmhlo.Case: _case,
    lmhlo.CustomCall: _mapping,
    lmhlo.Collective: _groups,
    lmhlo.CollectivePermute: _peers,
    lmhlo.Gemm: _gemm,
    lmhlo.GemmBias: _gemm_bias,
    lmhlo.Cholesky: _cholesky,
    lmhlo.GpuCholesky: _gpu_cholesky,
    lmhlo.TriangularSolve: _solve,
    lmhlo.Fft: _fft,
    lmhlo.LaunchFunc: _launch_func,
    lmhlo.ReplicaId: _identity,
    lmhlo.PartitionId: _identity,
}
