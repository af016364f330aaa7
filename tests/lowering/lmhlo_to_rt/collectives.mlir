// RUN: xyla compile %s --stage=rt | filecheck %s

func.func @compute(%a: memref<4xf32>, %b: memref<8xf32>, %c: memref<4xf32>) attributes {replica_count = 2 : i64, num_partitions = 3 : i64} {
  // CHECK: <{callee = @all_gather}> {group_mode = 0 : i64, op_id = 0 : i64,
  // CHECK-SAME: replica_group_offsets = dense<[2]> : tensor<1xi64>,
  // CHECK-SAME: replica_group_values = dense<[0, 1]> : tensor<2xi64>, uid = 0 : i32, all_gather_dimension = 0 : i64
  // CHECK-SAME: (memref<4xf32>, memref<8xf32>) -> ()
  "lmhlo.all_gather"(%a, %b) {all_gather_dimension = 0 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}
    : (memref<4xf32>, memref<8xf32>) -> ()

  // CHECK: <{callee = @reduce_scatter}> {group_mode = 0 : i64
  // CHECK-SAME: uid = 1 : i32, reduction_kind = 2 : i64, scatter_dimension = 0 : i64
  "lmhlo.reduce_scatter"(%b, %a) ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %r = "mhlo.minimum"(%x, %y) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    "mhlo.return"(%r) : (tensor<f32>) -> ()
  }) {scatter_dimension = 0 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>} : (memref<8xf32>, memref<4xf32>) -> ()

  // A channel without use_global_device_ids names partitions.
  // CHECK: <{callee = @all_to_all}> {group_mode = 1 : i64, op_id = 5 : i64,
  // CHECK-SAME: replica_group_values = dense<[0, 1, 2]> : tensor<3xi64>, uid = 2 : i32, has_split_dimension = false
  "lmhlo.all_to_all"(%a, %c) {replica_groups = dense<[[0, 1, 2]]> : tensor<1x3xi64>,
    channel_id = #mhlo.channel_handle<handle = 5, type = 0>} : (memref<4xf32>, memref<4xf32>) -> ()
  // CHECK: <{callee = @all_to_all}> {group_mode = 0 : i64
  // CHECK-SAME: uid = 3 : i32, has_split_dimension = true, split_dimension = 0 : i64
  "lmhlo.all_to_all"(%a, %c) {replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, split_dimension = 0 : i64}
    : (memref<4xf32>, memref<4xf32>) -> ()

  // All devices are one group; peers are two lists.
  // CHECK: <{callee = @collective_permute}> {group_mode = 1 : i64, op_id = 6 : i64,
  // CHECK-SAME: replica_group_offsets = dense<[3]> : tensor<1xi64>,
  // CHECK-SAME: replica_group_values = dense<[0, 1, 2]> : tensor<3xi64>, uid = 4 : i32,
  // CHECK-SAME: source_peers = dense<[0, 2]> : tensor<2xi64>, target_peers = dense<[1, 0]> : tensor<2xi64>
  "lmhlo.collective_permute"(%a, %c) {source_target_pairs = dense<[[0, 1], [2, 0]]> : tensor<2x2xi64>,
    channel_id = #mhlo.channel_handle<handle = 6, type = 0>} : (memref<4xf32>, memref<4xf32>) -> ()

  // CHECK: <{callee = @collective_broadcast}> {group_mode = 0 : i64
  // CHECK-SAME: replica_group_values = dense<[1, 0]> : tensor<2xi64>, uid = 5 : i32
  "lmhlo.collective_broadcast"(%a, %c) {replica_groups = dense<[[1, 0]]> : tensor<1x2xi64>}
    : (memref<4xf32>, memref<4xf32>) -> ()
  "lmhlo.terminator"() : () -> ()
}
// CHECK: {rt.direct_custom_call = "xla.gpu.all_gather"}
// CHECK: {rt.direct_custom_call = "xla.gpu.reduce_scatter"}
// CHECK: {rt.direct_custom_call = "xla.gpu.all_to_all"}
// CHECK: {rt.direct_custom_call = "xla.gpu.collective_permute"}
// CHECK: {rt.direct_custom_call = "xla.gpu.collective_broadcast"}
