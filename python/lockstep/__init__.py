"""Lockstep: trains neural networks on several devices at once, with the same bits on any number of them.

    import lockstep as ls
    s = ls.Session(seed=0)
    train, test = s.data("fashion-mnist", "train", shuffle=True), s.data("fashion-mnist", "test")
    net = s.model("lenet").initialize(s.all_devices(), init="xavier")
    ls.fit(net, train, test, epochs=3, lr=0.2)
    print(net.fingerprint())

All is computed by the C library; this package hands arguments over. docs/python.md puts it beside PyTorch.

What is handed back are named tuples: Report (of a step), Epoch (of fit), Metrics (of evaluate), Checkpoint (of load), Parameter.
Devices is a list of Device. What goes wrong is an Error, and Status has the names. help(lockstep.Report) tells of one."""
from . import nn
from ._arguments import text as _text
from ._lockstep import lib as _lib
from .checkpoints import Checkpoint, Checkpoints
from .data import Data, fetch, verify
from .devices import Device, Devices
from .fitting import Epoch, fit
from .functional import *  # noqa: F401,F403: a function for each operation of lockstep_nn.h
from .functional import __all__ as _operations
from .module import Metrics, Module, Parameter
from .operations import Operation
from .profiles import Profile
from .session import Error, Session
from .status import Status
from .tensor import Tensor
from .trainer import Report, Trainer

__version__ = _text(_lib.ls_version())


def features() -> str:
    """What the library was built with, one `name: value` a line."""
    return _text(_lib.ls_features())


# What help(lockstep) shows: without what would add a thousand lines of methods of Python's tuple, list, str and Exception.
_RESULTS = ["Checkpoint", "Devices", "Epoch", "Error", "Metrics", "Parameter", "Report", "Status"]
__all__ = ["Checkpoints", "Data", "Device", "Module", "Operation", "Profile", "Session", "Tensor", "Trainer",
           "features", "fetch", "fit", "nn", "verify", *_operations]
