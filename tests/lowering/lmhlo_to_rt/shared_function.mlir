// RUN: xyla compile %s --stage=rt | filecheck %s
// A shared function is one, however often it is called; its arguments are copied first.

func.func @main(%a: memref<16xi8> {lmhlo.params = 0 : index}, %t: memref<64xi8>, %o: memref<16xi8> {lmhlo.output_index = dense<> : tensor<0xindex>}) {
  %c0 = arith.constant 0 : index
  %x = memref.view %a[%c0][] : memref<16xi8> to memref<4xf32>
  %p = memref.view %t[%c0][] : memref<64xi8> to memref<4xf32>
  %y = memref.view %o[%c0][] : memref<16xi8> to memref<4xf32>
  // CHECK: "func.call"(%[[P:.*]], %[[A:.*]]) <{callee = @memcpy.d2d}> {rt.argument_of = "first"}
  // CHECK: "func.call"(%{{.*}}, %{{.*}}, %{{.*}}) <{callee = @twice}> {rt.step = "first", rt.pure}
  "lmhlo.call"(%a, %t, %o, %x, %p) {callee = @twice, pure = true} : (memref<16xi8>, memref<64xi8>, memref<16xi8>, memref<4xf32>, memref<4xf32>) -> () loc("first")
  // CHECK: <{callee = @twice}> {rt.step = "second"}
  "lmhlo.call"(%a, %t, %o) {callee = @twice} : (memref<16xi8>, memref<64xi8>, memref<16xi8>) -> () loc("second")
  "lmhlo.copy"(%p, %y) : (memref<4xf32>, memref<4xf32>) -> ()
  "lmhlo.terminator"() : () -> ()
}

func.func private @twice(%a: memref<16xi8>, %t: memref<64xi8>, %o: memref<16xi8>) {
  %c0 = arith.constant 0 : index
  %p = memref.view %t[%c0][] : memref<64xi8> to memref<4xf32>
  %q = memref.view %t[%c0][] : memref<64xi8> to memref<4xf32>
  "lmhlo.copy"(%p, %q) : (memref<4xf32>, memref<4xf32>) -> ()
  "lmhlo.terminator"() : () -> ()
}
// CHECK: sym_name = "twice"
// CHECK-NOT: sym_name = "twice
