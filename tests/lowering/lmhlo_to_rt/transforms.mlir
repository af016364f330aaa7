// RUN: xyla compile %s --stage=rt | filecheck %s

func.func @compute(%x: memref<3x5x8xf32>, %y: memref<3x5x5xcomplex<f32>>, %a: memref<3x2x2xf64>, %scratch: memref<16xi8>,
                   %info: memref<6xi32>, %b: memref<3x2x4xf64>) {
  // CHECK: <{callee = @fft}> {fft_length = dense<[8]> : tensor<1xi64>, fft_type = 2 : i32
  // CHECK-SAME: (memref<3x5x8xf32>, memref<3x5x5xcomplex<f32>>) -> ()
  "lmhlo.fft"(%x, %y) {fft_type = #mhlo<fft_type RFFT>, fft_length = dense<8> : tensor<1xi64>}
    : (memref<3x5x8xf32>, memref<3x5x5xcomplex<f32>>) -> ()

  // CHECK: <{callee = @cholesky}> {batch_size = 3 : i64, n = 2 : i64, uplo = 1 : i64
  // CHECK-SAME: (memref<3x2x2xf64>, memref<3x2x2xf64>, memref<16xi8>, memref<6xi32>) -> ()
  "lmhlo_gpu.cholesky"(%a, %a, %scratch, %info) {is_lower = true}
    : (memref<3x2x2xf64>, memref<3x2x2xf64>, memref<16xi8>, memref<6xi32>) -> ()

  // CHECK: <{callee = @cholesky_0}> {batch_size = 3 : i64, n = 2 : i64, uplo = 0 : i64
  "lmhlo.cholesky"(%a, %a) {lower = false} : (memref<3x2x2xf64>, memref<3x2x2xf64>) -> ()

  // CHECK: <{callee = @triangular_solve}> {left_side = true, lower = false, unit_diagonal = true, transpose_a = 3 : i32
  "lmhlo.triangular_solve"(%a, %b, %b) {
    left_side = true, lower = false, unit_diagonal = true, transpose_a = #mhlo<transpose ADJOINT>
  } : (memref<3x2x2xf64>, memref<3x2x4xf64>, memref<3x2x4xf64>) -> ()
  "lmhlo.terminator"() : () -> ()
}
// CHECK-DAG: {rt.direct_custom_call = "xla.gpu.fft"}
// CHECK-DAG: {rt.direct_custom_call = "xla.gpu.cholesky"}
// CHECK-DAG: {rt.direct_custom_call = "xla.gpu.triangular_solve"}
