"""Checkpoints: runs that go on after a break, with the bits of a run without one."""
import os
from typing import Dict, List, NamedTuple, Optional

from ._arguments import names, options, taken, text
from ._lockstep import ffi, lib
from .data import telling
from .session import Error


class Checkpoint(NamedTuple):
    """ls_checkpoint: finished updates; the data continue at batch `batch` of epoch `epoch`, both from 0."""
    step: int
    epoch: int
    batch: int
    path: str


def _notes(given):
    """(ls_note[], what it points to)."""
    given = {} if given is None else given
    kept = [ffi.new("char[]", str(one).encode()) for pair in given.items() for one in pair]
    c = ffi.new("ls_note[]", len(given) + 1)
    for i in range(len(given)):
        c[i].name, c[i].value = kept[2 * i], kept[2 * i + 1]
    return c, [c, kept]


class Checkpoints:
    """The folder of checkpoints of a trainer's run over data (None: the caller keeps its own position), made where it is not there. keep:
    so many of the newest stay, 0 is 3. settings: of your own, which define the result too. allow_changed: names of settings that may differ
    in what is loaded. told: called with a line for what loading passes over. It is held until close; a folder that was made and got no
    checkpoint is removed then. Raises Error: BUSY, IO.

    A folder that has checkpoints is for a run that loads one: save() refuses to put another run's beside them. restart: a new run begins
    in it, and its checkpoints take the place of the old ones, one by one."""

    def __init__(self, trainer, data, directory, *, keep: int = 0, settings: Optional[Dict[str, str]] = None, allow_changed=None,
                 told=None, restart: bool = False):
        self.trainer, self.data, self.session = trainer, data, trainer.session
        how = options("ls_checkpoint_options *", keep=keep)
        how.c.settings, kept = _notes(settings)
        how.c.allow_changed, kept_names = names(allow_changed)
        how.c.told, self._told = telling(self.session, told)
        how.c.user = self._told
        self._pointer = self.session.call(lib.ls_checkpoints_open, trainer._handle, ffi.NULL if data is None else data._handle,
                                          os.fsencode(directory), how.c)
        self._of_another = self.found and not restart  # which save would mix with its own
        self._directory = os.fspath(directory)
        trainer._of.add(self)

    def __del__(self):
        pointer = self.__dict__.pop("_pointer", None)
        if pointer is not None:
            self.session._ended.append((1, lib.ls_end, pointer, self._told))

    def close(self) -> None:
        """Waits for the last write, and gives the folder free. Raises Error: IO of that write."""
        pointer = self.__dict__.pop("_pointer", None)
        if pointer is not None and not self.session.closed:
            self.session.call(lib.ls_end, pointer)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def _call(self, function, *args):
        if "_pointer" not in self.__dict__ or self.session.closed:
            raise ReferenceError("the folder of checkpoints is closed")
        return self.session.call(function, self._pointer, *args)

    @property
    def found(self) -> bool:
        """Whether there were whole ones when it was opened: there is something to load()."""
        return self._call(lib.ls_checkpoints_found)

    def save(self, notes: Optional[Dict[str, str]] = None) -> None:
        """Writes one while training goes on. It goes on where the data are: behind a whole loop at the next epoch; in a loop, or
        after one that was left early, at the next batch of that epoch (data.seek(epoch + 1) before save ends it). What a write meets is
        raised by the next of these calls. Raises FileExistsError where the folder has checkpoints, none was loaded and it was not opened with
        restart; Error: IO."""
        if self.found and self._of_another:
            raise FileExistsError(f"{self._directory} has checkpoints of another run; load() goes on with it, and "
                                  "Checkpoints(..., restart=True) lets those of this run take their place")
        c, kept = _notes(notes)
        self._call(lib.ls_checkpoint_save, c)

    def wait(self) -> None:
        """Until the last one is on the disk."""
        self._call(lib.ls_checkpoint_wait)

    def load(self) -> Optional[Checkpoint]:
        """Brings network, trainer and data to the newest whole one; None where there is none. The network must know its images' shape
        (initialize's like). The result says where the data stand: epoch, from 0, and the batch in it. Raises Error: CHANGED,
        SHAPE_UNKNOWN."""
        loaded = ffi.new("ls_checkpoint *")
        try:
            if not self._call(lib.ls_checkpoint_load, loaded):
                return None
        except Error as error:
            if error.status != "CHANGED" or not self.differing():
                raise
            allowed = f"Checkpoints(..., allow_changed={self.differing()}) loads it all the same"
            raise Error(error.status, f"{error}; {allowed}", error.together) from None
        self._of_another = False
        if self.data is not None:
            self.data._left = False
        return taken(Checkpoint, loaded)

    def differing(self) -> List[str]:
        """Names of the settings for which load was CHANGED."""
        found, i, listed = self._call(lib.ls_checkpoint_differing), 0, []
        while found[i] != ffi.NULL:
            listed.append(text(found[i]))
            i += 1
        return listed

    def note(self, name: str) -> Optional[str]:
        """Of the checkpoint that was loaded."""
        return text(self._call(lib.ls_checkpoint_note, name.encode()))
