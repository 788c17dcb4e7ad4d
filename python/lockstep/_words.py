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
    (r"\bls_module_infer\w*", "net.infer"),
    (r"\bls_module_(\w+?)(?:_with)?\b", r"net.\1"),
    (r"\bls_data_open\b", "session.data"),
    (r"\bls_data_from_(?:memory|floats)\b", "session.arrays"),
    (r"\bls_data_from_function\b", "session.batches"),
    (r"\bls_data_(\w+)", r"data.\1"),
    (r"\bls_loader\.drop_last\b", "drop_last"),
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
