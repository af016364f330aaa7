"""Shapes and layouts: interned values, so equality is identity and hashing is free.

Source: XLA's shapes documentation ("Shapes and layout", "Tiled layout") and xla_data.proto.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields

from xyla.support.dtypes import BUFFER, OPAQUE, TOKEN, TUPLE, ElementType
from xyla.support.status import invalid

# A dimension whose size has no bound (`?`). Bounded dynamic dimensions (`<=N`) store N.
UNBOUNDED = -1
# XLA's own limit: a shape's byte size must fit int64.
MAX_BYTES = 2**63 - 1


@dataclass(frozen=True, slots=True)
class SplitConfig:
    """Where a dimension is split between memory banks: `SC(dim:i,j)`."""

    dimension: int
    split_indices: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Layout:
    """How an array's elements lie in memory; printed as `{1,0:T(8,128)S(1)}`.

    `minor_to_major[0]` is the fastest-varying dimension. A tile dimension of -1 combines (printed `*`).
    `element_size_bits` 0 means the type's own width. `index_primitive_type`, `pointer_primitive_type`: type names.
    """

    minor_to_major: tuple[int, ...]
    tiles: tuple[tuple[int, ...], ...] = ()
    tail_padding_alignment: int = 1
    index_primitive_type: str = ""
    pointer_primitive_type: str = ""
    element_size_bits: int = 0
    memory_space: int = 0
    split_configs: tuple[SplitConfig, ...] = ()
    physical_shape: Shape | None = None
    dynamic_shape_metadata_prefix_bytes: int = 0
    dim_level_types: str = ""
    _text: str = field(default="", init=False, compare=False, repr=False)

    @staticmethod
    def of(minor_to_major: Iterable[int]) -> Layout:
        """The plain layout with this minor-to-major order."""
        return _intern_layout(Layout(tuple(minor_to_major)))

    @staticmethod
    def default(rank: int) -> Layout:
        """Row-major: `{rank-1,...,0}`."""
        return _intern_layout(Layout(tuple(range(rank - 1, -1, -1))))

    def interned(self) -> Layout:
        """The one shared object equal to this layout."""
        return _intern_layout(self)

    @property
    def is_default(self) -> bool:
        """Row-major and nothing else (no tiles, memory space, ...)."""
        return self == Layout(tuple(range(len(self.minor_to_major) - 1, -1, -1)))

    def __str__(self) -> str:
        if not self._text:
            object.__setattr__(self, "_text", _layout_text(self))
        return self._text


def _layout_text(layout: Layout) -> str:
    parts: list[str] = []
    if layout.dim_level_types:
        parts.append(f"D({layout.dim_level_types})")
    if layout.tiles:
        tiles = ("(" + ",".join("*" if d == -1 else str(d) for d in t) + ")" for t in layout.tiles)
        parts.append("T" + "".join(tiles))
    if layout.tail_padding_alignment != 1:
        parts.append(f"L({layout.tail_padding_alignment})")
    if layout.index_primitive_type:
        parts.append(f"#({layout.index_primitive_type})")
    if layout.pointer_primitive_type:
        parts.append(f"*({layout.pointer_primitive_type})")
    if layout.element_size_bits:
        parts.append(f"E({layout.element_size_bits})")
    if layout.memory_space:
        parts.append(f"S({layout.memory_space})")
    if layout.split_configs:
        splits = (f"({s.dimension}:{','.join(map(str, s.split_indices))})" for s in layout.split_configs)
        parts.append("SC" + "".join(splits))
    if layout.physical_shape is not None:
        parts.append(f"P({layout.physical_shape})")
    if layout.dynamic_shape_metadata_prefix_bytes:
        parts.append(f"M({layout.dynamic_shape_metadata_prefix_bytes})")
    tail = ":" + "".join(parts) if parts else ""
    return "{" + ",".join(map(str, layout.minor_to_major)) + tail + "}"


class Shape:
    """An array, tuple, token, opaque or buffer shape. Interned: make them with the static methods only.

    Arrays: `element_type`, `dims` (UNBOUNDED = -1 for `?`), `dynamic` (one bool a dimension; () when all static),
    `layout` (None: not chosen, meaning row-major when executed).
    Tuples: `element_type` is TUPLE and `tuple_shapes` holds the elements. Buffers: `tuple_shapes` holds the one array.
    """

    __slots__ = ("_bytes", "_hash", "_text", "dims", "dynamic", "element_type", "layout", "rank", "tuple_shapes")

    element_type: ElementType
    dims: tuple[int, ...]
    dynamic: tuple[bool, ...]
    layout: Layout | None
    tuple_shapes: tuple[Shape, ...]
    rank: int
    _bytes: int
    _hash: int
    _text: str | None

    @staticmethod
    def array(
        element_type: ElementType,
        dims: Sequence[int],
        layout: Layout | None = None,
        dynamic: Sequence[bool] = (),
    ) -> Shape:
        """An array shape. Raises INVALID_ARGUMENT for a negative size, a bad layout or a byte size past int64."""
        dims = tuple(dims)
        dyn = tuple(dynamic) if any(dynamic) else ()
        key = (element_type, dims, layout, dyn, ())
        found = _SHAPES.get(key)
        if found is not None and element_type.is_array:
            return found
        _check_array(element_type, dims, layout, dyn)
        return _make(element_type, dims, layout.interned() if layout else None, dyn, ())

    @staticmethod
    def tuple_of(shapes: Iterable[Shape]) -> Shape:
        """A tuple of shapes (possibly empty, possibly nested)."""
        return _make(TUPLE, (), None, (), tuple(shapes))

    @staticmethod
    def buffer(shape: Shape) -> Shape:
        """`b(f32[4])`: a reference to memory that holds `shape`."""
        return _make(BUFFER, (), None, (), (shape,))

    # -- questions ---------------------------------------------------------------------------------------------

    @property
    def is_array(self) -> bool:
        """Has elements (not a tuple, token, opaque or buffer)."""
        return self.element_type.is_array

    @property
    def is_tuple(self) -> bool:
        """Is a tuple."""
        return self.element_type is TUPLE

    @property
    def is_token(self) -> bool:
        """Is a token."""
        return self.element_type is TOKEN

    @property
    def is_opaque(self) -> bool:
        """Is opaque."""
        return self.element_type is OPAQUE

    @property
    def is_buffer(self) -> bool:
        """Is a buffer `b(...)`."""
        return self.element_type is BUFFER

    @property
    def is_scalar(self) -> bool:
        """Is an array of rank 0."""
        return self.rank == 0 and self.element_type.is_array

    @property
    def is_dynamic(self) -> bool:
        """Has a dynamic dimension, here or in any leaf."""
        return bool(self.dynamic) or any(s.is_dynamic for s in self.tuple_shapes)

    @property
    def is_unbounded(self) -> bool:
        """Has a `?` dimension, here or in any leaf."""
        return UNBOUNDED in self.dims or any(s.is_unbounded for s in self.tuple_shapes)

    def is_dynamic_dim(self, dim: int) -> bool:
        """Whether dimension `dim` is dynamic."""
        return bool(self.dynamic) and self.dynamic[dim]

    @property
    def num_elements(self) -> int:
        """Element count of an array, dynamic dimensions at their bound."""
        count = 1
        for d in self.dims:
            count *= d
        return count

    @property
    def num_bytes(self) -> int:
        """Storage bytes (one byte for sub-byte elements), summed over a tuple's leaves; tokens and opaques are 0."""
        if self._bytes < 0:
            if self.is_tuple or self.is_buffer:
                self._bytes = sum(s.num_bytes for s in self.tuple_shapes)
            else:
                self._bytes = self.num_elements * self.element_type.itemsize
        return self._bytes

    def leaves(self) -> Iterator[tuple[tuple[int, ...], Shape]]:
        """(shape index, leaf shape) of every non-tuple leaf, in order. Iterative: nesting may be deep."""
        stack: list[tuple[tuple[int, ...], Shape]] = [((), self)]
        while stack:
            index, shape = stack.pop()
            if shape.is_tuple:
                children = [((*index, i), s) for i, s in enumerate(shape.tuple_shapes)]
                stack.extend(reversed(children))
            else:
                yield index, shape

    def subshape(self, index: Sequence[int]) -> Shape:
        """The shape at a tuple index path. Raises INVALID_ARGUMENT if there is none."""
        shape = self
        for i in index:
            if not shape.is_tuple or not 0 <= i < len(shape.tuple_shapes):
                raise invalid(f"shape {self} has no element at index {{{','.join(map(str, index))}}}")
            shape = shape.tuple_shapes[i]
        return shape

    def strides(self) -> tuple[int, ...]:
        """Physical strides in elements, by logical dimension (row-major when no layout is set)."""
        order = self.layout.minor_to_major if self.layout else range(self.rank - 1, -1, -1)
        out, step = [0] * self.rank, 1
        for d in order:
            out[d] = step
            step *= max(self.dims[d], 1)
        return tuple(out)

    # -- variants ----------------------------------------------------------------------------------------------

    def with_type(self, element_type: ElementType) -> Shape:
        """Same dims and layout (less its element size), another element type."""
        layout = self.layout
        if layout is not None and layout.element_size_bits:
            layout = _replace_layout(layout, element_size_bits=0)
        return Shape.array(element_type, self.dims, layout, self.dynamic)

    def with_dims(self, dims: Sequence[int], dynamic: Sequence[bool] = ()) -> Shape:
        """Same element type, other dims, no layout."""
        return Shape.array(self.element_type, dims, None, dynamic)

    def with_layout(self, layout: Layout | None) -> Shape:
        """The same array with another layout."""
        return Shape.array(self.element_type, self.dims, layout, self.dynamic)

    def without_layout(self) -> Shape:
        """The same shape with no layout anywhere (array or tuple)."""
        return self.map_leaves(_without_layout)

    def with_default_layouts(self) -> Shape:
        """The same shape where each array leaf without a layout gets the row-major one."""
        return self.map_leaves(lambda s: s.with_layout(Layout.default(s.rank)) if s.is_array and not s.layout else s)

    def static(self) -> Shape:
        """The same shape with every bounded dimension made static at its bound."""
        return self.map_leaves(lambda s: Shape.array(s.element_type, s.dims, s.layout) if s.dynamic else s)

    def map_leaves(self, fn: Callable[[Shape], Shape]) -> Shape:
        """The shape with `fn` applied to each leaf."""
        if not self.is_tuple:
            return fn(self)
        # Post-order over an explicit stack: tuples of tuples may nest deeply.
        done: dict[Shape, Shape] = {}
        stack = [self]
        while stack:
            shape = stack[-1]
            todo = [s for s in shape.tuple_shapes if s not in done and s.is_tuple]
            if todo:
                stack.extend(todo)
                continue
            stack.pop()
            done[shape] = Shape.tuple_of(done[s] if s.is_tuple else fn(s) for s in shape.tuple_shapes)
        return done[self]

    def compatible(self, other: Shape) -> bool:
        """Equal but for layouts."""
        return self is other or self.without_layout() is other.without_layout()

    def same_dims(self, other: Shape) -> bool:
        """Arrays with the same dims and dynamism; element types and layouts may differ."""
        return self.dims == other.dims and self.dynamic == other.dynamic and self.is_array and other.is_array

    # -- value semantics ---------------------------------------------------------------------------------------

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return self is other

    def __copy__(self) -> Shape:
        return self

    def __deepcopy__(self, memo: object) -> Shape:
        return self

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        return _make, (self.element_type, self.dims, self.layout, self.dynamic, self.tuple_shapes)

    def __repr__(self) -> str:
        return f"Shape({self})"

    def __str__(self) -> str:
        """XLA's text, layouts included: `f32[2,<=3]{1,0}`, `(s32[], token[])`."""
        if self._text is None:
            self._text = _shape_text(self, layouts=True)
        return self._text

    def to_string(self, *, layouts: bool) -> str:
        """XLA's text, with or without layouts."""
        return str(self) if layouts else _shape_text(self, layouts=False)


_SHAPES: dict[tuple[object, ...], Shape] = {}
_LAYOUTS: dict[Layout, Layout] = {}


def _without_layout(leaf: Shape) -> Shape:
    if leaf.is_buffer:
        return Shape.buffer(leaf.tuple_shapes[0].without_layout())
    return Shape.array(leaf.element_type, leaf.dims, None, leaf.dynamic) if leaf.is_array else leaf


def _intern_layout(layout: Layout) -> Layout:
    return _LAYOUTS.setdefault(layout, layout)


def _replace_layout(layout: Layout, **changes: object) -> Layout:
    values = {f.name: getattr(layout, f.name) for f in fields(layout) if f.init}
    return Layout(**{**values, **changes}).interned()


def _make(
    element_type: ElementType,
    dims: tuple[int, ...],
    layout: Layout | None,
    dynamic: tuple[bool, ...],
    tuple_shapes: tuple[Shape, ...],
) -> Shape:
    key = (element_type, dims, layout, dynamic, tuple_shapes)
    shape = _SHAPES.get(key)
    if shape is None:
        shape = Shape.__new__(Shape)
        shape.element_type, shape.dims, shape.layout = element_type, dims, layout
        shape.dynamic, shape.tuple_shapes, shape.rank = dynamic, tuple_shapes, len(dims)
        shape._hash, shape._text, shape._bytes = hash(key), None, -1
        _SHAPES[key] = shape
    return shape


def _check_array(et: ElementType, dims: tuple[int, ...], layout: Layout | None, dynamic: tuple[bool, ...]) -> None:
    if not et.is_array:
        raise invalid(f"{et} is not an array element type")
    size = max(et.itemsize, 1)
    for i, d in enumerate(dims):
        if d < 0 and not (d == UNBOUNDED and dynamic and dynamic[i]):
            raise invalid(f"dimension {i} has negative size {d}")
        size *= max(d, 1)
    if size > MAX_BYTES:
        raise invalid(f"shape {et}[{','.join(map(str, dims))}] is larger than 2^63 bytes")
    if dynamic and len(dynamic) != len(dims):
        raise invalid(f"{len(dynamic)} dynamic flags for {len(dims)} dimensions")
    if layout is not None and sorted(layout.minor_to_major) != list(range(len(dims))):
        raise invalid(
            f"layout {layout} is not a permutation of the {len(dims)} dimensions of {et}[{','.join(map(str, dims))}]"
        )


def _shape_text(shape: Shape, *, layouts: bool) -> str:
    if shape.is_array:
        return _array_text(shape, layouts)
    if shape.is_token or shape.is_opaque:
        return f"{shape.element_type}[]"
    if shape.is_buffer:
        return f"b({shape.tuple_shapes[0].to_string(layouts=layouts)})"
    return _tuple_text(shape, layouts)


def _array_text(shape: Shape, layouts: bool) -> str:
    if shape.dynamic:
        dims = ",".join(
            "?" if d == UNBOUNDED else f"<={d}" if dyn else str(d)
            for d, dyn in zip(shape.dims, shape.dynamic, strict=True)
        )
    else:
        dims = ",".join(map(str, shape.dims))
    tail = ""
    if layouts and shape.layout is not None:
        # Rank 0 prints its layout only when it says something (a memory space, a tile).
        text = str(shape.layout)
        tail = "" if text == "{}" else text
    return f"{shape.element_type.name}[{dims}]{tail}"


def _tuple_text(shape: Shape, layouts: bool) -> str:
    """XLA marks every fifth element of a long tuple with `/*index=N*/`. Iterative: tuples may nest deeply."""
    out: list[str] = []
    stack: list[str | Shape] = [shape]
    while stack:
        item = stack.pop()
        if isinstance(item, str):
            out.append(item)
            continue
        if not item.is_tuple:
            out.append(_shape_text(item, layouts=layouts))
            continue
        parts: list[str | Shape] = ["("]
        for i, element in enumerate(item.tuple_shapes):
            if i:
                parts.append(f", /*index={i}*/" if i % 5 == 0 else ", ")
            parts.append(element)
        parts.append(")")
        stack.extend(reversed(parts))
    return "".join(out)


TOKEN_SHAPE = _make(TOKEN, (), None, (), ())
OPAQUE_SHAPE = _make(OPAQUE, (), None, (), ())
EMPTY_TUPLE = _make(TUPLE, (), None, (), ())
