// RUN: xyla compile %s --stage=rt | filecheck %s
// A start and its done share an id, whatever comes between.

func.func @compute(%a: memref<4xf32>, %b: memref<4xf32>, %c: memref<8xf32>) attributes {replica_count = 2 : i64, num_partitions = 1 : i64} {
  // CHECK: <{callee = @all_reduce_start}> {group_mode = 0 : i64
  // CHECK-SAME: uid = 0 : i32, reduction_kind = 0 : i64
  %first = "lmhlo_gpu.all_reduce_start"(%a, %b) ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %r = "mhlo.add"(%x, %y) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    "mhlo.return"(%r) : (tensor<f32>) -> ()
  }) {replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>} : (memref<4xf32>, memref<4xf32>) -> !mhlo.token
  // CHECK: <{callee = @all_gather_start}> {group_mode = 0 : i64
  // CHECK-SAME: uid = 1 : i32, all_gather_dimension = 0 : i64
  %second = "lmhlo_gpu.all_gather_start"(%a, %c) {replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, all_gather_dimension = 0 : i64}
    : (memref<4xf32>, memref<8xf32>) -> !mhlo.token
  // CHECK: <{callee = @collective_permute_start}> {{.*}}uid = 2 : i32, source_peers
  %third = "lmhlo_gpu.collective_permute_start"(%a, %b) {source_target_pairs = dense<[[0, 1]]> : tensor<1x2xi64>}
    : (memref<4xf32>, memref<4xf32>) -> !mhlo.token
  // CHECK: "func.call"() <{callee = @all_gather_done}> {uid = 1 : i32
  "lmhlo_gpu.all_gather_done"(%second) : (!mhlo.token) -> ()
  // The token is no operand; what the done states besides is.
  // CHECK: "func.call"(%{{.*}}, %{{.*}}) <{callee = @all_reduce_done}> {uid = 0 : i32
  // CHECK-SAME: : (memref<4xf32>, memref<4xf32>) -> ()
  "lmhlo_gpu.all_reduce_done"(%first, %a, %b) : (!mhlo.token, memref<4xf32>, memref<4xf32>) -> ()
  // CHECK: "func.call"() <{callee = @collective_permute_done}> {uid = 2 : i32
  "lmhlo_gpu.collective_permute_done"(%third) : (!mhlo.token) -> ()
  "lmhlo.terminator"() : () -> ()
}
// CHECK: {rt.direct_custom_call = "xla.gpu.all_reduce_start"}
// CHECK-DAG: {rt.direct_custom_call = "xla.gpu.all_reduce_done"}
