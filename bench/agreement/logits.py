"""Logits of Lockstep beside another program's, as the agreement scripts compare them. Needs numpy."""
import os
import sys

from common import PROGRAM, lockstep
import numpy as np
from peer import DATA

LIMIT = 1e-4  # of the largest logit


def add_options(parser):
    parser.add_argument("--images", type=int, default=200)
    parser.add_argument("--devices")
    parser.add_argument("--data", default=DATA)
    parser.add_argument("--lockstep", default=PROGRAM)


def lockstep_weights(model, directory, a):
    """Lockstep trains a few steps; the file that it saves, and the last line that it says."""
    path = os.path.join(directory, model + "_lockstep.safetensors")
    arguments = ["train", "--model", model, "--init", "he", "--lr", 0.05, "--batch", 64, "--steps", 4, "--limit", 256,
                 "--limit-test", 64, "--data", a.data, "--save", path, "--quiet"]
    if a.devices:
        arguments += ["--devices", a.devices]
    return path, lockstep(a.lockstep, *arguments).strip().splitlines()[-1]


def lockstep_logits(weights, model, directory, a):
    """`lockstep predict`; model None: as the file says."""
    out = os.path.join(directory, "logits.npy")
    arguments = ["predict", "--weights", weights, "--out", out, "--limit-test", a.images, "--data", a.data]
    if model:
        arguments += ["--model", model]
    if a.devices:
        arguments += ["--devices", a.devices]
    lockstep(a.lockstep, *arguments)
    logits = np.load(out)
    if logits.dtype != np.float32 or logits.shape != (a.images, 10):
        sys.exit(f"{out} holds {logits.dtype} {logits.shape}, expected float32 {(a.images, 10)}")
    return logits


def compare(what, ours, theirs, limit=LIMIT):
    """Prints and judges the largest difference, relative to the largest logit."""
    largest = float(np.abs(theirs).max())
    worst = float(np.abs(ours - theirs).max()) / largest
    same = int((ours.argmax(1) == theirs.argmax(1)).sum())
    print(f"  {what}: largest difference {worst:.2e} of the largest logit ({largest:.3f}); same class for {same} of {len(ours)}")
    return worst < limit
