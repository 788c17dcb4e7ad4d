"""The library's messages in Python's words: they name functions of C, which a Python program does not call."""
import re
from typing import Dict

_LAYERS: Dict[str, str] = {}

# Pattern -> Python's word; the first that fits counts, the rest of the name being \1.
_WORDS = [(re.compile(pattern), word) for pattern, word in (
    (r"call ls_trainer_use_average\(trainer, false\) first", "leave the `with trainer.averaged()` first"),
    (r"\bls_trainer_use_average\b", "trainer.averaged"),
    (r"\bls_trainer_new\b", "Trainer"),
    (r"\bls_trainer_set_lr\b", "trainer.lr"),
    (r"\bls_trainer_next_report\b", "trainer.reports"),
    (r"\bls_trainer_(\w+)", r"trainer.\1"),
    (r"\bls_checkpoints_open\b", "Checkpoints"),
    (r"\bls_checkpoint_(\w+)", r"checkpoints.\1"),
    (r"\bls_profile_stop\b", "the end of its `with`"),
    (r"\bls_module_forward(?:_all)?\b", "net(images)"),
    (r"\bls_module_parameter_count\b", "net.parameters"),
    (r"\bls_module_infer\w*", "net.infer"),
    (r"\bls_module_(\w+?)(?:_with)?\b", r"net.\1"),
    (r"\bls_data_open\b", "session.data"),
    (r"\bls_data_from_(?:memory|floats)\b", "session.arrays"),
    (r"\bls_data_from_function\b", "session.batches"),
    (r"\bls_data_(\w+)", r"data.\1"),
    (r"\bls_options\.(\w+)", r"Session's \1"),
    (r"\bls_optim\.(\w+)", r"Trainer's \1"),
    (r"\b(?:ls_)?init\.(\w+)", r"initialize's \1"),
    (r"\bls_load_options\.strip\b", "load's strip"),
    (r"\bls_load_options\.skip\b", "load's skip"),
    (r"\bls_(?:loss|loader)\.(\w+)", r"\1"),
    (r"\bls_loader\b", "data"),
    (r"\bls_clear_grad\b", "tensor.clear_grad"),
    (r"\bls_backward\w*", "backward"),
    (r"\bls_sgd_step\b", "session.sgd_step"),
    (r"\bls_open\b", "Session"),
    (r"\bls_end\b", "close"))]
_REST = re.compile(r"\bls_(nn_)?(\w+?)(?:_with)?\b")


def _rest(match):
    """ls_nn_batch_norm_with is nn.BatchNorm, and ls_cross_entropy_with cross_entropy."""
    if not match.group(1):
        return match.group(2)
    if not _LAYERS:
        from .nn import layers
        _LAYERS.update((name.lower(), name) for name in layers.__all__)
    return "nn." + _LAYERS.get(match.group(2).replace("_", ""), match.group(2))


def in_python(message):
    for pattern, word in _WORDS:
        message = pattern.sub(word, message)
    return _REST.sub(_rest, message)


# What PyTorch's users type, and what is here in its place.
_ELSEWHERE = {
    "eval": "net.infer(X) computes in inference mode", "train": "net(X) computes in training mode, net.infer(X) in inference mode",
    "to": "initialize(devices) says where", "cuda": "initialize(devices) says where", "cpu": "initialize(devices) says where",
    "zero_grad": "a step leaves no gradient behind, and tensor.clear_grad() empties one", "named_parameters": "parameters() has names, state_dict() values",
    "requires_grad_": "freeze(pattern) does that", "apply": "initialize(init=...) or load_state_dict gives values",
    "param_groups": "set_group(pattern, ...) and set_options(...) are the trainer's",
    "state_dict": "lockstep.Checkpoints keeps a trainer", "load_state_dict": "lockstep.Checkpoints keeps a trainer", "compile": "nothing needs to be compiled",
    "BatchNorm1d": "BatchNorm", "BatchNorm2d": "BatchNorm", "BatchNorm3d": "BatchNorm", "SyncBatchNorm": "BatchNorm, and Session's batch_norm",
    "AdaptiveAvgPool2d": "GlobalAvgPool2d", "CrossEntropyLoss": "lockstep.cross_entropy", "MSELoss": "lockstep.mse",
    "L1Loss": "lockstep.l1", "BCEWithLogitsLoss": "lockstep.bce", "functional": "lockstep has the functions itself",
    "DataParallel": "initialize(devices) of several", "Parameter": "Module.parameter, in the forward"}


def elsewhere(name):
    """Behind the message that there is no such name: where it is."""
    return f"; {_ELSEWHERE[name]}" if name in _ELSEWHERE else ""
