"""From Python's arguments to C's, and from C's results to Python's words."""
import numpy

from ._lockstep import ffi, lib


def text(pointer):
    """A C string as Python's; None of NULL."""
    return None if pointer == ffi.NULL else ffi.string(pointer).decode(errors="replace")


def _word(enumerator, prefix):
    word = enumerator[len("LS_") + len(prefix):]
    return word[:-len("_SCHEDULE")].lower() if word.endswith("_SCHEDULE") else word.lower()


def _words_of(name):
    prefix = "ISA_" if name == "ls_isa" else "CONV_" if name == "ls_algorithm" else ""
    return {_word(enumerator, prefix): number for number, enumerator in sorted(ffi.typeof(name).elements.items())}


_WORDS = {name: _words_of(name)
          for name in ("ls_isa", "ls_algorithm", "ls_dtype", "ls_device_type", "ls_part", "ls_init_kind", "ls_optimizer", "ls_schedule",
                       "ls_upsample_mode", "ls_status")}


def enum(name, word):
    """The number of a word: enum("ls_schedule", "cosine") is LS_COSINE."""
    words = _WORDS[name]
    if not isinstance(word, str) or word.replace("-", "_") not in words:
        raise ValueError(f"{word!r} is none of {', '.join(map(repr, words))}")
    return words[word.replace("-", "_")]


def word_of(name, number):
    """The other way."""
    return next((word for word, value in _WORDS[name].items() if value == number), str(number))


def taken(kind, c):
    """A struct of C's as a named tuple, its texts as Python's."""
    values = (getattr(c, name) for name in kind._fields)
    return kind(*(text(value) if isinstance(value, ffi.CData) else value for value in values))


def _first(values):
    """The first that is a tensor; None without one."""
    return next((value for value in values if not isinstance(value, Array)), None)


class Options:
    """A struct, and what it points to. Fields are given by their C names."""

    __slots__ = ("c", "kept", "tensors")

    def __init__(self, ctype, fields):
        self.c, self.kept, self.tensors = ffi.new(ctype), [], {}
        kinds = dict(ffi.typeof(ctype).item.fields)
        for name, value in fields.items():
            if value is None:
                continue  # as it is: zero or NULL
            kind = kinds[name].type
            if kind.kind == "enum":
                value = enum(kind.cname[len("enum "):], value)
            elif kind.cname == "char *":
                value = self._keep(ffi.new("char[]", str(value).encode()))
            elif kind.cname == "double *":
                value = self._keep(ffi.new("double[]", [float(one) for one in value]))
            elif kind.cname == "ls_tensor *":
                self.tensors[name] = tensor(value, name)
                continue
            elif hasattr(value, "_handle"):
                self.kept.append(value)
                value = value._handle
            setattr(self.c, name, value)

    @property
    def first(self):
        return _first(self.tensors.values())

    def in_c(self, first):
        """The struct, with tensors beside `first` for its arrays."""
        for name, value in self.tensors.items():
            self.tensors[name] = beside(value, first)
            setattr(self.c, name, self.tensors[name]._handle)
        return self.c

    def _keep(self, pointer):
        self.kept.append(pointer)
        return pointer


def options(ctype, **fields):
    return Options(ctype, fields)


def shape(sizes):
    """ls_shape from sizes: shape((4, 5)), also of none, which is a single number."""
    sizes = [int(size) for size in sizes]
    if len(sizes) > lib.LS_MAX_RANK:
        raise ValueError(f"a shape has at most {lib.LS_MAX_RANK} sizes, not {len(sizes)}")
    return ffi.new("ls_shape *", {"rank": len(sizes), "dim": sizes})[0]


def sizes(given):
    """(4, 5) from zeros(4, 5) and from zeros((4, 5))."""
    return tuple(given[0]) if len(given) == 1 and isinstance(given[0], (tuple, list)) else given


def numbers(given, n):
    if len(given) != n:
        raise ValueError(f"{n} numbers are asked for, not {len(given)}")
    return ffi.new("int[]", [int(number) for number in given])


def names(given):
    """A list of C strings that ends with NULL, and what it points to; NULL of None."""
    if given is None:
        return ffi.NULL, None
    if isinstance(given, str):
        given = [given]
    kept = [ffi.new("char[]", one.encode()) for one in given]
    c = ffi.new("char *[]", kept + [ffi.NULL])
    return c, [c, kept]


class Array:
    """Numbers of another library where a tensor is asked for. They tell no session: the tensors beside them do."""

    __slots__ = ("values", "name")

    def __init__(self, values, name):
        self.values, self.name = values, name


def is_array(value):
    """Of NumPy or of another library with DLPack; tensors are too."""
    return isinstance(value, numpy.ndarray) or hasattr(value, "__dlpack__")


def tensor(value, name, may_lack=False):
    """Of a function's argument: that it is a tensor, or an array."""
    from .tensor import Tensor
    if isinstance(value, Tensor) or value is None and may_lack:
        return value
    if is_array(value):
        return Array(value, name)
    raise TypeError(f"{name} is {type(value).__name__}, and must be a lockstep.Tensor or an array; session.tensor(...) makes one of a list")


def beside(value, first):
    """The tensor that `tensor` found; of an array one of the session of `first`, on its device."""
    if first is None:
        raise TypeError(f"{value.name} is {type(value.values).__name__}, and no lockstep.Tensor beside it tells the session; "
                        "session.tensor(...) makes one of an array")
    if isinstance(value, Array):
        return first.session.tensor(value.values).to(first.device)
    if value.session is not first.session:
        raise ValueError("the tensors are of two sessions")
    return value


class Tensors:
    """A list of them for C."""

    __slots__ = ("kept",)

    def __init__(self, values):
        self.kept = [tensor(value, f"number {i + 1}") for i, value in enumerate(values)]

    @property
    def first(self):
        return _first(self.kept)

    def in_c(self, first):
        self.kept = [beside(value, first) for value in self.kept]
        return ffi.new("ls_tensor *[]", [value._handle for value in self.kept])


def tensors(values):
    return Tensors(values)
