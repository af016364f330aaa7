"""What StableHLO says beside its operations: module attributes, the entry's argument and result attributes."""

from __future__ import annotations

from collections.abc import Mapping

from xyla.formats.mlir.attributes import (
    ArrayAttr,
    Attribute,
    BoolAttr,
    DictAttr,
    IntegerAttr,
    StringAttr,
    UnitAttr,
)
from xyla.formats.mlir.ir import MlirModule, Operation
from xyla.hlo.module import BufferDonor, InputOutputAlias, Instruction, Module
from xyla.support.status import invalid


def module_attributes(module: Module, mlir: MlirModule) -> None:
    """Replica and partition counts, frontend attributes, sdy meshes."""
    attributes = mlir.op.attributes
    config = module.config
    config.replica_count = _count(attributes, "mhlo.num_replicas", mlir)
    config.num_partitions = _count(attributes, "mhlo.num_partitions", mlir)
    frontend = dict(_frontend(attributes.get("mhlo.frontend_attributes")))
    meshes = [f"{op.symbol_name} = {op.get('mesh')}" for op in mlir.body if op.name == "sdy.mesh"]
    if meshes:
        frontend.setdefault("xla.sdy.meshes", "{" + ", ".join(meshes) + "}")
    config.frontend_attributes = tuple(sorted(frontend.items()))


def _count(attributes: Mapping[str, Attribute], key: str, mlir: MlirModule) -> int:
    attr = attributes.get(key)
    if attr is None:
        return 1
    if not isinstance(attr, IntegerAttr) or not 1 <= attr.value < 1 << 31:
        raise invalid(f"{key} must be a positive integer, not {attr}", span=mlir.span(mlir.op))
    return attr.value


def entry_attributes(module: Module, main: Operation) -> None:
    """Aliases, donors and annotations of the entry's parameters; annotations of its results."""
    comp = module.entry
    aliases: list[InputOutputAlias] = []
    donors: list[BufferDonor] = []
    single = not comp.root.shape.is_tuple
    for parameter, attrs in zip(comp.parameters, _dicts(main, "arg_attrs", len(comp.parameters)), strict=True):
        number = parameter.attrs.number
        annotate(parameter, attrs)
        output = attrs.get("tf.aliasing_output")
        if isinstance(output, IntegerAttr):
            aliases.append(InputOutputAlias(() if single else (output.value,), number, ()))
        donor = attrs.get("jax.buffer_donor")
        if isinstance(donor, UnitAttr) or (isinstance(donor, BoolAttr) and donor.value):
            donors.append(BufferDonor(number, ()))
    module.config.input_output_aliases = tuple(aliases)
    module.config.buffer_donors = tuple(donors)
    _result_sharding(module, main)


def _result_sharding(module: Module, main: Operation) -> None:
    """Result shardings go to the root: as they are for one result, as a tuple sharding when every result has one."""
    root = module.entry.root
    count = len(root.shape.tuple_shapes) if root.shape.is_tuple else 1
    shardings = [a.get("mhlo.sharding") for a in _dicts(main, "res_attrs", count)]
    texts = [a.value for a in shardings if isinstance(a, StringAttr)]
    if not texts or len(texts) != count or root.sharding:
        return
    root.sharding = "{" + ", ".join(texts) + "}" if root.shape.is_tuple else texts[0]


def _dicts(main: Operation, key: str, count: int) -> list[dict[str, Attribute]]:
    attr = main.get(key)
    items = attr.items if isinstance(attr, ArrayAttr) else ()
    out = [dict(item.entries) if isinstance(item, DictAttr) else {} for item in items]
    return (out + [{}] * count)[:count]


def annotate(inst: Instruction, attributes: Mapping[str, Attribute]) -> None:
    """Sharding and frontend attributes of an operation or an argument."""
    sharding = attributes.get("mhlo.sharding")
    if isinstance(sharding, StringAttr) and sharding.value:
        inst.sharding = sharding.value
    frontend = dict(inst.frontend_attributes)
    frontend.update(_frontend(attributes.get("mhlo.frontend_attributes")))
    sdy = attributes.get("sdy.sharding")
    if sdy is not None:
        frontend.setdefault("xla.sdy.sharding", str(sdy))
    if frontend:
        inst.frontend_attributes = tuple(sorted(frontend.items()))


def _frontend(attr: Attribute | None) -> list[tuple[str, str]]:
    """String entries as they are, others as MLIR text."""
    if not isinstance(attr, DictAttr):
        return []
    return [(k, v.value if isinstance(v, StringAttr) else str(v)) for k, v in attr.entries]
