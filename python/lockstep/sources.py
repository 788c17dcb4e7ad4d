"""Data from arrays, from batches that Python makes, and from PyTorch's data sets."""
import numpy

from ._arguments import shape
from ._lockstep import ffi, lib
from .data import Data, loader_of
from .tensor import floats


def _array(values):
    """Of NumPy, whatever it comes as."""
    if hasattr(values, "detach"):
        values = values.detach().cpu()
    if not isinstance(values, numpy.ndarray) and hasattr(values, "__dlpack__"):
        return numpy.from_dlpack(values)
    return numpy.asarray(values)


def _are_labels(y):
    return y.ndim == 1 and y.dtype.kind in "iub"


def arrays(session, X, y, classes, inputs, loader) -> Data:
    """Session.arrays."""
    X = _array(X)
    made = loader_of(session, **loader)
    if X.dtype == numpy.uint8 and X.ndim in (3, 4):
        X = numpy.require(X if X.ndim == 4 else X[:, None], numpy.uint8, "C")
        none = numpy.zeros(len(X), numpy.uint8)  # labels come below, of any number of classes
        data = Data(session, session.call(lib.ls_data_from_memory, session._handle, ffi.from_buffer("uint8_t[]", X),
                                          ffi.from_buffer("uint8_t[]", none), *X.shape, 1, made.c), made)
    else:
        X = floats(X)
        data = Data(session, session.call(lib.ls_data_from_floats, session._handle, ffi.from_buffer("float[]", X), shape(X.shape), made.c),
                    made)
    if y is not None:
        y = _array(y)
        data.set_labels(y, classes) if _are_labels(y) else data.set_targets(y)
    for more in inputs:
        data.add_input(more)
    return data


def dataset(session, items, classes, lazy, loader) -> Data:
    """Session.dataset."""
    n = len(items)
    if not lazy:
        pairs = [items[i] for i in range(n)]
        return arrays(session, numpy.stack([_array(x) for x, _ in pairs]), numpy.stack([_array(y) for _, y in pairs]), classes, (), loader)
    size = loader.pop("batch", 0) or 256

    def batch(first):
        pairs = [items[i] for i in range(first, min(first + size, n))]
        return numpy.stack([_array(x) for x, _ in pairs]), numpy.stack([_array(y) for _, y in pairs])

    return batches(session, lambda: map(batch, range(0, n, size)), n, classes, type(items).__name__, **loader)


class _Source:
    """Hands batches to C in the order that it asks for them."""

    def __init__(self, session, make, rows, shape_, targets):
        self.session, self.make = session, make
        self.rows, self.shape, self.targets = rows, shape_, targets  # of an epoch; of a row's X and y
        self.iterator, self.at = None, None  # what comes next, and its (epoch, batch)

    def take(self, epoch, number):
        """The batch, from a new iterator where another one is asked for than the next."""
        if self.at != (epoch, number):
            self.iterator, self.at = iter(self.make()), (epoch, 0)
            for _ in range(number):
                self._step(epoch)
        return self._step(epoch)

    def _step(self, epoch):
        batch = next(self.iterator, None)
        if batch is None:
            raise ValueError(f"the batches end with number {self.at[1]} of epoch {epoch}, before all rows have come")
        self.at = (epoch, self.at[1] + 1)
        return batch

    def fill(self, fill):
        batch = self.take(fill.epoch, fill.batch)
        if fill.first + fill.rows == self.rows:
            self.iterator, self.at = None, None
        X, y = batch
        self._put(fill.X, self.shape, X, "X", fill)
        if fill.labels != ffi.NULL:
            labels = numpy.require(_array(y), numpy.int32, "C")
            self._check((fill.rows,), labels.shape, "y", fill)
            ffi.memmove(fill.labels, ffi.from_buffer(labels), labels.nbytes)
        else:
            self._put(fill.targets, self.targets, y, "y", fill)

    def _put(self, to, sizes, values, name, fill):
        values = floats(values)
        self._check((fill.rows, *sizes), values.shape, name, fill)
        ffi.memmove(to, ffi.from_buffer(values), values.nbytes)

    @staticmethod
    def _check(wanted, given, name, fill):
        if wanted != given:
            raise ValueError(f"batch {fill.batch} of epoch {fill.epoch}: {name} is {given}, and must be {wanted}")


@ffi.def_extern()
def py_fill(fill, user):
    source = ffi.from_handle(user)
    source.session._filling = True
    try:
        source.fill(fill)
        return True
    except BaseException as exception:
        source.session._raised = source.session._raised or exception
        source.at = None
        message = f"{type(exception).__name__}: {exception}".encode(errors="replace")[:199]
        ffi.memmove(fill.message, message, len(message))
        return False
    finally:
        source.session._filling = False


def batches(session, made, rows, classes, name, **loader) -> Data:
    """Session.batches."""
    make = made if callable(made) else lambda: made
    if iter(make()) is made:
        raise TypeError("an iterator gives its batches once, and each epoch needs them: give a list, or the function that makes it")
    if rows is None and hasattr(made, "dataset") and not getattr(made, "drop_last", False):
        rows = len(made.dataset)
    first = next(iter(make()), None)
    if first is None:
        raise ValueError("there are no batches")
    if rows is None:
        rows = sum(len(X) for X, _ in make())
    X, y = floats(first[0]), _array(first[1])
    if X.ndim < 2:
        raise ValueError(f"a batch's X is (rows, ...), not {X.shape}")
    labelled = _are_labels(y)
    if labelled and classes is None:
        raise TypeError("classes is missing: how many there are cannot be seen from one batch")
    source = _Source(session, make, rows, X.shape[1:], y.shape[1:])
    user = ffi.new_handle(source)
    c = ffi.new("ls_source *", {"fill": lib.py_fill, "user": user, "shape": shape((rows, *X.shape[1:]))})
    if labelled:
        c.classes = classes
    else:
        c.targets = shape((rows, *y.shape[1:]))
    kept = ffi.new("char[]", name.encode()) if name else ffi.NULL
    c.name = kept
    given = loader_of(session, batch=min(len(X), rows), **loader)
    return Data(session, session.call(lib.ls_data_from_function, session._handle, c, given.c), user, source, c, kept, given)
