// RUN: xyla compile %s --stage=rt | filecheck %s
// Groups are two lists: all their values, and where each group ends.

func.func @compute(%a: memref<4xf32>, %b: memref<4xf32>, %p: memref<4xi1>) attributes {replica_count = 4 : i64, num_partitions = 2 : i64} {
  // Replicas, by their own numbers.
  // CHECK: "func.call"(%[[A:.*]], %[[B:.*]]) <{callee = @all_reduce}> {group_mode = 0 : i64, op_id = 0 : i64,
  // CHECK-SAME: replica_group_offsets = dense<[2, 4]> : tensor<2xi64>,
  // CHECK-SAME: replica_group_values = dense<[0, 2, 1, 3]> : tensor<4xi64>,
  // CHECK-SAME: uid = 0 : i32, reduction_kind = 0 : i64
  // CHECK-SAME: : (memref<4xf32>, memref<4xf32>) -> ()
  "lmhlo.all_reduce"(%a, %b) ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %r = "mhlo.add"(%x, %y) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    "mhlo.return"(%r) : (tensor<f32>) -> ()
  }) {replica_groups = dense<[[0, 2], [1, 3]]> : tensor<2x2xi64>} : (memref<4xf32>, memref<4xf32>) -> ()

  // A channel: all partitions of the replicas. Groups of unequal size end where they end.
  // CHECK: <{callee = @all_reduce}> {group_mode = 2 : i64, op_id = 7 : i64,
  // CHECK-SAME: replica_group_offsets = dense<[1, 4]> : tensor<2xi64>,
  // CHECK-SAME: replica_group_values = dense<[0, 1, 2, 3]> : tensor<4xi64>,
  // CHECK-SAME: uid = 1 : i32, reduction_kind = 3 : i64
  "lmhlo.all_reduce"(%a, %b) ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %r = "mhlo.maximum"(%x, %y) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    "mhlo.return"(%r) : (tensor<f32>) -> ()
  }) {replica_groups = dense<[[0, -1, -1], [1, 2, 3]]> : tensor<2x3xi64>, channel_id = #mhlo.channel_handle<handle = 7, type = 0>}
    : (memref<4xf32>, memref<4xf32>) -> ()

  // Global numbers. No groups: everybody.
  // CHECK: <{callee = @all_reduce}> {group_mode = 3 : i64, op_id = 9 : i64,
  // CHECK-SAME: replica_group_offsets = dense<[4]> : tensor<1xi64>,
  // CHECK-SAME: replica_group_values = dense<[0, 1, 6, 7]> : tensor<4xi64>,
  // CHECK-SAME: uid = 2 : i32, reduction_kind = 1 : i64
  "lmhlo.all_reduce"(%a, %b) ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %r = "mhlo.multiply"(%x, %y) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    "mhlo.return"(%r) : (tensor<f32>) -> ()
  }) {replica_groups = dense<[[0, 1, 6, 7]]> : tensor<1x4xi64>, channel_id = #mhlo.channel_handle<handle = 9, type = 0>,
      use_global_device_ids = true} : (memref<4xf32>, memref<4xf32>) -> ()

  // Of predicates, and is the least.
  // CHECK: <{callee = @all_reduce_0}> {group_mode = 0 : i64,
  // CHECK-SAME: replica_group_offsets = dense<> : tensor<0xi64>, replica_group_values = dense<> : tensor<0xi64>,
  // CHECK-SAME: uid = 3 : i32, reduction_kind = 2 : i64
  "lmhlo.all_reduce"(%p, %p) ({
  ^bb0(%x: tensor<i1>, %y: tensor<i1>):
    %r = "mhlo.and"(%x, %y) : (tensor<i1>, tensor<i1>) -> tensor<i1>
    "mhlo.return"(%r) : (tensor<i1>) -> ()
  }) {replica_groups = dense<> : tensor<0x0xi64>} : (memref<4xi1>, memref<4xi1>) -> ()
  "lmhlo.terminator"() : () -> ()
}
// CHECK: {rt.direct_custom_call = "xla.gpu.all_reduce"}
