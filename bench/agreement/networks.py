#!/usr/bin/env python3
"""The networks of examples/networks: PyTorch's programs load what Lockstep trained, by name, and have its logits to 1e-5 of the largest; what they
save Lockstep reads.

    PYTHON bench/agreement/networks.py [--lockstep PATH] FOLDER

The folder has weights, inputs and outputs as the tests of examples write them (`test_unet FOLDER`).
"""
import argparse
import importlib
import os
import subprocess
import sys

from common import PROGRAM, ROOT, lockstep, verdict
from logits import compare
import numpy as np
from safetensors.torch import load_file
import torch

PROGRAMS = os.path.join(ROOT, "examples", "networks")
sys.path.insert(0, PROGRAMS)
SHAPES = {"mobilenet": (3, 32, 32), "unet": (1, 32, 32), "multilabel": (3, 24, 24), "lstm": (32, 2), "transformer": (64,),
          "siamese": (1, 24, 24), "autoencoder": (576,), "transfer": (3, 24, 24)}


def check(name, shape, folder):
    path = os.path.join(folder, name)
    net = importlib.import_module(name).Network().eval()
    missing, more = net.load_state_dict(load_file(path + ".safetensors"), strict=False)
    missing = [key for key in missing if not key.endswith("num_batches_tracked")]
    if missing or more:
        sys.exit(f"{name}: not in the file: {missing}, not in the network: {more}")
    inputs = [torch.from_numpy(np.load(path + "_in.npy")).reshape(-1, *shape)]
    if name == "lstm":
        inputs.append(torch.from_numpy(np.load(path + "_in1.npy")).flatten().long())
    if name == "transformer":
        inputs[0] = inputs[0].long()
    if name == "siamese":
        inputs.append(torch.from_numpy(np.load(path + "_in1.npy")).reshape(-1, *shape))
    with torch.no_grad():
        theirs = net(*inputs).flatten(1).numpy()
    return compare(f"PyTorch {torch.__version__}", np.load(path + "_out.npy"), theirs, 1e-5)


def run(name, folder, program):
    """An epoch of PyTorch's program over a little."""
    path = os.path.join(folder, name + "_theirs.safetensors")
    more = {"transformer": [os.path.join(ROOT, "LICENSE")], "transfer": [os.path.join(folder, "marks.safetensors")]}.get(name, [])
    subprocess.run([sys.executable, "-B", os.path.join(PROGRAMS, name + ".py"), "1", "64", *more, path], check=True)
    print(f"  its own weights: fingerprint {lockstep(program, 'fingerprint', path).split()[-1][:16]}")


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--lockstep", default=PROGRAM)
    p.add_argument("folder")
    a = p.parse_args()
    results = []
    for name, shape in SHAPES.items():
        print(name, flush=True)
        results.append(check(name, shape, a.folder))
        run(name, a.folder, a.lockstep)
    return verdict(all(results))


if __name__ == "__main__":
    sys.exit(main())
