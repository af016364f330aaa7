// RUN: xyla compile %s --stage=rt | filecheck %s
// Every product has an id of its own; the dimension numbers are four lists.

func.func @compute(%a: memref<5x4xf32>, %b: memref<4x5xf32>, %c: memref<5x5xf32>, %d: memref<5x5xf32>) {
  // CHECK: "func.call"({{.*}}) <{callee = @gemm}> {uid = 0 : i64, algorithm = 13 : i64,
  // CHECK-SAME: alpha_imag = 0.0 : f64, alpha_real = 0.5 : f64,
  // CHECK-SAME: lhs_batching_dimensions = dense<> : tensor<0xi64>,
  // CHECK-SAME: lhs_contracting_dimensions = dense<[1]> : tensor<1xi64>,
  // CHECK-SAME: rhs_batching_dimensions = dense<> : tensor<0xi64>,
  // CHECK-SAME: rhs_contracting_dimensions = dense<[0]> : tensor<1xi64>,
  // CHECK-NOT: beta
  // CHECK-SAME: rt.results = 1 : i64
  // CHECK-SAME: : (memref<5x4xf32>, memref<4x5xf32>, memref<5x5xf32>) -> ()
  "lmhlo_gpu.gemm"(%a, %b, %c) {
    algorithm = 13 : i64, alpha_real = 0.5 : f64, alpha_imag = 0.0 : f64,
    dot_dimension_numbers = #mhlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>
  } : (memref<5x4xf32>, memref<4x5xf32>, memref<5x5xf32>) -> ()

  // What c held before counts: it is an input too.
  // CHECK: "func.call"(%[[A:.*]], %[[B:.*]], %[[C:.*]], %[[C]]) <{callee = @gemm_0}> {uid = 1 : i64,
  // CHECK-SAME: beta = 0.25 : f64
  "lmhlo_gpu.gemm"(%a, %b, %c) {
    alpha_real = 1.0 : f64, alpha_imag = 0.0 : f64, beta = 0.25 : f64,
    dot_dimension_numbers = #mhlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>
  } : (memref<5x4xf32>, memref<4x5xf32>, memref<5x5xf32>) -> ()

  // CHECK: "func.call"({{.*}}) <{callee = @gemm.bias}> {uid = 2 : i64, algorithm = 7 : i64,
  // CHECK-SAME: alpha_imag = 0.0 : f64, alpha_real = 1.0 : f64,
  // CHECK-SAME: lhs_contracting_dimensions = dense<[1]> : tensor<1xi64>
  // CHECK-SAME: rhs_contracting_dimensions = dense<[0]> : tensor<1xi64>
  // CHECK-SAME: beta = 2.0 : f64
  // CHECK-SAME: (memref<5x4xf32>, memref<4x5xf32>, memref<5x5xf32>, memref<5x5xf32>) -> ()
  "lmhlo_gpu.gemm_bias"(%a, %b, %c, %d) {
    algorithm = 7 : i64, alpha_real = 1.0 : f64, alpha_imag = 0.0 : f64, beta = 2.0 : f64,
    dot_dimension_numbers = #mhlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>
  } : (memref<5x4xf32>, memref<4x5xf32>, memref<5x5xf32>, memref<5x5xf32>) -> ()
  "lmhlo.terminator"() : () -> ()
}

// CHECK: sym_name = "gemm", {{.*}}sym_visibility = "private"
// CHECK: {rt.direct_custom_call = "xla.gpu.gemm"}
// CHECK: sym_name = "gemm_0"
// CHECK: {rt.direct_custom_call = "xla.gpu.gemm"}
// CHECK: sym_name = "gemm.bias"
// CHECK: {rt.direct_custom_call = "xla.gpu.gemm.bias"}
