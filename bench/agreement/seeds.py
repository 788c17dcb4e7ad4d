#!/usr/bin/env python3
"""Lockstep's accuracy over several seeds, beside PyTorch's with the same settings.

Trains with the program's defaults (what `./run` does without options: LeNet, Normal(0, 0.01), batch 256, learning rate
0.2, 10 epochs), keeps the test accuracy after each epoch in a JSON file, and compares the means of the last ones with
those of lenet_torch.py: they agree when they differ by less than two standard errors of the difference, or by 0.01.

    python3 bench/agreement/seeds.py [--seeds N] [--lockstep PATH] [--out FILE] [--compare-only]
"""
import argparse
import json
import math
import os
import sys
import tempfile

from common import HERE, PROGRAM, lockstep, mean_and_error, read_log, verdict


def train(seed, a):
    with tempfile.TemporaryDirectory() as directory:
        log = os.path.join(directory, "run.jsonl")
        arguments = ["train", "--seed", seed, "--log", log, "--quiet"]
        if a.devices:
            arguments += ["--devices", a.devices]
        if a.data:
            arguments += ["--data", a.data]
        said = lockstep(a.lockstep, *arguments).strip().splitlines()
        curve = [r["test_acc"] for r in read_log(log) if "epoch" in r and "test_acc" in r]
    print(f"seed {seed}: {said[-2]}; {said[-1]}", file=sys.stderr, flush=True)
    return curve, said[-1].split()[-1]


def write(path, result):
    with open(path + ".part", "w") as f:
        json.dump(result, f, indent=1)
        f.write("\n")
    os.replace(path + ".part", path)


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--seeds", type=int, default=5)
    p.add_argument("--devices")
    p.add_argument("--data")
    p.add_argument("--lockstep", default=PROGRAM)
    p.add_argument("--out", default=os.path.join(HERE, "lenet_lockstep.json"))
    p.add_argument("--peer", default=os.path.join(HERE, "lenet_torch.json"))
    p.add_argument("--compare-only", action="store_true", help="compare the two files as they are")
    a = p.parse_args()
    if not a.compare_only:
        result = {"program": lockstep(a.lockstep, "--version").strip().splitlines()[0], "accuracy": {}, "fingerprint": {}}
        for seed in range(a.seeds):
            result["accuracy"][str(seed)], result["fingerprint"][str(seed)] = train(seed, a)
            write(a.out, result)
    found = []
    for name, path in (("Lockstep", a.out), ("PyTorch", a.peer)):
        with open(path) as f:
            final = [curve[-1] for curve in json.load(f)["accuracy"].values()]
        mean, error = mean_and_error(final)
        found.append((mean, error))
        print(f"{name + ':':10s}{', '.join(f'{x:.4f}' for x in final)}: mean {mean:.4f}, standard error {error:.4f}")
    difference = abs(found[0][0] - found[1][0])
    error = math.hypot(found[0][1], found[1][1])
    print(f"difference of the means: {difference:.4f}, {difference / error:.2f} standard errors of the difference ({error:.4f})")
    return verdict(difference < 2 * error or difference < 0.01)


if __name__ == "__main__":
    sys.exit(main())
