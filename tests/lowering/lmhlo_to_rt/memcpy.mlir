// RUN: xyla compile %s --stage=rt | filecheck %s
// The direction follows from the operands: the stack and globals without an argument are the host's.

memref.global "private" constant @cst : memref<16xf32> = dense<1.0>

func.func @memcpy(%dst: memref<16xf32>, %src: memref<16xf32>) {
  // CHECK: %[[CST:.*]] = "memref.get_global"() <{name = @constant_2}> : () -> memref<64xi8>
  // CHECK: %[[HOST:.*]] = "memref.alloca"() {{.*}}lmhlo.alloc = 3 : index
  // CHECK: "func.call"(%[[DST:.*]], %[[SRC:.*]]) <{callee = @memcpy.d2d}>
  gpu.memcpy %dst, %src : memref<16xf32>, memref<16xf32>

  // CHECK: %[[FROM:.*]] = "memref.view"(%[[CST]], {{.*}}) : (memref<64xi8>, index) -> memref<16xf32>
  // CHECK: "func.call"(%{{.*}}, %[[FROM]]) <{callee = @memcpy.h2d}>
  %cst = memref.get_global @cst : memref<16xf32>
  gpu.memcpy %dst, %cst : memref<16xf32>, memref<16xf32>

  // CHECK: %[[TO:.*]] = "memref.view"(%[[HOST]], {{.*}}) : (memref<64xi8>, index) -> memref<16xf32>
  // CHECK: "func.call"(%[[TO]], %{{.*}}) <{callee = @memcpy.d2h}>
  %host = memref.alloca() : memref<16xf32>
  gpu.memcpy %host, %src : memref<16xf32>, memref<16xf32>

  // A target on the host decides first.
  // CHECK: "func.call"(%[[TO]], %[[FROM]]) <{callee = @memcpy.d2h}>
  gpu.memcpy %host, %cst : memref<16xf32>, memref<16xf32>
  "lmhlo.terminator"() : () -> ()
}
// CHECK-DAG: {rt.direct_custom_call = "xla.gpu.memcpy.d2d"}
// CHECK-DAG: {rt.direct_custom_call = "xla.gpu.memcpy.h2d"}
// CHECK-DAG: {rt.direct_custom_call = "xla.gpu.memcpy.d2h"}
