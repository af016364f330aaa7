// RUN: not xyla compile %s --stage=rt 2>&1 | filecheck %s
// CHECK: launch_of_gpu_binary.mlir:12:3: UNIMPLEMENTED: gpu.launch_func: kernel gpu_module::fn0 is a GPU's binary, which the host does not run

module attributes {gpu.container_module} {
gpu.module @gpu_module attributes {binary = "gpu_module"} {
  gpu.func @fn0(%arg0: memref<4x4xf32>) kernel {
    gpu.return
  }
}
func.func @launch(%arg0: memref<4x4xf32>) {
  %c1 = arith.constant 1 : index
  gpu.launch_func @gpu_module::@fn0 blocks in (%c1, %c1, %c1) threads in (%c1, %c1, %c1) args(%arg0 : memref<4x4xf32>)
  "lmhlo.terminator"() : () -> ()
}
}
