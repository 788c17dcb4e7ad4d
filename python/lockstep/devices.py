"""Devices and lists of them."""
from ._arguments import text, word_of
from ._lockstep import ffi, lib


class Device:
    """One device of a session: host, cpu(0), gpu(1)."""

    __slots__ = ("session", "_c")

    def __init__(self, session, c):
        self.session, self._c = session, ffi.new("ls_device *", {"type": c.type, "index": c.index})[0]

    @property
    def type(self) -> str:
        """ "host", "cpu" or "cuda"."""
        return word_of("ls_device_type", self._c.type)

    @property
    def index(self) -> int:
        return self._c.index

    def about(self) -> str:
        """One line: core and instruction set, or card and memory."""
        return text(self.session.call(lib.ls_device_about, self.session._handle, self._c))

    @property
    def core(self) -> int:
        """The operating system's number of a CPU device's core; of others -1."""
        return lib.ls_device_core(self._c)

    def __repr__(self):
        return text(self.session.call(lib.ls_device_str, self.session._handle, self._c))

    def __eq__(self, other):
        return isinstance(other, Device) and (self._c.type, self._c.index) == (other._c.type, other._c.index)

    def __hash__(self):
        return hash((self._c.type, self._c.index))


class Devices(list):
    """A list of devices of a session, which prints as [cpu(0), cpu(1)]."""

    @classmethod
    def of(cls, session, c):
        return cls(Device(session, c.at[i]) for i in range(c.n))

    @property
    def session(self):
        if not self:
            raise ValueError("the list of devices is empty")
        return self[0].session

    @property
    def _c(self):
        if len(self) > lib.LS_MAX_DEVICES:
            raise ValueError(f"at most {lib.LS_MAX_DEVICES} devices, not {len(self)}")
        c = ffi.new("ls_devices *")
        c.n = len(self)
        for i, device in enumerate(self):
            c.at[i] = device._c
        return c[0]
