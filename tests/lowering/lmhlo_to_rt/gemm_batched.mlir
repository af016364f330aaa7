// RUN: xyla compile %s --stage=rt | filecheck %s

func.func @compute(%a: memref<3x5x4xf64>, %b: memref<3x6x4xf64>, %c: memref<3x5x6xf64>) {
  // CHECK: <{callee = @gemm}> {uid = 0 : i64
  // CHECK-NOT: algorithm
  // CHECK-SAME: lhs_batching_dimensions = dense<[0]> : tensor<1xi64>,
  // CHECK-SAME: lhs_contracting_dimensions = dense<[2]> : tensor<1xi64>,
  // CHECK-SAME: rhs_batching_dimensions = dense<[0]> : tensor<1xi64>,
  // CHECK-SAME: rhs_contracting_dimensions = dense<[2]> : tensor<1xi64>
  "lmhlo_gpu.gemm"(%a, %b, %c) {
    alpha_real = 1.0 : f64, alpha_imag = 0.0 : f64,
    dot_dimension_numbers = #mhlo.dot<lhs_batching_dimensions = [0], rhs_batching_dimensions = [0],
                                      lhs_contracting_dimensions = [2], rhs_contracting_dimensions = [2]>
  } : (memref<3x5x4xf64>, memref<3x6x4xf64>, memref<3x5x6xf64>) -> ()
  "lmhlo.terminator"() : () -> ()
}
