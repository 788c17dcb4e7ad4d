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
PICTURE = ((1, 24, 24), torch.float32)
# Of each input the shape of a row, and what PyTorch's network takes it as.
INPUTS = {"mobilenet": [((3, 32, 32), torch.float32)], "unet": [((1, 32, 32), torch.float32)], "multilabel": [((3, 24, 24), torch.float32)],
          "lstm": [((32, 2), torch.float32), ((), torch.int64)], "transformer": [((64,), torch.int64)], "siamese": [PICTURE, PICTURE],
          "autoencoder": [((576,), torch.float32)], "transfer": [((3, 24, 24), torch.float32)]}


def check(name, wanted, folder):
    path = os.path.join(folder, name)
    net = importlib.import_module(name).Network().eval()
    missing, more = net.load_state_dict(load_file(path + ".safetensors"), strict=False)
    missing = [key for key in missing if not key.endswith("num_batches_tracked")]
    if missing or more:
        sys.exit(f"{name}: not in the file: {missing}, not in the network: {more}")
    inputs = [torch.from_numpy(np.load(f"{path}_in{i or ''}.npy")).reshape(-1, *shape).to(kind) for i, (shape, kind) in enumerate(wanted)]
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
    for name, wanted in INPUTS.items():
        print(name, flush=True)
        results.append(check(name, wanted, a.folder))
        run(name, a.folder, a.lockstep)
    return verdict(all(results))


if __name__ == "__main__":
    sys.exit(main())
