"""Networks and their parts. A module is a description until initialize gives it to a session; then it is that session's until that ends."""
from __future__ import annotations

import functools
import inspect
import os
import re
import weakref
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

import numpy

from ._arguments import Options, beside, names, options, shape as shape_of, sizes, taken, tensor, tensors, text
from ._lockstep import ffi, lib
from ._words import elsewhere
from .data import Data, data_of
from .devices import Device, Devices
from .session import Error, Session
from .status import Status
from .tensor import Tensor, floats, wrapped


class Parameter(NamedTuple):
    """ls_parameter_info: trainable ones are changed by a trainer's updates; the others are running statistics, or frozen."""
    name: str
    shape: Tuple[int, ...]
    trainable: bool
    frozen: bool


class Metrics(NamedTuple):
    """ls_metrics: the mean loss; of `rows` images `correct` had their label's logit as the largest."""
    loss: float
    correct: int
    rows: int

    @property
    def accuracy(self) -> float:
        return self.correct / self.rows if self.rows else 0.0


class _Recording:
    """A function of the user's that runs while the library records."""

    __slots__ = ("module", "ended")

    def __init__(self, module):
        self.module, self.ended = module, False


def _record(session, module, function, *pointers):
    """Has a function of the user's make a tensor of tensors; what it raises is the session's failure, and comes out of the call."""
    recording = _Recording(module)
    session._recordings.append(recording)
    try:
        made = function(*(wrapped(session, pointer) for pointer in pointers))
        if not isinstance(made, Tensor):
            raise TypeError(f"{getattr(function, '__qualname__', function)} has returned {type(made).__name__}, and must return a tensor")
        return made._handle
    except BaseException as exception:
        session._failed_in_python(exception)
        return ffi.NULL
    finally:
        session._recordings.pop()
        recording.ended = True


@ffi.def_extern()
def py_forward(pointer, x):
    module = ffi.from_handle(lib.ls_module_user(pointer))()
    return _record(module._session, module, module._forward, x)


@ffi.def_extern()
def py_loss(outputs, y, user):
    session, function = ffi.from_handle(user)
    given = (outputs,) if y == ffi.NULL else (outputs, y)
    return _record(session, None, function if y != ffi.NULL else lambda x: function(x, None), *given)


class Module:
    """A network or a part of one. One of your own has its parts as attributes and a forward, which is called once for each shape of its
    input, in training and in inference mode, and records what is to be computed:

        class Residual(ls.Module):
            def __init__(self, channels):
                self.conv = ls.nn.Conv2d(channels, 3, padding=1)

            def forward(self, x):
                return ls.relu(self.conv(x) + x)

    Parameters are named as in PyTorch by their path: "0.conv.weight". A module that has several places has one set of parameters."""

    _children: Dict[str, Module]
    _bound: Any  # (session, its module)
    _place: Any  # (a weak reference to the parent, the name there): the first
    _further: Any  # arguments of the call at hand behind the first
    _devices: Any
    _trainer: Any  # a weak reference
    _shown: str  # in its repr
    _again: bool  # its results are computed again for the backward pass

    def __new__(cls, *args, **keywords):
        self = super().__new__(cls)
        self.__dict__.update(_children={}, _bound=None, _place=None, _further=None, _devices=None, _trainer=None, _shown="",
                             _again=False)
        return self

    def __del__(self):
        if self.__dict__.get("_devices") is not None:  # it has values
            session, pointer = self._bound
            session._ended.append((3, lib.ls_module_end, pointer, None))

    def forward(self, x: Tensor) -> Tensor:
        """What it makes of its input; of a network with several inputs they are further arguments."""
        raise NotImplementedError(f"{type(self).__name__} has no forward")

    # ---- Parts ----

    def __setattr__(self, name, value):
        if isinstance(value, (list, tuple)) and value and all(isinstance(one, Module) for one in value):
            value = ModuleList(value)
        if isinstance(value, Module):
            self._add(name, value)
        elif name in self._children:
            self._no_change(f"{name} is replaced")
            del self._children[name]
        object.__setattr__(self, name, value)

    def _no_change(self, what):
        if self._is_bound():
            raise Error(Status.BAD_ARGUMENT, f"{what} after the module was given to a session; change it before initialize")

    def _add(self, name, child):
        if name in self._children:
            self._no_change(f"{name} is replaced")
        self._children[name] = child
        if self._is_bound():
            self._append(name, child)

    def _append(self, name, child):
        session, pointer = self._bound
        session.call(lib.ls_module_append, pointer, name.encode(), child._bind(session))
        if child._place is None:
            child.__dict__["_place"] = (weakref.ref(self), name)

    def children(self) -> Dict[str, Module]:
        """The parts, by name."""
        return dict(self._children)

    def modules(self) -> Iterator[Tuple[str, Module]]:
        """(path, module) of this module and all its parts."""
        yield from self._modules("")

    def _modules(self, path):
        yield path, self
        for name, child in self._children.items():
            yield from child._modules(f"{path}.{name}" if path else name)

    # ---- Its session ----

    def _is_bound(self):
        return self._bound is not None and not self._bound[0].closed

    def _bind(self, session):
        """The C module of this one in the session, with its parts."""
        if self._is_bound():
            if self._bound[0] is not session:
                raise Error(Status.BAD_ARGUMENT, f"{type(self).__name__} belongs to another session, which is open")
            return self._bound[1]
        self.__dict__.update(_bound=(session, self._new(session)), _place=None, _devices=None, _trainer=None)
        try:
            if self._again:
                self._call(lib.ls_module_recompute, True)
            for name, child in self._children.items():
                self._append(name, child)
        except BaseException:
            self.__dict__["_bound"] = None
            raise
        return self._bound[1]

    def _new(self, session):
        handle = ffi.new_handle(weakref.ref(self))
        session._shared.kept.append(handle)
        return session.call(lib.ls_block, session._handle, lib.py_forward, handle)

    @property
    def _session(self):
        if not self._is_bound():
            why = "has no session yet; initialize gives it to one"
            if self._bound is not None:
                why = "went with its session, which is closed; initialize gives it to another one"
            raise Error(Status.NOT_INITIALIZED, f"{type(self).__name__} {why}")
        return self._bound[0]

    @property
    def session(self) -> Session:
        """That it belongs to. Raises Error: NOT_INITIALIZED without one."""
        return self._session

    @property
    def _handle(self):
        return self._session and self._bound[1]

    def _call(self, function, *args):
        return self._session.call(function, self._handle, *args)

    def initialize(self, devices=None, *, init: str = "normal", like: Optional[Data] = None,
                   shape: Optional[Sequence[int]] = None, force: bool = False, session=None) -> Module:
        """Gives the module to the session of the devices, and its parameters their values; returns the module.

        devices: as Session.devices makes them, or their names; None: all of the session that session= or like tells. init, of weights: "normal", with the
        deviation 0.01, of which most networks learn late, or "normal:0.1"; "xavier", uniform within sqrt(6 / (inputs + outputs)); "he",
        normal with the deviation sqrt(2 / inputs). Biases are 0, and norms begin at 1 and 0. like: data of the shape to come. shape:
        that of the one input to come, such as X.shape, of which the first size, the rows, may be any. Without either the first images
        tell it. force: what has values already gets new ones. session: where devices do not say it. Raises Error."""
        if session is None:
            found = getattr(devices, "session", None) or getattr(like, "session", None)
            session = self._bound[0] if self._is_bound() and found is None else found
        if session is None:
            raise TypeError("initialize needs a session: give devices of one, session.devices(...), or session=")
        where = session.all_devices() if devices is None else session.devices(devices)
        kind, _, scale = init.partition(":")
        pointer = self._bind(session)
        how = options("ls_init *", kind=kind, scale=float(scale or 0), force=force)
        how.c.like = ffi.NULL if like is None else like._handle
        if shape is not None:
            how.c.shape = shape_of(shape)
        session.call(lib.ls_module_initialize, pointer, where._c, how.c)
        self.__dict__["_devices"] = where
        return self

    @property
    def devices(self) -> Devices:
        """Those of initialize."""
        return self._devices

    # ---- Calls ----

    def __call__(self, *inputs, **keywords) -> Tensor:
        """In a forward: what the part makes of its input. Else in training mode: batches on the host are spread over the devices, and
        backward() of a loss of it is for Trainer.step. Inputs are tensors, or arrays; images of bytes count as value / 255."""
        session = self._session
        with session._locked():  # or it may be another thread's forward
            if session._recordings:
                return self._called(*inputs, **keywords)
            return self._run(lib.ls_module_forward, lib.ls_module_forward_all, inputs, **keywords)

    def infer(self, *inputs) -> Tensor:
        """What the network makes of (images, ...) in inference mode: BatchNorm takes its running statistics, and nothing is dropped. Inputs
        are tensors or arrays. Those on the host are spread over the devices, and the result is on the host; those on a device are
        computed there."""
        return self._run(lib.ls_module_infer, lib.ls_module_infer_all, inputs)

    def _run(self, one, several, inputs):
        if len(inputs) == 1 and isinstance(inputs[0], tuple):
            inputs = inputs[0]
        session = self._session
        given = [x if isinstance(x, Tensor) else session.tensor(_rows(x)) for x in inputs]
        if len(given) == 1:
            return self._values(one, given[0]._handle)
        return self._values(several, tensors(given).in_c(given[0]), len(given))

    def _values(self, function, *args):
        """A tensor that needs the network's values, and so the network."""
        made = self._session.make(function, self._handle, *args)
        made._needs = self
        return made

    def _called(self, x, *further, **keywords):
        parent, name = self._caller()
        self.__dict__["_further"] = (further, keywords)
        try:
            return self._call_in(parent, name, x)
        finally:
            self.__dict__["_further"] = None

    def _call_in(self, parent, name, x):
        return self._session.make(lib.ls_module_call, parent._handle, name.encode(), self._input(x)._handle)

    def _input(self, x):
        if not isinstance(x, Tensor):
            raise TypeError(f"{type(self).__name__} is called in a forward with {type(x).__name__}, and takes tensors there")
        return x

    def _caller(self):
        """(parent, name) of this part in the forward that runs; else of its first place."""
        running = self._session._recordings[-1].module
        for name, child in running._children.items() if running is not None else ():
            if child is self:
                return running, name
        parent = self._place and self._place[0]()
        if parent is None:
            raise Error(Status.BAD_ARGUMENT, f"{type(self).__name__} is called in a forward, and is no part of the network; make it in "
                        "__init__, as an attribute")
        return parent, self._place[1]

    def _forward(self, x):
        """Called by the library."""
        if self._further is not None:
            (further, keywords), self.__dict__["_further"] = self._further, None
            return self.forward(x, *further, **keywords)
        kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        asked = [one for one in inspect.signature(self.forward).parameters.values() if one.kind in kinds and one.default is one.empty]
        return self.forward(x, *(self.input(i) for i in range(1, len(asked))))

    def input(self, i: int) -> Tensor:
        """In a forward: input i of what the network was called with."""
        return self._session.make(lib.ls_module_input, self._handle, i)

    def parameter(self, name: str, *shape_) -> Tensor:
        """In a forward: a parameter of the module itself, made at the first call with this name. Of one size it starts at 0, else as
        initialize says."""
        return self._session.make(lib.ls_module_parameter, self._handle, name.encode(), shape_of(sizes(shape_)))

    # ---- Parameters ----

    def parameters(self) -> List[Parameter]:
        """All that save writes. Raises Error: SHAPE_UNKNOWN before the first images, NOT_INITIALIZED."""
        info, found = ffi.new("ls_parameter_info *"), []
        for i in range(self._call(lib.ls_module_parameter_count)):
            self._call(lib.ls_module_parameter_at, i, info)
            found.append(Parameter(text(info.name), tuple(info.shape[0:info.rank]), info.trainable, info.frozen))
        return found

    def param(self, name: str, device: Optional[Device] = None) -> Tensor:
        """A parameter as it is on a device, the first unless said otherwise: to be read, and for .grad."""
        where = device if device is not None else self._devices[0] if self._devices else self._session.host()
        return self._values(lib.ls_module_param, name.encode(), where._c)

    def __getitem__(self, name: str) -> Tensor:
        """net["fc.weight"]: a parameter, as param."""
        return self.param(name)

    def _read(self, parameter):
        values = numpy.empty(parameter.shape, numpy.float32)
        self._call(lib.ls_module_read_parameter, parameter.name.encode(), ffi.from_buffer("float[]", values), values.size)
        return values

    def state_dict(self) -> Dict[str, numpy.ndarray]:
        """Parameters and running statistics, copied: names and shapes as PyTorch's."""
        return {parameter.name: self._read(parameter) for parameter in self.parameters()}

    def load_state_dict(self, state, strict: bool = True) -> None:
        """Takes over arrays by name, NumPy's or PyTorch's. strict: all parameters, and nothing else but *.num_batches_tracked. Changes
        nothing if it raises Error: BAD_ARGUMENT, BAD_SHAPE."""
        mine = {parameter.name: parameter for parameter in self.parameters()}
        given = {name: value for name, value in state.items() if not name.endswith("num_batches_tracked")}
        missing, more = [name for name in mine if name not in given], [name for name in given if name not in mine]
        if strict and (missing or more):
            raise Error(Status.BAD_ARGUMENT, "load_state_dict: " + "; ".join(
                f"{what}: {', '.join(found)}" for what, found in (("missing", missing), ("not in the network", more)) if found))
        arrays = {name: floats(given[name]) for name in mine if name in given}
        for name, values in arrays.items():
            if values.shape != mine[name].shape:
                raise Error(Status.BAD_SHAPE, f"load_state_dict: {name} is {values.shape}, and must be {mine[name].shape}")
        for name, values in arrays.items():
            self._call(lib.ls_module_write_parameter, name.encode(), ffi.from_buffer("float[]", values), values.size)

    def freeze(self, pattern: str = "*", frozen: bool = True) -> Module:
        """What the pattern fits ("layer1.*") trains no more; frozen=False: the way back. Before a trainer is made; returns the module."""
        self._call(lib.ls_module_freeze, pattern.encode(), frozen)
        return self

    def recompute(self, on: bool = True) -> Module:
        """What the module makes in a step is computed again for its backward pass instead of being kept: less memory, the same bits.
        Before its parameters are made; returns the module."""
        self.__dict__["_again"] = on
        if self._is_bound():
            self._call(lib.ls_module_recompute, on)
        return self

    def summary(self) -> str:
        """A table of the parameters."""
        return text(self._call(lib.ls_module_summary))

    def checksum(self) -> int:
        """Equal for equal names and values."""
        return self._call(lib.ls_module_checksum)

    def fingerprint(self) -> str:
        """SHA-256 of all parameters, 64 digits: one changed bit changes it. Waits."""
        digits = ffi.new("char[]", 65)
        self._call(lib.ls_module_fingerprint, digits)
        return text(digits)

    def next_failure(self) -> Optional[str]:
        """Why a GPU was lost, each told once; None where there is nothing to tell."""
        return text(self._call(lib.ls_module_next_failure))

    # ---- Files ----

    def save(self, path) -> None:
        """As safetensors. Waits. Raises Error: IO."""
        self._call(lib.ls_module_save, os.fsencode(path))

    def check_save(self, path) -> None:
        """Whether save could do that now. Raises Error: IO."""
        self._call(lib.ls_module_check_save, os.fsencode(path))

    def load(self, path, *, strip: Optional[str] = None, skip=None, partial: bool = False) -> str:
        """Takes over a safetensors file; what was read, in lines. strip: left out in front of all names. skip: patterns of what is not
        read. partial: the file may have more and fewer names. Raises Error: IO, BAD_FILE, CHANGED; then nothing has changed."""
        how = options("ls_load_options *", strip=strip, partial=partial)
        how.c.skip, kept = names(skip)
        report = ffi.new("const char **")
        self._call(lib.ls_module_load_with, os.fsencode(path), how.c, report)
        return text(report[0])

    def export_onnx(self, path) -> None:
        """In inference mode, from `input` to `output`. Raises Error: UNSUPPORTED, IO."""
        self._call(lib.ls_module_export_onnx, os.fsencode(path))

    def name_classes(self, given) -> None:
        """Names of the classes, by label, which files bear; None: none any more."""
        given = [] if given is None else list(given)
        pointers, kept = names(given)
        self._call(lib.ls_module_name_classes, pointers if given else ffi.NULL, len(given))

    def class_name(self, label: int) -> Optional[str]:
        """The name that the data had for a label, from 0; None where it has none."""
        return text(self._call(lib.ls_module_class_name, label))

    @property
    def images_shape(self) -> Optional[Tuple[int, ...]]:
        """(-1, channels, height, width) or (-1, features) of the images that it takes; None while nothing told it."""
        found = self._call(lib.ls_module_images_shape)
        return tuple(found.dim[0:found.rank]) or None

    # ---- Evaluation ----

    def evaluate(self, data: Data, loss: Optional[Callable] = None) -> Metrics:
        """Every image once, in inference mode. loss(outputs, y): of your own, else cross-entropy. Raises Error: NOT_FINITE."""
        metrics = ffi.new("ls_metrics *")
        if loss is None:
            self._call(lib.ls_module_evaluate, data_of(data)._handle, metrics)
        else:
            user = ffi.new_handle((self._session, loss))
            self._call(lib.ls_module_evaluate_with, data_of(data)._handle, lib.py_loss, user, metrics)
        return taken(Metrics, metrics)

    def accuracy(self, data: Data) -> float:
        """The share of images, from 0 to 1, whose largest logit is their label's. Raises Error: NOT_FINITE."""
        return self._call(lib.ls_module_accuracy, data_of(data)._handle)

    def measure(self, data: Data, metric: Callable, n: int = 1) -> numpy.ndarray:
        """The means over all images of metric(outputs, y), which makes n numbers for each: float64 of (n)."""
        means, user = numpy.empty(n), ffi.new_handle((self._session, metric))
        self._call(lib.ls_module_measure, data_of(data)._handle, lib.py_loss, user, ffi.from_buffer("double[]", means), n)
        return means

    def predict(self, images) -> numpy.ndarray:
        """Logits (rows, classes) of data, in file order, or what the network makes of an array, of any number of rows; in inference mode.
        Bytes count as value / 255."""
        if isinstance(images, Data):
            about = images.about()
            classes = about.classes
            if not classes:
                one = self._session.zeros((1, about.channels, about.height, about.width)[:about.rank])
                classes = self.infer(one).shape[1]
            logits = numpy.empty((about.rows, classes), numpy.float32)
            self._call(lib.ls_module_predict, images._handle, ffi.from_buffer("float[]", logits), classes)
            return logits
        if isinstance(images, numpy.ndarray) and images.dtype == numpy.uint8:
            batch = self._session.arrays(images, batch=len(images))
            return self.infer(next(iter(batch))[0]).numpy()
        return self.infer(images).numpy()

    # ---- How it shows ----

    def __reduce__(self):
        if self._is_bound():
            raise TypeError("a module of a session cannot be pickled or copied; its state_dict can")
        return _blank, (type(self),), {**self.__dict__, **_blank(Module).__dict__, "_children": self._children,
                                        "_shown": self._shown, "_again": self._again}

    def __repr__(self):
        return self._tree("")

    if not TYPE_CHECKING:  # which would take any name for one that is there
        def __getattr__(self, name):
            raise AttributeError(f"{type(self).__name__} has no {name!r}{elsewhere(name)}")

    def _tree(self, indent):
        parts = "".join(f"\n{indent}  ({name}): {child._tree(indent + '  ')}" for name, child in self._children.items())
        return f"{type(self).__name__}({self._shown}{parts}{chr(10) + indent if parts else ''})"


def _blank(kind):
    return kind.__new__(kind)


def _rows(array):
    """Of an input: a number for each row is (rows, 1); images of bytes are value / 255, as of Session.arrays."""
    bytes_of_images = isinstance(array, numpy.ndarray) and array.dtype == numpy.uint8 and array.ndim == 4
    array = floats(array) / numpy.float32(255) if bytes_of_images else floats(array)
    return array[:, None] if array.ndim == 1 else array


def _refusing(init, name):
    """A layer's __init__ that says more of arguments that it does not take: PyTorch's layers are given the input's size too."""
    signature = inspect.signature(init)
    taken = str(signature.replace(parameters=list(signature.parameters.values())[1:], return_annotation=signature.empty))

    @functools.wraps(init)
    def checked(self, *args, **keywords):
        try:
            signature.bind(self, *args, **keywords)
        except TypeError as error:
            gives_sizes = re.search(r"too many|'(in|num)_\w+'", str(error))
            sizes_given = "; input sizes are not given here, the first images tell them" if gives_sizes else ""
            raise TypeError(f"{name}: {error}{sizes_given}. It is {name}{taken}") from None
        init(self, *args, **keywords)

    return checked


class Layer(Module):
    """A layer of the library's; lockstep.nn has them."""

    _recipe: Callable

    def __init_subclass__(cls):
        if "__init__" in cls.__dict__:
            cls.__init__ = _refusing(cls.__init__, cls.__name__)

    def __init__(self, *args, **keywords):
        usual = inspect.signature(type(self)).parameters
        shown = [repr(value) for value in args]
        shown += [f"{name}={value!r}" for name, value in keywords.items() if value != usual[name].default]
        self.__dict__.update(_given=(args, keywords), _shown=", ".join(shown))

    def __reduce__(self):
        args, keywords = self._given
        return functools.partial(type(self), *args, **keywords), ()

    def __setattr__(self, name, value):
        object.__setattr__(self, name, value)

    def _new(self, session):
        function, *args = self._recipe()
        return session.call(function, session._handle, *(one.c if isinstance(one, Options) else one for one in args))

    def _call_in(self, parent, name, x):
        further, keywords = self._further
        given = dict(zip(("lengths",), further), **keywords)
        if not given:
            return super()._call_in(parent, name, x)
        if set(given) != {"lengths"} or len(further) > 1:
            raise TypeError(f"{type(self).__name__} takes x, and recurrent layers and attention lengths")
        lengths = beside(tensor(given["lengths"], "lengths"), self._input(x))
        return self._session.make(lib.ls_module_call_with_lengths, parent._handle, name.encode(), x._handle, lengths._handle)


class FunctionLayer(Layer):
    """A function of one tensor as a layer."""

    def _new(self, session):
        name, *argument = self._recipe()
        made = lib.ls_nn_fn_with if argument else lib.ls_nn_fn
        return session.call(made, session._handle, ffi.addressof(lib, name), *argument)


class Function(Module):
    """A function of Python's, such as ls.relu or your own, as a part that has no parameters."""

    def __init__(self, function: Callable):
        self.function = function
        self.__dict__["_shown"] = getattr(function, "__name__", repr(function))

    def forward(self, x, *further):
        return self.function(x, *further)

    def _forward(self, x):
        (further, keywords), self.__dict__["_further"] = self._further or ((), {}), None
        return self.function(x, *further, **keywords)


def _part(module):
    if isinstance(module, Module):
        return module
    if callable(module):
        return Function(module)
    raise TypeError(f"{module!r} is no module, and no function of a tensor")


class ModuleList(Module):
    """Modules by number, for a forward that calls them."""

    def __init__(self, modules=()):
        for module in modules:
            self.append(module)

    def append(self, module) -> ModuleList:
        """Behind the others; a function becomes a Function."""
        self._add(str(len(self._children)), _part(module))
        return self

    def __len__(self):
        return len(self._children)

    def __iter__(self):
        return iter(self._children.values())

    def __getitem__(self, i) -> Any:
        """A part by its number or name; else a parameter by its path."""
        if isinstance(i, str):
            return self._children[i] if i in self._children else self.param(i)
        return list(self._children.values())[i]


class Sequential(ModuleList):
    """Modules in turn, named 0, 1, ...: Sequential(a, b). With names of their own: Sequential({"conv": a, "out": b})."""

    def __init__(self, *modules):
        if len(modules) == 1 and isinstance(modules[0], dict):
            for name, module in modules[0].items():
                self._add(name, _part(module))
        else:
            super().__init__(modules)

    def append(self, module, name: Optional[str] = None) -> Sequential:
        """Behind the others, under its number or a name."""
        self._add(name or str(len(self._children)), _part(module))
        return self

    def _new(self, session):
        return session.call(lib.ls_sequential, session._handle, ffi.NULL)


class Model(Module):
    """A network of the library's, of Session.model."""

    def __init__(self, session, name, pointer):
        self.__dict__.update(_bound=(session, pointer), _shown=repr(name))

    def _new(self, session):
        raise Error(Status.BAD_ARGUMENT, "the model went with its session; make one of another session")
