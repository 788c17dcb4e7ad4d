"""Layers and what holds them: descriptions, until Module.initialize gives them to a session."""
from ..module import Function, Module, ModuleList, Sequential
from .._words import elsewhere as _elsewhere
from . import layers
from .layers import *  # noqa: F401,F403: one class for each layer of lockstep_nn.h

__all__ = ["Function", "Module", "ModuleList", "Sequential", *layers.__all__]


def __getattr__(name):
    raise AttributeError(f"lockstep.nn has no {name!r}{_elsewhere(name)}")
