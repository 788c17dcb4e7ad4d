"""Operations of one's own, in NumPy."""
from __future__ import annotations

import ctypes
import weakref
from typing import Callable, Iterable, Optional, Sequence

import numpy

from ._arguments import tensors
from ._lockstep import ffi, lib
from .session import at_work
from .tensor import Tensor, TensorLike, made


def _array(pointer, sizes):
    n = 1
    for size in sizes:
        n *= size
    return numpy.frombuffer(ffi.buffer(pointer, 4 * n), numpy.float32).reshape(sizes)


def _image(dims):
    """(channels, height, width), or (features)."""
    return tuple(dims) if dims[1] != 1 or dims[2] != 1 else (dims[0],)


def _function(kind, function):
    """A C function as the library takes it: of cffi, of ctypes, or its address."""
    if function is None:
        return ffi.NULL
    if isinstance(function, (ffi.CData, int)):
        return ffi.cast(kind, function)
    return ffi.cast(kind, ctypes.cast(function, ctypes.c_void_p).value)


class Operation:
    """An operation in NumPy, forward and backward, which trains like the library's own on CPUs.

        cube = ls.Operation(lambda x: x ** 3, lambda inputs, y, dy: [3 * inputs[0] ** 2 * dy])
        y = cube(x)

    forward(*inputs): the result, of arrays (rows, channels, height, width) or (rows, features), and of parameters (n); not to be changed.
    backward(inputs, y, dy): for each input the gradient, or None; that of a parameter is the sum over the rows. parameters: the numbers of
    those inputs that are parameters; never 0. shape(*sizes): of one image of the result from those of the inputs, where it is not that of
    the first. At most 3 inputs. onnx: what Module.export_onnx writes for it, in ONNX's operators, such as "a = Sigmoid (x0); y = Mul (x0,
    a)"; see ls_custom of lockstep_nn.h. cuda_forward, cuda_backward: C functions of a library of yours that launch kernels on a GPU, as
    ls_custom_launch of lockstep_nn.h has them, by ctypes or cffi, or their addresses. What is None is UNSUPPORTED there.

    The functions get a shard's rows each time, on any thread; equal arguments must give equal bits, and nothing of the session may be
    called. What they raise comes out of a later call."""

    def __init__(self, forward: Callable, backward: Optional[Callable] = None, *, shape: Optional[Callable] = None,
                 parameters: Iterable[int] = (), name: Optional[str] = None, onnx: Optional[str] = None, cuda_forward=None,
                 cuda_backward=None):
        self.onnx, self.cuda_forward, self.cuda_backward = onnx, cuda_forward, cuda_backward
        self.forward, self.backward, self.shape = forward, backward, shape
        self.parameters = frozenset(parameters)
        self.name = name or getattr(forward, "__name__", "an operation")

    def __call__(self, *inputs: TensorLike) -> Tensor:
        """Records it."""
        given = tensors(inputs)
        if given.first is None:
            raise TypeError(f"{self.name} needs a tensor")
        return made(lib.ls_custom_op, self._c(given.first.session, len(inputs)), given)

    def check(self, session, shapes: Sequence[Sequence[int]], rows: int = 4) -> float:
        """How far backward is from the slope of forward: 1e-4 and less is rounding, 1 a wrong formula. shapes: one for each input, of
        (channels, height, width), (features) or (n). Where there is a GPU cuda_forward and cuda_backward are compared too. Raises Error:
        UNSUPPORTED without backward, BAD_ARGUMENT of different bits for equal arguments, and of an onnx that cannot be read."""
        sizes = ffi.new("int[][3]", [(list(one) + [1, 1])[:3] for one in shapes])
        return session.call(lib.ls_custom_check, session._handle, self._c(session, len(shapes)), sizes, rows)

    def _c(self, session, n):
        """The operation as C has it, the same one each time."""
        made = session._operations.get((self, n))
        if made is None:
            user = ffi.new_handle((weakref.ref(session), self))
            name = ffi.new("char[]", self.name.encode())
            c = ffi.new("ls_custom *", {"name": name, "inputs": n, "parameters": sum(1 << i for i in self.parameters), "user": user})
            c.forward = lib.py_operation
            c.shape = ffi.NULL if self.shape is None else lib.py_operation_shape
            c.backward = ffi.NULL if self.backward is None else lib.py_operation_backward
            onnx = ffi.NULL if self.onnx is None else ffi.new("char[]", self.onnx.encode())
            c.onnx = onnx
            c.cuda_forward = _function("ls_custom_launch *", self.cuda_forward)
            c.cuda_backward = _function("ls_custom_launch_backward *", self.cuda_backward)
            made = session._operations[self, n] = c
            session._shared.kept.append((user, name, onnx))
        return made

    # ---- Called by the library ----

    def _inputs(self, call, pointers):
        dims, found = getattr(call, "in"), []
        while len(found) < lib.LS_CUSTOM_INPUTS and dims[len(found)][0]:
            i = len(found)
            found.append(_array(pointers[i], self._sizes(call, i)))
            found[i].flags.writeable = False
        return found

    def _sizes(self, call, i):
        c, h, w = getattr(call, "in")[i]
        return (c * h * w,) if i in self.parameters else (call.rows, *_image((c, h, w)))

    def _put(self, what, array, made):
        made = numpy.asarray(made)
        if made.shape != array.shape:
            raise ValueError(f"{self.name}: {what} is {made.shape}, and must be {array.shape}")
        array[...] = made

    def _forward(self, call, pointers, out):
        self._put("its result", _array(out, (call.rows, *_image(call.out))), self.forward(*self._inputs(call, pointers)))

    def _backward(self, call, pointers, out, dout, din):
        sizes = (call.rows, *_image(call.out))
        inputs = self._inputs(call, pointers)
        gradients = self.backward(inputs, _array(out, sizes), _array(dout, sizes))
        if len(gradients) != len(inputs):
            raise ValueError(f"{self.name}: backward gives {len(gradients)} gradients, and must give {len(inputs)}")
        for i, gradient in enumerate(gradients):
            if gradient is not None and din[i] != ffi.NULL:
                self._put(f"gradient {i}", _array(din[i], self._sizes(call, i)), gradient)

    def _shape(self, call):
        dims = getattr(call, "in")
        given = []
        for i in range(lib.LS_CUSTOM_INPUTS):
            if dims[i][0]:
                given.append((dims[i][0],) if i in self.parameters else _image(dims[i]))
        made = tuple(self.shape(*given))
        for i, size in enumerate((made + (1, 1))[:3]):
            call.out[i] = size


def _run(call, work, failed=lambda operation: None):
    """Has an operation at work for a call of the library, which may be any thread's: what it raises is kept for a call of Python's."""
    reference, operation = ffi.from_handle(call.user)
    session = at_work.session = reference()
    try:
        work(operation)
        return True
    except BaseException as exception:
        if session is not None:
            session._raised = session._raised or exception
        failed(operation)
        return False
    finally:
        at_work.session = None


@ffi.def_extern()
def py_operation(call, pointers, out):
    # A result that is not finite stops the step.
    _run(call, lambda operation: operation._forward(call, pointers, out),
         lambda operation: _array(out, (call.rows, *_image(call.out))).fill(numpy.nan))


@ffi.def_extern()
def py_operation_backward(call, pointers, out, dout, din):
    def failed(operation):
        for i in range(lib.LS_CUSTOM_INPUTS):
            if getattr(call, "in")[i][0] and din[i] != ffi.NULL:
                _array(din[i], operation._sizes(call, i)).fill(numpy.nan)

    _run(call, lambda operation: operation._backward(call, pointers, out, dout, din), failed)


@ffi.def_extern()
def py_operation_shape(call):
    return _run(call, lambda operation: operation._shape(call))
