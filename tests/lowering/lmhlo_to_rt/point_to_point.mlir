// RUN: not xyla compile %s --stage=rt 2>&1 | filecheck %s
// CHECK: point_to_point.mlir:5:3: UNIMPLEMENTED: lmhlo.send: the runtime has no call for it

func.func @compute(%a: memref<4xf32>) {
  %token = "lmhlo.send"(%a) {channel_id = #mhlo.channel_handle<handle = 5, type = 1>} : (memref<4xf32>) -> !mhlo.token
  "lmhlo.send_done"(%token) : (!mhlo.token) -> ()
  "lmhlo.terminator"() : () -> ()
}
