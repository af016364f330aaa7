// RUN: not xyla compile %s --stage=rt 2>&1 | filecheck %s
// CHECK: case_of_floats.mlir:5:3: INVALID_ARGUMENT: lmhlo.case: the index must be one i1 or one i32

func.func @case_index(%index: memref<f32>) {
  "lmhlo.case"(%index) ({
    "lmhlo.terminator"() : () -> ()
  }) : (memref<f32>) -> ()
  "lmhlo.terminator"() : () -> ()
}
