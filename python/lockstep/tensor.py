"""Tensors: numbers on a device, or a computation that gives them."""
from __future__ import annotations

from numbers import Real
from typing import TYPE_CHECKING, Any, Dict, List, Optional, Protocol, Tuple, Union

import numpy

from ._arguments import Array, Options, Tensors, beside, is_array, shape, tensor
from ._lockstep import ffi, lib
from .devices import Device


def floats(array) -> numpy.ndarray:
    """As float32 in C order, itself where it is that. Takes other libraries' arrays by DLPack."""
    if isinstance(array, Tensor):
        return array.numpy()
    if not isinstance(array, numpy.ndarray) and hasattr(array, "__dlpack__"):
        array = numpy.from_dlpack(array.detach() if hasattr(array, "detach") else array)
    return numpy.require(array, numpy.float32, "C")


_borrowed: Dict[Any, Any] = {}  # handle -> the array whose memory the library uses


@ffi.def_extern()
def py_release(handle):
    _borrowed.pop(handle, None)


def borrowed(session, array) -> Optional[Tensor]:
    """A tensor over the array's memory; None where that is laid out otherwise, or may not be written."""
    if hasattr(array, "detach"):
        values = array.detach().numpy()
    else:
        values = array if isinstance(array, numpy.ndarray) else numpy.from_dlpack(array)
    if values.dtype != numpy.float32 or not values.flags.c_contiguous or not values.flags.writeable or values.ndim > lib.LS_MAX_RANK:
        return None
    handle = ffi.new_handle(values)
    _borrowed[handle] = handle, values
    try:
        return session.make(lib.ls_values_at, session._handle, ffi.cast("float *", values.ctypes.data), shape(values.shape),
                            lib.py_release, handle)
    except BaseException:  # the library may not have been called
        _borrowed.pop(handle, None)
        raise


class _Lent:
    """A host tensor's numbers for another library: where they lie, and the tensor for as long as somebody looks there."""

    def __init__(self, tensor):
        pointer = tensor._call(lib.ls_numbers)
        self.tensor = tensor
        self.__array_interface__ = {"version": 3, "typestr": numpy.dtype("f4").str, "shape": tensor.shape,
                                    "data": (int(ffi.cast("uintptr_t", pointer)), False)}
        tensor.session._lent.add(self)


class Tensor:
    """Float32 numbers in C order on a device; or a computation that gives them, which runs when somebody asks. The first size is that of
    the images. Functions of this package and the operators + - * / @ ** make new ones.

    It lives as long as Python knows it. One that a module's forward has made is of that forward alone."""

    __slots__ = ("session", "_pointer", "_recorded", "_needs", "__weakref__")
    __array_priority__ = 1000

    def __init__(self, session, pointer):
        self.session, self._pointer = session, pointer
        self._recorded = session._recordings[-1] if session._recordings else None
        if self._recorded is None:
            lib.ls_hold(pointer)

    def __del__(self):
        if getattr(self, "_recorded", self) is None:  # it was made whole
            self.session._ended.append((0, lib.ls_drop, self._pointer, None))

    @property
    def _handle(self):
        if self._recorded is not None and self._recorded.ended:
            raise ReferenceError("the tensor was one of a module's forward, which is over; return it from there")
        if self.session.closed:
            raise ReferenceError("the tensor went with its session, which is closed")
        return self._pointer

    def __reduce__(self):
        raise TypeError("a tensor cannot be pickled; its .numpy() can")

    def _call(self, function, *args):
        return self.session.call(function, self._handle, *args)

    def _make(self, function, *args):
        return self.session.make(function, self._handle, *args)

    # ---- What it is ----

    @property
    def shape(self) -> Tuple[int, ...]:
        """Sizes, the images first; -1 for the images in a module's forward."""
        return tuple(self._call(lib.ls_dim, i) for i in range(self.ndim))

    @property
    def ndim(self) -> int:
        """How many sizes the shape has; 0 of a single number."""
        return self._call(lib.ls_rank)

    def __len__(self):
        if not self.ndim:
            raise TypeError("a single number has no len()")
        return self._call(lib.ls_rows)

    @property
    def device(self) -> Device:
        """Where it lies; its to() and clone() make one elsewhere."""
        return Device(self.session, self._call(lib.ls_device_of))

    def named(self, name: str) -> Tensor:
        """For messages; returns the tensor."""
        self._call(lib.ls_named, name.encode())
        return self

    # ---- Its numbers ----

    def numpy(self) -> numpy.ndarray:
        """The numbers, copied to a new float32 array; waits for them."""
        values = numpy.empty([max(size, 0) for size in self.shape], numpy.float32)
        self._call(lib.ls_read, ffi.from_buffer("float[]", values), values.size)
        return values

    def __array__(self, dtype=None, copy=None):
        if copy is False:
            raise ValueError("a tensor's numbers are copied")
        return self.numpy() if dtype is None else self.numpy().astype(dtype, copy=False)

    def __dlpack__(self, **keywords):
        """For torch.from_dlpack and the like: the numbers of a tensor on the host where they are, else a copy on the host."""
        values = numpy.asarray(_Lent(self)) if self.device.type == "host" else self.numpy()
        return values.__dlpack__(**keywords)

    def __dlpack_device__(self):
        return 1, 0

    def item(self) -> float:
        """Of a tensor with one number; of a batch's losses, one for each image, lockstep.mean(loss).item() before the step."""
        return self._call(lib.ls_item)

    __float__ = item

    if not TYPE_CHECKING:  # which would take any name for one that is there
        def __getattr__(self, name):
            from . import functional
            near = [one for one in functional.__all__ if one == name or one.startswith(name + "_")]
            tell = f"such as {', '.join(near)}" if near else "help(lockstep) lists them"
            raise AttributeError(f"a Tensor has no {name!r}; functions of tensors are lockstep's own, {tell}")

    def __repr__(self):
        if self._recorded is not None or self.session.closed:
            return f"<lockstep.Tensor of a {'forward' if self._recorded else 'closed session'}>"
        from .session import Error
        try:
            return ffi.string(self._call(lib.ls_str)).decode()
        except Error as error:  # a debugger or a notebook shows what cannot be computed too
            return f"<lockstep.Tensor {self.shape}, not read: {error}>"

    # ---- Devices and rows ----

    def to(self, device: Device) -> Tensor:
        """Itself where it lies there, else a copy."""
        return self._make(lib.ls_to, device._c)

    def clone(self, device: Optional[Device] = None) -> Tensor:
        """A copy, on that device or its own."""
        return self._make(lib.ls_clone, (device or self.device)._c)

    def __getitem__(self, i) -> Tensor:
        """Row i, which shares the numbers."""
        rows = len(self)
        if isinstance(i, bool) or not hasattr(i, "__index__"):
            raise TypeError(f"a row's number is asked for, not {i!r}; lockstep.slice cuts along the sizes behind the images")
        if not -rows <= i.__index__() < rows:
            raise IndexError(f"row {i} of {rows}")
        return self._make(lib.ls_row, i.__index__() % rows)

    def scatter(self, devices) -> List[Tensor]:
        """The rows cut into one part for each device: a list."""
        devices = self.session.devices(devices)
        parts = ffi.new("ls_tensor *[]", len(devices))
        with self.session._locked():
            self._call(lib.ls_scatter, devices._c, parts)
            return [wrapped(self.session, part) for part in parts]

    def assign(self, other: TensorLike) -> Tensor:
        """Takes over the numbers of one of equal shape, from any device, or of an array; returns the tensor."""
        other = self._beside(other, "other")
        self._call(lib.ls_assign, other._handle)
        return self

    def add_to(self, other: TensorLike) -> Tensor:
        """self += other, on one device; returns the tensor."""
        other = self._beside(other, "other")
        self._call(lib.ls_add_to, other._handle)
        return self

    # ---- Gradients ----

    def track(self) -> Tensor:
        """Gradients are computed for it from now on (PyTorch's requires_grad_); returns the tensor."""
        self._call(lib.ls_track)
        return self

    @property
    def grad(self) -> Tensor:
        """The gradient: the sum over the images since the last update."""
        return self._make(lib.ls_grad)

    def clear_grad(self) -> None:
        """Empties the gradient; of a network's parameter those of the whole network."""
        self._call(lib.ls_clear_grad)

    def backward(self, gradient: Optional[TensorLike] = None, *, keep: Optional[list] = None) -> None:
        """From a loss, one number or one for each image; or from any computed tensor and its gradient. Through a network in training the
        pass waits for Trainer.step. Where several networks are on the way, keep=[net] keeps the gradients of these alone, [] none."""
        if keep is not None:
            if gradient is not None:
                raise TypeError("backward: keep is for a loss, without a gradient")
            nets = ffi.new("ls_module *[]", [net._handle for net in keep])
            self._call(lib.ls_backward_for, nets, len(keep))
        elif gradient is None:
            self._call(lib.ls_backward)
        else:
            gradient = self._beside(gradient, "gradient")
            self._call(lib.ls_backward_from, gradient._handle)

    # ---- Arithmetic ----

    def _beside(self, other, name) -> Tensor:
        return beside(tensor(other, name), self)

    def _operand(self, other) -> Optional[Tensor]:
        """The other operand, also of an array; a number is one of this shape, x**0 being 1 everywhere; None where it is none of them."""
        if isinstance(other, Real):
            return made(lib.ls_scale, made(lib.ls_power, self, 0.0), float(other))
        return self._beside(other, "the other operand") if is_array(other) else None

    def _with(self, function, other):
        operand = self._operand(other)
        return NotImplemented if operand is None else made(function, self, operand)

    def _behind(self, function, other):
        operand = self._operand(other)
        return NotImplemented if operand is None else made(function, operand, self)

    def __add__(self, other) -> Tensor:
        return self._with(lib.ls_add, other)

    __radd__ = __add__

    def __sub__(self, other) -> Tensor:
        return self._with(lib.ls_subtract, other)

    def __rsub__(self, other) -> Tensor:
        return self._behind(lib.ls_subtract, other)

    def __mul__(self, other) -> Tensor:
        return made(lib.ls_scale, self, float(other)) if isinstance(other, Real) else self._with(lib.ls_multiply, other)

    __rmul__ = __mul__

    def __truediv__(self, other) -> Tensor:
        return self._with(lib.ls_divide, other)

    def __rtruediv__(self, other) -> Tensor:
        return self._behind(lib.ls_divide, other)

    def __neg__(self) -> Tensor:
        return made(lib.ls_scale, self, -1.0)

    def __abs__(self) -> Tensor:
        return made(lib.ls_abs, self)

    def __pow__(self, exponent) -> Tensor:
        return made(lib.ls_power, self, float(exponent)) if isinstance(exponent, Real) else NotImplemented

    def __matmul__(self, other) -> Tensor:
        return self._with(lib.ls_matmul, other)

    def __rmatmul__(self, other) -> Tensor:
        return self._behind(lib.ls_matmul, other)


def wrapped(session, pointer) -> Tensor:
    """What C has returned, as Python's."""
    if pointer == ffi.NULL:  # a failure would have been raised
        raise RuntimeError("the library has returned no tensor, and no reason")
    return Tensor(session, pointer)


class Lends(Protocol):
    """An array of another library, such as NumPy's or PyTorch's, which has DLPack."""

    def __dlpack__(self) -> Any: ...


TensorLike = Union[Tensor, Lends]  # an array becomes a tensor of the session, and on the device, of the tensors beside it


def _in_c(argument, first, kept):
    if isinstance(argument, (Tensor, Array)):
        kept.append(beside(argument, first))
        return kept[-1]._handle
    if isinstance(argument, (Options, Tensors)):
        return argument.in_c(first)
    return ffi.NULL if argument is None else argument


def made(function, *args) -> Tensor:
    """The tensor that an operation makes of its arguments, of which one is a tensor or a list of them."""
    found = (argument.first if isinstance(argument, (Options, Tensors)) else argument for argument in args)
    first = next((one for one in found if isinstance(one, Tensor)), None)
    kept: List[Tensor] = []  # what arrays became, until the call is over
    given = [_in_c(argument, first, kept) for argument in args]
    if first is None:
        raise TypeError("there is no tensor in the list")
    return first.session.make(function, *given)
