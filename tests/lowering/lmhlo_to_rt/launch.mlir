// RUN: xyla compile %s --stage=rt | filecheck %s
// A kernel is launched over its range, as a grid of blocks of one; it is made of the text that names its work.

func.func @compute(%a: memref<64xi8> {lmhlo.params = 0 : index}, %b: memref<64xi8> {lmhlo.output_index = dense<> : tensor<0xindex>}) {
  %c0 = arith.constant 0 : index
  %x = memref.view %a[%c0][] : memref<64xi8> to memref<4x4xf32>
  %y = memref.view %b[%c0][] : memref<64xi8> to memref<4x4xf32>
  // CHECK: %[[C1:.*]] = "arith.constant"() <{value = 1 : i32}> : () -> i32
  // CHECK: "func.call"(%[[C1]], %[[C1]], %[[C1]], %[[C1]], %[[C1]], %[[C1]], %[[X:.*]], %[[Y:.*]]) <{callee = @launch_func}> {kernel = "[[KERNEL:xyla_[0-9a-f]+]]", rt.step = "exp.1", rt.inputs = 1 : i64
  // CHECK-SAME: (i32, i32, i32, i32, i32, i32, memref<4x4xf32>, memref<4x4xf32>) -> ()
  "lmhlo.exponential"(%x, %y) {
    hlo = ["HloModule exp", "", "ENTRY main {", "  p = f32[4,4] parameter(0)", "  ROOT e = f32[4,4] exponential(p)", "}"],
    operand_segment_sizes = array<i32: 1, 1, 0, 0>
  } : (memref<4x4xf32>, memref<4x4xf32>) -> () loc("exp.1")
  "lmhlo.terminator"() : () -> ()
}
// CHECK: {rt.direct_custom_call = "xla.gpu.func.launch"}
// CHECK: {rt.kernels = [{name = "[[KERNEL]]", hlo = "HloModule exp
