#!/bin/sh
# The program while an allocation of its own fails: it ends with its status and one line, or goes on to the same result.
# allocations.sh PROGRAM PRELOAD [long]: a sample of the allocations, or each.
. "$(dirname -- "$0")/common.sh"
preload=$2
python3 "$here/make_data.py" "$work/data" 80 20 || exit 1
LOCKSTEP_DATA=$work/data
export LOCKSTEP_DATA
LD_PRELOAD=$preload COUNT_TO=$work/count "$program" --version >/dev/null 2>&1
[ -s "$work/count" ] || none_run "$preload is not loaded in front of this C library's malloc"

cat >"$work/each.py" <<'PY'
import os, re, shutil, subprocess, sys

program, preload, work, long, here = sys.argv[1:6]
environment = {**os.environ, "LD_PRELOAD": preload, "COUNT_TO": work + "/count"}
weights, kept, picture = work + "/w.safetensors", work + "/kept", work + "/folder/train/class 0/0000.png"
subprocess.run([sys.executable, here + "/make_sets.py", "folder", work + "/folder", "10", "1"], check=True)
subprocess.run([program, "train", "--limit", "64", "--limit-test", "20", "--steps", "1", "--quiet", "--save", weights, "--log", work + "/a.jsonl"], check=True, stdout=subprocess.DEVNULL)
train = "train --limit 80 --limit-test 20 --batch 40 --shard 20 --steps 2 --momentum 0.9 --devices cpu:0-1".split()
uses = {
    "train": train + ["--weights", weights, "--log", work + "/run.jsonl", "--save", work + "/out.safetensors", "--checkpoint", kept, "--checkpoint-every", "1"],
    "resume": train + ["--checkpoint", kept, "--resume"],
    "eval": ["eval", "--weights", weights, "--limit-test", "20"],
    "predict": ["predict", "--weights", weights, "--limit-test", "20", "--out", work + "/x.npy"],
    "export": ["export", "--weights", weights, "--onnx", work + "/x.onnx"],
    "fingerprint": ["fingerprint", weights],
    "report": ["report", work + "/a.jsonl", "--out", work + "/page"],
    "devices": ["devices"],
}
if b"PNG files: not" not in subprocess.run([program, "--version"], capture_output=True).stdout:
    uses["pictures"] = ["predict", "--weights", weights, picture]


def call(words, at):
    return subprocess.run([program, *words], capture_output=True, env={**environment, "FAIL_AT": str(at)}, timeout=600)


def result(run):
    return re.findall(rb"fingerprint: \w+", run.stdout) or [run.stdout.split(b" sec/epoch")[0][:14]]


bad = 0
for name, words in uses.items():
    shutil.rmtree(kept, ignore_errors=True)
    if name == "resume":
        subprocess.run([program, *train[:-2], "--checkpoint", kept, "--checkpoint-every", "1", "--quiet"], check=True, stdout=subprocess.DEVNULL)
        shutil.copytree(kept, work + "/before")
    good = call(words, 0)
    assert good.returncode == 0, good
    number = int(open(work + "/count").read())
    failed = 0
    for at in range(1, number + 1, 1 if long else max(1, number // 20)):
        if name == "resume":
            shutil.rmtree(kept)
            shutil.copytree(work + "/before", kept)
        elif name == "train":
            shutil.rmtree(kept, ignore_errors=True)
        run = call(words, at)
        lines = [line for line in run.stderr.split(b"\n") if line.startswith(b"lockstep: ")]
        right = (run.returncode == 1 and len(lines) == 1) or (run.returncode == 0 and not lines and result(run) == result(good))
        failed += run.returncode == 1
        if not right:
            bad += 1
            print(f"WRONG: {name}, allocation {at} of {number}: status {run.returncode}: {run.stderr[-300:]!r} {run.stdout[-200:]!r}")
    print(f"{name}: {number} allocations, {failed} of those tried end the run by name")
sys.exit(bad > 0)
PY
python3 "$work/each.py" "$program" "$preload" "$work" "${3-}" "$here" || wrong "an allocation"
ends
