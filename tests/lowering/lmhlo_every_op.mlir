#map1 = affine_map<(d0, d1, d2, d3) -> (d0 * 16384 + d1 * 4 + d2 + d3 * 16)>
module @everything attributes {gpu.container_module} {
  memref.global "private" constant @few : memref<2x3xi32> = dense<[[1, 2, 3], [4, 5, -6]]> {lmhlo.alloc = 3 : index}
  memref.global "private" constant @turned : memref<2x3xf32, strided<[1, 2]>> = dense<[[1.5, 2.0, 3.0], [4.0, 5.0, -6.0]]>
  memref.global "private" constant @nan : memref<2xf32> = dense<[0x7FC00000, 1.0]>
  memref.global "private" constant @flags : memref<2xi1> = dense<[true, false]>
  memref.global "private" constant @many : memref<100xcomplex<f32>> = dense<(1.0, 2.0)>
  gpu.module @kernels attributes {binary = "ptx \22text\22"} {
    gpu.func @fn(%arg0: memref<4x5xf32>, %arg1: memref<i1>) kernel {
      gpu.return
    }
  }

  func.func @main(%arg0: memref<80xi8> {lmhlo.alloc = 0 : index, lmhlo.params = 0 : index, xla.name = "x", xla.shape = "f32[4,5]{1,0}"},
                  %arg1: memref<80xi8> {lmhlo.alloc = 1 : index, lmhlo.params = 1 : index, lmhlo.param_shape_index = dense<[1, 0]> : tensor<2xindex>, lmhlo.must_alias, lmhlo.output_index = dense<0> : tensor<1xindex>},
                  %arg2: memref<4096xi8> {lmhlo.alloc = 2 : index},
                  %arg3: memref<24xi8> {lmhlo.alloc = 3 : index, lmhlo.constant_name = "few"},
                  %arg4: memref<100xi8> {lmhlo.output_index = [dense<> : tensor<0xindex>, dense<[1, 2]> : tensor<2xindex>]})
      attributes {replica_count = 4 : i64, num_partitions = 2 : i64, result_xla_shape = "(f32[4,5]{1,0}, f32[5,5]{1,0})"} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c64 = arith.constant 64 : index
    %x = memref.view %arg0[%c0][] : memref<80xi8> to memref<4x5xf32>
    %y = memref.view %arg1[%c0][] : memref<80xi8> to memref<4x5xf32>
    %t = memref.view %arg2[%c64][] : memref<4096xi8> to memref<4x5xf32>
    %u = memref.view %arg2[%c0][] : memref<4096xi8> to memref<5x4xf32>
    %o = memref.view %arg4[%c0][] : memref<100xi8> to memref<5x5xf32>
    %flat = memref.view %arg2[%c64][] : memref<4096xi8> to memref<20xf32>
    %cols = memref.reinterpret_cast %flat to offset: [0], sizes: [4, 5], strides: [1, 4] : memref<20xf32> to memref<4x5xf32, strided<[1, 4]>>
    %pred = memref.view %arg2[%c0][] : memref<4096xi8> to memref<i1>
    %index = memref.view %arg2[%c0][] : memref<4096xi8> to memref<i32>
    %id = memref.view %arg2[%c0][] : memref<4096xi8> to memref<ui32>
    %bytes = memref.view %arg2[%c64][] : memref<4096xi8> to memref<32xi8>
    %scratch = memref.view %arg2[%c64][] : memref<4096xi8> to memref<0xui8>
    %few = memref.get_global @few : memref<2x3xi32>
    %host = memref.alloca() : memref<i1>
    "lmhlo.add"(%x, %y, %t) {hlo = ["HloModule add", "", "ENTRY main {", "  a = f32[4,5] parameter(0)", "  b = f32[4,5] parameter(1)", "  ROOT add = f32[4,5] add(a, b)", "}"], operand_segment_sizes = array<i32: 2, 1, 0, 0>} : (memref<4x5xf32>, memref<4x5xf32>, memref<4x5xf32>) -> () loc("add.1")
    "lmhlo.dynamic_slice"(%few, %t, %few, %bytes) {hlo = "HloModule d\0A", operand_segment_sizes = array<i32: 1, 1, 1, 1>} : (memref<2x3xi32>, memref<4x5xf32>, memref<2x3xi32>, memref<32xi8>) -> ()
    "lmhlo.while"(%pred) ({
      "lmhlo.copy"(%x, %t) : (memref<4x5xf32>, memref<4x5xf32>) -> ()
      "lmhlo.terminator"() : () -> ()
    }, {
      "lmhlo.case"(%index) ({
        "lmhlo.terminator"() : () -> ()
      }, {
        "lmhlo.copy"(%t, %y) : (memref<4x5xf32>, memref<4x5xf32>) -> ()
        "lmhlo.terminator"() : () -> ()
      }, {
        "lmhlo.terminator"() : () -> ()
      }) : (memref<i32>) -> ()
      "lmhlo.terminator"() : () -> ()
    }) {trip_count = 7 : i64} : (memref<i1>) -> () loc("while.2")
    gpu.memcpy %host, %pred : memref<i1>, memref<i1>
    gpu.launch_func @kernels::@fn blocks in (%c64, %c1, %c1) threads in (%c1, %c1, %c1) args(%x : memref<4x5xf32>, %pred : memref<i1>)
    "lmhlo.call"(%arg0, %arg1, %arg2, %arg3, %arg4, %x, %t) {callee = @shared, pure = true} : (memref<80xi8>, memref<80xi8>, memref<4096xi8>, memref<24xi8>, memref<100xi8>, memref<4x5xf32>, memref<4x5xf32>) -> ()
    "lmhlo.custom_call"(%x, %t) {call_target_name = "target", has_side_effect = true, backend_config = "{\22a\22: 1}", api_version = 4 : i32, target_arg_mapping = #lmhlo.custom_call_target_arg_mapping<num_args = 4, num_results = 3, args_to_target_args = [2], results_to_target_results = [1]>, operand_segment_sizes = array<i32: 1, 1>} : (memref<4x5xf32>, memref<4x5xf32>) -> ()
    "lmhlo.fft"(%x, %t) {fft_type = #mhlo<fft_type RFFT>, fft_length = dense<[4, 5]> : tensor<2xi64>} : (memref<4x5xf32>, memref<4x5xf32>) -> ()
    "lmhlo.cholesky"(%o, %o) {lower = true} : (memref<5x5xf32>, memref<5x5xf32>) -> ()
    "lmhlo_gpu.cholesky"(%o, %o, %scratch, %few) {is_lower = false} : (memref<5x5xf32>, memref<5x5xf32>, memref<0xui8>, memref<2x3xi32>) -> ()
    "lmhlo.triangular_solve"(%o, %y, %t) {layout_a = dense<[1, 0]> : tensor<2xindex>, layout_b = dense<[1, 0]> : tensor<2xindex>, layout_output = dense<[1, 0]> : tensor<2xindex>, left_side = false, lower = true, transpose_a = #mhlo<transpose NO_TRANSPOSE>, unit_diagonal = true} : (memref<5x5xf32>, memref<4x5xf32>, memref<4x5xf32>) -> ()
    "lmhlo_gpu.gemm"(%u, %cols, %o) {dot_dimension_numbers = #mhlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>, alpha_real = 0.5 : f64, alpha_imag = 0.0 : f64, beta = 0.0 : f64, algorithm = 13 : i64} : (memref<5x4xf32>, memref<4x5xf32, strided<[1, 4]>>, memref<5x5xf32>) -> ()
    "lmhlo_gpu.gemm_bias"(%u, %x, %o, %o) {dot_dimension_numbers = #mhlo.dot<lhs_batching_dimensions = [], rhs_batching_dimensions = [], lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>, alpha_real = 1.0 : f64, alpha_imag = 0.0 : f64, beta = 1.0 : f64, batch_size = 1, lhs_stride = 20, rhs_stride = 20} : (memref<5x4xf32>, memref<4x5xf32>, memref<5x5xf32>, memref<5x5xf32>) -> ()
    "lmhlo.all_reduce"(%x, %y, %t, %t) ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %r = "mhlo.maximum"(%a, %b) : (tensor<f32>, tensor<f32>) -> tensor<f32>
      "mhlo.return"(%r) : (tensor<f32>) -> ()
    }) {replica_groups = dense<[[0, 1], [2, -1]]> : tensor<2x2xi64>, constrain_layout = false, channel_id = #mhlo.channel_handle<handle = 1, type = 0>, use_global_device_ids = true} : (memref<4x5xf32>, memref<4x5xf32>, memref<4x5xf32>, memref<4x5xf32>) -> () loc("all-reduce")
    "lmhlo.all_gather"(%x, %t) {replica_groups = dense<[[0], [1]]> : tensor<2x1xi64>, all_gather_dimension = 0 : i64} : (memref<4x5xf32>, memref<4x5xf32>) -> ()
    "lmhlo.reduce_scatter"(%x, %t) {replica_groups = dense<> : tensor<0x0xi64>, scatter_dimension = 1 : i64, computation = ["HloModule m", "ENTRY e {", "}"]} : (memref<4x5xf32>, memref<4x5xf32>) -> ()
    "lmhlo.all_to_all"(%x, %t) {replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, split_dimension = 0 : i64} : (memref<4x5xf32>, memref<4x5xf32>) -> ()
    "lmhlo.collective_broadcast"(%x, %t) {replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>} : (memref<4x5xf32>, memref<4x5xf32>) -> ()
    "lmhlo.ragged_all_to_all"(%x, %y, %few, %few, %few, %few, %t) {replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>} : (memref<4x5xf32>, memref<4x5xf32>, memref<2x3xi32>, memref<2x3xi32>, memref<2x3xi32>, memref<2x3xi32>, memref<4x5xf32>) -> ()
    "lmhlo.collective_permute"(%x, %t) {source_target_pairs = dense<[[0, 1], [1, 0]]> : tensor<2x2xi64>} : (memref<4x5xf32>, memref<4x5xf32>) -> ()
    %k0 = "lmhlo_gpu.all_reduce_start"(%x, %t) ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %r = "mhlo.add"(%a, %b) : (tensor<f32>, tensor<f32>) -> tensor<f32>
      "mhlo.return"(%r) : (tensor<f32>) -> ()
    }) {replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>} : (memref<4x5xf32>, memref<4x5xf32>) -> !mhlo.token
    %k1 = "lmhlo_gpu.all_gather_start"(%x, %t) {replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, all_gather_dimension = 0 : i64} : (memref<4x5xf32>, memref<4x5xf32>) -> !mhlo.token
    "lmhlo_gpu.all_reduce_done"(%k0, %x, %t) : (!mhlo.token, memref<4x5xf32>, memref<4x5xf32>) -> ()
    "lmhlo_gpu.all_gather_done"(%k1) : (!mhlo.token) -> ()
    %k2 = "lmhlo_gpu.reduce_scatter_start"(%x, %t) ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %r = "mhlo.add"(%a, %b) : (tensor<f32>, tensor<f32>) -> tensor<f32>
      "mhlo.return"(%r) : (tensor<f32>) -> ()
    }) {replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, scatter_dimension = 0 : i64} : (memref<4x5xf32>, memref<4x5xf32>) -> !mhlo.token
    "lmhlo_gpu.reduce_scatter_done"(%k2) : (!mhlo.token) -> ()
    %k3 = "lmhlo_gpu.all_to_all_start"(%x, %t) {replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>} : (memref<4x5xf32>, memref<4x5xf32>) -> !mhlo.token
    "lmhlo_gpu.all_to_all_done"(%k3) : (!mhlo.token) -> ()
    %k4 = "lmhlo_gpu.collective_permute_start"(%x, %t) {source_target_pairs = dense<[[0, 1]]> : tensor<1x2xi64>} : (memref<4x5xf32>, memref<4x5xf32>) -> !mhlo.token
    "lmhlo_gpu.collective_permute_done"(%k4) : (!mhlo.token) -> ()
    %k5 = "lmhlo.send"(%x) {channel_id = #mhlo.channel_handle<handle = 5, type = 1>} : (memref<4x5xf32>) -> !mhlo.token
    "lmhlo.send_done"(%k5) : (!mhlo.token) -> ()
    %k6 = "lmhlo.recv"(%t) {channel_id = #mhlo.channel_handle<handle = 5, type = 1>, is_host_transfer = true} : (memref<4x5xf32>) -> !mhlo.token
    "lmhlo.recv_done"(%k6, %t) : (!mhlo.token, memref<4x5xf32>) -> ()
    "lmhlo.infeed"(%t, %o) {config = "x"} : (memref<4x5xf32>, memref<5x5xf32>) -> ()
    "lmhlo.outfeed"(%t) {config = "x"} : (memref<4x5xf32>) -> ()
    "lmhlo.replica_id"(%id) : (memref<ui32>) -> ()
    "lmhlo.partition_id"(%id) : (memref<ui32>) -> ()
    "lmhlo.terminator"() : () -> ()
  }

  func.func private @shared(%arg0: memref<80xi8>, %arg1: memref<80xi8>, %arg2: memref<4096xi8>, %arg3: memref<24xi8>, %arg4: memref<100xi8>) {
    %c0 = arith.constant 0 : index
    %x = memref.view %arg0[%c0][] : memref<80xi8> to memref<4x5xf32>
    %t = memref.view %arg2[%c0][] : memref<4096xi8> to memref<4x5xf32>
    "lmhlo.copy"(%x, %t) : (memref<4x5xf32>, memref<4x5xf32>) -> ()
    "lmhlo.terminator"() : () -> ()
  }

  func.func @typed(%input: memref<1x4x4x1024xf16, #map1>, %filter: memref<3x3x1x1024xf16>, %bias: memref<1024xf16>, %output: memref<1x2x2x1024xf16>, %scratch: memref<0xui8>) {
    lmhlo_gpu.conv_forward(%input, %filter, %output, %scratch)
      dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f],
      window = {stride = [1, 1], pad = [[0, 1], [0, 0]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [0, 0]}
      {backend_config = #lmhlo_gpu.convolution_backend_config<algorithm = 0, is_cudnn_frontend = true, knob_ids = [2, 3], knob_values = [4, 0], operand_0_layout = [2, 1, 3, 0], operand_1_layout = [1, 0, 2, 3], result_layout = [2, 1, 3, 0], tensor_ops_enabled = false, workspace_size = 0>,
       batch_group_count = 1 : i64, feature_group_count = 1024 : i64, precision_config = [#mhlo<precision HIGH>, #mhlo<precision DEFAULT>], result_scale = 1.000000e+00 : f64}
      : (memref<1x4x4x1024xf16, #map1>, memref<3x3x1x1024xf16>, memref<1x2x2x1024xf16>, memref<0xui8>) -> ()
    "lmhlo_gpu.conv_backwardinput"(%input, %filter, %output, %scratch) {dimension_numbers = #mhlo.conv<[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]>, feature_group_count = 1 : i64, backend_config = #lmhlo_gpu.convolution_backend_config<algorithm = 1>} : (memref<1x4x4x1024xf16, #map1>, memref<3x3x1x1024xf16>, memref<1x2x2x1024xf16>, memref<0xui8>) -> ()
    "lmhlo_gpu.conv_backwardfilter"(%input, %filter, %output, %scratch) {dimension_numbers = #mhlo.conv<raw input_batch_dimension = 0, input_feature_dimension = 3, input_spatial_dimensions = [1, 2], kernel_input_feature_dimension = 2, kernel_output_feature_dimension = 3, kernel_spatial_dimensions = [0, 1], output_batch_dimension = 0, output_feature_dimension = 3, output_spatial_dimensions = [1, 2]>, feature_group_count = 1 : i64, backend_config = #lmhlo_gpu.convolution_backend_config<algorithm = 1>} : (memref<1x4x4x1024xf16, #map1>, memref<3x3x1x1024xf16>, memref<1x2x2x1024xf16>, memref<0xui8>) -> ()
    "lmhlo_gpu.conv_forward_fused"(%input, %filter, %bias, %output, %scratch) {dimension_numbers = #mhlo.conv<[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]>, feature_group_count = 1 : i64, activation_mode = #lmhlo_gpu<activation Relu>, backend_config = #lmhlo_gpu.convolution_backend_config<algorithm = 1>} : (memref<1x4x4x1024xf16, #map1>, memref<3x3x1x1024xf16>, memref<1024xf16>, memref<1x2x2x1024xf16>, memref<0xui8>) -> ()
    "lmhlo_gpu.conv_forward_fused_with_side_input"(%input, %filter, %bias, %output, %output, %scratch) {dimension_numbers = #mhlo.conv<[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]>, feature_group_count = 1 : i64, activation_mode = #lmhlo_gpu<activation None>, side_input_scale = 0.25 : f64, backend_config = #lmhlo_gpu.convolution_backend_config<algorithm = 1>} : (memref<1x4x4x1024xf16, #map1>, memref<3x3x1x1024xf16>, memref<1024xf16>, memref<1x2x2x1024xf16>, memref<1x2x2x1024xf16>, memref<0xui8>) -> ()
    func.return
  }
}
