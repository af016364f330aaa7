// RUN: xyla compile %s --stage=rt | filecheck %s
// The predicate is copied to the host after each run of the condition, and decides there.

func.func @while_loop(%a: memref<16xf32>, %b: memref<16xf32>, %pred: memref<i1>) {
  // CHECK: "scf.while"() ({
  // CHECK-NEXT: "func.call"(%[[B:.*]], %[[A:.*]]) <{callee = @memcpy.d2d}>
  // CHECK-NEXT: %[[HOST:.*]] = "memref.alloca"() <{operandSegmentSizes = array<i32: 0, 0>}> : () -> memref<i1>
  // CHECK: %[[PRED:.*]] = "memref.view"({{.*}}) : (memref<1xi8>, index) -> memref<i1>
  // CHECK-NEXT: "func.call"(%[[HOST]], %[[PRED]]) <{callee = @memcpy.d2h}>
  // CHECK-NEXT: %[[GO:.*]] = "memref.load"(%[[HOST]]) : (memref<i1>) -> i1
  // CHECK-NEXT: "scf.condition"(%[[GO]]) : (i1) -> ()
  // CHECK-NEXT: }, {
  // CHECK-NEXT: "func.call"(%[[A]], %[[B]]) <{callee = @memcpy.d2d}>
  // CHECK-NEXT: "scf.yield"() : () -> ()
  // CHECK-NEXT: }) {rt.step = "loop"
  // CHECK: "func.return"()
  "lmhlo.while"(%pred) ({
    gpu.memcpy %b, %a : memref<16xf32>, memref<16xf32>
    "lmhlo.terminator"() : () -> ()
  }, {
    gpu.memcpy %a, %b : memref<16xf32>, memref<16xf32>
    "lmhlo.terminator"() : () -> ()
  }) : (memref<i1>) -> () loc("loop")
  "lmhlo.terminator"() : () -> ()
}
// CHECK: {rt.direct_custom_call = "xla.gpu.memcpy.d2d"}
// CHECK: {rt.direct_custom_call = "xla.gpu.memcpy.d2h"}
