"""What an instruction carries as text and XLA's protos carry as messages: accuracy, statistics, origins, domains.

Each pair of functions fills an empty proto from the text (UNIMPLEMENTED for a form the proto cannot hold) and prints
the proto as XLA's HLO text does.
"""

from __future__ import annotations

from collections.abc import Iterable

from xyla.formats.hlo_proto import hlo_pb2 as pb
from xyla.formats.hlo_proto.shapes import MAX_NESTING
from xyla.formats.hlo_proto.sharding import print_sharding, write_sharding
from xyla.formats.hlo_proto.tokens import Tokens, escape, unescape
from xyla.hlo.module import Metadata
from xyla.support.status import invalid

# -- backend configuration: bytes, shown raw when they read as a JSON object, else as a quoted string ---------------


def backend_config_bytes(text: str) -> bytes:
    """The configuration that `{...}` (taken as it is) or `"..."` (unescaped) stands for."""
    if len(text) >= 2 and text[0] == text[-1] == '"':
        return unescape(text[1:-1])
    return text.encode("utf-8", "surrogateescape")


def backend_config_text(data: bytes) -> str:
    """The configuration as HLO text shows it."""
    if data.startswith(b"{") and _is_balanced(data):
        try:
            return data.decode("utf-8")
        except UnicodeDecodeError:
            pass
    return f'"{escape(data)}"' if data else ""


def _is_balanced(data: bytes) -> bool:
    """Whether the braces, outside strings, close exactly at the end."""
    depth, in_string, at = 0, False, 0
    while at < len(data):
        char = data[at : at + 1]
        if in_string:
            at += char == b"\\"
            in_string = char != b'"'
        elif char == b'"':
            in_string = True
        elif char in b"{}":
            depth += 1 if char == b"{" else -1
            if depth == 0:
                return at == len(data) - 1
        at += 1
    return False


# -- metadata -------------------------------------------------------------------------------------------------------

_SAME = (
    "op_type", "op_name", "source_file", "source_line", "source_end_line", "source_column", "source_end_column",
    "stack_frame_id", "deduplicated_name", "scheduling_name",
)  # fmt: skip
_SIZES = ("size_of_generated_code_in_bytes", "size_of_memory_working_set_in_bytes")
METADATA_FIELDS = frozenset((*_SAME, *_SIZES))
# Metadata keys without a field are kept among the text attributes under this prefix.
METADATA_PREFIX = "metadata."
# The text attribute that keeps an instruction's own name where XLA's rules made it unique in the module.
NAME_KEY = "name"


def own_name(proto: pb.HloInstructionProto) -> str:
    """The instruction's name within its computation."""
    return proto.text_attributes.get(NAME_KEY, "") or proto.name


def write_op_metadata(metadata: Metadata, proto: pb.HloInstructionProto) -> None:
    """Fills the instruction's metadata; keys XLA has no field for go to its text attributes."""
    target = proto.metadata
    for field in _SAME:
        value = getattr(metadata, field)
        if value:
            try:
                setattr(target, field, value)
            except ValueError:
                raise invalid(f"metadata {field}={value} does not fit its field") from None
    for key, text in metadata.extra:
        if key in _SIZES and text.isdigit() and int(text) < 1 << 63:
            setattr(target, key, int(text))
        else:
            proto.text_attributes[METADATA_PREFIX + key] = text


def read_op_metadata(proto: pb.HloInstructionProto) -> Metadata | None:
    """The instruction's metadata, or None."""
    extra = [(key, str(getattr(proto.metadata, key))) for key in _SIZES if getattr(proto.metadata, key)]
    for key in sorted(proto.text_attributes):
        if key.startswith(METADATA_PREFIX):
            extra.append((key.removeprefix(METADATA_PREFIX), proto.text_attributes[key]))
    values = {field: getattr(proto.metadata, field) for field in _SAME}
    # XLA writes an empty record for an instruction without metadata.
    return Metadata(**values, extra=tuple(extra)) if extra or any(values.values()) else None


# -- result_accuracy={tolerance={atol=..., rtol=..., ulps=...}} or {mode=highest} -------------------------------------


def write_accuracy(text: str, proto: pb.ResultAccuracy) -> None:
    """Fills an empty proto."""
    tokens = Tokens(text, "result_accuracy")
    tokens.expect("{")
    if tokens.accept("mode"):
        tokens.expect("=")
        word = tokens.take().upper()
        names: dict[str, pb.ResultAccuracy.Mode] = dict(pb.ResultAccuracy.Mode.items())  # type: ignore[arg-type]
        if word not in names:
            raise tokens.error(f"unknown mode {word.lower()!r}")
        proto.mode = names[word]
    else:
        tokens.expect("tolerance")
        tokens.expect("=")
        _write_tolerance(tokens, proto.tolerance)
    tokens.expect("}")
    tokens.finish()


def _write_tolerance(tokens: Tokens, proto: pb.ResultAccuracy.Tolerance) -> None:
    proto.SetInParent()
    tokens.expect("{")
    while not tokens.accept("}"):
        tokens.accept(",")
        key = tokens.take()
        tokens.expect("=")
        if key == "ulps":
            proto.ulps = tokens.integer()
        elif key in ("atol", "rtol"):
            setattr(proto, key, tokens.number())
        else:
            raise tokens.error(f"unknown tolerance {key!r}")


def print_accuracy(proto: pb.ResultAccuracy) -> str:
    """`{mode=highest}`, a tolerance, or "" for the default."""
    if proto.WhichOneof("specs") == "tolerance":
        t = proto.tolerance
        return f"{{tolerance={{atol={_shortest(t.atol)},rtol={_shortest(t.rtol)},ulps={t.ulps}}}}}"
    if proto.mode == pb.ResultAccuracy.DEFAULT:
        return ""
    if proto.mode not in pb.ResultAccuracy.Mode.values():
        raise invalid(f"there is no accuracy mode number {proto.mode}")
    return f"{{mode={pb.ResultAccuracy.Mode.Name(proto.mode).lower()}}}"


def _shortest(value: float) -> str:
    return str(int(value)) if value.is_integer() and abs(value) < 2**53 else repr(value)


# -- statistics={visualizing_index=1,stat-1=33.2,stat-2=44} -----------------------------------------------------------


def write_statistics(text: str, proto: pb.StatisticsViz) -> None:
    """Fills an empty proto."""
    tokens = Tokens(text, "statistics")
    tokens.expect("{")
    while not tokens.accept("}"):
        tokens.accept(",")
        name = tokens.take()
        tokens.expect("=")
        if name == "visualizing_index":
            proto.stat_index_to_visualize = tokens.integer()
        else:
            proto.statistics.add(stat_name=name, stat_val=tokens.number())
    tokens.finish()


def print_statistics(proto: pb.StatisticsViz) -> str:
    """The text of the statistics; "" when there are none (XLA writes an empty record then)."""
    if not proto.statistics:
        return ""
    stats = (f"{s.stat_name}={_shortest(s.stat_val)}" for s in proto.statistics)
    return "{" + ",".join((f"visualizing_index={proto.stat_index_to_visualize}", *stats)) + "}"


# -- origin={({"while" {0}}, {"mask"})} ---------------------------------------------------------------------------


def write_origin(text: str, proto: pb.OriginalValueProto) -> None:
    """Fills an empty proto: one element a leaf, without an array where the original value is unknown."""
    tokens = Tokens(text, "origin")
    proto.SetInParent()
    tokens.expect("{")
    if tokens.accept("["):
        tokens.expect("synthetic_call")
        tokens.expect("]")
        proto.is_synthetic_call = True
    else:
        _write_origin_tree(tokens, proto)
    tokens.expect("}")
    tokens.finish()


def _write_origin_tree(tokens: Tokens, proto: pb.OriginalValueProto) -> None:
    index: list[int] = []
    while True:
        if tokens.accept("("):
            index.append(0)
            if tokens.next != ")":
                continue
        else:
            _write_origin_leaf(tokens, proto.elements.add(shape_index=index))
        while index and tokens.accept(")"):
            index.pop()
        if not index:
            return
        tokens.expect(",")
        index[-1] += 1


def _write_origin_leaf(tokens: Tokens, proto: pb.OriginalValueElementProto) -> None:
    braced = tokens.accept("{")
    if braced and tokens.accept("}"):
        return
    proto.original_array.instruction_name = tokens.string()
    if tokens.next == "{":
        proto.original_array.shape_index.extend(tokens.integers("{", "}"))
    if braced:
        tokens.expect("}")


def print_origin(proto: pb.OriginalValueProto) -> str:
    """The tree that the elements' shape indices describe. Raises INVALID_ARGUMENT when they describe none."""
    if proto.is_synthetic_call:
        return "{[synthetic_call]}"
    out, before = ["{"], None
    for element in proto.elements:
        index = tuple(element.shape_index)
        if len(index) > MAX_NESTING:
            raise invalid(f"an original value nests {len(index)} deep")
        out.append(_steps(before, index))
        out.append(_origin_leaf(element))
        before = index
    out.append(")" * len(before or ()))
    return "".join((*out, "}"))


def _steps(before: tuple[int, ...] | None, index: tuple[int, ...]) -> str:
    """The brackets and commas between two leaves."""
    if before is None:
        if any(index):
            raise invalid("original values do not start at the first leaf")
        return "(" * len(index)
    common = next((i for i, (a, b) in enumerate(zip(before, index, strict=False)) if a != b), -1)
    if common < 0 or index[common] != before[common] + 1 or any(index[common + 1 :]):
        raise invalid(f"original values jump from leaf {list(before)} to {list(index)}")
    return ")" * (len(before) - common - 1) + ", " + "(" * (len(index) - common - 1)


def _origin_leaf(element: pb.OriginalValueElementProto) -> str:
    if not element.HasField("original_array"):
        return "{}"
    array = element.original_array
    index = " {" + ",".join(map(str, array.shape_index)) + "}" if array.shape_index else ""
    return '{"' + escape(array.instruction_name.encode()) + '"' + index + "}"


# -- parameter_replication={true,false} and domain={kind="sharding", entry={...}, exit={...}} -------------------------


def write_replication(text: str, proto: pb.ParameterReplication) -> None:
    """Fills an empty proto."""
    tokens = Tokens(text, "parameter_replication")
    proto.SetInParent()
    tokens.expect("{")
    while not tokens.accept("}"):
        tokens.accept(",")
        word = tokens.take()
        if word not in ("true", "false"):
            raise tokens.error(f"expected true or false before {word!r}")
        proto.replicated_at_leaf_buffers.append(word == "true")


def print_replication(flags: Iterable[bool]) -> str:
    """`{true,false}`."""
    return "{" + ",".join("true" if flag else "false" for flag in flags) + "}"


def write_domain(text: str, proto: pb.HloInstructionProto) -> None:
    """Fills the instruction's two domain shardings."""
    tokens = Tokens(text, "domain")
    tokens.expect("{")
    while not tokens.accept("}"):
        tokens.accept(",")
        key = tokens.take()
        tokens.expect("=")
        if key == "kind":
            if tokens.string() != "sharding":
                raise tokens.error("only sharding domains have a proto")
        elif key in ("entry", "exit"):
            write_sharding(tokens.group(), getattr(proto, f"domain_{key}_sharding"))
        else:
            raise tokens.error(f"unknown item {key!r}")
    tokens.finish()


def print_domain(proto: pb.HloInstructionProto) -> str:
    """The text of a sharding domain."""
    entry, exit_ = print_sharding(proto.domain_entry_sharding), print_sharding(proto.domain_exit_sharding)
    return f'{{kind="sharding", entry={entry}, exit={exit_}}}'
