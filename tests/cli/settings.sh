#!/bin/sh
# What train --help says of defaults is what a run without options does, and the log has each setting as it was given: both against the
# lists here. settings.sh PROGRAM
. "$(dirname -- "$0")/common.sh"
needs 'weights files' fingerprints
python3 "$here/make_data.py" "$work/data" 300 50 || exit 1
reports=$(built_with reports && echo yes)
cat >"$work/settings.py" <<'PY'
import json
import os
import re
import struct
import subprocess
import sys

program, work, reports = sys.argv[1:]
data = work + "/data"
os.environ["LOCKSTEP_DATA"] = data
os.chdir(work)


def run(*options):
    """The settings in the log of a run, and its lines of a step and an epoch."""
    called = [program, "train", "--log", "run.jsonl", "--quiet", *options]
    ended = subprocess.run(called, capture_output=True, text=True)
    assert ended.returncode == 0, (called, ended.stderr)
    lines = [json.loads(line) for line in open("run.jsonl")]
    return lines[0], next(line for line in lines if "step" in line), next(line for line in lines if "epoch" in line)


# Each default: the option, what its help says in parentheses, the setting in the log and its value.
DEFAULTS = [
    ("model", "default lenet", "model", "lenet"),
    ("weights-skip", "default: read all", "weights_skip", None),
    ("freeze", "default: train all", "freeze", None),
    ("dataset", "default fashion-mnist", "dataset", "fashion-mnist"),
    ("data", "default: $LOCKSTEP_DATA, else the system's data folder, else the user's cache", "images", 300),
    ("devices", "default: every GPU; where there is none, every core, within the CPU quota", "devices", None),
    ("batch", "default 256", "batch", 256),
    ("shard", "default 64; 256 in tf32 and bf16", "shard", 64),
    ("bn", "default shard", "bn", "shard"),
    ("epochs", "default 10", "epochs", 10),
    ("seed", "default 0", "seed", 0),
    ("init", "default normal:0.01", "init", "normal:0.01"),
    ("optimizer", "default sgd", "optimizer", "sgd"),
    ("lr", "default 0.2 for lenet, 0.1 for resnet18; 0.001 with adam and adamw", "lr", 0.2),
    ("momentum", "default 0", "momentum", 0),
    ("nesterov", "default off", "nesterov", False),
    ("beta1", "default 0.9", "beta1", 0.9),
    ("beta2", "default 0.999", "beta2", 0.999),
    ("eps", "default 1e-8", "eps", 1e-8),
    ("weight-decay", "default 0; 0.01 with adamw", "weight_decay", 0),
    ("no-decay", "default: it pulls all weights towards 0", "no_decay", False),
    ("clip-norm", "default: never", "clip_norm", None),
    ("ema", "default: none", "ema", None),
    ("ema-warmup", "default off", "ema_warmup", None),
    ("ema-buffers", "default off", "ema_buffers", None),
    ("last-batch", "default mean", "last_batch", "mean"),
    ("schedule", "default constant", "schedule", "constant"),
    ("warmup", "default 0; with one-cycle 0.3 of the run's steps", "warmup", 0),
    ("after-warmup", "default off", "after_warmup", None),
    ("start-factor", "default 1; 0.04 with one-cycle", "start_factor", None),
    ("end-factor", "default 0; with one-cycle a ten-thousandth of --start-factor", "end_factor", None),
    ("period", "default 1", "period", None),
    ("period-factor", "default 1", "period_factor", None),
    ("label-smoothing", "default 0", "label_smoothing", 0),
    ("validate", "default: none", "validate", 0),
    ("keep", "default last", "keep", "last"),
    ("patience", "default: never", "patience", 0),
    ("limit", "default all", "limit", 0),
    ("limit-test", "default all", "limit_test", 0),
    ("no-shuffle", "default: a new order every epoch", "shuffle", True),
    ("flip", "default: off", "flip", False),
    ("crop", "default 0", "crop", 0),
    ("erase", "default 0", "erase", 0),
    ("conv", "default auto: Winograd where it suits", "conv", "auto"),
    ("isa", "default auto", "isa", "auto"),
    ("dtype", "default f32", "dtype", "f32"),
    ("checkpoint-every", "default 10m", "checkpoint_every", "600s"),
    ("verify", "default never", "verify", 0),
    ("timeout", "default 300 with several ranks, else never", "timeout", 0),
    ("balance", "default: the same number to each rank", "balance", False),
    ("in-flight", "default: up to 4, as the GPU's memory allows", "in_flight", 0),
    ("host-sums", "default: by NCCL, if it is installed", "host_sums", False),
]



def help_of(command):
    """Each option with its text."""
    text = subprocess.run([program, *command.split(), "--help"], capture_output=True, text=True).stdout
    return {name: " ".join(text.split()) for name, text in re.findall(r"^  --([a-z0-9-]+)(.*?)(?=^  --|^\n)", text, re.M | re.S)}


def defaults_of(command):
    return [(name, default) for name, text in help_of(command).items() for default in re.findall(r"\((default[^)]*)\)", text)]


options, said = help_of("train"), defaults_of("train")
assert said == [row[:2] for row in DEFAULTS], set(said) ^ {row[:2] for row in DEFAULTS}

# Other commands say the same of what they have too, or this.
OTHERS = {
    ("eval", "model"): "default: as the weights file says",
    ("predict", "model"): "default: as the weights file says",
    ("predict", "input"): "default: as the weights file says",
    ("export", "model"): "default: as the weights file says",
    ("export", "input"): "default: as the weights file says, else 1x28x28",
    ("bench", "model"): "default both",
    ("bench", "steps"): "default 40 for lenet and 2 for resnet18; 50 and 4 with --profile",
    ("report", "out"): "default report",
    ("data fetch", "url"): "default: the data set's own",
    ("data fetch", "to"): "default: the user's cache",
}
usual = {option: text for option, text, *_ in DEFAULTS}
for command in ("eval", "predict", "export", "bench", "doctor", "report", "data fetch"):
    for option, text in defaults_of(command):
        assert text == OTHERS.pop((command, option), usual.get(option)), (command, option, text)
assert not OTHERS, OTHERS

# Every setting of the log, in order, and its value in a run that was told how many steps and nothing else.
SETTINGS = """lockstep built_with date host command model devices dataset data images test_images batch shard bn epochs steps seed init weights
    strip_prefix weights_skip freeze save optimizer lr momentum nesterov weight_decay no_decay last_batch schedule warmup label_smoothing validate
    keep patience limit limit_test shuffle flip crop erase conv isa isa_in_use dtype checkpoint checkpoint_every verify timeout balance in_flight host_sums
    report trace""".split()
settings, step, epoch = run("--steps", "1", "--save", "w.safetensors", "--checkpoint", "kept")
assert list(settings) == SETTINGS, settings
assert list(step) == ["step", "loss"] and list(epoch) == ["epoch", "train_loss", "train_acc", "test_acc", "sec", "img_per_s"], (step, epoch)
of_adam = ("beta1", "beta2", "eps")
for option, _, name, value in DEFAULTS:
    if name not in of_adam and name != "devices":
        assert settings.get(name) == value, (option, name, settings.get(name), value)
devices = subprocess.run([program, "devices"], capture_output=True, text=True).stdout
assert settings["devices"].count("(") == len(re.findall("^(?:cpu|cuda):", devices, re.M)), (settings["devices"], devices)
assert settings["test_images"] == 50 and settings["steps"] == 1, settings
for name in ("data", "weights", "strip_prefix", "report", "trace"):
    assert settings[name] is None, (name, settings)

# The same file under other names, as PyTorch's wrappers save it.
content = open("w.safetensors", "rb").read()
length = struct.unpack("<Q", content[:8])[0]
tensors = json.loads(content[8:8 + length])
tensors = {name if name == "__metadata__" else "module." + name: about for name, about in tensors.items()}
header = json.dumps(tensors).encode()
header += b" " * (-len(header) % 8)
open("wrapped.safetensors", "wb").write(struct.pack("<Q", len(header)) + header + content[8 + length:])

# Runs that together are given every option: the value in the log, where it is not as it was given.
seen = {"log", "quiet"}


def given(line, keys_of_step=("step", "loss"), **others):
    """Runs with options, and looks at each in the log."""
    words = line.split()
    settings, step, epoch = run(*words)
    for i, word in enumerate(words):
        if not word.startswith("--"):
            continue
        option, text = word[2:], words[i + 1] if i + 1 < len(words) and not words[i + 1].startswith("--") else None
        seen.add(option)
        name, value = option.replace("-", "_"), others.get(option.replace("-", "_"), text)
        if option == "no-shuffle":
            name, value = "shuffle", False
        logged = settings[name]
        if text is None and name != "shuffle":
            value = True
        elif isinstance(logged, (int, float)) and not isinstance(logged, bool):
            value = float(value)
        assert logged == value, (option, logged, value)
    assert tuple(step) == keys_of_step, step
    return settings, step, epoch


end = "--report look" if reports else ""
_, _, epoch = given(f"--dataset mnist --data {data} --devices cpu:0 --batch 48 --shard 16 --epochs 3 --steps 4 --seed 7 --init he --save x.safetensors "
                    "--optimizer sgd --lr 0.3 --momentum 0.5 --nesterov --weight-decay 0.0001 --clip-norm 2 --last-batch share --schedule cosine "
                    "--warmup 2 --after-warmup --label-smoothing 0.1 --validate 0.15 --keep best --patience 9 --limit 200 --limit-test 40 --no-shuffle "
                    f"--flip --crop 1 --erase 0.25 --conv direct --checkpoint also --checkpoint-every 2m --verify 2 --timeout 50 --balance "
                    f"--in-flight 2 --host-sums --trace t.json {end}",
                    ("step", "loss", "grad_norm"), devices="[cpu(0)]", validate=30, checkpoint_every="120s")
assert list(epoch) == ["epoch", "train_loss", "train_acc", "val_loss", "val_acc", "test_acc", "sec", "img_per_s"], epoch
adam = "--limit 40 --limit-test 10 --batch 20 --steps 1 --optimizer"
usual, _, _ = given(adam + " adamw --weights wrapped.safetensors --strip-prefix module. --weights-skip W?,b4 --isa plain --dtype f32")
assert [name for name in usual if name not in SETTINGS] == list(of_adam), usual
assert [usual[name] for name in ("lr", "weight_decay", *of_adam)] == [0.001, 0.01, 0.9, 0.999, 1e-8], usual
assert usual["isa_in_use"] == "plain", usual
given("--limit 40 --limit-test 10 --batch 20 --steps 1 --schedule exponential --gamma 0.5 --period 3")
given("--limit 40 --limit-test 10 --batch 20 --steps 1 --schedule warm-restarts --period 3 --period-factor 2 --end-factor 0.5")
given("--limit 40 --limit-test 10 --batch 20 --steps 1 --schedule one-cycle --start-factor 0.5 --end-factor 0.25")
given(adam + " adamw --freeze W?,b1 --no-decay")
given(adam + " sgd --ema 0.75 --ema-warmup --ema-buffers --last-batch drop")
usual, _, _ = given(adam + " adam --beta1 0.5 --beta2 0.75 --eps 0.001")
assert [usual[name] for name in ("lr", "weight_decay")] == [0.001, 0], usual
usual, _, _ = given("--model resnet18 --limit 3 --limit-test 1 --batch 3 --epochs 1 --bn sync --shard 2")
assert usual["lr"] == 0.1 and usual["bn"] == "sync", usual
if reports:
    subprocess.run([program, "report", "run.jsonl"], check=True, capture_output=True)
    assert os.path.exists("report/report.html")
for name in ("resume", "restart", "allow-changed", "help") + (() if reports else ("report",)):
    seen.add(name)  # of no setting
assert seen == set(options), seen ^ set(options)
PY
python3 "$work/settings.py" "$program" "$work" "$reports" || wrong "settings"
ends
