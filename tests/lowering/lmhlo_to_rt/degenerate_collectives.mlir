// RUN: xyla compile %s --stage=rt | filecheck %s
// Groups of one device communicate nothing: the results are copies, and a done has nothing to wait for.

func.func @compute(%a: memref<4xf32>, %b: memref<4xf32>, %c: memref<4xf32>, %d: memref<4xf32>) attributes {replica_count = 2 : i64, num_partitions = 1 : i64} {
  // CHECK: ^bb0(%[[A:.*]]: memref<16xi8>, %[[B:.*]]: memref<16xi8>, %[[C:.*]]: memref<16xi8>, %[[D:.*]]: memref<16xi8>):
  // CHECK-NEXT: "func.call"(%[[C]], %[[A]]) <{callee = @memcpy.d2d}>
  // CHECK-NEXT: "func.call"(%[[D]], %[[B]]) <{callee = @memcpy.d2d}>
  %token = "lmhlo_gpu.all_reduce_start"(%a, %b, %c, %d) ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %r = "mhlo.add"(%x, %y) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    "mhlo.return"(%r) : (tensor<f32>) -> ()
  }) {replica_groups = dense<[[0], [1]]> : tensor<2x1xi64>}
    : (memref<4xf32>, memref<4xf32>, memref<4xf32>, memref<4xf32>) -> !mhlo.token
  "lmhlo_gpu.all_reduce_done"(%token) : (!mhlo.token) -> ()
  // One partition, named by a channel without groups.
  // CHECK-NEXT: "func.call"(%[[B]], %[[A]]) <{callee = @memcpy.d2d}>
  "lmhlo.all_to_all"(%a, %b) {replica_groups = dense<> : tensor<0x0xi64>, channel_id = #mhlo.channel_handle<handle = 1, type = 0>}
    : (memref<4xf32>, memref<4xf32>) -> ()
  // CHECK-NEXT: "func.call"(%[[C]], %[[A]]) <{callee = @memcpy.d2d}>
  "lmhlo.collective_permute"(%a, %c) {source_target_pairs = dense<[[1, 1], [0, 0]]> : tensor<2x2xi64>}
    : (memref<4xf32>, memref<4xf32>) -> ()
  // CHECK-NEXT: "func.return"
  "lmhlo.terminator"() : () -> ()
}
// CHECK-NOT: all_reduce
