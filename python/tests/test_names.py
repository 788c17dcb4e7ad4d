"""The C headers have nothing that the package lacks, but for a list with reasons."""
import inspect
import pathlib
import pydoc
import re
import sys

import pytest

import lockstep as ls
from conftest import ROOT
from lockstep._lockstep import ffi

sys.path.insert(0, str(ROOT / "python" / "generate"))
import headers  # noqa: E402

PACKAGE = pathlib.Path(ls.__file__).parent
READ = headers.read(ROOT / "include")

# Pattern -> why there is no Python word for it.
WITHOUT = {
    r"ls_(enter|leave|keep)": "Python counts who uses a tensor",
    r"ls_session_of": "each object knows its session",
    r"ls_status_name": "Status has the names",
    r"ls_devices_str": "Devices is a list, and prints as one",
    r"ls_timer_\w+": "Python has time.perf_counter",
    r"ls_save_npy": "NumPy has numpy.save",
    r"ls_module_child": "a part is an attribute",
    r"ls_module_apply": "state_dict and load_state_dict",
    r"ls_model|ls_lenet|ls_resnet18|ls_data_fashion_mnist": "Session.model and Session.data take the name",
    r"ls_module_load": "Module.load is ls_module_load_with",
    r"ls_cross_entropy_smooth": "cross_entropy has smoothing",
    r"ls_accuracy_fn": "a loop over the data, and tensors",
    r"ls_cluster_(launched|plugin)": "features() has the plugins, and Session.rank the rank",
    r"ls_cluster_on": "mpi4py's communicators",
    r"ls_cluster_barrier": "the end of the ranks waits for all",
    r"ls_cluster_(process|tell)": "watchdogs are the program's",
}
STRUCTS = {  # options and where Python takes them
    "ls_options": (ls.Session.__init__, {"allocator", "trial", "cluster"}), "ls_optim": (ls.Trainer.__init__, set()),
    "ls_loader": (__import__("lockstep.data").data.loader_of, {"augment", "user"}),
    "ls_augment": (__import__("lockstep.data").data.loader_of, set()), "ls_init": (ls.Module.initialize, {"kind", "scale"}),
    "ls_param_group": (ls.Trainer.set_group, {"no_decay"}), "ls_load_options": (ls.Module.load, set()),
    "ls_checkpoint_options": (ls.Checkpoints.__init__, {"user"}), "ls_conv": (ls.nn.Conv2d.__init__, {"no_bias"}),
    "ls_norm": (ls.nn.BatchNorm.__init__, {"no_affine"}), "ls_pool": (ls.nn.MaxPool2d.__init__, set()),
    "ls_attention_options": (ls.attention, set()), "ls_recurrent": (ls.lstm, set()),
    "ls_recurrent_options": (ls.nn.LSTM.__init__, {"no_bias"}), "ls_linear_options": (ls.nn.Linear.__init__, {"no_bias"}),
}


def called():
    """Functions of C that the package's Python names."""
    text = "".join(path.read_text() for path in PACKAGE.rglob("*.py"))
    return {one for pair in re.findall(r'\blib\.(ls_\w+)|\b_lib\.(ls_\w+)|"(ls_\w+)"', text) for one in pair if one}


def test_every_function_of_c_has_a_word_of_python():
    names = called()
    lacking = [name for name in READ.functions if name not in names and name + "_with" not in names and
               not any(re.fullmatch(pattern, name) for pattern in WITHOUT)]
    assert not lacking


def test_reasons_are_of_functions_that_are_not_there():
    names = called()
    for pattern in WITHOUT:
        matched = [name for name in READ.functions if re.fullmatch(pattern, name)]
        assert matched, f"{pattern}: no function is called so"
        assert not [name for name in matched if name in names], f"{pattern} is there"


@pytest.mark.parametrize("name", STRUCTS)
def test_every_option_of_c_is_a_keyword(name):
    taken, without = STRUCTS[name]
    keywords = inspect.signature(taken).parameters
    fields = [field for field, _ in ffi.typeof(name).fields]
    assert [field for field in fields if field not in keywords] == [field for field in fields if field in without]


@pytest.mark.parametrize("module", [ls, ls.nn])
def test_all_that_is_exported_says_what_it_is(module):
    for name in module.__all__ + getattr(module, "_RESULTS", []):
        assert (getattr(module, name).__doc__ or "").strip(), name


def test_the_page_lists_all_layers_and_functions():
    table = (ROOT / "docs" / "python.md").read_text().split("### All layers and functions")[1].split("## Checkpoints")[0]
    listed = re.findall(r"`(\w+)`", table)
    there = set(ls.nn.__all__ + ls.functional.__all__)
    assert set(listed) == there and len(listed) == len(there)


def test_help_is_of_the_package():
    text = pydoc.plain(pydoc.render_doc(ls))
    assert not re.search(r"inherited from builtins\.(tuple|str|list|\w*Exception)", text) and "class Trainer" in text
    for module in ls, ls.nn:
        for name in module.__all__:
            said = getattr(module, name).__doc__
            assert not re.search(r"\bNULL\b|\bLS_|\bls_(?!\w+ of lockstep)|The same with", said), name
            assert not re.search(r" [;,.:](\s|$)", said), f"{name}: a word was left out"


def test_public_methods_say_what_they_are():
    for kind in (ls.Operation, ls.Profile, ls.Session, ls.Tensor, ls.Data, ls.Module, ls.Trainer, ls.Checkpoints):
        silent = [name for name, member in vars(kind).items() if not name.startswith("_") and
                  (callable(member) or isinstance(member, property)) and not member.__doc__]
        assert silent == [], kind


def test_words_are_those_of_the_headers():
    assert ls.Status.NO_DEVICE == "NO_DEVICE" and str(ls.Status.NO_DEVICE) == "NO_DEVICE"
    with pytest.raises(ValueError, match="'constant', 'step', 'cosine', 'linear', 'exponential', 'one_cycle', 'warm_restarts'"):
        from lockstep._arguments import enum
        enum("ls_schedule", "stairs")
