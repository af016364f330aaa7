// RUN: not xyla compile %s --stage=rt 2>&1 | filecheck %s
// CHECK: cholesky_of_vector.mlir:5:3: INVALID_ARGUMENT: lmhlo_gpu.cholesky: Input's dimension count (1) must be 2 or greater.

func.func @compute(%a: memref<4xf64>, %scratch: memref<16xi8>, %info: memref<i32>) {
  "lmhlo_gpu.cholesky"(%a, %a, %scratch, %info) {is_lower = true}
    : (memref<4xf64>, memref<4xf64>, memref<16xi8>, memref<i32>) -> ()
  "lmhlo.terminator"() : () -> ()
}
