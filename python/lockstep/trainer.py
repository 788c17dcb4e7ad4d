"""Trainers: optimizers, schedules, groups, averages of the weights."""
import contextlib
import warnings
import weakref
from typing import TYPE_CHECKING, Iterator, List, NamedTuple, Optional, Tuple

from ._arguments import enum, options, taken, text
from ._lockstep import ffi, lib
from ._words import elsewhere
from .data import data_of
from .module import Module
from .profiles import DeviceTimes, Profile


class Report(NamedTuple):
    """ls_report, of a finished step: the mean loss and the right images of its batch of `rows` images, before the update; with clip_norm
    the norm of the mean loss's gradient, before clipping, else 0."""
    step: int
    loss: float
    correct: int
    rows: int
    norm: float


class Trainer:
    """Updates a network by the gradients of backward().

    optimizer: "sgd", "adam" or "adamw". schedule: "constant", "step", "cosine", "linear", "exponential", "one_cycle" or "warm_restarts",
    with warmup, total, start_factor, end_factor, gamma, period, period_factor; steps, not epochs. clip_norm: a gradient, of the mean loss
    over the batch, with a larger norm is scaled to it. full_batch: gradients are sums divided by this. Formulas: docs/optimizers.md.

    lr rises over the first `warmup` steps. The schedule counts from step 0 as if there had been no warm-up, so the rate jumps where the
    warm-up ends; with after_warmup it begins there at lr, and ends with `total`, the steps of the whole run. As an option 0 means: beta1
    0.9, beta2 0.999, eps 1e-8, period 1, period_factor 1; start_factor 1, or 0.04 of one_cycle; momentum, weight_decay, clip_norm and ema:
    none. -1 is an explicit 0, as in beta1=-1.

    ema: the decay of an average of the weights, for averaged(). ema_warmup: it decays faster at first. ema_buffers: BatchNorm's running
    statistics are averaged too; without, averages are judged by the network's own statistics. Raises Error.

    A network has one trainer: a new one ends the one before, with its moments."""

    def __init__(self, net: Module, optimizer: str = "sgd", *, lr: float, momentum: float = 0.0, weight_decay: float = 0.0,
                 nesterov: bool = False, schedule: str = "constant", warmup: int = 0, total: int = 0, beta1: float = 0.0,
                 beta2: float = 0.0, eps: float = 0.0, clip_norm: float = 0.0, full_batch: int = 0, start_factor: float = 0.0,
                 end_factor: float = 0.0, gamma: float = 0.0, period: int = 0, period_factor: int = 0, ema: float = 0.0,
                 ema_warmup: bool = False, ema_buffers: bool = False, after_warmup: bool = False):
        self._options = dict(lr=lr, momentum=momentum, weight_decay=weight_decay, nesterov=nesterov, schedule=schedule, warmup=warmup,
                             total=total, beta1=beta1, beta2=beta2, eps=eps, clip_norm=clip_norm, full_batch=full_batch,
                             start_factor=start_factor, end_factor=end_factor, gamma=gamma, period=period, period_factor=period_factor,
                             ema=ema, ema_warmup=ema_warmup, ema_buffers=ema_buffers, after_warmup=after_warmup)
        if not isinstance(net, Module):
            raise TypeError(f"net is {type(net).__name__}, and must be the network; net.freeze leaves parameters out, set_group treats some "
                            "in another way")
        how = options("ls_optim *", **self._options)
        kind = enum("ls_optimizer", optimizer)
        self.net, self.session = net, net.session
        self._warned = 0  # of so many lost reports
        self._of: weakref.WeakSet = weakref.WeakSet()  # checkpoints, profiles
        before = net._trainer and net._trainer()
        if before is not None:
            before.close()
        self._pointer = self.session.call(lib.ls_trainer_new, net._handle, kind, how.c)
        net.__dict__["_trainer"] = weakref.ref(self)

    def __del__(self):
        pointer = self.__dict__.pop("_pointer", None)
        if pointer is not None:
            self.session._ended.append((2, lib.ls_end, pointer, None))

    def close(self) -> None:
        """Ends it; the network may have another one."""
        for one in list(self._of):
            one.close()
        pointer = self.__dict__.pop("_pointer", None)
        if pointer is not None and not self.session.closed:
            self.session.call(lib.ls_end, pointer)

    @property
    def _handle(self):
        pointer = self.__dict__.get("_pointer")
        if pointer is None or self.session.closed:
            raise ReferenceError("the trainer has ended: its session is closed, or its network has another trainer")
        return pointer

    def __reduce__(self):
        raise TypeError("a trainer cannot be pickled; lockstep.Checkpoints keeps it")

    if not TYPE_CHECKING:  # which would take any name for one that is there
        def __getattr__(self, name):
            raise AttributeError(f"a Trainer has no {name!r}{elsewhere(name)}")

    def _call(self, function, *args):
        return self.session.call(function, self._handle, *args)

    # ---- Steps ----

    def step(self) -> None:
        """The update from what backward() was called for since the last step. Returns at once; at most two steps are in flight. Raises
        Error: STALE where that is nothing, NOT_FINITE of a step before."""
        self._call(lib.ls_trainer_step)

    def reports(self) -> Iterator[Report]:
        """Of the steps that have finished and were not told yet, in order: loss, right images, the gradient's norm. Up to 1,024 wait; then
        the oldest are lost, of which a warning tells, and `lost`. So ask more often than every 1,024 steps."""
        lost = self.lost
        if lost > self._warned:
            warnings.warn(f"{lost - self._warned} reports of steps were lost: up to 1024 wait for trainer.reports()", stacklevel=2)
            self._warned = lost
        report = ffi.new("ls_report *")
        while self._call(lib.ls_trainer_next_report, report):
            yield taken(Report, report)

    @property
    def lost(self) -> int:
        """How many reports were lost, as nobody took them in time."""
        return self._call(lib.ls_trainer_reports_lost)

    # ---- On ranks ----

    def vote(self, number: int) -> None:
        """Asks all ranks for something at one step, such as to stop: the number travels with the steps. See voted."""
        self._call(lib.ls_trainer_vote, number)

    def voted(self) -> int:
        """The largest number that any rank had asked for when the step before the last was done, for which it waits; the same on all
        ranks."""
        return self._call(lib.ls_trainer_voted)

    def balanced(self) -> Optional[List[int]]:
        """How many of the last step's shards each rank has, where they went by speed (Session's balance); else None."""
        shards = ffi.new("int[]", self.session.ranks)
        return list(shards) if self._call(lib.ls_trainer_balanced, shards) else None

    def transport(self) -> Tuple[bool, str]:
        """How ranks' GPUs exchange gradients: (True, "NCCL 2.28.9"), or (False, why by way of the hosts); (False, "") without. All ranks call
        it, or step."""
        direct = ffi.new("bool *")
        how = text(self._call(lib.ls_trainer_transport, direct))
        return direct[0], how

    # ---- Rates and options ----

    @property
    def lr(self) -> float:
        """The rate of the next step. Setting it replaces the option lr, which a schedule scales; steps, moments and schedule go on."""
        return self._call(lib.ls_trainer_lr)

    @lr.setter
    def lr(self, value):
        self._call(lib.ls_trainer_set_lr, value)

    def set_options(self, **changed) -> None:
        """Other options from the next step on, for a further phase; those that are not named are as they were given. Moments and the
        count of steps go on. Not while checkpoints of the trainer are open. Raises Error."""
        wrong = changed.keys() - self._options.keys()
        if wrong:
            raise TypeError(f"a trainer has no option {min(wrong)!r}")
        now = {**self._options, **changed}
        self._call(lib.ls_trainer_set_options, options("ls_optim *", **now).c)
        self._options = now

    def set_group(self, pattern: str, *, lr: float = 0.0, weight_decay: float = 0.0, decay: bool = True, vectors: bool = False) -> None:
        """Factors on the trainer's lr and weight_decay for the parameters that a pattern fits; 0 is 1, -1 is 0, decay=False none. vectors:
        of them only what has one dimension, biases and the weights of norms. Before the first step, and before Checkpoints are opened."""
        group = options("ls_param_group *", lr=lr, weight_decay=weight_decay, no_decay=not decay, vectors=vectors)
        self._call(lib.ls_trainer_set_group, pattern.encode(), group.c)

    def check_batches(self, data) -> None:
        """Refuses, before the first step, what the data's batches would make impossible. Raises Error."""
        self._call(lib.ls_trainer_check_batches, data_of(data)._handle)

    # ---- Values ----

    @contextlib.contextmanager
    def averaged(self):
        """with trainer.averaged(): the network has the averages of its weights, which the option ema keeps, and with ema_buffers those of
        BatchNorm's statistics. Within it may be evaluated, saved and remembered, but neither trained nor kept in a checkpoint."""
        self._call(lib.ls_trainer_use_average, True)
        try:
            yield self.net
        finally:
            if not self.session.closed:
                self._call(lib.ls_trainer_use_average, False)

    def remember(self) -> None:
        """Remembers the network's values, the best so far, say, in place of those before. Checkpoints keep them. Within averaged() they are
        the averages."""
        self._call(lib.ls_trainer_remember)

    def recall(self) -> None:
        """Gives the network the values that remember() took; moments and steps stay. Raises Error: STALE without any."""
        self._call(lib.ls_trainer_recall)

    def step_back(self) -> int:
        """After a loss that was not finite: back to the last good values; how many updates are behind them. Raises Error: STALE."""
        step = ffi.new("int64_t *")
        self._call(lib.ls_trainer_step_back, step)
        return step[0]

    def verify(self) -> None:
        """Between backward and step: compares what all devices compute, bit by bit. Raises Error: DIFFERS."""
        self._call(lib.ls_trainer_verify)

    # ---- What it costs ----

    def device_times(self, i: int = 0) -> DeviceTimes:
        """Seconds and shards of the i-th of the network's devices, from 0."""
        times = ffi.new("ls_device_times *")
        self._call(lib.ls_trainer_device_times, i, times)
        return taken(DeviceTimes, times)

    def profile(self, spans: int = 0) -> Profile:
        """with trainer.profile() as p: ...; then p.rows(), p.total(): where the steps within spend their time."""
        return Profile(self, spans)

    def memory_needed(self, data) -> int:
        """Bytes of the host's memory that training over the data holds at once."""
        needed = ffi.new("int64_t *")
        self._call(lib.ls_trainer_memory_needed, data_of(data)._handle, needed)
        return needed[0]
