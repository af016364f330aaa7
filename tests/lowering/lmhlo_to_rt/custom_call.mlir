// RUN: xyla compile %s --stage=rt | filecheck %s
// Where the target takes more than the call gives, empty buffers fill the holes.

func.func @test(%arg0: memref<16xf32>, %arg1: memref<4xf32>) {
  // CHECK: "func.call"(%[[X:.*]], %[[Y:.*]]) <{callee = @custom_call}> {api_version = 2 : i32, backend_config = "opaque",
  // CHECK-SAME: call_target_name = "target"
  // CHECK-SAME: (memref<16xf32>, memref<4xf32>) -> ()
  "lmhlo.custom_call"(%arg0, %arg1) {
    api_version = 2 : i32, backend_config = "opaque", call_target_name = "target", has_side_effect = false,
    operand_segment_sizes = array<i32: 1, 1>
  } : (memref<16xf32>, memref<4xf32>) -> ()

  // CHECK: %[[HOLE:.*]] = "memref.alloca"() {{.*}} -> memref<0xi8>
  // CHECK-NEXT: "func.call"(%[[HOLE]], %[[X]], %[[HOLE]], %[[HOLE]], %[[Y]], %[[HOLE]]) <{callee = @custom_call_0}>
  // CHECK-SAME: api_version = 1 : i32, backend_config = "", call_target_name = "target"
  // CHECK-SAME: rt.results = 3 : i64
  // CHECK-SAME: (memref<0xi8>, memref<16xf32>, memref<0xi8>, memref<0xi8>, memref<4xf32>, memref<0xi8>) -> ()
  "lmhlo.custom_call"(%arg0, %arg1) {
    api_version = 1 : i32, backend_config = "", call_target_name = "target", has_side_effect = false,
    operand_segment_sizes = array<i32: 1, 1>,
    target_arg_mapping = #lmhlo.custom_call_target_arg_mapping<num_args = 3, num_results = 3,
      args_to_target_args = [1], results_to_target_results = [1]>
  } : (memref<16xf32>, memref<4xf32>) -> ()
  "lmhlo.terminator"() : () -> ()
}
// CHECK: sym_name = "custom_call",
// CHECK: {rt.direct_custom_call = "xla.gpu.custom_call"}
