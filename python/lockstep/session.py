"""Sessions, and their errors."""
from __future__ import annotations

import collections
import functools
import os
import platform
import threading
import weakref
from typing import TYPE_CHECKING, Any, Callable, Deque, Dict, List, Optional, Tuple

import numpy

from ._arguments import enum as number_of, options, shape, sizes, tensors, text, word_of
from ._lockstep import ffi, lib
from ._words import in_python
from .devices import Device, Devices
from .ranks import cluster_of, end_with_python
from .status import Status

if TYPE_CHECKING:
    from .data import Data
    from .module import Model
    from .tensor import Tensor

at_work = threading.local()  # .session: of the operation of one's own that the thread computes, None without one
_open: weakref.WeakSet[Session] = weakref.WeakSet()


class Error(Exception):
    """A failure that the library tells: .status is a Status, the text the library's message. .together: all ranks of the session have met
    it together, and none of them waits for another."""

    def __init__(self, status, message, together=False):
        super().__init__(message)
        self.status, self.together = Status(status), together

    def __reduce__(self):
        return Error, (self.status.value, str(self), self.together)


class _Shared:
    """What a session and its end have in common."""

    def __init__(self):
        self.lock = threading.RLock()
        self.kept: List[Any] = []  # what C points to until the session ends
        self.forked = False  # it is another process's
        self.cluster: Any = ffi.NULL  # C's, of its ranks
        self.parts = False  # the ranks part where it ends


def _close(handle, shared):
    if shared.forked:
        lib.ls_close(handle)  # which leaves all as it is
        return
    with shared.lock:  # a daemon's thread may be at work when Python ends
        lib.ls_close(handle)
        cluster, shared.cluster = shared.cluster, ffi.NULL
        if shared.parts:
            lib.ls_cluster_end(cluster)
    shared.kept.clear()


class Session:
    """All that trains together: devices, tensors, data, networks, trainers. They belong to the session that made them, keep it alive, and
    end with it: at the end of its `with`, by close(), when nothing refers to it any more, or when Python ends.

    seed: of everything random. shard: images to a shard, 0 is 64. batch_norm: images that BatchNorm's statistics in training are
    over, a multiple of shard; 0 is a shard's, -1 a batch's, as PyTorch's on one device, -2 all of a step's; then net(X) is for backward
    alone, and its numbers are not read. isa: the widest instruction set, "auto", "plain", "neon", "avx2", "avx512" or "reference". conv:
    "auto", Winograd's algorithm where it is faster, whose rounding is some ten times that of "direct". dtype: what GPUs compute in,
    "f32", "tf32" or "bf16". balance: ranks have shards by their speed. in_flight: shards that a GPU computes side by side, 0 is up to
    4. host_sums: ranks' GPUs meet in the hosts' memory. Raises Error.

    comm: the ranks to train with, a communicator of mpi4py's. None: those that mpirun or srun has started, of whom this process is one; a
    process that was started alone is alone. False: this process alone. Every rank makes the same calls in the same order, on devices of its
    own, and gets the results of one process.

    Threads may share a session; one waits while another one's call is at work. After os.fork() it is the parent's alone."""

    def __init__(self, *, seed: int = 0, shard: int = 0, batch_norm: int = 0, isa: str = "auto", conv: str = "auto", dtype: str = "f32",
                 balance: bool = False, in_flight: int = 0, host_sums: bool = False, comm: Any = None):
        opened = options("ls_options *", seed=seed, shard=shard, batch_norm=batch_norm, isa=isa, conv=conv, dtype=dtype, balance=balance,
                         in_flight=in_flight, host_sums=host_sums)
        self._shared = _Shared()
        self._shared.cluster, self._shared.parts = cluster_of(comm)
        opened.c.cluster = self._shared.cluster
        self._raised: Optional[BaseException] = None  # by a function of the user's that the library called
        self._recordings: List[Any] = []  # modules' forwards that are running, the innermost last
        self._filling = False  # a function that makes a batch is at work
        self._operations: Dict[Any, Any] = {}  # of one's own, as C has them
        # Of objects that Python has let go of: (order, C's function, handle, what it needs).
        self._ended: Deque[Tuple[int, Callable, Any, Any]] = collections.deque()
        self._handle = lib.ls_open(opened.c)
        if self._handle == ffi.NULL:
            raise MemoryError("no memory for a session")
        self._lent: weakref.WeakSet = weakref.WeakSet()  # what other libraries have of its tensors' memory
        self._closing = False  # it is closed, and its memory is there while they have it
        self._close = weakref.finalize(self, _close, self._handle, self._shared)
        _open.add(self)
        if self.ranks > 1:
            _part_with_python()
        try:
            self._check()
        except Error:
            self._close()
            raise

    # ---- Calls ----

    def call(self, function, *args):
        """Calls a C function of the library, which may fail: that is raised, and the session goes on."""
        with self._locked():
            self._begin()
            result = function(*args)
            if self._raised is not None or lib.ls_failed(self._handle):
                self._check()
        return result

    def _locked(self):
        """The lock, for `with`."""
        if getattr(at_work, "session", None) is self:  # and another thread waits for it, with the lock
            raise Error(Status.BAD_ARGUMENT, "an operation of one's own must not use the session")
        return self._shared.lock

    def make(self, function, *args):
        """Calls one that makes a tensor."""
        from .tensor import wrapped
        with self._locked():  # until Python holds it
            return wrapped(self, self.call(function, *args))

    def _begin(self):
        if self.closed:
            raise Error(Status.BAD_ARGUMENT, "the session is closed, and what was made from it went with it")
        if self._shared.forked:
            raise Error(Status.BAD_ARGUMENT, "the session belongs to the process that has opened it; open one in this process")
        if self._filling:
            raise Error(Status.BAD_ARGUMENT, "a function that makes a batch must not use the session")
        if self._ended and not self._recordings:
            self._let_go()

    def _let_go(self):
        """Frees what Python has let go of: here, because a garbage collection may be any thread's, at any moment."""
        ended = []
        while self._ended:
            ended.append(self._ended.popleft())
        for _, function, handle, _ in sorted(ended, key=lambda one: one[0]):
            function(handle)

    def _check(self):
        raised, self._raised = self._raised, None
        if not lib.ls_failed(self._handle):
            if raised is not None:
                raise raised
            return
        status, message = lib.ls_status_of(self._handle), in_python(text(lib.ls_message(self._handle)))
        together = lib.ls_failed_together(self._handle)
        lib.ls_catch(self._handle, status)
        if raised is not None:
            raise raised
        raise Error(word_of("ls_status", status).upper(), message, together)

    def _failed_in_python(self, exception):
        """Of a function of the user's that the library called: the call fails, and raises it."""
        self._raised = self._raised or exception
        message = f"{type(exception).__name__}: {exception}"[:400].encode(errors="replace")
        lib.ls_fail(self._handle, lib.LS_BAD_ARGUMENT, b"%s", ffi.new("char[]", message))

    def wait(self) -> None:
        """Until all work handed in is done."""
        self.call(lib.ls_wait, self._handle)

    # ---- Its end ----

    @property
    def closed(self) -> bool:
        """Whether close() was called, or the `with` is over."""
        return self._closing or not self._close.alive

    def close(self) -> None:
        """Waits, and ends the session and everything made from it. Raises a failure of work that nobody has waited for. Memory that other
        libraries have by DLPack stays until they let go of it."""
        with self._locked():
            if self.closed or self._shared.forked:
                return
            lib.ls_wait(self._handle)
            try:
                self._check()
            finally:
                self._closing = True
                if not self._lent:
                    self._close()

    def __enter__(self) -> Session:
        return self

    def __exit__(self, kind, *_):
        if kind is not None:
            self._shared.parts = False  # the other ranks may wait for this one
        try:
            self.close()
        except Error:
            if kind is None:
                raise

    def __reduce__(self):
        raise TypeError("a session cannot be pickled; save weights, and open a session in the other process")

    def __repr__(self):
        return "<closed lockstep.Session>" if self.closed else f"<lockstep.Session, {self.isa}>"

    # ---- Ranks ----

    @property
    def rank(self) -> int:
        """0 to ranks - 1: who prints and writes files where it is 0."""
        return lib.ls_cluster_rank(self._shared.cluster)

    @property
    def ranks(self) -> int:
        """How many processes train together; 1 alone."""
        return lib.ls_cluster_ranks(self._shared.cluster)

    def rank_hosts(self) -> List[str]:
        """The host of each rank, by its name."""
        if self.ranks == 1:
            return [platform.node()]
        return [text(lib.ls_cluster_host(self._shared.cluster, rank)) for rank in range(self.ranks)]

    def rank_devices(self, devices) -> List[Devices]:
        """The devices of each rank, of which these are this one's. Every rank makes this call."""
        found = ffi.new("ls_devices[]", self.ranks)
        self.call(lib.ls_cluster_devices, self._handle, ffi.new("ls_devices *", self.devices(devices)._c), found)
        return [Devices.of(self, one) for one in found]

    def agree(self, **settings) -> None:
        """Before they train: whether all ranks come here with the same settings, such as agree(epochs=10). Else all of them raise Error, with
        the first difference, and the ranks have failed: no session can be opened with them."""
        if self.ranks == 1:
            return
        with self._locked():
            self._begin()
            kept = [ffi.new("char[]", str(one).encode()) for pair in settings.items() for one in pair]
            listed = ffi.new("ls_setting[]", [{"name": kept[i], "value": kept[i + 1]} for i in range(0, len(kept), 2)])
            status = lib.ls_cluster_agree(self._shared.cluster, ffi.NULL, listed, len(listed))
        if status != lib.LS_OK:
            raise Error(word_of("ls_status", status).upper(), in_python(text(lib.ls_cluster_message(self._shared.cluster))), True)

    # ---- Devices ----

    def devices(self, names: str) -> Devices:
        """From a list such as "cpu:0,cpu:1", "cpu:0-15", "cuda:0-3" or "cuda:0x2". Raises Error: BAD_ARGUMENT, NO_DEVICE."""
        if isinstance(names, Devices):
            return names
        if isinstance(names, Device):
            names = [names]
        if isinstance(names, str):
            return Devices.of(self, self.call(lib.ls_parse_devices, self._handle, names.encode()))
        return Devices(names)

    def all_devices(self) -> Devices:
        """All GPUs, else all CPU cores that the process may use."""
        return Devices.of(self, self.call(lib.ls_all_devices, self._handle))

    def try_all_gpus(self) -> Devices:
        """All GPUs, else the first CPU."""
        return Devices.of(self, self.call(lib.ls_try_all_gpus, self._handle))

    def try_devices(self, n: int) -> Devices:
        """The first n GPUs, else the first n CPUs."""
        return Devices.of(self, self.call(lib.ls_try_devices, self._handle, n))

    def try_gpu(self, i: int = 0) -> Device:
        """GPU i where there is one, else CPU i."""
        return Device(self, self.call(lib.ls_try_gpu, self._handle, i))

    def cpu(self, i: int = 0) -> Device:
        """Core i, from 0. It is looked for when it is used: Error, NO_DEVICE."""
        return Device(self, lib.ls_cpu(i))

    def gpu(self, i: int = 0) -> Device:
        """Card i, from 0. It is looked for when it is used: Error, NO_DEVICE."""
        return Device(self, lib.ls_gpu(i))

    def host(self) -> Device:
        """Where data and files are; it computes nothing."""
        return Device(self, lib.ls_host())

    def device_count(self, kind: str = "cpu") -> int:
        """How many there are of "cpu" or "cuda"."""
        return self.call(lib.ls_device_count, self._handle, number_of("ls_device_type", kind))

    @property
    def notice(self) -> str:
        """What the last call for devices had to make do with; "" where nothing."""
        return text(self.call(lib.ls_notice, self._handle))

    @property
    def isa(self) -> str:
        """The instruction set in use."""
        return text(self.call(lib.ls_isa_name, self._handle))

    @property
    def bytes_moved(self) -> int:
        """Bytes that Tensor.to, assign and the like moved between host and devices so far."""
        return self.call(lib.ls_bytes_moved, self._handle)

    @property
    def work_done(self) -> int:
        """A count that grows with what is done. Any thread may ask, at any time."""
        return 0 if self.closed else lib.ls_work_done(self._handle)

    def interrupt(self) -> None:
        """Ends the inference under way, or else the next one: it raises Error: INTERRUPTED. Any thread may call this."""
        if not self.closed:
            lib.ls_interrupt(self._handle)

    def self_test(self, devices) -> int:
        """Trains a tiny network on each device: what came out, equal for all that compute alike. Raises Error: INTERNAL."""
        found = ffi.new("uint64_t *")
        self.call(lib.ls_self_test, self._handle, self.devices(devices)._c, found)
        return found[0]

    def measure_speed(self, devices) -> Tuple[float, float]:
        """What one core of the devices can do at most while the others do the same: (flops, bytes) a second. Takes a second or so."""
        speed = ffi.new("ls_speed *")
        self.call(lib.ls_measure_speed, self._handle, self.devices(devices)._c, speed)
        return speed.flops, speed.bytes

    # ---- Tensors ----

    def _make(self, function, *args):
        return self.make(function, self._handle, *args)

    def tensor(self, array) -> Tensor:
        """A tensor on the host with the numbers of an array, copied as float32: of NumPy's, of lists, or of anything with __dlpack__, such
        as PyTorch's. At most 4 dimensions."""
        from .tensor import floats
        values = floats(array)
        return self._make(lib.ls_values, ffi.from_buffer("float[]", values), shape(values.shape))

    def from_dlpack(self, array) -> Tensor:
        """A tensor on the host over the memory of an array, without a copy: of float32 in C order that may be written, NumPy's or PyTorch's or
        of whatever has __dlpack__; of others as Session.tensor. Who changes one changes the other: wait() before."""
        from .tensor import borrowed
        made = borrowed(self, array)
        return self.tensor(array) if made is None else made

    def zeros(self, *shape_) -> Tensor:
        """A tensor on the host: zeros(2, 3) and zeros((2, 3)) are both (2, 3). At most 4 dimensions."""
        return self._make(lib.ls_zeros, shape(sizes(shape_)))

    def full(self, value: float, *shape_) -> Tensor:
        """The same value everywhere, in a shape as of zeros."""
        return self._make(lib.ls_full, value, shape(sizes(shape_)))

    def arange(self, *shape_, first: float = 0.0) -> Tensor:
        """first, first + 1, ... in that shape."""
        return self._make(lib.ls_arange, first, shape(sizes(shape_)))

    def uniform(self, key: str, *shape_) -> Tensor:
        """In [0, 1), a function of the session's seed, the key and the place."""
        return self._make(lib.ls_uniform, key.encode(), shape(sizes(shape_)))

    def randn(self, key: str, *shape_, scale: float = 1.0) -> Tensor:
        """Normal numbers times `scale`, a function of the session's seed, the key and the place."""
        return self._make(lib.ls_randn, key.encode(), scale, shape(sizes(shape_)))

    def gather(self, parts, device: Optional[Device] = None) -> Tensor:
        """The rows of the parts, one after another, on a device; None: the host."""
        where = self.host() if device is None else device
        given = tensors(parts)
        return self.make(lib.ls_gather, given.in_c(given.first), len(parts), where._c)

    def sgd_step(self, parameters, lr: float, rows: int) -> None:
        """w -= lr * (gradient / rows) of tracked tensors on one device. Raises Error: STALE without fresh gradients, NOT_FINITE."""
        given = tensors(parameters)
        self.call(lib.ls_sgd_step, given.in_c(given.first), len(parameters), lr, rows)

    # ---- Data and networks ----

    def data(self, name: str, part: str = "train", **loader) -> Data:
        """A data set by its name: "fashion-mnist", "mnist", "cifar10", "cifar100", "npy" or "folder"; part is "train" or "test".

        batch: images to a batch, 0 is 256. shuffle: a new order every epoch. drop_last: without an epoch's partial batch, which evaluate
        and predict still take. limit: the first images only, 0 is all. directory: of the files. flip: half of the images are mirrored left to
        right. crop: they are shifted by up to so many pixels each way, and zeros come in (a random crop behind a padding of as many).
        erase: the probability that a rectangle of 2 to 33 percent of the area becomes zero. All three change what a loop gives, in each
        epoch anew, and not what evaluate sees. edge_target: what a crop shifts into targets with places. told: called with a line for each
        of several faulty files. Raises Error: IO, BAD_FILE, UNSUPPORTED."""
        from .data import Data, loader_of
        made = loader_of(self, **loader)
        return Data(self, self.call(lib.ls_data_open, self._handle, name.encode(), number_of("ls_part", part), made.c), made)

    def arrays(self, X, y=None, *, classes: Optional[int] = None, inputs=(), **loader) -> Data:
        """Data from arrays, which are copied. X: uint8 of (rows, height, width) or (rows, channels, height, width) counts as value / 255;
        all else is taken as float32, (rows, features) to (rows, channels, height, width). y: whole numbers (rows) are labels, of `classes`
        classes or one more than the largest; all else targets (rows, ...). inputs: further arrays (rows, ...) for a network that takes
        several. Keywords are those of Session.data. Raises Error: BAD_SHAPE, BAD_ARGUMENT."""
        from .sources import arrays
        return arrays(self, X, y, classes, inputs, loader)

    def dataset(self, items, *, classes: Optional[int] = None, lazy: bool = False, **loader) -> Data:
        """Data from a torch Dataset, or anything with len() and items[i] = (X, y), X and y being arrays, tensors or numbers. They are read
        once, and then as Session.arrays. lazy: a batch's items are read when it is asked for, in their order, which suits what is larger
        than memory; then there is no shuffle and no augmentation."""
        from .sources import dataset
        return dataset(self, items, classes, lazy, loader)

    def batches(self, batches, *, rows: Optional[int] = None, classes: Optional[int] = None, name: Optional[str] = None) -> Data:
        """Data from batches (X, y): from a list of them, a torch DataLoader, or a function that returns an iterator over those of an epoch.
        They are asked for in order, and anew from the first one on for each epoch and for each evaluation. All have as many rows as the
        first, but for the last. X is taken as float32, (rows, features) to (rows, channels, height, width). y: whole numbers (rows) are
        labels below `classes`; all else targets.

        rows: of an epoch; None: those of the DataLoader's data set, else they are counted. name: for messages. What the batches raise comes
        out of the loop as it is."""
        from .sources import batches as source
        return source(self, batches, rows, classes, name)

    def model(self, name: str, classes: int = 0, file=None) -> Model:
        """A network by its name, "lenet" or "resnet18", with so many classes (0: 10), or as many as a file of weights has."""
        from .module import Model
        if file is not None:
            return Model(self, name, self.call(lib.ls_model_for_file, self._handle, name.encode(), os.fsencode(file)))
        return Model(self, name, self.call(lib.ls_model_for, self._handle, name.encode(), classes or 10))

    def read_picture(self, path, channels: int, height: int, width: int) -> numpy.ndarray:
        """A PNG or JPEG file as uint8 (channels, height, width); channels 1 or 3. Raises Error: IO, BAD_FILE, UNSUPPORTED."""
        pixels = numpy.empty((channels, height, width), numpy.uint8)
        self.call(lib.ls_read_picture, self._handle, os.fsencode(path), channels, height, width, ffi.from_buffer("uint8_t[]", pixels))
        return pixels

    def file_model(self, path) -> str:
        """The name of the model that a file of weights is of; "" where it says none."""
        name = ffi.new("char[]", 256)
        self.call(lib.ls_file_model, self._handle, os.fsencode(path), name, 256)
        return text(name)

    def file_fingerprint(self, path) -> str:
        """Module.fingerprint of a file of weights."""
        digits = ffi.new("char[]", 65)
        self.call(lib.ls_file_fingerprint, self._handle, os.fsencode(path), digits)
        return text(digits)


@functools.lru_cache(None)
def _part_with_python():
    """Once, behind weakref.finalize's own: what is registered later runs first."""
    end_with_python(_open)


def _after_fork():
    for session in list(_open):
        session._shared.lock = threading.RLock()
        session._shared.forked = True


os.register_at_fork(after_in_child=_after_fork)
