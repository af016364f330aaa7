// RUN: not xyla compile %s --stage=rt 2>&1 | filecheck %s
// CHECK: conv_batch_groups.mlir:6:3: UNIMPLEMENTED: %grouped = lmhlo_gpu.conv_forward: a library convolution has no batch groups

func.func @compute(%input: memref<2x4x4x8xf32>, %filter: memref<3x3x8x8xf32>, %output: memref<1x2x2x8xf32>,
                   %scratch: memref<0xui8>) {
  "lmhlo_gpu.conv_forward"(%input, %filter, %output, %scratch) {
    dimension_numbers = #mhlo.conv<[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]>, feature_group_count = 1 : i64,
    batch_group_count = 2 : i64, backend_config = #lmhlo_gpu.convolution_backend_config<algorithm = 1>
  } : (memref<2x4x4x8xf32>, memref<3x3x8x8xf32>, memref<1x2x2x8xf32>, memref<0xui8>) -> () loc("grouped")
  "lmhlo.terminator"() : () -> ()
}
