// RUN: xyla compile %s --stage=rt | filecheck %s
// Lists that are absent are empty; fused ones have an activation, by number.

func.func @compute(%input: memref<1x4x4x8xf32>, %filter: memref<3x3x8x8xf32>, %bias: memref<8xf32>,
                   %output: memref<1x2x2x8xf32>, %scratch: memref<0xui8>) {
  // CHECK: <{callee = @conv.backward.input}> {input_batch_dim = 0 : i64
  // CHECK-SAME: window_reversal = dense<> : tensor<0xi64>, window_strides = dense<> : tensor<0xi64>,
  // CHECK-SAME: lhs_dilation = dense<> : tensor<0xi64>, rhs_dilation = dense<> : tensor<0xi64>,
  // CHECK-SAME: padding = dense<> : tensor<0xi64>, algorithm = 1 : i64
  "lmhlo_gpu.conv_backwardinput"(%output, %filter, %input, %scratch) {
    dimension_numbers = #mhlo.conv<[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]>, feature_group_count = 1 : i64,
    backend_config = #lmhlo_gpu.convolution_backend_config<algorithm = 1>
  } : (memref<1x2x2x8xf32>, memref<3x3x8x8xf32>, memref<1x4x4x8xf32>, memref<0xui8>) -> ()

  // CHECK: <{callee = @conv.backward.filter}> {
  // CHECK-SAME: (memref<1x4x4x8xf32>, memref<1x2x2x8xf32>, memref<3x3x8x8xf32>, memref<0xui8>)
  "lmhlo_gpu.conv_backwardfilter"(%input, %output, %filter, %scratch) {
    dimension_numbers = #mhlo.conv<[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]>, feature_group_count = 1 : i64,
    backend_config = #lmhlo_gpu.convolution_backend_config<algorithm = 2>
  } : (memref<1x4x4x8xf32>, memref<1x2x2x8xf32>, memref<3x3x8x8xf32>, memref<0xui8>) -> ()

  // CHECK: <{callee = @conv.forward.fused}> {
  // CHECK-SAME: result_scale = 1.0 : f64, activation_mode = 2 : i64
  // CHECK-SAME: (memref<1x4x4x8xf32>, memref<3x3x8x8xf32>, memref<8xf32>, memref<1x2x2x8xf32>, memref<0xui8>)
  "lmhlo_gpu.conv_forward_fused"(%input, %filter, %bias, %output, %scratch) {
    dimension_numbers = #mhlo.conv<[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]>, feature_group_count = 1 : i64,
    activation_mode = #lmhlo_gpu<activation Relu>,
    backend_config = #lmhlo_gpu.convolution_backend_config<algorithm = 3>
  } : (memref<1x4x4x8xf32>, memref<3x3x8x8xf32>, memref<8xf32>, memref<1x2x2x8xf32>, memref<0xui8>) -> ()

  // CHECK: <{callee = @conv.forward.fused.side_input}> {
  // CHECK-SAME: activation_mode = 0 : i64, side_input_scale = 0.25 : f64
  "lmhlo_gpu.conv_forward_fused_with_side_input"(%input, %filter, %bias, %output, %output, %scratch) {
    dimension_numbers = #mhlo.conv<[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]>, feature_group_count = 1 : i64,
    activation_mode = #lmhlo_gpu<activation None>, side_input_scale = 0.25 : f64,
    backend_config = #lmhlo_gpu.convolution_backend_config<algorithm = 4>
  } : (memref<1x4x4x8xf32>, memref<3x3x8x8xf32>, memref<8xf32>, memref<1x2x2x8xf32>, memref<1x2x2x8xf32>,
       memref<0xui8>) -> ()
  "lmhlo.terminator"() : () -> ()
}
// CHECK-DAG: {rt.direct_custom_call = "xla.gpu.conv.backward.input"}
// CHECK-DAG: {rt.direct_custom_call = "xla.gpu.conv.backward.filter"}
// CHECK-DAG: {rt.direct_custom_call = "xla.gpu.conv.forward.fused"}
// CHECK-DAG: {rt.direct_custom_call = "xla.gpu.conv.forward.fused.side_input"}
