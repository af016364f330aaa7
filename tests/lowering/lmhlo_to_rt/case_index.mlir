// RUN: xyla compile %s --stage=rt | filecheck %s
// What is out of range, on either side, takes the last branch.

func.func @case_index(%a: memref<16xf32>, %b: memref<16xf32>, %index: memref<i32>) {
  // CHECK: %[[HOST:.*]] = "memref.alloca"() {{.*}} -> memref<i32>
  // CHECK: "func.call"(%[[HOST]], %{{.*}}) <{callee = @memcpy.d2h}>
  // CHECK: %[[GIVEN:.*]] = "memref.load"(%[[HOST]]) : (memref<i32>) -> i32
  // CHECK: %[[C0:.*]] = "arith.constant"() <{value = 0 : i32}>
  // CHECK: %[[C2:.*]] = "arith.constant"() <{value = 2 : i32}>
  // CHECK: %[[SMALL:.*]] = "arith.cmpi"(%[[GIVEN]], %[[C0]]) <{predicate = 2 : i64}>
  // CHECK: %[[LARGE:.*]] = "arith.cmpi"(%[[GIVEN]], %[[C2]]) <{predicate = 4 : i64}>
  // CHECK: %[[OUT:.*]] = "arith.ori"(%[[SMALL]], %[[LARGE]]) : (i1, i1) -> i1
  // CHECK: %[[CLAMPED:.*]] = "arith.select"(%[[OUT]], %[[C2]], %[[GIVEN]]) : (i1, i32, i32) -> i32
  // CHECK: %[[CAST:.*]] = "arith.index_cast"(%[[CLAMPED]]) : (i32) -> index
  // CHECK: "scf.index_switch"(%[[CAST]]) <{cases = array<i64: 0, 1>}> ({
  // CHECK-NEXT: "scf.yield"
  // CHECK-NEXT: }, {
  // CHECK-NEXT: "func.call"({{.*}}) <{callee = @memcpy.d2d}>
  // CHECK-NEXT: "scf.yield"
  // CHECK-NEXT: }, {
  // CHECK: "scf.yield"
  // CHECK-NEXT: }) {rt.step = "lmhlo.case", rt.branches = ["lmhlo.case.branch0", "lmhlo.case.branch1", "lmhlo.case.branch2"]}
  "lmhlo.case"(%index) ({
    gpu.memcpy %b, %a : memref<16xf32>, memref<16xf32>
    "lmhlo.terminator"() : () -> ()
  }, {
    gpu.memcpy %a, %b : memref<16xf32>, memref<16xf32>
    "lmhlo.terminator"() : () -> ()
  }, {
    "lmhlo.terminator"() : () -> ()
  }) : (memref<i32>) -> ()
  "lmhlo.terminator"() : () -> ()
}
