"""Where training steps spend their time."""
from __future__ import annotations

from typing import List, NamedTuple

from ._arguments import taken
from ._lockstep import ffi, lib


class ProfileRow(NamedTuple):
    """ls_profile_row, an operation of the steps: seconds and bytes of all calls. direction: "forward", "backward_data" or
    "backward_weight"."""
    layer: str
    parameter: str
    operation: str
    direction: str
    calls: int
    seconds: float
    bytes: float
    flops: float


class ProfileSum(NamedTuple):
    """ls_profile_sum: of seconds * cores the parts."""
    steps: int
    images: int
    cores: int
    seconds: float
    operations: float
    gathering: float
    reducing: float
    between: float
    waiting: float
    elsewhere: float
    unhidden: float
    dropped: int


class DeviceTimes(NamedTuple):
    """ls_device_times: seconds of a device so far."""
    computing: float
    reducing: float
    waiting: float
    idle: float
    shards: int
    images: int
    elsewhere: float


class Span(NamedTuple):
    """ls_span: what happened when, in seconds of time.monotonic(). kind: "shard", "operation", "reduce" and others."""
    kind: str
    device: int
    begin: float
    end: float
    step: int
    number: int
    row: int


def _word(enum, number, prefix):
    return ffi.typeof(enum).elements[number][len("LS_" + prefix):].lower()


class Profile:
    """Times the steps handed in from here to stop(), which the end of its `with` calls; the numbers are there after that. spans: so many
    of what happened are kept for each device, 0 is none. A trainer has one at a time."""

    def __init__(self, trainer, spans: int = 0):
        self.trainer, self.session = trainer, trainer.session
        self._pointer = self.session.call(lib.ls_profile_start, trainer._handle, spans)
        trainer._of.add(self)

    def __del__(self):
        pointer = self.__dict__.pop("_pointer", None)
        if pointer is not None:
            self.session._ended.append((1, lib.ls_end, pointer, None))

    def _call(self, function, *args):
        if "_pointer" not in self.__dict__ or self.session.closed:
            raise ReferenceError("the profile went with its trainer")
        return self.session.call(function, self._pointer, *args)

    def close(self) -> None:
        """Ends it, with its numbers."""
        pointer = self.__dict__.pop("_pointer", None)
        if pointer is not None and not self.session.closed:
            self.session.call(lib.ls_end, pointer)

    def stop(self) -> None:
        """Waits; the numbers are there from now on."""
        self._call(lib.ls_profile_stop)

    def __enter__(self) -> Profile:
        return self

    def __exit__(self, *_):
        self.stop()

    def _each(self, ctype, count, at):
        """The structs that a C function gives by number, one after another in one place."""
        c = ffi.new(ctype)
        for i in range(self._call(count)):
            self._call(at, i, c)
            yield c

    def rows(self) -> List[ProfileRow]:
        """The operations, in the order of the step; none before the stop."""
        return [taken(ProfileRow, row)._replace(direction=_word("ls_direction", row.direction, ""))
                for row in self._each("ls_profile_row *", lib.ls_profile_rows, lib.ls_profile_at)]

    def total(self) -> ProfileSum:
        """All rows, and what was between them."""
        c = ffi.new("ls_profile_sum *")
        self._call(lib.ls_profile_total, c)
        return taken(ProfileSum, c)

    def device(self, i: int = 0) -> DeviceTimes:
        """Of the i-th of the network's devices, from start to stop."""
        c = ffi.new("ls_device_times *")
        self._call(lib.ls_profile_device, i, c)
        return taken(DeviceTimes, c)

    def spans(self) -> List[Span]:
        """What happened when, one device after another."""
        return [taken(Span, span)._replace(kind=_word("ls_span_kind", span.kind, "SPAN_"))
                for span in self._each("ls_span *", lib.ls_profile_spans, lib.ls_profile_span_at)]
