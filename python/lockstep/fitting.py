"""Training in one line."""
import sys
import time
from typing import Callable, List, NamedTuple, Optional

from . import functional
from .data import Data
from .module import Metrics, Module
from .trainer import Trainer


class Epoch(NamedTuple):
    """Of a finished epoch: the means of its batches before their updates; what evaluate says of the test data, None without them."""
    epoch: int
    loss: float
    accuracy: float
    test: Optional[Metrics]
    seconds: float

    def __str__(self):
        test = f", test acc {self.test.accuracy:.4f}" if self.test else ""
        return f"epoch {self.epoch + 1}: loss {self.loss:.4f}, train acc {self.accuracy:.4f}{test}, {self.seconds:.1f} s"


def _bar(progress, session):
    """tqdm's, in the first rank's terminal where it is installed; else None."""
    if progress is None:
        progress = session.rank == 0 and (sys.stderr.isatty() or "ipykernel" in sys.modules)
    if not progress:
        return None
    try:
        from tqdm.auto import tqdm
    except ImportError:
        return None
    return tqdm


class _Tally:
    """Adds the reports of an epoch's steps up."""

    def __init__(self):
        self.loss = self.correct = self.rows = 0

    def take(self, trainer):
        for report in trainer.reports():
            self.loss += report.loss * report.rows
            self.correct += report.correct
            self.rows += report.rows

    def mean(self, what):
        return what / self.rows if self.rows else 0.0


def fit(net: Module, train: Data, test: Optional[Data] = None, *, epochs: int, trainer: Optional[Trainer] = None, optimizer: str = "sgd",
        loss: Callable = functional.cross_entropy, progress: Optional[bool] = None, each: Optional[Callable[[Epoch], object]] = None,
        **optim) -> List[Epoch]:
    """Trains for so many epochs, and evaluates after each. Keywords are those of Trainer (lr=0.1, momentum=0.9, ...), or `trainer` is one;
    a schedule's total is the whole run unless it is given. loss(outputs, y): of a batch. progress: None shows a bar and a line for each
    epoch in a terminal. each: called with each epoch; what is true ends the training. Ctrl-C ends it between two steps, and the network
    keeps its values. Raises Error."""
    if trainer is None:
        if optim.get("schedule", "constant") not in ("constant", "exponential", "warm_restarts"):
            optim.setdefault("total", epochs * len(train))
        trainer = Trainer(net, optimizer, **optim)
    elif optim:
        raise TypeError(f"fit: {', '.join(optim)} are the trainer's, and a trainer is given")
    bar, history = _bar(progress, net.session), []
    for epoch in range(epochs):
        began, tally = time.perf_counter(), _Tally()
        batches = bar(train, desc=f"epoch {epoch + 1}/{epochs}", leave=False) if bar else train
        for X, y in batches:
            loss(net(X), y).backward()
            trainer.step()
            tally.take(trainer)
        net.session.wait()
        tally.take(trainer)
        seconds = time.perf_counter() - began
        tested = None if test is None else net.evaluate(test, None if loss is functional.cross_entropy else loss)
        history.append(Epoch(epoch, tally.mean(tally.loss), tally.mean(tally.correct), tested, seconds))
        if bar:
            bar.write(str(history[-1]), file=sys.stderr)
        if each is not None and each(history[-1]):
            break
    return history
