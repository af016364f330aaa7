// RUN: xyla compile %s --stage=rt | filecheck %s

func.func @compute(%input: memref<1x4x4x1024xf16>, %filter: memref<3x3x1x1024xf16>, %output: memref<1x2x2x1024xf16>,
                   %scratch: memref<0xui8>) {
  // CHECK: "func.call"({{.*}}) <{callee = @conv.forward}> {input_batch_dim = 0 : i64, input_feature_dim = 3 : i64,
  // CHECK-SAME: input_spatial_dims = dense<[1, 2]> : tensor<2xi64>,
  // CHECK-SAME: kernel_in_feature_dim = 2 : i64, kernel_out_feature_dim = 3 : i64,
  // CHECK-SAME: kernel_spatial_dims = dense<[0, 1]> : tensor<2xi64>,
  // CHECK-SAME: output_batch_dim = 0 : i64, output_feature_dim = 3 : i64,
  // CHECK-SAME: output_spatial_dims = dense<[1, 2]> : tensor<2xi64>,
  // CHECK-SAME: window_reversal = dense<[0, 1]> : tensor<2xi64>,
  // CHECK-SAME: window_strides = dense<[2, 1]> : tensor<2xi64>,
  // CHECK-SAME: lhs_dilation = dense<[1, 2]> : tensor<2xi64>,
  // CHECK-SAME: rhs_dilation = dense<[3, 1]> : tensor<2xi64>,
  // CHECK-SAME: padding = dense<[0, 1, 2, 3]> : tensor<4xi64>,
  // CHECK-SAME: algorithm = 28 : i64, tensor_ops_enabled = true, is_cudnn_frontend = true,
  // CHECK-SAME: workspace_size = 65536 : i64,
  // CHECK-SAME: knob_ids = dense<[2, 3]> : tensor<2xi64>, knob_values = dense<[4, 0]> : tensor<2xi64>,
  // CHECK-SAME: operand_0_layout = dense<[2, 1, 3, 0]> : tensor<4xi64>,
  // CHECK-SAME: operand_1_layout = dense<[1, 0, 2, 3]> : tensor<4xi64>,
  // CHECK-SAME: result_layout = dense<[2, 1, 3, 0]> : tensor<4xi64>,
  // CHECK-SAME: feature_group_count = 1024 : i64, result_scale = 0.5 : f64,
  // CHECK-NOT: activation_mode
  // CHECK-SAME: rt.results = 2 : i64
  "lmhlo_gpu.conv_forward"(%input, %filter, %output, %scratch) {
    dimension_numbers = #mhlo.conv<[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]>,
    window_strides = dense<[2, 1]> : tensor<2xi64>, padding = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>,
    lhs_dilation = dense<[1, 2]> : tensor<2xi64>, rhs_dilation = dense<[3, 1]> : tensor<2xi64>,
    window_reversal = dense<[false, true]> : tensor<2xi1>, batch_group_count = 1 : i64,
    feature_group_count = 1024 : i64, result_scale = 0.5 : f64,
    backend_config = #lmhlo_gpu.convolution_backend_config<algorithm = 28, is_cudnn_frontend = true, knob_ids = [2, 3],
      knob_values = [4, 0], operand_0_layout = [2, 1, 3, 0], operand_1_layout = [1, 0, 2, 3],
      result_layout = [2, 1, 3, 0], tensor_ops_enabled = true, workspace_size = 65536>
  } : (memref<1x4x4x1024xf16>, memref<3x3x1x1024xf16>, memref<1x2x2x1024xf16>, memref<0xui8>) -> ()
  "lmhlo.terminator"() : () -> ()
}
// CHECK: {rt.direct_custom_call = "xla.gpu.conv.forward"}
