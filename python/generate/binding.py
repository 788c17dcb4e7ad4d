"""The C source of the module lockstep._lockstep: every public function, as cffi calls it in its API mode and for the stable ABI."""
from cffi import FFI

import headers

# Functions of the package's that the library calls.
CALLBACKS = """
extern "Python" ls_tensor *py_forward(ls_module *, ls_tensor *);
extern "Python" ls_tensor *py_loss(ls_tensor *, ls_tensor *, void *);
extern "Python" bool py_fill(ls_fill *, void *);
extern "Python" bool py_operation_shape(ls_custom_call *);
extern "Python" void py_operation(const ls_custom_call *, const float *const *, float *);
extern "Python" void py_operation_backward(const ls_custom_call *, const float *const *, const float *, const float *, float *const *);
extern "Python" void py_told(const char *, void *);
extern "Python" void py_release(void *);
"""


def write(read, path):
    builder = FFI()
    builder.cdef(read.text + CALLBACKS)
    builder.set_source("lockstep._lockstep", "".join(f"#include <{name}.h>\n" for name in headers.NAMES), py_limited_api=True)
    builder.emit_c_code(str(path))
