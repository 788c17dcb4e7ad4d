"""Data sets, batch by batch."""
from __future__ import annotations

import os
from typing import Any, Iterator, List, NamedTuple, Optional, Tuple

import numpy

from ._arguments import options, shape, taken, text
from ._lockstep import ffi, lib
from .tensor import floats, wrapped


class DataInfo(NamedTuple):
    """ls_data_info: sizes that a batch's X has not are 1; classes is 0 without labels; rank is that of a batch's X."""
    rows: int
    channels: int
    height: int
    width: int
    classes: int
    floats: bool
    rank: int


class DataCounts(NamedTuple):
    """ls_data_counts: the least and the most number of all images (bytes count as value / 255), how many images are one number all over
    in each channel and which is the first, from 0, the images of the smallest and of the largest class, and the classes without one."""
    least: float
    most: float
    plain: int
    first_plain: int
    fewest: int
    largest: int
    empty: int




def data_of(value):
    """Of an argument: that it is data."""
    if isinstance(value, Data):
        return value
    raise TypeError(f"data is {type(value).__name__}, and must be a lockstep.Data; session.arrays(X, y) makes one of arrays")


@ffi.def_extern()
def py_told(line, user):
    session, told = ffi.from_handle(user)
    try:
        told(text(line))
    except BaseException as exception:
        session._raised = session._raised or exception


def telling(session, told):
    """(C's function, its argument) that hand lines to a function of Python's."""
    if told is None:
        return ffi.NULL, ffi.NULL
    return lib.py_told, ffi.new_handle((session, told))


def loader_of(session, *, batch: int = 0, shuffle: bool = False, drop_last: bool = False, limit: int = 0, directory=None,
              flip: bool = False, crop: int = 0, erase: float = 0.0, edge_target: float = 0.0, told=None):
    """ls_loader from keywords."""
    folder = None if directory is None else os.fspath(directory)
    loader = options("ls_loader *", directory=folder, batch=batch, shuffle=shuffle, drop_last=drop_last, limit=limit, edge_target=edge_target)
    loader.c.augment = {"flip": flip, "crop": crop, "erase": erase}
    loader.c.told, user = telling(session, told)
    loader.c.user = user
    loader.kept.append(user)
    return loader


class Data:
    """A data set of a session. A loop over it goes through one epoch, and each further loop through the next one:

        for X, y in data:

    X is a tensor of the batch's images, (rows, ...), or a tuple where there are several inputs; y of its labels (rows) or targets
    (rows, ...), None where there are none. After a loop that is left early the next one begins the next epoch. A checkpoint
    that is saved in between goes on where that loop was left; seek(epoch + 1) before it ends the epoch. drop_last
    leaves an epoch's partial batch out."""

    def __init__(self, session, pointer, *kept):
        self.session, self._pointer, self._kept = session, pointer, kept
        self._epoch = 0
        self._left = False  # a loop over it was left early

    def __del__(self):
        session = getattr(self, "session", None)
        if session is not None:
            session._ended.append((4, lib.ls_end, self._pointer, self._kept))

    @property
    def _handle(self):
        if self.session.closed:
            raise ReferenceError("the data went with their session, which is closed")
        return self._pointer

    def _call(self, function, *args):
        return self.session.call(function, self._handle, *args)

    # ---- Batches ----

    def __iter__(self) -> Iterator[Tuple[Any, Any]]:
        if self._left:
            self.seek(self._epoch + 1, 0)
        return self._batches()

    def _batches(self):
        batch = ffi.new("ls_batch *")
        self._left = True
        while True:
            pair = self._next(batch)
            if pair is None:
                break
            yield pair
            del pair  # the caller's alone
        self._left = False

    def _next(self, batch):
        with self.session._locked():
            if not self._call(lib.ls_data_next, batch):
                return None
            self._epoch = batch.epoch
            inputs = tuple(wrapped(self.session, batch.inputs[i]) for i in range(batch.n_inputs))
            y = None if batch.y == ffi.NULL else wrapped(self.session, batch.y)
        return inputs if len(inputs) > 1 else inputs[0], y

    def __len__(self) -> int:
        """Batches of an epoch; the partial last one counts, but with drop_last."""
        return self._call(lib.ls_data_batches)

    def seek(self, epoch: int, batch: int = 0) -> None:
        """Continues at that batch of that epoch, both from 0."""
        self._call(lib.ls_data_seek, epoch, batch)
        self._left = False

    # ---- What they are ----

    @property
    def rows(self) -> int:
        """How many images there are."""
        return self._call(lib.ls_data_rows)

    def about(self) -> DataInfo:
        """Sizes of the images, and how many."""
        info = ffi.new("ls_data_info *")
        self._call(lib.ls_data_about, info)
        return taken(DataInfo, info)

    @property
    def classes(self) -> int:
        """How many classes the labels are of; 0 without labels."""
        return self.about().classes

    def class_name(self, label: int) -> Optional[str]:
        """The name of a label, from 0; None where it has none."""
        return text(self._call(lib.ls_data_class, label))

    def summary(self) -> str:
        """One line: images, values, classes. Raises Error: UNSUPPORTED of data that a function makes."""
        return text(self._call(lib.ls_data_summary))

    def __repr__(self):
        if self.session.closed:
            return "<lockstep.Data of a closed session>"
        about = self.about()
        sizes = (about.channels, about.height, about.width)[:about.rank - 1]
        return f"<lockstep.Data: {about.rows} rows of {'x'.join(map(str, sizes))}, {about.classes} classes, {len(self)} batches>"

    def count(self) -> DataCounts:
        """What there is of each class; goes over all images. Raises Error: UNSUPPORTED of data that a function makes."""
        counts = ffi.new("ls_data_counts *")
        self._call(lib.ls_data_count, counts)
        return taken(DataCounts, counts)

    def doubts(self, test: Optional[Data] = None) -> List[str]:
        """What looks like a mistake in these data for training, and in those for tests: a list of lines."""
        lines: List[str] = []
        told, user = telling(self.session, lines.append)
        self._call(lib.ls_data_doubts, ffi.NULL if test is None else test._handle, told, user)
        return lines

    def checksum(self) -> int:
        """Equal for equal images and labels."""
        return self._call(lib.ls_data_checksum)

    def reads(self, path) -> bool:
        """Whether the data were read from this file."""
        return self._call(lib.ls_data_reads, os.fsencode(path))

    # ---- Before the first batch ----

    def hold_out(self, images: int) -> Data:
        """Takes so many images out, for validation, and returns them as data of their own."""
        return Data(self.session, self._call(lib.ls_data_hold_out, images), self._kept)

    def set_labels(self, labels, classes: Optional[int] = None) -> Data:
        """Labels of all images in file order, whole numbers from 0 on; classes None: one more than the largest. Returns the data."""
        labels = numpy.require(labels, numpy.int32, "C")
        if classes is None:
            classes = int(labels.max(initial=0)) + 1
        self._call(lib.ls_data_set_labels, ffi.from_buffer("int32_t[]", labels), labels.size, classes)
        return self

    def set_targets(self, targets) -> Data:
        """Targets (rows, ...) of all images in file order, in place of labels. Returns the data."""
        targets = floats(targets)
        self._call(lib.ls_data_set_targets, ffi.from_buffer("float[]", targets), shape(targets.shape))
        return self

    def add_input(self, values) -> Data:
        """A further input (rows, ...) of a network that takes several. Returns the data."""
        values = floats(values)
        self._call(lib.ls_data_add_input, ffi.from_buffer("float[]", values), shape(values.shape))
        return self


def verify(session, directory=None) -> None:
    """Compares Fashion-MNIST's four files with the data set's sums. Raises Error: BAD_FILE, IO."""
    session.call(lib.ls_data_verify, session._handle, ffi.NULL if directory is None else os.fsencode(directory))


def fetch(session, url=None, directory=None, told=None) -> None:
    """Downloads Fashion-MNIST's four files. Raises Error: IO, BAD_FILE, UNSUPPORTED."""
    function, user = telling(session, told)
    session.call(lib.ls_data_fetch, session._handle, ffi.NULL if url is None else url.encode(),
                 ffi.NULL if directory is None else os.fsencode(directory), function, user)
