// RUN: xyla compile %s --stage=rt | filecheck %s
// RUN: xyla compile %s --stage=rt --lowering lmhlo-to-rt{min-num-elements=2} | filecheck %s --check-prefix=SOME
// A constant that an argument carries is that argument: a view of it, and a cast where its layout is not row-major.

memref.global "private" constant @flat : memref<2x3xf32> = dense<[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]>
memref.global "private" constant @turned : memref<2x3xf32, strided<[1, 2]>> = dense<[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]>
memref.global "private" constant @scalar : memref<f32> = dense<7.0>

func.func @get_global(%arg0: memref<24xi8> {lmhlo.constant_name = "flat"},
                      %arg1: memref<24xi8> {lmhlo.constant_name = "turned"},
                      %arg2: memref<4xi8> {lmhlo.constant_name = "scalar"},
                      %out: memref<2x3xf32>, %cols: memref<2x3xf32, strided<[1, 2]>>, %one: memref<f32>) {
  // CHECK: "memref.global"() <{sym_name = "constant_0", sym_visibility = "private", type = memref<24xi8>, initial_value = dense<"0x0000803F
  // CHECK: {lmhlo.alloc = 0 : index, lmhlo.constant_name = "constant_0"}
  // CHECK-NOT: get_global
  // CHECK: ^bb0(%[[FLAT:.*]]: memref<24xi8>, %[[TURNED:.*]]: memref<24xi8>, %[[ONE:.*]]: memref<4xi8>,
  // CHECK: "func.call"(%{{.*}}, %[[FLAT]]) <{callee = @memcpy.d2d}>
  %flat = memref.get_global @flat : memref<2x3xf32>
  gpu.memcpy %out, %flat : memref<2x3xf32>, memref<2x3xf32>

  // CHECK: "func.call"(%{{.*}}, %[[TURNED]]) <{callee = @memcpy.d2d}>
  %turned = memref.get_global @turned : memref<2x3xf32, strided<[1, 2]>>
  gpu.memcpy %cols, %turned : memref<2x3xf32, strided<[1, 2]>>, memref<2x3xf32, strided<[1, 2]>>

  // CHECK: "func.call"(%{{.*}}, %[[ONE]]) <{callee = @memcpy.d2d_0}>
  // SOME: lmhlo.alloc = 6 : index
  // SOME: %[[HOST:.*]] = "memref.get_global"() <{name = @constant_6}> : () -> memref<4xi8>
  // SOME: %[[SCALAR:.*]] = "memref.view"(%[[HOST]], %{{.*}}) : (memref<4xi8>, index) -> memref<f32>
  // SOME: "func.call"(%{{.*}}, %[[SCALAR]]) <{callee = @memcpy.h2d}>
  %scalar = memref.get_global @scalar : memref<f32>
  gpu.memcpy %one, %scalar : memref<f32>, memref<f32>

  // CHECK: %[[VIEW:.*]] = "memref.view"(%[[FLAT]], %{{.*}}) : (memref<24xi8>, index) -> memref<2x3xf32>
  // CHECK: %[[LINE:.*]] = "memref.view"(%[[TURNED]], %{{.*}}) : (memref<24xi8>, index) -> memref<6xf32>
  // CHECK: %[[CAST:.*]] = "memref.reinterpret_cast"(%[[LINE]]) <{operandSegmentSizes = array<i32: 1, 0, 0, 0>,
  // CHECK-SAME: static_offsets = array<i64: 0>, static_sizes = array<i64: 2, 3>, static_strides = array<i64: 1, 2>}>
  // CHECK-SAME: (memref<6xf32>) -> memref<2x3xf32, strided<[1, 2]>>
  // CHECK: "func.call"(%[[VIEW]], %[[CAST]], %{{.*}}) <{callee = @custom_call}>
  "lmhlo.custom_call"(%flat, %turned, %out) {
    call_target_name = "target", operand_segment_sizes = array<i32: 2, 1>
  } : (memref<2x3xf32>, memref<2x3xf32, strided<[1, 2]>>, memref<2x3xf32>) -> ()
  "lmhlo.terminator"() : () -> ()
}
// SOME: {rt.direct_custom_call = "xla.gpu.memcpy.h2d"}
