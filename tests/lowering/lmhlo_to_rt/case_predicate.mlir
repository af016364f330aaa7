// RUN: xyla compile %s --stage=rt | filecheck %s
// True takes the first branch.

func.func @case_true_false(%a: memref<16xf32>, %b: memref<16xf32>, %pred: memref<i1>) {
  // CHECK: %[[HOST:.*]] = "memref.alloca"() {{.*}} -> memref<i1>
  // CHECK: "func.call"(%[[HOST]], %{{.*}}) <{callee = @memcpy.d2h}>
  // CHECK: %[[PRED:.*]] = "memref.load"(%[[HOST]]) : (memref<i1>) -> i1
  // CHECK: %[[C0:.*]] = "arith.constant"() <{value = 0 : i32}>
  // CHECK: %[[C1:.*]] = "arith.constant"() <{value = 1 : i32}>
  // CHECK: %[[CHOSEN:.*]] = "arith.select"(%[[PRED]], %[[C0]], %[[C1]]) : (i1, i32, i32) -> i32
  // CHECK: %[[INDEX:.*]] = "arith.index_cast"(%[[CHOSEN]]) : (i32) -> index
  // CHECK: "scf.index_switch"(%[[INDEX]]) <{cases = array<i64: 0>}> ({
  // The default comes first: it is the last branch.
  // CHECK-NEXT: "func.call"(%[[A:.*]], %[[B:.*]]) <{callee = @memcpy.d2d}>
  // CHECK-NEXT: "scf.yield"
  // CHECK-NEXT: }, {
  // CHECK-NEXT: "func.call"(%[[B]], %[[A]]) <{callee = @memcpy.d2d}>
  // CHECK-NEXT: "scf.yield"
  // CHECK-NEXT: }) {rt.step = "if"
  "lmhlo.case"(%pred) ({
    gpu.memcpy %b, %a : memref<16xf32>, memref<16xf32>
    "lmhlo.terminator"() : () -> ()
  }, {
    gpu.memcpy %a, %b : memref<16xf32>, memref<16xf32>
    "lmhlo.terminator"() : () -> ()
  }) : (memref<i1>) -> () loc("if")
  "lmhlo.terminator"() : () -> ()
}
