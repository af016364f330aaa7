// RUN: not xyla compile %s --stage=rt 2>&1 | filecheck %s
// CHECK: token_with_two_users.mlir:5:3: INVALID_ARGUMENT: lmhlo_gpu.collective_permute_start: token has multiple uses

func.func @compute(%a: memref<4xf32>, %b: memref<4xf32>) attributes {replica_count = 2 : i64, num_partitions = 1 : i64} {
  %token = "lmhlo_gpu.collective_permute_start"(%a, %b) {source_target_pairs = dense<[[0, 1]]> : tensor<1x2xi64>}
    : (memref<4xf32>, memref<4xf32>) -> !mhlo.token
  "lmhlo_gpu.collective_permute_done"(%token) : (!mhlo.token) -> ()
  "lmhlo_gpu.collective_permute_done"(%token) : (!mhlo.token) -> ()
  "lmhlo.terminator"() : () -> ()
}
