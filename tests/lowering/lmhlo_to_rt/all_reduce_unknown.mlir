// RUN: not xyla compile %s --stage=rt 2>&1 | filecheck %s
// CHECK: all_reduce_unknown.mlir:5:3: UNIMPLEMENTED: %odd = lmhlo.all_reduce: Failed to determine reduction computation for lmhlo.all_reduce

func.func @compute(%a: memref<4xi32>, %b: memref<4xi32>) attributes {replica_count = 2 : i64, num_partitions = 1 : i64} {
  "lmhlo.all_reduce"(%a, %b) ({
  ^bb0(%x: tensor<i32>, %y: tensor<i32>):
    %r = "mhlo.and"(%x, %y) : (tensor<i32>, tensor<i32>) -> tensor<i32>
    "mhlo.return"(%r) : (tensor<i32>) -> ()
  }) {replica_groups = dense<> : tensor<0x0xi64>} : (memref<4xi32>, memref<4xi32>) -> () loc("odd")
  "lmhlo.terminator"() : () -> ()
}
