// RUN: xyla compile %s --stage=rt | filecheck %s

func.func @compute(%a: memref<4xf32>, %b: memref<2xi32>, %id: memref<ui32>) {
  // CHECK: "func.call"(%[[A:.*]], %[[B:.*]]) <{callee = @infeed}> {config = "abc", rt.step = "in"
  // CHECK-SAME: rt.results = 2 : i64
  // CHECK-SAME: : (memref<4xf32>, memref<2xi32>) -> ()
  "lmhlo.infeed"(%a, %b) {config = "abc"} : (memref<4xf32>, memref<2xi32>) -> () loc("in")
  // CHECK: "func.call"(%[[A]], %[[B]]) <{callee = @outfeed}> {config = "xyz"
  // CHECK-NOT: rt.results
  // CHECK-SAME: : (memref<4xf32>, memref<2xi32>) -> ()
  "lmhlo.outfeed"(%a, %b) {config = "xyz"} : (memref<4xf32>, memref<2xi32>) -> ()
  // CHECK: "func.call"(%[[ID:.*]]) <{callee = @replica_id}> {{.*}} : (memref<ui32>) -> ()
  "lmhlo.replica_id"(%id) : (memref<ui32>) -> ()
  // CHECK: "func.call"(%[[ID]]) <{callee = @partition_id}> {{.*}} : (memref<ui32>) -> ()
  "lmhlo.partition_id"(%id) : (memref<ui32>) -> ()
  "lmhlo.terminator"() : () -> ()
}
// CHECK: {rt.direct_custom_call = "xla.gpu.infeed"}
// CHECK: {rt.direct_custom_call = "xla.gpu.outfeed"}
// CHECK: {rt.direct_custom_call = "xla.gpu.replica_id"}
// CHECK: {rt.direct_custom_call = "xla.gpu.partition_id"}
