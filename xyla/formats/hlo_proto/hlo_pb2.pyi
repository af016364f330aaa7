from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class PrimitiveType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    PRIMITIVE_TYPE_INVALID: _ClassVar[PrimitiveType]
    PRED: _ClassVar[PrimitiveType]
    S1: _ClassVar[PrimitiveType]
    S2: _ClassVar[PrimitiveType]
    S4: _ClassVar[PrimitiveType]
    S8: _ClassVar[PrimitiveType]
    S16: _ClassVar[PrimitiveType]
    S32: _ClassVar[PrimitiveType]
    S64: _ClassVar[PrimitiveType]
    U1: _ClassVar[PrimitiveType]
    U2: _ClassVar[PrimitiveType]
    U4: _ClassVar[PrimitiveType]
    U8: _ClassVar[PrimitiveType]
    U16: _ClassVar[PrimitiveType]
    U32: _ClassVar[PrimitiveType]
    U64: _ClassVar[PrimitiveType]
    F16: _ClassVar[PrimitiveType]
    F32: _ClassVar[PrimitiveType]
    BF16: _ClassVar[PrimitiveType]
    F64: _ClassVar[PrimitiveType]
    F8E5M2: _ClassVar[PrimitiveType]
    F8E4M3: _ClassVar[PrimitiveType]
    F8E4M3FN: _ClassVar[PrimitiveType]
    F8E4M3B11FNUZ: _ClassVar[PrimitiveType]
    F8E3M4: _ClassVar[PrimitiveType]
    F8E5M2FNUZ: _ClassVar[PrimitiveType]
    F8E4M3FNUZ: _ClassVar[PrimitiveType]
    F4E2M1FN: _ClassVar[PrimitiveType]
    F8E8M0FNU: _ClassVar[PrimitiveType]
    F6E3M2FN: _ClassVar[PrimitiveType]
    F6E2M3FN: _ClassVar[PrimitiveType]
    C64: _ClassVar[PrimitiveType]
    C128: _ClassVar[PrimitiveType]
    TUPLE: _ClassVar[PrimitiveType]
    OPAQUE_TYPE: _ClassVar[PrimitiveType]
    TOKEN: _ClassVar[PrimitiveType]
    BUFFER: _ClassVar[PrimitiveType]

class DimLevelType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    DIM_DENSE: _ClassVar[DimLevelType]
    DIM_COMPRESSED: _ClassVar[DimLevelType]
    DIM_SINGLETON: _ClassVar[DimLevelType]
    DIM_LOOSE_COMPRESSED: _ClassVar[DimLevelType]

class ProfileType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    INVALID: _ClassVar[ProfileType]
    WINDOW: _ClassVar[ProfileType]
    FLAG: _ClassVar[ProfileType]
    INTEGER: _ClassVar[ProfileType]

class ProfileSource(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    PROFILE_SOURCE_UNKNOWN_SOURCE: _ClassVar[ProfileSource]
    PROFILE_SOURCE_EMBEDDED: _ClassVar[ProfileSource]
    PROFILE_SOURCE_REMOTE: _ClassVar[ProfileSource]

class CompilationEvent(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    COMPILATION_EVENT_UNKNOWN_EVENT: _ClassVar[CompilationEvent]
    COMPILATION_EVENT_FIRST_COMPILATION: _ClassVar[CompilationEvent]
    COMPILATION_EVENT_RECOMPILATION: _ClassVar[CompilationEvent]

class ProfileGenerationStrategy(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    PROFILE_GENERATION_STRATEGY_UNKNOWN: _ClassVar[ProfileGenerationStrategy]
    PROFILE_GENERATION_STRATEGY_GA: _ClassVar[ProfileGenerationStrategy]
    PROFILE_GENERATION_STRATEGY_FANTA: _ClassVar[ProfileGenerationStrategy]
    PROFILE_GENERATION_STRATEGY_CFO: _ClassVar[ProfileGenerationStrategy]
    PROFILE_GENERATION_STRATEGY_EXHAUSTIVE: _ClassVar[ProfileGenerationStrategy]
    PROFILE_GENERATION_STRATEGY_LCM_GNN: _ClassVar[ProfileGenerationStrategy]
    PROFILE_GENERATION_STRATEGY_LCM_MOE: _ClassVar[ProfileGenerationStrategy]

class PaddingType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    PADDING_INVALID: _ClassVar[PaddingType]
    PADDING_VALID: _ClassVar[PaddingType]
    PADDING_SAME: _ClassVar[PaddingType]

class FftType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    FFT: _ClassVar[FftType]
    IFFT: _ClassVar[FftType]
    RFFT: _ClassVar[FftType]
    IRFFT: _ClassVar[FftType]

class RandomDistribution(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    RNG_INVALID: _ClassVar[RandomDistribution]
    RNG_UNIFORM: _ClassVar[RandomDistribution]
    RNG_NORMAL: _ClassVar[RandomDistribution]

class RandomAlgorithm(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    RNG_DEFAULT: _ClassVar[RandomAlgorithm]
    RNG_THREE_FRY: _ClassVar[RandomAlgorithm]
    RNG_PHILOX: _ClassVar[RandomAlgorithm]

class CustomCallSchedule(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    SCHEDULE_NONE: _ClassVar[CustomCallSchedule]
    SCHEDULE_LATEST: _ClassVar[CustomCallSchedule]
    SCHEDULE_EARLIEST: _ClassVar[CustomCallSchedule]

class TriState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    TRI_STATE_UNSPECIFIED: _ClassVar[TriState]
    TRI_STATE_TRUE: _ClassVar[TriState]
    TRI_STATE_FALSE: _ClassVar[TriState]

class ConvolutionKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    CONVOLUTION_KIND_UNSET: _ClassVar[ConvolutionKind]
    CONVOLUTION_KIND_FPROP: _ClassVar[ConvolutionKind]
    CONVOLUTION_KIND_DGRAD: _ClassVar[ConvolutionKind]
    CONVOLUTION_KIND_WGRAD: _ClassVar[ConvolutionKind]

class CustomCallApiVersion(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    API_VERSION_UNSPECIFIED: _ClassVar[CustomCallApiVersion]
    API_VERSION_ORIGINAL: _ClassVar[CustomCallApiVersion]
    API_VERSION_STATUS_RETURNING: _ClassVar[CustomCallApiVersion]
    API_VERSION_STATUS_RETURNING_UNIFIED: _ClassVar[CustomCallApiVersion]
    API_VERSION_TYPED_FFI: _ClassVar[CustomCallApiVersion]

class Kind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    UNDEFINED_ALIAS: _ClassVar[Kind]
    MAY_ALIAS: _ClassVar[Kind]
    MUST_ALIAS: _ClassVar[Kind]

class SparsityType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    SPARSITY_INVALID: _ClassVar[SparsityType]
    SPARSITY_STRUCTURED_N_M: _ClassVar[SparsityType]
PRIMITIVE_TYPE_INVALID: PrimitiveType
PRED: PrimitiveType
S1: PrimitiveType
S2: PrimitiveType
S4: PrimitiveType
S8: PrimitiveType
S16: PrimitiveType
S32: PrimitiveType
S64: PrimitiveType
U1: PrimitiveType
U2: PrimitiveType
U4: PrimitiveType
U8: PrimitiveType
U16: PrimitiveType
U32: PrimitiveType
U64: PrimitiveType
F16: PrimitiveType
F32: PrimitiveType
BF16: PrimitiveType
F64: PrimitiveType
F8E5M2: PrimitiveType
F8E4M3: PrimitiveType
F8E4M3FN: PrimitiveType
F8E4M3B11FNUZ: PrimitiveType
F8E3M4: PrimitiveType
F8E5M2FNUZ: PrimitiveType
F8E4M3FNUZ: PrimitiveType
F4E2M1FN: PrimitiveType
F8E8M0FNU: PrimitiveType
F6E3M2FN: PrimitiveType
F6E2M3FN: PrimitiveType
C64: PrimitiveType
C128: PrimitiveType
TUPLE: PrimitiveType
OPAQUE_TYPE: PrimitiveType
TOKEN: PrimitiveType
BUFFER: PrimitiveType
DIM_DENSE: DimLevelType
DIM_COMPRESSED: DimLevelType
DIM_SINGLETON: DimLevelType
DIM_LOOSE_COMPRESSED: DimLevelType
INVALID: ProfileType
WINDOW: ProfileType
FLAG: ProfileType
INTEGER: ProfileType
PROFILE_SOURCE_UNKNOWN_SOURCE: ProfileSource
PROFILE_SOURCE_EMBEDDED: ProfileSource
PROFILE_SOURCE_REMOTE: ProfileSource
COMPILATION_EVENT_UNKNOWN_EVENT: CompilationEvent
COMPILATION_EVENT_FIRST_COMPILATION: CompilationEvent
COMPILATION_EVENT_RECOMPILATION: CompilationEvent
PROFILE_GENERATION_STRATEGY_UNKNOWN: ProfileGenerationStrategy
PROFILE_GENERATION_STRATEGY_GA: ProfileGenerationStrategy
PROFILE_GENERATION_STRATEGY_FANTA: ProfileGenerationStrategy
PROFILE_GENERATION_STRATEGY_CFO: ProfileGenerationStrategy
PROFILE_GENERATION_STRATEGY_EXHAUSTIVE: ProfileGenerationStrategy
PROFILE_GENERATION_STRATEGY_LCM_GNN: ProfileGenerationStrategy
PROFILE_GENERATION_STRATEGY_LCM_MOE: ProfileGenerationStrategy
PADDING_INVALID: PaddingType
PADDING_VALID: PaddingType
PADDING_SAME: PaddingType
FFT: FftType
IFFT: FftType
RFFT: FftType
IRFFT: FftType
RNG_INVALID: RandomDistribution
RNG_UNIFORM: RandomDistribution
RNG_NORMAL: RandomDistribution
RNG_DEFAULT: RandomAlgorithm
RNG_THREE_FRY: RandomAlgorithm
RNG_PHILOX: RandomAlgorithm
SCHEDULE_NONE: CustomCallSchedule
SCHEDULE_LATEST: CustomCallSchedule
SCHEDULE_EARLIEST: CustomCallSchedule
TRI_STATE_UNSPECIFIED: TriState
TRI_STATE_TRUE: TriState
TRI_STATE_FALSE: TriState
CONVOLUTION_KIND_UNSET: ConvolutionKind
CONVOLUTION_KIND_FPROP: ConvolutionKind
CONVOLUTION_KIND_DGRAD: ConvolutionKind
CONVOLUTION_KIND_WGRAD: ConvolutionKind
API_VERSION_UNSPECIFIED: CustomCallApiVersion
API_VERSION_ORIGINAL: CustomCallApiVersion
API_VERSION_STATUS_RETURNING: CustomCallApiVersion
API_VERSION_STATUS_RETURNING_UNIFIED: CustomCallApiVersion
API_VERSION_TYPED_FFI: CustomCallApiVersion
UNDEFINED_ALIAS: Kind
MAY_ALIAS: Kind
MUST_ALIAS: Kind
SPARSITY_INVALID: SparsityType
SPARSITY_STRUCTURED_N_M: SparsityType

class PaddingConfig(_message.Message):
    __slots__ = ("dimensions",)
    class PaddingConfigDimension(_message.Message):
        __slots__ = ("edge_padding_low", "edge_padding_high", "interior_padding")
        EDGE_PADDING_LOW_FIELD_NUMBER: _ClassVar[int]
        EDGE_PADDING_HIGH_FIELD_NUMBER: _ClassVar[int]
        INTERIOR_PADDING_FIELD_NUMBER: _ClassVar[int]
        edge_padding_low: int
        edge_padding_high: int
        interior_padding: int
        def __init__(self, edge_padding_low: _Optional[int] = ..., edge_padding_high: _Optional[int] = ..., interior_padding: _Optional[int] = ...) -> None: ...
    DIMENSIONS_FIELD_NUMBER: _ClassVar[int]
    dimensions: _containers.RepeatedCompositeFieldContainer[PaddingConfig.PaddingConfigDimension]
    def __init__(self, dimensions: _Optional[_Iterable[_Union[PaddingConfig.PaddingConfigDimension, _Mapping]]] = ...) -> None: ...

class TileProto(_message.Message):
    __slots__ = ("dimensions",)
    DIMENSIONS_FIELD_NUMBER: _ClassVar[int]
    dimensions: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, dimensions: _Optional[_Iterable[int]] = ...) -> None: ...

class SplitConfigProto(_message.Message):
    __slots__ = ("dimension", "split_indices")
    DIMENSION_FIELD_NUMBER: _ClassVar[int]
    SPLIT_INDICES_FIELD_NUMBER: _ClassVar[int]
    dimension: int
    split_indices: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, dimension: _Optional[int] = ..., split_indices: _Optional[_Iterable[int]] = ...) -> None: ...

class LayoutProto(_message.Message):
    __slots__ = ("minor_to_major", "dim_level_types", "dim_unique", "dim_ordered", "tiles", "tail_padding_alignment_in_elements", "element_size_in_bits", "memory_space", "index_primitive_type", "pointer_primitive_type", "physical_shape", "dynamic_shape_metadata_prefix_bytes", "split_configs", "implied")
    MINOR_TO_MAJOR_FIELD_NUMBER: _ClassVar[int]
    DIM_LEVEL_TYPES_FIELD_NUMBER: _ClassVar[int]
    DIM_UNIQUE_FIELD_NUMBER: _ClassVar[int]
    DIM_ORDERED_FIELD_NUMBER: _ClassVar[int]
    TILES_FIELD_NUMBER: _ClassVar[int]
    TAIL_PADDING_ALIGNMENT_IN_ELEMENTS_FIELD_NUMBER: _ClassVar[int]
    ELEMENT_SIZE_IN_BITS_FIELD_NUMBER: _ClassVar[int]
    MEMORY_SPACE_FIELD_NUMBER: _ClassVar[int]
    INDEX_PRIMITIVE_TYPE_FIELD_NUMBER: _ClassVar[int]
    POINTER_PRIMITIVE_TYPE_FIELD_NUMBER: _ClassVar[int]
    PHYSICAL_SHAPE_FIELD_NUMBER: _ClassVar[int]
    DYNAMIC_SHAPE_METADATA_PREFIX_BYTES_FIELD_NUMBER: _ClassVar[int]
    SPLIT_CONFIGS_FIELD_NUMBER: _ClassVar[int]
    IMPLIED_FIELD_NUMBER: _ClassVar[int]
    minor_to_major: _containers.RepeatedScalarFieldContainer[int]
    dim_level_types: _containers.RepeatedScalarFieldContainer[DimLevelType]
    dim_unique: _containers.RepeatedScalarFieldContainer[bool]
    dim_ordered: _containers.RepeatedScalarFieldContainer[bool]
    tiles: _containers.RepeatedCompositeFieldContainer[TileProto]
    tail_padding_alignment_in_elements: int
    element_size_in_bits: int
    memory_space: int
    index_primitive_type: PrimitiveType
    pointer_primitive_type: PrimitiveType
    physical_shape: ShapeProto
    dynamic_shape_metadata_prefix_bytes: int
    split_configs: _containers.RepeatedCompositeFieldContainer[SplitConfigProto]
    implied: bool
    def __init__(self, minor_to_major: _Optional[_Iterable[int]] = ..., dim_level_types: _Optional[_Iterable[_Union[DimLevelType, str]]] = ..., dim_unique: _Optional[_Iterable[bool]] = ..., dim_ordered: _Optional[_Iterable[bool]] = ..., tiles: _Optional[_Iterable[_Union[TileProto, _Mapping]]] = ..., tail_padding_alignment_in_elements: _Optional[int] = ..., element_size_in_bits: _Optional[int] = ..., memory_space: _Optional[int] = ..., index_primitive_type: _Optional[_Union[PrimitiveType, str]] = ..., pointer_primitive_type: _Optional[_Union[PrimitiveType, str]] = ..., physical_shape: _Optional[_Union[ShapeProto, _Mapping]] = ..., dynamic_shape_metadata_prefix_bytes: _Optional[int] = ..., split_configs: _Optional[_Iterable[_Union[SplitConfigProto, _Mapping]]] = ..., implied: bool = ...) -> None: ...

class ShapeProto(_message.Message):
    __slots__ = ("element_type", "dimensions", "is_dynamic_dimension", "tuple_shapes", "layout")
    ELEMENT_TYPE_FIELD_NUMBER: _ClassVar[int]
    DIMENSIONS_FIELD_NUMBER: _ClassVar[int]
    IS_DYNAMIC_DIMENSION_FIELD_NUMBER: _ClassVar[int]
    TUPLE_SHAPES_FIELD_NUMBER: _ClassVar[int]
    LAYOUT_FIELD_NUMBER: _ClassVar[int]
    element_type: PrimitiveType
    dimensions: _containers.RepeatedScalarFieldContainer[int]
    is_dynamic_dimension: _containers.RepeatedScalarFieldContainer[bool]
    tuple_shapes: _containers.RepeatedCompositeFieldContainer[ShapeProto]
    layout: LayoutProto
    def __init__(self, element_type: _Optional[_Union[PrimitiveType, str]] = ..., dimensions: _Optional[_Iterable[int]] = ..., is_dynamic_dimension: _Optional[_Iterable[bool]] = ..., tuple_shapes: _Optional[_Iterable[_Union[ShapeProto, _Mapping]]] = ..., layout: _Optional[_Union[LayoutProto, _Mapping]] = ...) -> None: ...

class ProgramShapeProto(_message.Message):
    __slots__ = ("parameters", "result", "parameter_names")
    PARAMETERS_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    PARAMETER_NAMES_FIELD_NUMBER: _ClassVar[int]
    parameters: _containers.RepeatedCompositeFieldContainer[ShapeProto]
    result: ShapeProto
    parameter_names: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, parameters: _Optional[_Iterable[_Union[ShapeProto, _Mapping]]] = ..., result: _Optional[_Union[ShapeProto, _Mapping]] = ..., parameter_names: _Optional[_Iterable[str]] = ...) -> None: ...

class Payload(_message.Message):
    __slots__ = ("value", "id")
    VALUE_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    value: bytes
    id: int
    def __init__(self, value: _Optional[bytes] = ..., id: _Optional[int] = ...) -> None: ...

class OpMetadata(_message.Message):
    __slots__ = ("op_type", "op_name", "source_file", "source_line", "source_end_line", "source_column", "source_end_column", "profile_type", "size_of_generated_code_in_bytes", "size_of_memory_working_set_in_bytes", "profile_info", "deduplicated_name", "stack_frame_id", "scheduling_name", "metadata_payload")
    class ProfileInfo(_message.Message):
        __slots__ = ("profile_type", "relative_speedup", "profile_source", "compilation_event", "profile_generation_strategy")
        PROFILE_TYPE_FIELD_NUMBER: _ClassVar[int]
        RELATIVE_SPEEDUP_FIELD_NUMBER: _ClassVar[int]
        PROFILE_SOURCE_FIELD_NUMBER: _ClassVar[int]
        COMPILATION_EVENT_FIELD_NUMBER: _ClassVar[int]
        PROFILE_GENERATION_STRATEGY_FIELD_NUMBER: _ClassVar[int]
        profile_type: _containers.RepeatedScalarFieldContainer[ProfileType]
        relative_speedup: float
        profile_source: ProfileSource
        compilation_event: CompilationEvent
        profile_generation_strategy: ProfileGenerationStrategy
        def __init__(self, profile_type: _Optional[_Iterable[_Union[ProfileType, str]]] = ..., relative_speedup: _Optional[float] = ..., profile_source: _Optional[_Union[ProfileSource, str]] = ..., compilation_event: _Optional[_Union[CompilationEvent, str]] = ..., profile_generation_strategy: _Optional[_Union[ProfileGenerationStrategy, str]] = ...) -> None: ...
    OP_TYPE_FIELD_NUMBER: _ClassVar[int]
    OP_NAME_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FILE_FIELD_NUMBER: _ClassVar[int]
    SOURCE_LINE_FIELD_NUMBER: _ClassVar[int]
    SOURCE_END_LINE_FIELD_NUMBER: _ClassVar[int]
    SOURCE_COLUMN_FIELD_NUMBER: _ClassVar[int]
    SOURCE_END_COLUMN_FIELD_NUMBER: _ClassVar[int]
    PROFILE_TYPE_FIELD_NUMBER: _ClassVar[int]
    SIZE_OF_GENERATED_CODE_IN_BYTES_FIELD_NUMBER: _ClassVar[int]
    SIZE_OF_MEMORY_WORKING_SET_IN_BYTES_FIELD_NUMBER: _ClassVar[int]
    PROFILE_INFO_FIELD_NUMBER: _ClassVar[int]
    DEDUPLICATED_NAME_FIELD_NUMBER: _ClassVar[int]
    STACK_FRAME_ID_FIELD_NUMBER: _ClassVar[int]
    SCHEDULING_NAME_FIELD_NUMBER: _ClassVar[int]
    METADATA_PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    op_type: str
    op_name: str
    source_file: str
    source_line: int
    source_end_line: int
    source_column: int
    source_end_column: int
    profile_type: _containers.RepeatedScalarFieldContainer[ProfileType]
    size_of_generated_code_in_bytes: int
    size_of_memory_working_set_in_bytes: int
    profile_info: OpMetadata.ProfileInfo
    deduplicated_name: str
    stack_frame_id: int
    scheduling_name: str
    metadata_payload: Payload
    def __init__(self, op_type: _Optional[str] = ..., op_name: _Optional[str] = ..., source_file: _Optional[str] = ..., source_line: _Optional[int] = ..., source_end_line: _Optional[int] = ..., source_column: _Optional[int] = ..., source_end_column: _Optional[int] = ..., profile_type: _Optional[_Iterable[_Union[ProfileType, str]]] = ..., size_of_generated_code_in_bytes: _Optional[int] = ..., size_of_memory_working_set_in_bytes: _Optional[int] = ..., profile_info: _Optional[_Union[OpMetadata.ProfileInfo, _Mapping]] = ..., deduplicated_name: _Optional[str] = ..., stack_frame_id: _Optional[int] = ..., scheduling_name: _Optional[str] = ..., metadata_payload: _Optional[_Union[Payload, _Mapping]] = ...) -> None: ...

class DeviceAssignmentProto(_message.Message):
    __slots__ = ("replica_count", "computation_count", "computation_devices")
    class ComputationDevice(_message.Message):
        __slots__ = ("replica_device_ids",)
        REPLICA_DEVICE_IDS_FIELD_NUMBER: _ClassVar[int]
        replica_device_ids: _containers.RepeatedScalarFieldContainer[int]
        def __init__(self, replica_device_ids: _Optional[_Iterable[int]] = ...) -> None: ...
    REPLICA_COUNT_FIELD_NUMBER: _ClassVar[int]
    COMPUTATION_COUNT_FIELD_NUMBER: _ClassVar[int]
    COMPUTATION_DEVICES_FIELD_NUMBER: _ClassVar[int]
    replica_count: int
    computation_count: int
    computation_devices: _containers.RepeatedCompositeFieldContainer[DeviceAssignmentProto.ComputationDevice]
    def __init__(self, replica_count: _Optional[int] = ..., computation_count: _Optional[int] = ..., computation_devices: _Optional[_Iterable[_Union[DeviceAssignmentProto.ComputationDevice, _Mapping]]] = ...) -> None: ...

class LiteralProto(_message.Message):
    __slots__ = ("shape", "preds", "s1s", "s2s", "s4s", "s8s", "u1s", "u2s", "u4s", "u8s", "s32s", "s64s", "u32s", "u64s", "f32s", "f64s", "c64s", "c128s", "tuple_literals", "f16s", "bf16s", "u16s", "s16s", "f4e2m1fns", "f8e3m4s", "f8e4m3b11fnuzs", "f8e4m3fns", "f8e4m3fnuzs", "f8e4m3s", "f8e5m2fnuzs", "f8e5m2s", "f8e8m0fnus", "f6e3m2fns", "f6e2m3fns", "sparse_indices", "dynamic_sizes")
    SHAPE_FIELD_NUMBER: _ClassVar[int]
    PREDS_FIELD_NUMBER: _ClassVar[int]
    S1S_FIELD_NUMBER: _ClassVar[int]
    S2S_FIELD_NUMBER: _ClassVar[int]
    S4S_FIELD_NUMBER: _ClassVar[int]
    S8S_FIELD_NUMBER: _ClassVar[int]
    U1S_FIELD_NUMBER: _ClassVar[int]
    U2S_FIELD_NUMBER: _ClassVar[int]
    U4S_FIELD_NUMBER: _ClassVar[int]
    U8S_FIELD_NUMBER: _ClassVar[int]
    S32S_FIELD_NUMBER: _ClassVar[int]
    S64S_FIELD_NUMBER: _ClassVar[int]
    U32S_FIELD_NUMBER: _ClassVar[int]
    U64S_FIELD_NUMBER: _ClassVar[int]
    F32S_FIELD_NUMBER: _ClassVar[int]
    F64S_FIELD_NUMBER: _ClassVar[int]
    C64S_FIELD_NUMBER: _ClassVar[int]
    C128S_FIELD_NUMBER: _ClassVar[int]
    TUPLE_LITERALS_FIELD_NUMBER: _ClassVar[int]
    F16S_FIELD_NUMBER: _ClassVar[int]
    BF16S_FIELD_NUMBER: _ClassVar[int]
    U16S_FIELD_NUMBER: _ClassVar[int]
    S16S_FIELD_NUMBER: _ClassVar[int]
    F4E2M1FNS_FIELD_NUMBER: _ClassVar[int]
    F8E3M4S_FIELD_NUMBER: _ClassVar[int]
    F8E4M3B11FNUZS_FIELD_NUMBER: _ClassVar[int]
    F8E4M3FNS_FIELD_NUMBER: _ClassVar[int]
    F8E4M3FNUZS_FIELD_NUMBER: _ClassVar[int]
    F8E4M3S_FIELD_NUMBER: _ClassVar[int]
    F8E5M2FNUZS_FIELD_NUMBER: _ClassVar[int]
    F8E5M2S_FIELD_NUMBER: _ClassVar[int]
    F8E8M0FNUS_FIELD_NUMBER: _ClassVar[int]
    F6E3M2FNS_FIELD_NUMBER: _ClassVar[int]
    F6E2M3FNS_FIELD_NUMBER: _ClassVar[int]
    SPARSE_INDICES_FIELD_NUMBER: _ClassVar[int]
    DYNAMIC_SIZES_FIELD_NUMBER: _ClassVar[int]
    shape: ShapeProto
    preds: _containers.RepeatedScalarFieldContainer[bool]
    s1s: bytes
    s2s: bytes
    s4s: bytes
    s8s: bytes
    u1s: bytes
    u2s: bytes
    u4s: bytes
    u8s: bytes
    s32s: _containers.RepeatedScalarFieldContainer[int]
    s64s: _containers.RepeatedScalarFieldContainer[int]
    u32s: _containers.RepeatedScalarFieldContainer[int]
    u64s: _containers.RepeatedScalarFieldContainer[int]
    f32s: _containers.RepeatedScalarFieldContainer[float]
    f64s: _containers.RepeatedScalarFieldContainer[float]
    c64s: _containers.RepeatedScalarFieldContainer[float]
    c128s: _containers.RepeatedScalarFieldContainer[float]
    tuple_literals: _containers.RepeatedCompositeFieldContainer[LiteralProto]
    f16s: bytes
    bf16s: bytes
    u16s: bytes
    s16s: bytes
    f4e2m1fns: bytes
    f8e3m4s: bytes
    f8e4m3b11fnuzs: bytes
    f8e4m3fns: bytes
    f8e4m3fnuzs: bytes
    f8e4m3s: bytes
    f8e5m2fnuzs: bytes
    f8e5m2s: bytes
    f8e8m0fnus: bytes
    f6e3m2fns: bytes
    f6e2m3fns: bytes
    sparse_indices: _containers.RepeatedScalarFieldContainer[int]
    dynamic_sizes: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, shape: _Optional[_Union[ShapeProto, _Mapping]] = ..., preds: _Optional[_Iterable[bool]] = ..., s1s: _Optional[bytes] = ..., s2s: _Optional[bytes] = ..., s4s: _Optional[bytes] = ..., s8s: _Optional[bytes] = ..., u1s: _Optional[bytes] = ..., u2s: _Optional[bytes] = ..., u4s: _Optional[bytes] = ..., u8s: _Optional[bytes] = ..., s32s: _Optional[_Iterable[int]] = ..., s64s: _Optional[_Iterable[int]] = ..., u32s: _Optional[_Iterable[int]] = ..., u64s: _Optional[_Iterable[int]] = ..., f32s: _Optional[_Iterable[float]] = ..., f64s: _Optional[_Iterable[float]] = ..., c64s: _Optional[_Iterable[float]] = ..., c128s: _Optional[_Iterable[float]] = ..., tuple_literals: _Optional[_Iterable[_Union[LiteralProto, _Mapping]]] = ..., f16s: _Optional[bytes] = ..., bf16s: _Optional[bytes] = ..., u16s: _Optional[bytes] = ..., s16s: _Optional[bytes] = ..., f4e2m1fns: _Optional[bytes] = ..., f8e3m4s: _Optional[bytes] = ..., f8e4m3b11fnuzs: _Optional[bytes] = ..., f8e4m3fns: _Optional[bytes] = ..., f8e4m3fnuzs: _Optional[bytes] = ..., f8e4m3s: _Optional[bytes] = ..., f8e5m2fnuzs: _Optional[bytes] = ..., f8e5m2s: _Optional[bytes] = ..., f8e8m0fnus: _Optional[bytes] = ..., f6e3m2fns: _Optional[bytes] = ..., f6e2m3fns: _Optional[bytes] = ..., sparse_indices: _Optional[_Iterable[int]] = ..., dynamic_sizes: _Optional[_Iterable[int]] = ...) -> None: ...

class WindowDimension(_message.Message):
    __slots__ = ("size", "stride", "padding_low", "padding_high", "window_dilation", "base_dilation", "window_reversal")
    SIZE_FIELD_NUMBER: _ClassVar[int]
    STRIDE_FIELD_NUMBER: _ClassVar[int]
    PADDING_LOW_FIELD_NUMBER: _ClassVar[int]
    PADDING_HIGH_FIELD_NUMBER: _ClassVar[int]
    WINDOW_DILATION_FIELD_NUMBER: _ClassVar[int]
    BASE_DILATION_FIELD_NUMBER: _ClassVar[int]
    WINDOW_REVERSAL_FIELD_NUMBER: _ClassVar[int]
    size: int
    stride: int
    padding_low: int
    padding_high: int
    window_dilation: int
    base_dilation: int
    window_reversal: bool
    def __init__(self, size: _Optional[int] = ..., stride: _Optional[int] = ..., padding_low: _Optional[int] = ..., padding_high: _Optional[int] = ..., window_dilation: _Optional[int] = ..., base_dilation: _Optional[int] = ..., window_reversal: bool = ...) -> None: ...

class Window(_message.Message):
    __slots__ = ("dimensions",)
    DIMENSIONS_FIELD_NUMBER: _ClassVar[int]
    dimensions: _containers.RepeatedCompositeFieldContainer[WindowDimension]
    def __init__(self, dimensions: _Optional[_Iterable[_Union[WindowDimension, _Mapping]]] = ...) -> None: ...

class GatherDimensionNumbers(_message.Message):
    __slots__ = ("offset_dims", "collapsed_slice_dims", "start_index_map", "index_vector_dim", "operand_batching_dims", "start_indices_batching_dims")
    OFFSET_DIMS_FIELD_NUMBER: _ClassVar[int]
    COLLAPSED_SLICE_DIMS_FIELD_NUMBER: _ClassVar[int]
    START_INDEX_MAP_FIELD_NUMBER: _ClassVar[int]
    INDEX_VECTOR_DIM_FIELD_NUMBER: _ClassVar[int]
    OPERAND_BATCHING_DIMS_FIELD_NUMBER: _ClassVar[int]
    START_INDICES_BATCHING_DIMS_FIELD_NUMBER: _ClassVar[int]
    offset_dims: _containers.RepeatedScalarFieldContainer[int]
    collapsed_slice_dims: _containers.RepeatedScalarFieldContainer[int]
    start_index_map: _containers.RepeatedScalarFieldContainer[int]
    index_vector_dim: int
    operand_batching_dims: _containers.RepeatedScalarFieldContainer[int]
    start_indices_batching_dims: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, offset_dims: _Optional[_Iterable[int]] = ..., collapsed_slice_dims: _Optional[_Iterable[int]] = ..., start_index_map: _Optional[_Iterable[int]] = ..., index_vector_dim: _Optional[int] = ..., operand_batching_dims: _Optional[_Iterable[int]] = ..., start_indices_batching_dims: _Optional[_Iterable[int]] = ...) -> None: ...

class ScatterDimensionNumbers(_message.Message):
    __slots__ = ("update_window_dims", "inserted_window_dims", "scatter_dims_to_operand_dims", "index_vector_dim", "input_batching_dims", "scatter_indices_batching_dims")
    UPDATE_WINDOW_DIMS_FIELD_NUMBER: _ClassVar[int]
    INSERTED_WINDOW_DIMS_FIELD_NUMBER: _ClassVar[int]
    SCATTER_DIMS_TO_OPERAND_DIMS_FIELD_NUMBER: _ClassVar[int]
    INDEX_VECTOR_DIM_FIELD_NUMBER: _ClassVar[int]
    INPUT_BATCHING_DIMS_FIELD_NUMBER: _ClassVar[int]
    SCATTER_INDICES_BATCHING_DIMS_FIELD_NUMBER: _ClassVar[int]
    update_window_dims: _containers.RepeatedScalarFieldContainer[int]
    inserted_window_dims: _containers.RepeatedScalarFieldContainer[int]
    scatter_dims_to_operand_dims: _containers.RepeatedScalarFieldContainer[int]
    index_vector_dim: int
    input_batching_dims: _containers.RepeatedScalarFieldContainer[int]
    scatter_indices_batching_dims: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, update_window_dims: _Optional[_Iterable[int]] = ..., inserted_window_dims: _Optional[_Iterable[int]] = ..., scatter_dims_to_operand_dims: _Optional[_Iterable[int]] = ..., index_vector_dim: _Optional[int] = ..., input_batching_dims: _Optional[_Iterable[int]] = ..., scatter_indices_batching_dims: _Optional[_Iterable[int]] = ...) -> None: ...

class ConvolutionDimensionNumbers(_message.Message):
    __slots__ = ("input_batch_dimension", "input_feature_dimension", "input_spatial_dimensions", "kernel_input_feature_dimension", "kernel_output_feature_dimension", "kernel_spatial_dimensions", "output_batch_dimension", "output_feature_dimension", "output_spatial_dimensions")
    INPUT_BATCH_DIMENSION_FIELD_NUMBER: _ClassVar[int]
    INPUT_FEATURE_DIMENSION_FIELD_NUMBER: _ClassVar[int]
    INPUT_SPATIAL_DIMENSIONS_FIELD_NUMBER: _ClassVar[int]
    KERNEL_INPUT_FEATURE_DIMENSION_FIELD_NUMBER: _ClassVar[int]
    KERNEL_OUTPUT_FEATURE_DIMENSION_FIELD_NUMBER: _ClassVar[int]
    KERNEL_SPATIAL_DIMENSIONS_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_BATCH_DIMENSION_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_FEATURE_DIMENSION_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_SPATIAL_DIMENSIONS_FIELD_NUMBER: _ClassVar[int]
    input_batch_dimension: int
    input_feature_dimension: int
    input_spatial_dimensions: _containers.RepeatedScalarFieldContainer[int]
    kernel_input_feature_dimension: int
    kernel_output_feature_dimension: int
    kernel_spatial_dimensions: _containers.RepeatedScalarFieldContainer[int]
    output_batch_dimension: int
    output_feature_dimension: int
    output_spatial_dimensions: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, input_batch_dimension: _Optional[int] = ..., input_feature_dimension: _Optional[int] = ..., input_spatial_dimensions: _Optional[_Iterable[int]] = ..., kernel_input_feature_dimension: _Optional[int] = ..., kernel_output_feature_dimension: _Optional[int] = ..., kernel_spatial_dimensions: _Optional[_Iterable[int]] = ..., output_batch_dimension: _Optional[int] = ..., output_feature_dimension: _Optional[int] = ..., output_spatial_dimensions: _Optional[_Iterable[int]] = ...) -> None: ...

class SparsityConfig(_message.Message):
    __slots__ = ("lhs", "rhs")
    class TensorSparsityConfig(_message.Message):
        __slots__ = ("num_non_zero", "block_size", "dimension", "stride")
        NUM_NON_ZERO_FIELD_NUMBER: _ClassVar[int]
        BLOCK_SIZE_FIELD_NUMBER: _ClassVar[int]
        DIMENSION_FIELD_NUMBER: _ClassVar[int]
        STRIDE_FIELD_NUMBER: _ClassVar[int]
        num_non_zero: int
        block_size: int
        dimension: int
        stride: int
        def __init__(self, num_non_zero: _Optional[int] = ..., block_size: _Optional[int] = ..., dimension: _Optional[int] = ..., stride: _Optional[int] = ...) -> None: ...
    LHS_FIELD_NUMBER: _ClassVar[int]
    RHS_FIELD_NUMBER: _ClassVar[int]
    lhs: SparsityConfig.TensorSparsityConfig
    rhs: SparsityConfig.TensorSparsityConfig
    def __init__(self, lhs: _Optional[_Union[SparsityConfig.TensorSparsityConfig, _Mapping]] = ..., rhs: _Optional[_Union[SparsityConfig.TensorSparsityConfig, _Mapping]] = ...) -> None: ...

class SparsityDescriptor(_message.Message):
    __slots__ = ("type", "index", "dimension", "n", "m")
    TYPE_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    DIMENSION_FIELD_NUMBER: _ClassVar[int]
    N_FIELD_NUMBER: _ClassVar[int]
    M_FIELD_NUMBER: _ClassVar[int]
    type: SparsityType
    index: int
    dimension: int
    n: int
    m: int
    def __init__(self, type: _Optional[_Union[SparsityType, str]] = ..., index: _Optional[int] = ..., dimension: _Optional[int] = ..., n: _Optional[int] = ..., m: _Optional[int] = ...) -> None: ...

class DotDimensionNumbers(_message.Message):
    __slots__ = ("lhs_contracting_dimensions", "rhs_contracting_dimensions", "lhs_batch_dimensions", "rhs_batch_dimensions")
    LHS_CONTRACTING_DIMENSIONS_FIELD_NUMBER: _ClassVar[int]
    RHS_CONTRACTING_DIMENSIONS_FIELD_NUMBER: _ClassVar[int]
    LHS_BATCH_DIMENSIONS_FIELD_NUMBER: _ClassVar[int]
    RHS_BATCH_DIMENSIONS_FIELD_NUMBER: _ClassVar[int]
    lhs_contracting_dimensions: _containers.RepeatedScalarFieldContainer[int]
    rhs_contracting_dimensions: _containers.RepeatedScalarFieldContainer[int]
    lhs_batch_dimensions: _containers.RepeatedScalarFieldContainer[int]
    rhs_batch_dimensions: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, lhs_contracting_dimensions: _Optional[_Iterable[int]] = ..., rhs_contracting_dimensions: _Optional[_Iterable[int]] = ..., lhs_batch_dimensions: _Optional[_Iterable[int]] = ..., rhs_batch_dimensions: _Optional[_Iterable[int]] = ...) -> None: ...

class RaggedDotDimensionNumbers(_message.Message):
    __slots__ = ("dot_dimension_numbers", "lhs_ragged_dimensions", "rhs_group_dimensions")
    DOT_DIMENSION_NUMBERS_FIELD_NUMBER: _ClassVar[int]
    LHS_RAGGED_DIMENSIONS_FIELD_NUMBER: _ClassVar[int]
    RHS_GROUP_DIMENSIONS_FIELD_NUMBER: _ClassVar[int]
    dot_dimension_numbers: DotDimensionNumbers
    lhs_ragged_dimensions: _containers.RepeatedScalarFieldContainer[int]
    rhs_group_dimensions: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, dot_dimension_numbers: _Optional[_Union[DotDimensionNumbers, _Mapping]] = ..., lhs_ragged_dimensions: _Optional[_Iterable[int]] = ..., rhs_group_dimensions: _Optional[_Iterable[int]] = ...) -> None: ...

class TriangularSolveOptions(_message.Message):
    __slots__ = ("left_side", "lower", "unit_diagonal", "transpose_a")
    class Transpose(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        TRANSPOSE_INVALID: _ClassVar[TriangularSolveOptions.Transpose]
        NO_TRANSPOSE: _ClassVar[TriangularSolveOptions.Transpose]
        TRANSPOSE: _ClassVar[TriangularSolveOptions.Transpose]
        ADJOINT: _ClassVar[TriangularSolveOptions.Transpose]
    TRANSPOSE_INVALID: TriangularSolveOptions.Transpose
    NO_TRANSPOSE: TriangularSolveOptions.Transpose
    TRANSPOSE: TriangularSolveOptions.Transpose
    ADJOINT: TriangularSolveOptions.Transpose
    LEFT_SIDE_FIELD_NUMBER: _ClassVar[int]
    LOWER_FIELD_NUMBER: _ClassVar[int]
    UNIT_DIAGONAL_FIELD_NUMBER: _ClassVar[int]
    TRANSPOSE_A_FIELD_NUMBER: _ClassVar[int]
    left_side: bool
    lower: bool
    unit_diagonal: bool
    transpose_a: TriangularSolveOptions.Transpose
    def __init__(self, left_side: bool = ..., lower: bool = ..., unit_diagonal: bool = ..., transpose_a: _Optional[_Union[TriangularSolveOptions.Transpose, str]] = ...) -> None: ...

class CholeskyOptions(_message.Message):
    __slots__ = ("lower",)
    LOWER_FIELD_NUMBER: _ClassVar[int]
    lower: bool
    def __init__(self, lower: bool = ...) -> None: ...

class FrontendAttributes(_message.Message):
    __slots__ = ("map",)
    class MapEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    MAP_FIELD_NUMBER: _ClassVar[int]
    map: _containers.ScalarMap[str, str]
    def __init__(self, map: _Optional[_Mapping[str, str]] = ...) -> None: ...

class Statistic(_message.Message):
    __slots__ = ("stat_name", "stat_val")
    STAT_NAME_FIELD_NUMBER: _ClassVar[int]
    STAT_VAL_FIELD_NUMBER: _ClassVar[int]
    stat_name: str
    stat_val: float
    def __init__(self, stat_name: _Optional[str] = ..., stat_val: _Optional[float] = ...) -> None: ...

class StatisticsViz(_message.Message):
    __slots__ = ("stat_index_to_visualize", "statistics")
    STAT_INDEX_TO_VISUALIZE_FIELD_NUMBER: _ClassVar[int]
    STATISTICS_FIELD_NUMBER: _ClassVar[int]
    stat_index_to_visualize: int
    statistics: _containers.RepeatedCompositeFieldContainer[Statistic]
    def __init__(self, stat_index_to_visualize: _Optional[int] = ..., statistics: _Optional[_Iterable[_Union[Statistic, _Mapping]]] = ...) -> None: ...

class MeshProto(_message.Message):
    __slots__ = ("axes", "device_ids", "iota_transform")
    class MeshAxis(_message.Message):
        __slots__ = ("name", "size")
        NAME_FIELD_NUMBER: _ClassVar[int]
        SIZE_FIELD_NUMBER: _ClassVar[int]
        name: str
        size: int
        def __init__(self, name: _Optional[str] = ..., size: _Optional[int] = ...) -> None: ...
    class IotaTransform(_message.Message):
        __slots__ = ("reshape_dims", "transpose_perm")
        RESHAPE_DIMS_FIELD_NUMBER: _ClassVar[int]
        TRANSPOSE_PERM_FIELD_NUMBER: _ClassVar[int]
        reshape_dims: _containers.RepeatedScalarFieldContainer[int]
        transpose_perm: _containers.RepeatedScalarFieldContainer[int]
        def __init__(self, reshape_dims: _Optional[_Iterable[int]] = ..., transpose_perm: _Optional[_Iterable[int]] = ...) -> None: ...
    AXES_FIELD_NUMBER: _ClassVar[int]
    DEVICE_IDS_FIELD_NUMBER: _ClassVar[int]
    IOTA_TRANSFORM_FIELD_NUMBER: _ClassVar[int]
    axes: _containers.RepeatedCompositeFieldContainer[MeshProto.MeshAxis]
    device_ids: _containers.RepeatedScalarFieldContainer[int]
    iota_transform: MeshProto.IotaTransform
    def __init__(self, axes: _Optional[_Iterable[_Union[MeshProto.MeshAxis, _Mapping]]] = ..., device_ids: _Optional[_Iterable[int]] = ..., iota_transform: _Optional[_Union[MeshProto.IotaTransform, _Mapping]] = ...) -> None: ...

class AxisRefProto(_message.Message):
    __slots__ = ("mesh_axis_index", "sub_axis_info")
    class SubAxis(_message.Message):
        __slots__ = ("pre_size", "size")
        PRE_SIZE_FIELD_NUMBER: _ClassVar[int]
        SIZE_FIELD_NUMBER: _ClassVar[int]
        pre_size: int
        size: int
        def __init__(self, pre_size: _Optional[int] = ..., size: _Optional[int] = ...) -> None: ...
    MESH_AXIS_INDEX_FIELD_NUMBER: _ClassVar[int]
    SUB_AXIS_INFO_FIELD_NUMBER: _ClassVar[int]
    mesh_axis_index: int
    sub_axis_info: AxisRefProto.SubAxis
    def __init__(self, mesh_axis_index: _Optional[int] = ..., sub_axis_info: _Optional[_Union[AxisRefProto.SubAxis, _Mapping]] = ...) -> None: ...

class NamedShardingProto(_message.Message):
    __slots__ = ("mesh", "dim_shardings", "replicated_axes", "unreduced_axes", "manual_axes", "metadata")
    class DimensionSharding(_message.Message):
        __slots__ = ("axes", "is_closed")
        AXES_FIELD_NUMBER: _ClassVar[int]
        IS_CLOSED_FIELD_NUMBER: _ClassVar[int]
        axes: _containers.RepeatedCompositeFieldContainer[AxisRefProto]
        is_closed: bool
        def __init__(self, axes: _Optional[_Iterable[_Union[AxisRefProto, _Mapping]]] = ..., is_closed: bool = ...) -> None: ...
    MESH_FIELD_NUMBER: _ClassVar[int]
    DIM_SHARDINGS_FIELD_NUMBER: _ClassVar[int]
    REPLICATED_AXES_FIELD_NUMBER: _ClassVar[int]
    UNREDUCED_AXES_FIELD_NUMBER: _ClassVar[int]
    MANUAL_AXES_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    mesh: MeshProto
    dim_shardings: _containers.RepeatedCompositeFieldContainer[NamedShardingProto.DimensionSharding]
    replicated_axes: _containers.RepeatedCompositeFieldContainer[AxisRefProto]
    unreduced_axes: _containers.RepeatedCompositeFieldContainer[AxisRefProto]
    manual_axes: _containers.RepeatedCompositeFieldContainer[AxisRefProto]
    metadata: _containers.RepeatedCompositeFieldContainer[OpMetadata]
    def __init__(self, mesh: _Optional[_Union[MeshProto, _Mapping]] = ..., dim_shardings: _Optional[_Iterable[_Union[NamedShardingProto.DimensionSharding, _Mapping]]] = ..., replicated_axes: _Optional[_Iterable[_Union[AxisRefProto, _Mapping]]] = ..., unreduced_axes: _Optional[_Iterable[_Union[AxisRefProto, _Mapping]]] = ..., manual_axes: _Optional[_Iterable[_Union[AxisRefProto, _Mapping]]] = ..., metadata: _Optional[_Iterable[_Union[OpMetadata, _Mapping]]] = ...) -> None: ...

class OpSharding(_message.Message):
    __slots__ = ("type", "tile_shape", "tile_assignment_dimensions", "tile_assignment_devices", "tuple_shardings", "replicate_on_last_tile_dim", "metadata", "last_tile_dims", "iota_reshape_dims", "iota_transpose_perm", "is_shard_group", "shard_group_id", "shard_group_type", "named_sharding")
    class Type(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        REPLICATED: _ClassVar[OpSharding.Type]
        MAXIMAL: _ClassVar[OpSharding.Type]
        TUPLE: _ClassVar[OpSharding.Type]
        OTHER: _ClassVar[OpSharding.Type]
        MANUAL: _ClassVar[OpSharding.Type]
        UNKNOWN: _ClassVar[OpSharding.Type]
        UNREDUCED: _ClassVar[OpSharding.Type]
    REPLICATED: OpSharding.Type
    MAXIMAL: OpSharding.Type
    TUPLE: OpSharding.Type
    OTHER: OpSharding.Type
    MANUAL: OpSharding.Type
    UNKNOWN: OpSharding.Type
    UNREDUCED: OpSharding.Type
    class ShardGroupType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        AS: _ClassVar[OpSharding.ShardGroupType]
        LIKE: _ClassVar[OpSharding.ShardGroupType]
    AS: OpSharding.ShardGroupType
    LIKE: OpSharding.ShardGroupType
    TYPE_FIELD_NUMBER: _ClassVar[int]
    TILE_SHAPE_FIELD_NUMBER: _ClassVar[int]
    TILE_ASSIGNMENT_DIMENSIONS_FIELD_NUMBER: _ClassVar[int]
    TILE_ASSIGNMENT_DEVICES_FIELD_NUMBER: _ClassVar[int]
    TUPLE_SHARDINGS_FIELD_NUMBER: _ClassVar[int]
    REPLICATE_ON_LAST_TILE_DIM_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    LAST_TILE_DIMS_FIELD_NUMBER: _ClassVar[int]
    IOTA_RESHAPE_DIMS_FIELD_NUMBER: _ClassVar[int]
    IOTA_TRANSPOSE_PERM_FIELD_NUMBER: _ClassVar[int]
    IS_SHARD_GROUP_FIELD_NUMBER: _ClassVar[int]
    SHARD_GROUP_ID_FIELD_NUMBER: _ClassVar[int]
    SHARD_GROUP_TYPE_FIELD_NUMBER: _ClassVar[int]
    NAMED_SHARDING_FIELD_NUMBER: _ClassVar[int]
    type: OpSharding.Type
    tile_shape: ShapeProto
    tile_assignment_dimensions: _containers.RepeatedScalarFieldContainer[int]
    tile_assignment_devices: _containers.RepeatedScalarFieldContainer[int]
    tuple_shardings: _containers.RepeatedCompositeFieldContainer[OpSharding]
    replicate_on_last_tile_dim: bool
    metadata: _containers.RepeatedCompositeFieldContainer[OpMetadata]
    last_tile_dims: _containers.RepeatedScalarFieldContainer[OpSharding.Type]
    iota_reshape_dims: _containers.RepeatedScalarFieldContainer[int]
    iota_transpose_perm: _containers.RepeatedScalarFieldContainer[int]
    is_shard_group: bool
    shard_group_id: int
    shard_group_type: OpSharding.ShardGroupType
    named_sharding: NamedShardingProto
    def __init__(self, type: _Optional[_Union[OpSharding.Type, str]] = ..., tile_shape: _Optional[_Union[ShapeProto, _Mapping]] = ..., tile_assignment_dimensions: _Optional[_Iterable[int]] = ..., tile_assignment_devices: _Optional[_Iterable[int]] = ..., tuple_shardings: _Optional[_Iterable[_Union[OpSharding, _Mapping]]] = ..., replicate_on_last_tile_dim: bool = ..., metadata: _Optional[_Iterable[_Union[OpMetadata, _Mapping]]] = ..., last_tile_dims: _Optional[_Iterable[_Union[OpSharding.Type, str]]] = ..., iota_reshape_dims: _Optional[_Iterable[int]] = ..., iota_transpose_perm: _Optional[_Iterable[int]] = ..., is_shard_group: bool = ..., shard_group_id: _Optional[int] = ..., shard_group_type: _Optional[_Union[OpSharding.ShardGroupType, str]] = ..., named_sharding: _Optional[_Union[NamedShardingProto, _Mapping]] = ...) -> None: ...

class ReplicaGroup(_message.Message):
    __slots__ = ("replica_ids",)
    REPLICA_IDS_FIELD_NUMBER: _ClassVar[int]
    replica_ids: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, replica_ids: _Optional[_Iterable[int]] = ...) -> None: ...

class MeshAxesReplicaGroupListProto(_message.Message):
    __slots__ = ("mesh", "axes")
    MESH_FIELD_NUMBER: _ClassVar[int]
    AXES_FIELD_NUMBER: _ClassVar[int]
    mesh: MeshProto
    axes: _containers.RepeatedCompositeFieldContainer[AxisRefProto]
    def __init__(self, mesh: _Optional[_Union[MeshProto, _Mapping]] = ..., axes: _Optional[_Iterable[_Union[AxisRefProto, _Mapping]]] = ...) -> None: ...

class IotaReplicaGroupListProto(_message.Message):
    __slots__ = ("num_replica_groups", "num_devices_per_group", "iota_reshape_dims", "iota_transpose_perm")
    NUM_REPLICA_GROUPS_FIELD_NUMBER: _ClassVar[int]
    NUM_DEVICES_PER_GROUP_FIELD_NUMBER: _ClassVar[int]
    IOTA_RESHAPE_DIMS_FIELD_NUMBER: _ClassVar[int]
    IOTA_TRANSPOSE_PERM_FIELD_NUMBER: _ClassVar[int]
    num_replica_groups: int
    num_devices_per_group: int
    iota_reshape_dims: _containers.RepeatedScalarFieldContainer[int]
    iota_transpose_perm: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, num_replica_groups: _Optional[int] = ..., num_devices_per_group: _Optional[int] = ..., iota_reshape_dims: _Optional[_Iterable[int]] = ..., iota_transpose_perm: _Optional[_Iterable[int]] = ...) -> None: ...

class CollectiveDeviceListProto(_message.Message):
    __slots__ = ("replica_groups", "iota_replica_group_list")
    REPLICA_GROUPS_FIELD_NUMBER: _ClassVar[int]
    IOTA_REPLICA_GROUP_LIST_FIELD_NUMBER: _ClassVar[int]
    replica_groups: _containers.RepeatedCompositeFieldContainer[ReplicaGroup]
    iota_replica_group_list: IotaReplicaGroupListProto
    def __init__(self, replica_groups: _Optional[_Iterable[_Union[ReplicaGroup, _Mapping]]] = ..., iota_replica_group_list: _Optional[_Union[IotaReplicaGroupListProto, _Mapping]] = ...) -> None: ...

class SourceTarget(_message.Message):
    __slots__ = ("source", "target")
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    TARGET_FIELD_NUMBER: _ClassVar[int]
    source: int
    target: int
    def __init__(self, source: _Optional[int] = ..., target: _Optional[int] = ...) -> None: ...

class ResultAccuracy(_message.Message):
    __slots__ = ("mode", "tolerance")
    class Mode(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        DEFAULT: _ClassVar[ResultAccuracy.Mode]
        HIGHEST: _ClassVar[ResultAccuracy.Mode]
    DEFAULT: ResultAccuracy.Mode
    HIGHEST: ResultAccuracy.Mode
    class Tolerance(_message.Message):
        __slots__ = ("atol", "rtol", "ulps")
        ATOL_FIELD_NUMBER: _ClassVar[int]
        RTOL_FIELD_NUMBER: _ClassVar[int]
        ULPS_FIELD_NUMBER: _ClassVar[int]
        atol: float
        rtol: float
        ulps: int
        def __init__(self, atol: _Optional[float] = ..., rtol: _Optional[float] = ..., ulps: _Optional[int] = ...) -> None: ...
    MODE_FIELD_NUMBER: _ClassVar[int]
    TOLERANCE_FIELD_NUMBER: _ClassVar[int]
    mode: ResultAccuracy.Mode
    tolerance: ResultAccuracy.Tolerance
    def __init__(self, mode: _Optional[_Union[ResultAccuracy.Mode, str]] = ..., tolerance: _Optional[_Union[ResultAccuracy.Tolerance, _Mapping]] = ...) -> None: ...

class PrecisionConfig(_message.Message):
    __slots__ = ("operand_precision", "algorithm")
    class Precision(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        DEFAULT: _ClassVar[PrecisionConfig.Precision]
        HIGH: _ClassVar[PrecisionConfig.Precision]
        HIGHEST: _ClassVar[PrecisionConfig.Precision]
        PACKED_NIBBLE: _ClassVar[PrecisionConfig.Precision]
    DEFAULT: PrecisionConfig.Precision
    HIGH: PrecisionConfig.Precision
    HIGHEST: PrecisionConfig.Precision
    PACKED_NIBBLE: PrecisionConfig.Precision
    class Algorithm(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        ALG_UNSET: _ClassVar[PrecisionConfig.Algorithm]
        ALG_DOT_ANY_F8_ANY_F8_F32: _ClassVar[PrecisionConfig.Algorithm]
        ALG_DOT_ANY_F8_ANY_F8_F32_FAST_ACCUM: _ClassVar[PrecisionConfig.Algorithm]
        ALG_DOT_F16_F16_F16: _ClassVar[PrecisionConfig.Algorithm]
        ALG_DOT_F16_F16_F32: _ClassVar[PrecisionConfig.Algorithm]
        ALG_DOT_BF16_BF16_BF16: _ClassVar[PrecisionConfig.Algorithm]
        ALG_DOT_BF16_BF16_F32: _ClassVar[PrecisionConfig.Algorithm]
        ALG_DOT_BF16_BF16_F32_X3: _ClassVar[PrecisionConfig.Algorithm]
        ALG_DOT_BF16_BF16_F32_X6: _ClassVar[PrecisionConfig.Algorithm]
        ALG_DOT_TF32_TF32_F32: _ClassVar[PrecisionConfig.Algorithm]
        ALG_DOT_TF32_TF32_F32_X3: _ClassVar[PrecisionConfig.Algorithm]
        ALG_DOT_F32_F32_F32: _ClassVar[PrecisionConfig.Algorithm]
        ALG_DOT_F64_F64_F64: _ClassVar[PrecisionConfig.Algorithm]
        ALG_DOT_BF16_BF16_F32_X9: _ClassVar[PrecisionConfig.Algorithm]
    ALG_UNSET: PrecisionConfig.Algorithm
    ALG_DOT_ANY_F8_ANY_F8_F32: PrecisionConfig.Algorithm
    ALG_DOT_ANY_F8_ANY_F8_F32_FAST_ACCUM: PrecisionConfig.Algorithm
    ALG_DOT_F16_F16_F16: PrecisionConfig.Algorithm
    ALG_DOT_F16_F16_F32: PrecisionConfig.Algorithm
    ALG_DOT_BF16_BF16_BF16: PrecisionConfig.Algorithm
    ALG_DOT_BF16_BF16_F32: PrecisionConfig.Algorithm
    ALG_DOT_BF16_BF16_F32_X3: PrecisionConfig.Algorithm
    ALG_DOT_BF16_BF16_F32_X6: PrecisionConfig.Algorithm
    ALG_DOT_TF32_TF32_F32: PrecisionConfig.Algorithm
    ALG_DOT_TF32_TF32_F32_X3: PrecisionConfig.Algorithm
    ALG_DOT_F32_F32_F32: PrecisionConfig.Algorithm
    ALG_DOT_F64_F64_F64: PrecisionConfig.Algorithm
    ALG_DOT_BF16_BF16_F32_X9: PrecisionConfig.Algorithm
    OPERAND_PRECISION_FIELD_NUMBER: _ClassVar[int]
    ALGORITHM_FIELD_NUMBER: _ClassVar[int]
    operand_precision: _containers.RepeatedScalarFieldContainer[PrecisionConfig.Precision]
    algorithm: PrecisionConfig.Algorithm
    def __init__(self, operand_precision: _Optional[_Iterable[_Union[PrecisionConfig.Precision, str]]] = ..., algorithm: _Optional[_Union[PrecisionConfig.Algorithm, str]] = ...) -> None: ...

class ParameterReplication(_message.Message):
    __slots__ = ("replicated_at_leaf_buffers",)
    REPLICATED_AT_LEAF_BUFFERS_FIELD_NUMBER: _ClassVar[int]
    replicated_at_leaf_buffers: _containers.RepeatedScalarFieldContainer[bool]
    def __init__(self, replicated_at_leaf_buffers: _Optional[_Iterable[bool]] = ...) -> None: ...

class OutputOperandAliasing(_message.Message):
    __slots__ = ("output_shape_index", "operand_index", "operand_shape_index")
    OUTPUT_SHAPE_INDEX_FIELD_NUMBER: _ClassVar[int]
    OPERAND_INDEX_FIELD_NUMBER: _ClassVar[int]
    OPERAND_SHAPE_INDEX_FIELD_NUMBER: _ClassVar[int]
    output_shape_index: _containers.RepeatedScalarFieldContainer[int]
    operand_index: int
    operand_shape_index: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, output_shape_index: _Optional[_Iterable[int]] = ..., operand_index: _Optional[int] = ..., operand_shape_index: _Optional[_Iterable[int]] = ...) -> None: ...

class OriginalArrayProto(_message.Message):
    __slots__ = ("instruction_name", "shape_index")
    INSTRUCTION_NAME_FIELD_NUMBER: _ClassVar[int]
    SHAPE_INDEX_FIELD_NUMBER: _ClassVar[int]
    instruction_name: str
    shape_index: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, instruction_name: _Optional[str] = ..., shape_index: _Optional[_Iterable[int]] = ...) -> None: ...

class OriginalValueElementProto(_message.Message):
    __slots__ = ("shape_index", "original_array")
    SHAPE_INDEX_FIELD_NUMBER: _ClassVar[int]
    ORIGINAL_ARRAY_FIELD_NUMBER: _ClassVar[int]
    shape_index: _containers.RepeatedScalarFieldContainer[int]
    original_array: OriginalArrayProto
    def __init__(self, shape_index: _Optional[_Iterable[int]] = ..., original_array: _Optional[_Union[OriginalArrayProto, _Mapping]] = ...) -> None: ...

class OriginalValueProto(_message.Message):
    __slots__ = ("elements", "is_synthetic_call")
    ELEMENTS_FIELD_NUMBER: _ClassVar[int]
    IS_SYNTHETIC_CALL_FIELD_NUMBER: _ClassVar[int]
    elements: _containers.RepeatedCompositeFieldContainer[OriginalValueElementProto]
    is_synthetic_call: bool
    def __init__(self, elements: _Optional[_Iterable[_Union[OriginalValueElementProto, _Mapping]]] = ..., is_synthetic_call: bool = ...) -> None: ...

class HloInstructionProto(_message.Message):
    __slots__ = ("name", "opcode", "shape", "metadata", "literal", "parameter_number", "fusion_kind", "tuple_index", "dimensions", "window", "convolution_dimension_numbers", "feature_group_count", "batch_group_count", "slice_dimensions", "exponent_bits", "mantissa_bits", "dynamic_slice_sizes", "padding_config", "outfeed_config", "distribution", "epsilon", "feature_index", "channel_id", "infeed_config", "custom_call_target", "outfeed_shape", "dot_dimension_numbers", "ragged_dot_dimension_numbers", "fft_type", "fft_length", "comparison_direction", "gather_dimension_numbers", "gather_slice_sizes", "id", "operand_ids", "control_predecessor_ids", "called_computation_ids", "sharding", "backend_config", "backend_config_payload", "replica_groups", "all_reduce_id", "use_global_device_ids", "is_host_transfer", "is_stable", "scatter_dimension_numbers", "precision_config", "source_target_pairs", "domain_entry_sharding", "domain_exit_sharding", "constrain_layout", "operand_shapes_with_layout", "triangular_solve_options", "cholesky_options", "parameter_replication", "custom_call_has_side_effect", "output_operand_aliasing", "custom_call_schedule", "delta", "indices_are_sorted", "frontend_attributes", "unique_indices", "rng_algorithm", "comparison_type", "is_cross_program_prefetch", "cross_program_prefetch_index", "padding_type", "custom_call_api_version", "async_execution_thread", "k", "largest", "statistics_viz", "collective_device_list", "iota_collective_device_list", "mesh_axes_replica_group_list", "original_value", "is_composite", "result_accuracy", "is_reverse", "num_carries", "is_associative", "conv_kind", "sparsity_config", "dot_sparsity", "text_attributes")
    class SliceDimensions(_message.Message):
        __slots__ = ("start", "limit", "stride")
        START_FIELD_NUMBER: _ClassVar[int]
        LIMIT_FIELD_NUMBER: _ClassVar[int]
        STRIDE_FIELD_NUMBER: _ClassVar[int]
        start: int
        limit: int
        stride: int
        def __init__(self, start: _Optional[int] = ..., limit: _Optional[int] = ..., stride: _Optional[int] = ...) -> None: ...
    class TextAttributesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    NAME_FIELD_NUMBER: _ClassVar[int]
    OPCODE_FIELD_NUMBER: _ClassVar[int]
    SHAPE_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    LITERAL_FIELD_NUMBER: _ClassVar[int]
    PARAMETER_NUMBER_FIELD_NUMBER: _ClassVar[int]
    FUSION_KIND_FIELD_NUMBER: _ClassVar[int]
    TUPLE_INDEX_FIELD_NUMBER: _ClassVar[int]
    DIMENSIONS_FIELD_NUMBER: _ClassVar[int]
    WINDOW_FIELD_NUMBER: _ClassVar[int]
    CONVOLUTION_DIMENSION_NUMBERS_FIELD_NUMBER: _ClassVar[int]
    FEATURE_GROUP_COUNT_FIELD_NUMBER: _ClassVar[int]
    BATCH_GROUP_COUNT_FIELD_NUMBER: _ClassVar[int]
    SLICE_DIMENSIONS_FIELD_NUMBER: _ClassVar[int]
    EXPONENT_BITS_FIELD_NUMBER: _ClassVar[int]
    MANTISSA_BITS_FIELD_NUMBER: _ClassVar[int]
    DYNAMIC_SLICE_SIZES_FIELD_NUMBER: _ClassVar[int]
    PADDING_CONFIG_FIELD_NUMBER: _ClassVar[int]
    OUTFEED_CONFIG_FIELD_NUMBER: _ClassVar[int]
    DISTRIBUTION_FIELD_NUMBER: _ClassVar[int]
    EPSILON_FIELD_NUMBER: _ClassVar[int]
    FEATURE_INDEX_FIELD_NUMBER: _ClassVar[int]
    CHANNEL_ID_FIELD_NUMBER: _ClassVar[int]
    INFEED_CONFIG_FIELD_NUMBER: _ClassVar[int]
    CUSTOM_CALL_TARGET_FIELD_NUMBER: _ClassVar[int]
    OUTFEED_SHAPE_FIELD_NUMBER: _ClassVar[int]
    DOT_DIMENSION_NUMBERS_FIELD_NUMBER: _ClassVar[int]
    RAGGED_DOT_DIMENSION_NUMBERS_FIELD_NUMBER: _ClassVar[int]
    FFT_TYPE_FIELD_NUMBER: _ClassVar[int]
    FFT_LENGTH_FIELD_NUMBER: _ClassVar[int]
    COMPARISON_DIRECTION_FIELD_NUMBER: _ClassVar[int]
    GATHER_DIMENSION_NUMBERS_FIELD_NUMBER: _ClassVar[int]
    GATHER_SLICE_SIZES_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    OPERAND_IDS_FIELD_NUMBER: _ClassVar[int]
    CONTROL_PREDECESSOR_IDS_FIELD_NUMBER: _ClassVar[int]
    CALLED_COMPUTATION_IDS_FIELD_NUMBER: _ClassVar[int]
    SHARDING_FIELD_NUMBER: _ClassVar[int]
    BACKEND_CONFIG_FIELD_NUMBER: _ClassVar[int]
    BACKEND_CONFIG_PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    REPLICA_GROUPS_FIELD_NUMBER: _ClassVar[int]
    ALL_REDUCE_ID_FIELD_NUMBER: _ClassVar[int]
    USE_GLOBAL_DEVICE_IDS_FIELD_NUMBER: _ClassVar[int]
    IS_HOST_TRANSFER_FIELD_NUMBER: _ClassVar[int]
    IS_STABLE_FIELD_NUMBER: _ClassVar[int]
    SCATTER_DIMENSION_NUMBERS_FIELD_NUMBER: _ClassVar[int]
    PRECISION_CONFIG_FIELD_NUMBER: _ClassVar[int]
    SOURCE_TARGET_PAIRS_FIELD_NUMBER: _ClassVar[int]
    DOMAIN_ENTRY_SHARDING_FIELD_NUMBER: _ClassVar[int]
    DOMAIN_EXIT_SHARDING_FIELD_NUMBER: _ClassVar[int]
    CONSTRAIN_LAYOUT_FIELD_NUMBER: _ClassVar[int]
    OPERAND_SHAPES_WITH_LAYOUT_FIELD_NUMBER: _ClassVar[int]
    TRIANGULAR_SOLVE_OPTIONS_FIELD_NUMBER: _ClassVar[int]
    CHOLESKY_OPTIONS_FIELD_NUMBER: _ClassVar[int]
    PARAMETER_REPLICATION_FIELD_NUMBER: _ClassVar[int]
    CUSTOM_CALL_HAS_SIDE_EFFECT_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_OPERAND_ALIASING_FIELD_NUMBER: _ClassVar[int]
    CUSTOM_CALL_SCHEDULE_FIELD_NUMBER: _ClassVar[int]
    DELTA_FIELD_NUMBER: _ClassVar[int]
    INDICES_ARE_SORTED_FIELD_NUMBER: _ClassVar[int]
    FRONTEND_ATTRIBUTES_FIELD_NUMBER: _ClassVar[int]
    UNIQUE_INDICES_FIELD_NUMBER: _ClassVar[int]
    RNG_ALGORITHM_FIELD_NUMBER: _ClassVar[int]
    COMPARISON_TYPE_FIELD_NUMBER: _ClassVar[int]
    IS_CROSS_PROGRAM_PREFETCH_FIELD_NUMBER: _ClassVar[int]
    CROSS_PROGRAM_PREFETCH_INDEX_FIELD_NUMBER: _ClassVar[int]
    PADDING_TYPE_FIELD_NUMBER: _ClassVar[int]
    CUSTOM_CALL_API_VERSION_FIELD_NUMBER: _ClassVar[int]
    ASYNC_EXECUTION_THREAD_FIELD_NUMBER: _ClassVar[int]
    K_FIELD_NUMBER: _ClassVar[int]
    LARGEST_FIELD_NUMBER: _ClassVar[int]
    STATISTICS_VIZ_FIELD_NUMBER: _ClassVar[int]
    COLLECTIVE_DEVICE_LIST_FIELD_NUMBER: _ClassVar[int]
    IOTA_COLLECTIVE_DEVICE_LIST_FIELD_NUMBER: _ClassVar[int]
    MESH_AXES_REPLICA_GROUP_LIST_FIELD_NUMBER: _ClassVar[int]
    ORIGINAL_VALUE_FIELD_NUMBER: _ClassVar[int]
    IS_COMPOSITE_FIELD_NUMBER: _ClassVar[int]
    RESULT_ACCURACY_FIELD_NUMBER: _ClassVar[int]
    IS_REVERSE_FIELD_NUMBER: _ClassVar[int]
    NUM_CARRIES_FIELD_NUMBER: _ClassVar[int]
    IS_ASSOCIATIVE_FIELD_NUMBER: _ClassVar[int]
    CONV_KIND_FIELD_NUMBER: _ClassVar[int]
    SPARSITY_CONFIG_FIELD_NUMBER: _ClassVar[int]
    DOT_SPARSITY_FIELD_NUMBER: _ClassVar[int]
    TEXT_ATTRIBUTES_FIELD_NUMBER: _ClassVar[int]
    name: str
    opcode: str
    shape: ShapeProto
    metadata: OpMetadata
    literal: LiteralProto
    parameter_number: int
    fusion_kind: str
    tuple_index: int
    dimensions: _containers.RepeatedScalarFieldContainer[int]
    window: Window
    convolution_dimension_numbers: ConvolutionDimensionNumbers
    feature_group_count: int
    batch_group_count: int
    slice_dimensions: _containers.RepeatedCompositeFieldContainer[HloInstructionProto.SliceDimensions]
    exponent_bits: int
    mantissa_bits: int
    dynamic_slice_sizes: _containers.RepeatedScalarFieldContainer[int]
    padding_config: PaddingConfig
    outfeed_config: bytes
    distribution: RandomDistribution
    epsilon: float
    feature_index: int
    channel_id: int
    infeed_config: bytes
    custom_call_target: str
    outfeed_shape: ShapeProto
    dot_dimension_numbers: DotDimensionNumbers
    ragged_dot_dimension_numbers: RaggedDotDimensionNumbers
    fft_type: FftType
    fft_length: _containers.RepeatedScalarFieldContainer[int]
    comparison_direction: str
    gather_dimension_numbers: GatherDimensionNumbers
    gather_slice_sizes: _containers.RepeatedScalarFieldContainer[int]
    id: int
    operand_ids: _containers.RepeatedScalarFieldContainer[int]
    control_predecessor_ids: _containers.RepeatedScalarFieldContainer[int]
    called_computation_ids: _containers.RepeatedScalarFieldContainer[int]
    sharding: OpSharding
    backend_config: bytes
    backend_config_payload: Payload
    replica_groups: _containers.RepeatedCompositeFieldContainer[ReplicaGroup]
    all_reduce_id: int
    use_global_device_ids: bool
    is_host_transfer: bool
    is_stable: bool
    scatter_dimension_numbers: ScatterDimensionNumbers
    precision_config: PrecisionConfig
    source_target_pairs: _containers.RepeatedCompositeFieldContainer[SourceTarget]
    domain_entry_sharding: OpSharding
    domain_exit_sharding: OpSharding
    constrain_layout: bool
    operand_shapes_with_layout: _containers.RepeatedCompositeFieldContainer[ShapeProto]
    triangular_solve_options: TriangularSolveOptions
    cholesky_options: CholeskyOptions
    parameter_replication: ParameterReplication
    custom_call_has_side_effect: bool
    output_operand_aliasing: _containers.RepeatedCompositeFieldContainer[OutputOperandAliasing]
    custom_call_schedule: CustomCallSchedule
    delta: int
    indices_are_sorted: bool
    frontend_attributes: FrontendAttributes
    unique_indices: bool
    rng_algorithm: RandomAlgorithm
    comparison_type: str
    is_cross_program_prefetch: bool
    cross_program_prefetch_index: int
    padding_type: PaddingType
    custom_call_api_version: CustomCallApiVersion
    async_execution_thread: str
    k: int
    largest: bool
    statistics_viz: StatisticsViz
    collective_device_list: CollectiveDeviceListProto
    iota_collective_device_list: IotaReplicaGroupListProto
    mesh_axes_replica_group_list: MeshAxesReplicaGroupListProto
    original_value: OriginalValueProto
    is_composite: bool
    result_accuracy: ResultAccuracy
    is_reverse: bool
    num_carries: int
    is_associative: TriState
    conv_kind: ConvolutionKind
    sparsity_config: SparsityConfig
    dot_sparsity: _containers.RepeatedCompositeFieldContainer[SparsityDescriptor]
    text_attributes: _containers.ScalarMap[str, str]
    def __init__(self, name: _Optional[str] = ..., opcode: _Optional[str] = ..., shape: _Optional[_Union[ShapeProto, _Mapping]] = ..., metadata: _Optional[_Union[OpMetadata, _Mapping]] = ..., literal: _Optional[_Union[LiteralProto, _Mapping]] = ..., parameter_number: _Optional[int] = ..., fusion_kind: _Optional[str] = ..., tuple_index: _Optional[int] = ..., dimensions: _Optional[_Iterable[int]] = ..., window: _Optional[_Union[Window, _Mapping]] = ..., convolution_dimension_numbers: _Optional[_Union[ConvolutionDimensionNumbers, _Mapping]] = ..., feature_group_count: _Optional[int] = ..., batch_group_count: _Optional[int] = ..., slice_dimensions: _Optional[_Iterable[_Union[HloInstructionProto.SliceDimensions, _Mapping]]] = ..., exponent_bits: _Optional[int] = ..., mantissa_bits: _Optional[int] = ..., dynamic_slice_sizes: _Optional[_Iterable[int]] = ..., padding_config: _Optional[_Union[PaddingConfig, _Mapping]] = ..., outfeed_config: _Optional[bytes] = ..., distribution: _Optional[_Union[RandomDistribution, str]] = ..., epsilon: _Optional[float] = ..., feature_index: _Optional[int] = ..., channel_id: _Optional[int] = ..., infeed_config: _Optional[bytes] = ..., custom_call_target: _Optional[str] = ..., outfeed_shape: _Optional[_Union[ShapeProto, _Mapping]] = ..., dot_dimension_numbers: _Optional[_Union[DotDimensionNumbers, _Mapping]] = ..., ragged_dot_dimension_numbers: _Optional[_Union[RaggedDotDimensionNumbers, _Mapping]] = ..., fft_type: _Optional[_Union[FftType, str]] = ..., fft_length: _Optional[_Iterable[int]] = ..., comparison_direction: _Optional[str] = ..., gather_dimension_numbers: _Optional[_Union[GatherDimensionNumbers, _Mapping]] = ..., gather_slice_sizes: _Optional[_Iterable[int]] = ..., id: _Optional[int] = ..., operand_ids: _Optional[_Iterable[int]] = ..., control_predecessor_ids: _Optional[_Iterable[int]] = ..., called_computation_ids: _Optional[_Iterable[int]] = ..., sharding: _Optional[_Union[OpSharding, _Mapping]] = ..., backend_config: _Optional[bytes] = ..., backend_config_payload: _Optional[_Union[Payload, _Mapping]] = ..., replica_groups: _Optional[_Iterable[_Union[ReplicaGroup, _Mapping]]] = ..., all_reduce_id: _Optional[int] = ..., use_global_device_ids: bool = ..., is_host_transfer: bool = ..., is_stable: bool = ..., scatter_dimension_numbers: _Optional[_Union[ScatterDimensionNumbers, _Mapping]] = ..., precision_config: _Optional[_Union[PrecisionConfig, _Mapping]] = ..., source_target_pairs: _Optional[_Iterable[_Union[SourceTarget, _Mapping]]] = ..., domain_entry_sharding: _Optional[_Union[OpSharding, _Mapping]] = ..., domain_exit_sharding: _Optional[_Union[OpSharding, _Mapping]] = ..., constrain_layout: bool = ..., operand_shapes_with_layout: _Optional[_Iterable[_Union[ShapeProto, _Mapping]]] = ..., triangular_solve_options: _Optional[_Union[TriangularSolveOptions, _Mapping]] = ..., cholesky_options: _Optional[_Union[CholeskyOptions, _Mapping]] = ..., parameter_replication: _Optional[_Union[ParameterReplication, _Mapping]] = ..., custom_call_has_side_effect: bool = ..., output_operand_aliasing: _Optional[_Iterable[_Union[OutputOperandAliasing, _Mapping]]] = ..., custom_call_schedule: _Optional[_Union[CustomCallSchedule, str]] = ..., delta: _Optional[int] = ..., indices_are_sorted: bool = ..., frontend_attributes: _Optional[_Union[FrontendAttributes, _Mapping]] = ..., unique_indices: bool = ..., rng_algorithm: _Optional[_Union[RandomAlgorithm, str]] = ..., comparison_type: _Optional[str] = ..., is_cross_program_prefetch: bool = ..., cross_program_prefetch_index: _Optional[int] = ..., padding_type: _Optional[_Union[PaddingType, str]] = ..., custom_call_api_version: _Optional[_Union[CustomCallApiVersion, str]] = ..., async_execution_thread: _Optional[str] = ..., k: _Optional[int] = ..., largest: bool = ..., statistics_viz: _Optional[_Union[StatisticsViz, _Mapping]] = ..., collective_device_list: _Optional[_Union[CollectiveDeviceListProto, _Mapping]] = ..., iota_collective_device_list: _Optional[_Union[IotaReplicaGroupListProto, _Mapping]] = ..., mesh_axes_replica_group_list: _Optional[_Union[MeshAxesReplicaGroupListProto, _Mapping]] = ..., original_value: _Optional[_Union[OriginalValueProto, _Mapping]] = ..., is_composite: bool = ..., result_accuracy: _Optional[_Union[ResultAccuracy, _Mapping]] = ..., is_reverse: bool = ..., num_carries: _Optional[int] = ..., is_associative: _Optional[_Union[TriState, str]] = ..., conv_kind: _Optional[_Union[ConvolutionKind, str]] = ..., sparsity_config: _Optional[_Union[SparsityConfig, _Mapping]] = ..., dot_sparsity: _Optional[_Iterable[_Union[SparsityDescriptor, _Mapping]]] = ..., text_attributes: _Optional[_Mapping[str, str]] = ...) -> None: ...

class HloComputationProto(_message.Message):
    __slots__ = ("name", "instructions", "program_shape", "id", "root_id", "is_fusion_computation", "execution_thread")
    NAME_FIELD_NUMBER: _ClassVar[int]
    INSTRUCTIONS_FIELD_NUMBER: _ClassVar[int]
    PROGRAM_SHAPE_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    ROOT_ID_FIELD_NUMBER: _ClassVar[int]
    IS_FUSION_COMPUTATION_FIELD_NUMBER: _ClassVar[int]
    EXECUTION_THREAD_FIELD_NUMBER: _ClassVar[int]
    name: str
    instructions: _containers.RepeatedCompositeFieldContainer[HloInstructionProto]
    program_shape: ProgramShapeProto
    id: int
    root_id: int
    is_fusion_computation: bool
    execution_thread: str
    def __init__(self, name: _Optional[str] = ..., instructions: _Optional[_Iterable[_Union[HloInstructionProto, _Mapping]]] = ..., program_shape: _Optional[_Union[ProgramShapeProto, _Mapping]] = ..., id: _Optional[int] = ..., root_id: _Optional[int] = ..., is_fusion_computation: bool = ..., execution_thread: _Optional[str] = ...) -> None: ...

class HloScheduleProto(_message.Message):
    __slots__ = ("sequences",)
    class InstructionSequence(_message.Message):
        __slots__ = ("instruction_ids",)
        INSTRUCTION_IDS_FIELD_NUMBER: _ClassVar[int]
        instruction_ids: _containers.RepeatedScalarFieldContainer[int]
        def __init__(self, instruction_ids: _Optional[_Iterable[int]] = ...) -> None: ...
    class SequencesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: int
        value: HloScheduleProto.InstructionSequence
        def __init__(self, key: _Optional[int] = ..., value: _Optional[_Union[HloScheduleProto.InstructionSequence, _Mapping]] = ...) -> None: ...
    SEQUENCES_FIELD_NUMBER: _ClassVar[int]
    sequences: _containers.MessageMap[int, HloScheduleProto.InstructionSequence]
    def __init__(self, sequences: _Optional[_Mapping[int, HloScheduleProto.InstructionSequence]] = ...) -> None: ...

class HloInputOutputAliasProto(_message.Message):
    __slots__ = ("entries",)
    class AliasEntryProto(_message.Message):
        __slots__ = ("output_shape_index", "parameter_number", "parameter_shape_index", "kind")
        OUTPUT_SHAPE_INDEX_FIELD_NUMBER: _ClassVar[int]
        PARAMETER_NUMBER_FIELD_NUMBER: _ClassVar[int]
        PARAMETER_SHAPE_INDEX_FIELD_NUMBER: _ClassVar[int]
        KIND_FIELD_NUMBER: _ClassVar[int]
        output_shape_index: _containers.RepeatedScalarFieldContainer[int]
        parameter_number: int
        parameter_shape_index: _containers.RepeatedScalarFieldContainer[int]
        kind: Kind
        def __init__(self, output_shape_index: _Optional[_Iterable[int]] = ..., parameter_number: _Optional[int] = ..., parameter_shape_index: _Optional[_Iterable[int]] = ..., kind: _Optional[_Union[Kind, str]] = ...) -> None: ...
    ENTRIES_FIELD_NUMBER: _ClassVar[int]
    entries: _containers.RepeatedCompositeFieldContainer[HloInputOutputAliasProto.AliasEntryProto]
    def __init__(self, entries: _Optional[_Iterable[_Union[HloInputOutputAliasProto.AliasEntryProto, _Mapping]]] = ...) -> None: ...

class HloBufferDonorProto(_message.Message):
    __slots__ = ("entries",)
    class BufferDonorEntryProto(_message.Message):
        __slots__ = ("parameter_number", "parameter_shape_index")
        PARAMETER_NUMBER_FIELD_NUMBER: _ClassVar[int]
        PARAMETER_SHAPE_INDEX_FIELD_NUMBER: _ClassVar[int]
        parameter_number: int
        parameter_shape_index: _containers.RepeatedScalarFieldContainer[int]
        def __init__(self, parameter_number: _Optional[int] = ..., parameter_shape_index: _Optional[_Iterable[int]] = ...) -> None: ...
    ENTRIES_FIELD_NUMBER: _ClassVar[int]
    entries: _containers.RepeatedCompositeFieldContainer[HloBufferDonorProto.BufferDonorEntryProto]
    def __init__(self, entries: _Optional[_Iterable[_Union[HloBufferDonorProto.BufferDonorEntryProto, _Mapping]]] = ...) -> None: ...

class CrossProgramPrefetch(_message.Message):
    __slots__ = ("parameter", "index", "offset")
    PARAMETER_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    parameter: int
    index: _containers.RepeatedScalarFieldContainer[int]
    offset: int
    def __init__(self, parameter: _Optional[int] = ..., index: _Optional[_Iterable[int]] = ..., offset: _Optional[int] = ...) -> None: ...

class StackFrameIndexProto(_message.Message):
    __slots__ = ("file_names", "function_names", "file_locations", "stack_frames")
    class FileLocation(_message.Message):
        __slots__ = ("file_name_id", "function_name_id", "line", "end_line", "column", "end_column")
        FILE_NAME_ID_FIELD_NUMBER: _ClassVar[int]
        FUNCTION_NAME_ID_FIELD_NUMBER: _ClassVar[int]
        LINE_FIELD_NUMBER: _ClassVar[int]
        END_LINE_FIELD_NUMBER: _ClassVar[int]
        COLUMN_FIELD_NUMBER: _ClassVar[int]
        END_COLUMN_FIELD_NUMBER: _ClassVar[int]
        file_name_id: int
        function_name_id: int
        line: int
        end_line: int
        column: int
        end_column: int
        def __init__(self, file_name_id: _Optional[int] = ..., function_name_id: _Optional[int] = ..., line: _Optional[int] = ..., end_line: _Optional[int] = ..., column: _Optional[int] = ..., end_column: _Optional[int] = ...) -> None: ...
    class StackFrame(_message.Message):
        __slots__ = ("file_location_id", "parent_frame_id")
        FILE_LOCATION_ID_FIELD_NUMBER: _ClassVar[int]
        PARENT_FRAME_ID_FIELD_NUMBER: _ClassVar[int]
        file_location_id: int
        parent_frame_id: int
        def __init__(self, file_location_id: _Optional[int] = ..., parent_frame_id: _Optional[int] = ...) -> None: ...
    FILE_NAMES_FIELD_NUMBER: _ClassVar[int]
    FUNCTION_NAMES_FIELD_NUMBER: _ClassVar[int]
    FILE_LOCATIONS_FIELD_NUMBER: _ClassVar[int]
    STACK_FRAMES_FIELD_NUMBER: _ClassVar[int]
    file_names: _containers.RepeatedScalarFieldContainer[str]
    function_names: _containers.RepeatedScalarFieldContainer[str]
    file_locations: _containers.RepeatedCompositeFieldContainer[StackFrameIndexProto.FileLocation]
    stack_frames: _containers.RepeatedCompositeFieldContainer[StackFrameIndexProto.StackFrame]
    def __init__(self, file_names: _Optional[_Iterable[str]] = ..., function_names: _Optional[_Iterable[str]] = ..., file_locations: _Optional[_Iterable[_Union[StackFrameIndexProto.FileLocation, _Mapping]]] = ..., stack_frames: _Optional[_Iterable[_Union[StackFrameIndexProto.StackFrame, _Mapping]]] = ...) -> None: ...

class HloModuleProto(_message.Message):
    __slots__ = ("name", "entry_computation_name", "entry_computation_id", "computations", "host_program_shape", "id", "pjrt_id", "schedule", "input_output_alias", "payloads", "buffer_donor", "cross_program_prefetches", "is_dynamic", "spmd_output_sharding", "spmd_parameters_shardings", "use_auto_spmd_partitioning", "profile_info", "device_assignment", "stack_frame_index", "frontend_attributes", "original_value_recovery_table", "device_type")
    class ProfileType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        INVALID: _ClassVar[HloModuleProto.ProfileType]
        FLAG: _ClassVar[HloModuleProto.ProfileType]
        FUSION: _ClassVar[HloModuleProto.ProfileType]
        LAYOUT: _ClassVar[HloModuleProto.ProfileType]
        DOT: _ClassVar[HloModuleProto.ProfileType]
        FLAGNET: _ClassVar[HloModuleProto.ProfileType]
        SHARDING: _ClassVar[HloModuleProto.ProfileType]
        SCHEDULE: _ClassVar[HloModuleProto.ProfileType]
    INVALID: HloModuleProto.ProfileType
    FLAG: HloModuleProto.ProfileType
    FUSION: HloModuleProto.ProfileType
    LAYOUT: HloModuleProto.ProfileType
    DOT: HloModuleProto.ProfileType
    FLAGNET: HloModuleProto.ProfileType
    SHARDING: HloModuleProto.ProfileType
    SCHEDULE: HloModuleProto.ProfileType
    class ProfileInfo(_message.Message):
        __slots__ = ("profile_type", "relative_speedup", "profile_source", "compilation_event", "fingerprint", "profile_generation_strategy", "original_changelist", "changelist")
        PROFILE_TYPE_FIELD_NUMBER: _ClassVar[int]
        RELATIVE_SPEEDUP_FIELD_NUMBER: _ClassVar[int]
        PROFILE_SOURCE_FIELD_NUMBER: _ClassVar[int]
        COMPILATION_EVENT_FIELD_NUMBER: _ClassVar[int]
        FINGERPRINT_FIELD_NUMBER: _ClassVar[int]
        PROFILE_GENERATION_STRATEGY_FIELD_NUMBER: _ClassVar[int]
        ORIGINAL_CHANGELIST_FIELD_NUMBER: _ClassVar[int]
        CHANGELIST_FIELD_NUMBER: _ClassVar[int]
        profile_type: HloModuleProto.ProfileType
        relative_speedup: float
        profile_source: ProfileSource
        compilation_event: CompilationEvent
        fingerprint: str
        profile_generation_strategy: ProfileGenerationStrategy
        original_changelist: int
        changelist: int
        def __init__(self, profile_type: _Optional[_Union[HloModuleProto.ProfileType, str]] = ..., relative_speedup: _Optional[float] = ..., profile_source: _Optional[_Union[ProfileSource, str]] = ..., compilation_event: _Optional[_Union[CompilationEvent, str]] = ..., fingerprint: _Optional[str] = ..., profile_generation_strategy: _Optional[_Union[ProfileGenerationStrategy, str]] = ..., original_changelist: _Optional[int] = ..., changelist: _Optional[int] = ...) -> None: ...
    NAME_FIELD_NUMBER: _ClassVar[int]
    ENTRY_COMPUTATION_NAME_FIELD_NUMBER: _ClassVar[int]
    ENTRY_COMPUTATION_ID_FIELD_NUMBER: _ClassVar[int]
    COMPUTATIONS_FIELD_NUMBER: _ClassVar[int]
    HOST_PROGRAM_SHAPE_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    PJRT_ID_FIELD_NUMBER: _ClassVar[int]
    SCHEDULE_FIELD_NUMBER: _ClassVar[int]
    INPUT_OUTPUT_ALIAS_FIELD_NUMBER: _ClassVar[int]
    PAYLOADS_FIELD_NUMBER: _ClassVar[int]
    BUFFER_DONOR_FIELD_NUMBER: _ClassVar[int]
    CROSS_PROGRAM_PREFETCHES_FIELD_NUMBER: _ClassVar[int]
    IS_DYNAMIC_FIELD_NUMBER: _ClassVar[int]
    SPMD_OUTPUT_SHARDING_FIELD_NUMBER: _ClassVar[int]
    SPMD_PARAMETERS_SHARDINGS_FIELD_NUMBER: _ClassVar[int]
    USE_AUTO_SPMD_PARTITIONING_FIELD_NUMBER: _ClassVar[int]
    PROFILE_INFO_FIELD_NUMBER: _ClassVar[int]
    DEVICE_ASSIGNMENT_FIELD_NUMBER: _ClassVar[int]
    STACK_FRAME_INDEX_FIELD_NUMBER: _ClassVar[int]
    FRONTEND_ATTRIBUTES_FIELD_NUMBER: _ClassVar[int]
    ORIGINAL_VALUE_RECOVERY_TABLE_FIELD_NUMBER: _ClassVar[int]
    DEVICE_TYPE_FIELD_NUMBER: _ClassVar[int]
    name: str
    entry_computation_name: str
    entry_computation_id: int
    computations: _containers.RepeatedCompositeFieldContainer[HloComputationProto]
    host_program_shape: ProgramShapeProto
    id: int
    pjrt_id: int
    schedule: HloScheduleProto
    input_output_alias: HloInputOutputAliasProto
    payloads: _containers.RepeatedScalarFieldContainer[bytes]
    buffer_donor: HloBufferDonorProto
    cross_program_prefetches: _containers.RepeatedCompositeFieldContainer[CrossProgramPrefetch]
    is_dynamic: bool
    spmd_output_sharding: OpSharding
    spmd_parameters_shardings: _containers.RepeatedCompositeFieldContainer[OpSharding]
    use_auto_spmd_partitioning: bool
    profile_info: _containers.RepeatedCompositeFieldContainer[HloModuleProto.ProfileInfo]
    device_assignment: DeviceAssignmentProto
    stack_frame_index: StackFrameIndexProto
    frontend_attributes: FrontendAttributes
    original_value_recovery_table: OriginalValueRecoveryTableProto
    device_type: str
    def __init__(self, name: _Optional[str] = ..., entry_computation_name: _Optional[str] = ..., entry_computation_id: _Optional[int] = ..., computations: _Optional[_Iterable[_Union[HloComputationProto, _Mapping]]] = ..., host_program_shape: _Optional[_Union[ProgramShapeProto, _Mapping]] = ..., id: _Optional[int] = ..., pjrt_id: _Optional[int] = ..., schedule: _Optional[_Union[HloScheduleProto, _Mapping]] = ..., input_output_alias: _Optional[_Union[HloInputOutputAliasProto, _Mapping]] = ..., payloads: _Optional[_Iterable[bytes]] = ..., buffer_donor: _Optional[_Union[HloBufferDonorProto, _Mapping]] = ..., cross_program_prefetches: _Optional[_Iterable[_Union[CrossProgramPrefetch, _Mapping]]] = ..., is_dynamic: bool = ..., spmd_output_sharding: _Optional[_Union[OpSharding, _Mapping]] = ..., spmd_parameters_shardings: _Optional[_Iterable[_Union[OpSharding, _Mapping]]] = ..., use_auto_spmd_partitioning: bool = ..., profile_info: _Optional[_Iterable[_Union[HloModuleProto.ProfileInfo, _Mapping]]] = ..., device_assignment: _Optional[_Union[DeviceAssignmentProto, _Mapping]] = ..., stack_frame_index: _Optional[_Union[StackFrameIndexProto, _Mapping]] = ..., frontend_attributes: _Optional[_Union[FrontendAttributes, _Mapping]] = ..., original_value_recovery_table: _Optional[_Union[OriginalValueRecoveryTableProto, _Mapping]] = ..., device_type: _Optional[str] = ...) -> None: ...

class LogicalBufferProto(_message.Message):
    __slots__ = ("id", "size", "defined_at", "color")
    class Location(_message.Message):
        __slots__ = ("instruction_name", "instruction_id", "shape_index")
        INSTRUCTION_NAME_FIELD_NUMBER: _ClassVar[int]
        INSTRUCTION_ID_FIELD_NUMBER: _ClassVar[int]
        SHAPE_INDEX_FIELD_NUMBER: _ClassVar[int]
        instruction_name: str
        instruction_id: int
        shape_index: _containers.RepeatedScalarFieldContainer[int]
        def __init__(self, instruction_name: _Optional[str] = ..., instruction_id: _Optional[int] = ..., shape_index: _Optional[_Iterable[int]] = ...) -> None: ...
    ID_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    DEFINED_AT_FIELD_NUMBER: _ClassVar[int]
    COLOR_FIELD_NUMBER: _ClassVar[int]
    id: int
    size: int
    defined_at: LogicalBufferProto.Location
    color: int
    def __init__(self, id: _Optional[int] = ..., size: _Optional[int] = ..., defined_at: _Optional[_Union[LogicalBufferProto.Location, _Mapping]] = ..., color: _Optional[int] = ...) -> None: ...

class BufferAllocationProto(_message.Message):
    __slots__ = ("index", "size", "is_thread_local", "is_tuple", "is_entry_computation_parameter", "is_constant", "parameter_number", "parameter_shape_index", "is_parameter_aliased_with_output", "maybe_live_out", "color", "assigned")
    class Assigned(_message.Message):
        __slots__ = ("logical_buffer_id", "offset", "size", "element_type")
        LOGICAL_BUFFER_ID_FIELD_NUMBER: _ClassVar[int]
        OFFSET_FIELD_NUMBER: _ClassVar[int]
        SIZE_FIELD_NUMBER: _ClassVar[int]
        ELEMENT_TYPE_FIELD_NUMBER: _ClassVar[int]
        logical_buffer_id: int
        offset: int
        size: int
        element_type: PrimitiveType
        def __init__(self, logical_buffer_id: _Optional[int] = ..., offset: _Optional[int] = ..., size: _Optional[int] = ..., element_type: _Optional[_Union[PrimitiveType, str]] = ...) -> None: ...
    INDEX_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    IS_THREAD_LOCAL_FIELD_NUMBER: _ClassVar[int]
    IS_TUPLE_FIELD_NUMBER: _ClassVar[int]
    IS_ENTRY_COMPUTATION_PARAMETER_FIELD_NUMBER: _ClassVar[int]
    IS_CONSTANT_FIELD_NUMBER: _ClassVar[int]
    PARAMETER_NUMBER_FIELD_NUMBER: _ClassVar[int]
    PARAMETER_SHAPE_INDEX_FIELD_NUMBER: _ClassVar[int]
    IS_PARAMETER_ALIASED_WITH_OUTPUT_FIELD_NUMBER: _ClassVar[int]
    MAYBE_LIVE_OUT_FIELD_NUMBER: _ClassVar[int]
    COLOR_FIELD_NUMBER: _ClassVar[int]
    ASSIGNED_FIELD_NUMBER: _ClassVar[int]
    index: int
    size: int
    is_thread_local: bool
    is_tuple: bool
    is_entry_computation_parameter: bool
    is_constant: bool
    parameter_number: int
    parameter_shape_index: _containers.RepeatedScalarFieldContainer[int]
    is_parameter_aliased_with_output: bool
    maybe_live_out: bool
    color: int
    assigned: _containers.RepeatedCompositeFieldContainer[BufferAllocationProto.Assigned]
    def __init__(self, index: _Optional[int] = ..., size: _Optional[int] = ..., is_thread_local: bool = ..., is_tuple: bool = ..., is_entry_computation_parameter: bool = ..., is_constant: bool = ..., parameter_number: _Optional[int] = ..., parameter_shape_index: _Optional[_Iterable[int]] = ..., is_parameter_aliased_with_output: bool = ..., maybe_live_out: bool = ..., color: _Optional[int] = ..., assigned: _Optional[_Iterable[_Union[BufferAllocationProto.Assigned, _Mapping]]] = ...) -> None: ...

class HeapSimulatorTrace(_message.Message):
    __slots__ = ("events", "whole_module_simulation", "buffer_allocation_index")
    class Event(_message.Message):
        __slots__ = ("kind", "buffer_id", "computation_name", "instruction_name", "share_with_canonical_id")
        class Kind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
            __slots__ = ()
            ALLOC: _ClassVar[HeapSimulatorTrace.Event.Kind]
            FREE: _ClassVar[HeapSimulatorTrace.Event.Kind]
            SHARE_WITH: _ClassVar[HeapSimulatorTrace.Event.Kind]
        ALLOC: HeapSimulatorTrace.Event.Kind
        FREE: HeapSimulatorTrace.Event.Kind
        SHARE_WITH: HeapSimulatorTrace.Event.Kind
        KIND_FIELD_NUMBER: _ClassVar[int]
        BUFFER_ID_FIELD_NUMBER: _ClassVar[int]
        COMPUTATION_NAME_FIELD_NUMBER: _ClassVar[int]
        INSTRUCTION_NAME_FIELD_NUMBER: _ClassVar[int]
        SHARE_WITH_CANONICAL_ID_FIELD_NUMBER: _ClassVar[int]
        kind: HeapSimulatorTrace.Event.Kind
        buffer_id: int
        computation_name: str
        instruction_name: str
        share_with_canonical_id: int
        def __init__(self, kind: _Optional[_Union[HeapSimulatorTrace.Event.Kind, str]] = ..., buffer_id: _Optional[int] = ..., computation_name: _Optional[str] = ..., instruction_name: _Optional[str] = ..., share_with_canonical_id: _Optional[int] = ...) -> None: ...
    EVENTS_FIELD_NUMBER: _ClassVar[int]
    WHOLE_MODULE_SIMULATION_FIELD_NUMBER: _ClassVar[int]
    BUFFER_ALLOCATION_INDEX_FIELD_NUMBER: _ClassVar[int]
    events: _containers.RepeatedCompositeFieldContainer[HeapSimulatorTrace.Event]
    whole_module_simulation: bool
    buffer_allocation_index: int
    def __init__(self, events: _Optional[_Iterable[_Union[HeapSimulatorTrace.Event, _Mapping]]] = ..., whole_module_simulation: bool = ..., buffer_allocation_index: _Optional[int] = ...) -> None: ...

class BufferAssignmentProto(_message.Message):
    __slots__ = ("logical_buffers", "buffer_aliases", "buffer_allocations", "heap_simulator_traces", "peak_buffers")
    class BufferAlias(_message.Message):
        __slots__ = ("source_buffer_id", "location")
        SOURCE_BUFFER_ID_FIELD_NUMBER: _ClassVar[int]
        LOCATION_FIELD_NUMBER: _ClassVar[int]
        source_buffer_id: int
        location: LogicalBufferProto.Location
        def __init__(self, source_buffer_id: _Optional[int] = ..., location: _Optional[_Union[LogicalBufferProto.Location, _Mapping]] = ...) -> None: ...
    class PeakBuffers(_message.Message):
        __slots__ = ("index", "logical_buffer_ids")
        INDEX_FIELD_NUMBER: _ClassVar[int]
        LOGICAL_BUFFER_IDS_FIELD_NUMBER: _ClassVar[int]
        index: int
        logical_buffer_ids: _containers.RepeatedScalarFieldContainer[int]
        def __init__(self, index: _Optional[int] = ..., logical_buffer_ids: _Optional[_Iterable[int]] = ...) -> None: ...
    LOGICAL_BUFFERS_FIELD_NUMBER: _ClassVar[int]
    BUFFER_ALIASES_FIELD_NUMBER: _ClassVar[int]
    BUFFER_ALLOCATIONS_FIELD_NUMBER: _ClassVar[int]
    HEAP_SIMULATOR_TRACES_FIELD_NUMBER: _ClassVar[int]
    PEAK_BUFFERS_FIELD_NUMBER: _ClassVar[int]
    logical_buffers: _containers.RepeatedCompositeFieldContainer[LogicalBufferProto]
    buffer_aliases: _containers.RepeatedCompositeFieldContainer[BufferAssignmentProto.BufferAlias]
    buffer_allocations: _containers.RepeatedCompositeFieldContainer[BufferAllocationProto]
    heap_simulator_traces: _containers.RepeatedCompositeFieldContainer[HeapSimulatorTrace]
    peak_buffers: _containers.RepeatedCompositeFieldContainer[BufferAssignmentProto.PeakBuffers]
    def __init__(self, logical_buffers: _Optional[_Iterable[_Union[LogicalBufferProto, _Mapping]]] = ..., buffer_aliases: _Optional[_Iterable[_Union[BufferAssignmentProto.BufferAlias, _Mapping]]] = ..., buffer_allocations: _Optional[_Iterable[_Union[BufferAllocationProto, _Mapping]]] = ..., heap_simulator_traces: _Optional[_Iterable[_Union[HeapSimulatorTrace, _Mapping]]] = ..., peak_buffers: _Optional[_Iterable[_Union[BufferAssignmentProto.PeakBuffers, _Mapping]]] = ...) -> None: ...

class HloModuleConfigProto(_message.Message):
    __slots__ = ("entry_computation_layout", "replica_count", "num_partitions", "use_spmd_partitioning", "alias_passthrough_params", "allow_spmd_sharding_propagation_to_parameters", "allow_spmd_sharding_propagation_to_output", "header_text")
    class HeaderTextEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    ENTRY_COMPUTATION_LAYOUT_FIELD_NUMBER: _ClassVar[int]
    REPLICA_COUNT_FIELD_NUMBER: _ClassVar[int]
    NUM_PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    USE_SPMD_PARTITIONING_FIELD_NUMBER: _ClassVar[int]
    ALIAS_PASSTHROUGH_PARAMS_FIELD_NUMBER: _ClassVar[int]
    ALLOW_SPMD_SHARDING_PROPAGATION_TO_PARAMETERS_FIELD_NUMBER: _ClassVar[int]
    ALLOW_SPMD_SHARDING_PROPAGATION_TO_OUTPUT_FIELD_NUMBER: _ClassVar[int]
    HEADER_TEXT_FIELD_NUMBER: _ClassVar[int]
    entry_computation_layout: ProgramShapeProto
    replica_count: int
    num_partitions: int
    use_spmd_partitioning: bool
    alias_passthrough_params: bool
    allow_spmd_sharding_propagation_to_parameters: _containers.RepeatedScalarFieldContainer[bool]
    allow_spmd_sharding_propagation_to_output: _containers.RepeatedScalarFieldContainer[bool]
    header_text: _containers.ScalarMap[str, str]
    def __init__(self, entry_computation_layout: _Optional[_Union[ProgramShapeProto, _Mapping]] = ..., replica_count: _Optional[int] = ..., num_partitions: _Optional[int] = ..., use_spmd_partitioning: bool = ..., alias_passthrough_params: bool = ..., allow_spmd_sharding_propagation_to_parameters: _Optional[_Iterable[bool]] = ..., allow_spmd_sharding_propagation_to_output: _Optional[_Iterable[bool]] = ..., header_text: _Optional[_Mapping[str, str]] = ...) -> None: ...

class HloProto(_message.Message):
    __slots__ = ("hlo_module", "buffer_assignment", "config")
    HLO_MODULE_FIELD_NUMBER: _ClassVar[int]
    BUFFER_ASSIGNMENT_FIELD_NUMBER: _ClassVar[int]
    CONFIG_FIELD_NUMBER: _ClassVar[int]
    hlo_module: HloModuleProto
    buffer_assignment: BufferAssignmentProto
    config: HloModuleConfigProto
    def __init__(self, hlo_module: _Optional[_Union[HloModuleProto, _Mapping]] = ..., buffer_assignment: _Optional[_Union[BufferAssignmentProto, _Mapping]] = ..., config: _Optional[_Union[HloModuleConfigProto, _Mapping]] = ...) -> None: ...

class HloSnapshot(_message.Message):
    __slots__ = ("hlo", "arguments", "result", "execution_platform")
    HLO_FIELD_NUMBER: _ClassVar[int]
    ARGUMENTS_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    EXECUTION_PLATFORM_FIELD_NUMBER: _ClassVar[int]
    hlo: HloProto
    arguments: _containers.RepeatedCompositeFieldContainer[LiteralProto]
    result: LiteralProto
    execution_platform: str
    def __init__(self, hlo: _Optional[_Union[HloProto, _Mapping]] = ..., arguments: _Optional[_Iterable[_Union[LiteralProto, _Mapping]]] = ..., result: _Optional[_Union[LiteralProto, _Mapping]] = ..., execution_platform: _Optional[str] = ...) -> None: ...

class OriginalValueRecoveryTableProto(_message.Message):
    __slots__ = ("entries",)
    class Entry(_message.Message):
        __slots__ = ("old_original_array", "new_original_array", "recovery_module")
        OLD_ORIGINAL_ARRAY_FIELD_NUMBER: _ClassVar[int]
        NEW_ORIGINAL_ARRAY_FIELD_NUMBER: _ClassVar[int]
        RECOVERY_MODULE_FIELD_NUMBER: _ClassVar[int]
        old_original_array: OriginalArrayProto
        new_original_array: OriginalArrayProto
        recovery_module: HloModuleProto
        def __init__(self, old_original_array: _Optional[_Union[OriginalArrayProto, _Mapping]] = ..., new_original_array: _Optional[_Union[OriginalArrayProto, _Mapping]] = ..., recovery_module: _Optional[_Union[HloModuleProto, _Mapping]] = ...) -> None: ...
    ENTRIES_FIELD_NUMBER: _ClassVar[int]
    entries: _containers.RepeatedCompositeFieldContainer[OriginalValueRecoveryTableProto.Entry]
    def __init__(self, entries: _Optional[_Iterable[_Union[OriginalValueRecoveryTableProto.Entry, _Mapping]]] = ...) -> None: ...
