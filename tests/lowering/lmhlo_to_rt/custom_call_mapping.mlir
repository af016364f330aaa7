// RUN: not xyla compile %s --stage=rt 2>&1 | filecheck %s
// CHECK: custom_call_mapping.mlir:5:3: INVALID_ARGUMENT: lmhlo.custom_call: target_arg_mapping: [3] does not place 1 values among 3

func.func @test(%arg0: memref<16xf32>, %arg1: memref<4xf32>) {
  "lmhlo.custom_call"(%arg0, %arg1) {
    call_target_name = "target", operand_segment_sizes = array<i32: 1, 1>,
    target_arg_mapping = #lmhlo.custom_call_target_arg_mapping<num_args = 3, num_results = 1,
      args_to_target_args = [3], results_to_target_results = [0]>
  } : (memref<16xf32>, memref<4xf32>) -> ()
  "lmhlo.terminator"() : () -> ()
}
