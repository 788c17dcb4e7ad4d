#!/usr/bin/env python3
"""The same starting weights, the same images in the same order: do Lockstep's losses follow PyTorch's?

LeNet, 100 steps in file order, batch 256, weights handed over as safetensors. Four cases:
- book: Normal(0, 0.01) weights and learning rate 0.2, the settings of `./run`. All 100 steps lie on the plateau near ln 10.
- leaving: PyTorch's own start of such layers at learning rate 0.04, which leaves the plateau within the 100 steps.
- learning: weights after one epoch of PyTorch, learning rate 0.02, losses from 0.6 to 0.9.
- chaos: PyTorch's own start at learning rate 0.2. Learning is so fast that rounding grows beyond all bounds: PyTorch's
  own runs in float32, float64 and channels_last part as well. Printed, not judged.
In the others the largest relative difference of the losses between Lockstep and PyTorch in float32 must stay below 1 %.
As a yardstick the same is printed for PyTorch in float32 with channels_last, which changes nothing but the order of
additions, and for PyTorch in float64.

    PYTHON bench/agreement/losses.py [--steps N] [--devices LIST] [--lockstep PATH] [--torch-only]
"""
import argparse
import copy
import os
import sys
import tempfile

from common import PROGRAM, lockstep, read_log, verdict
import torch
import torch.nn.functional as F
from networks import DATA, LeNet, init_default, init_normal, load, tensors
from safetensors.torch import save_file

LIMIT = 0.01


def book(images, labels):
    net = LeNet()
    init_normal(net)
    return net


def pytorch(images, labels):
    net = LeNet()
    init_default(net)
    return net


def one_epoch(images, labels):
    net = pytorch(images, labels)
    torch_losses(net, images, labels, steps=-(-len(labels) // 256), batch=256, lr=0.05)
    return net


#        name        start      lr    judged
CASES = (("book", book, 0.2, True), ("leaving", pytorch, 0.04, True), ("learning", one_epoch, 0.02, True),
         ("chaos", pytorch, 0.2, False))


def torch_losses(net, images, labels, steps, batch, lr):
    """Trains `net` in file order and gives the loss before each update."""
    dtype = next(net.parameters()).dtype
    losses = []
    batches = -(-len(labels) // batch)
    for k in range(steps):
        rows = slice(k % batches * batch, (k % batches + 1) * batch)
        net.zero_grad()
        loss = F.cross_entropy(net(images[rows].to(dtype)), labels[rows])
        loss.backward()
        with torch.no_grad():
            for p in net.parameters():
                p -= lr * p.grad
        losses.append(loss.item())
    return losses


def lockstep_losses(weights, lr, directory, a):
    start, log = os.path.join(directory, "start.safetensors"), os.path.join(directory, "run.jsonl")
    save_file(weights, start)
    arguments = ["train", "--model", "lenet", "--weights", start, "--no-shuffle", "--steps", a.steps, "--batch", a.batch,
                 "--lr", lr, "--data", a.data, "--limit-test", 256, "--log", log, "--quiet"]
    if a.devices:
        arguments += ["--devices", a.devices]
    lockstep(a.lockstep, *arguments)
    return [r["loss"] for r in read_log(log) if "step" in r and "loss" in r]


def compare(what, a, b):
    """Prints the largest relative difference and the first step (from 1) above the limit; gives the former."""
    if len(a) != len(b):
        sys.exit(f"{what}: {len(a)} losses against {len(b)}")
    apart = [abs(x - y) / abs(y) for x, y in zip(a, b)]
    above = next((f", above {LIMIT:.0%} from step {k}" for k, d in enumerate(apart, 1) if d > LIMIT), "")
    print(f"  {what + ':':40s} {max(apart):.1e}{above}", flush=True)
    return max(apart)


def run_case(name, start, lr, judged, images, labels, a):
    torch.manual_seed(0)
    net = start(images, labels)
    weights = {n: t.clone() for n, t in net.state_dict().items()}
    theirs = torch_losses(copy.deepcopy(net), images, labels, a.steps, a.batch, lr)
    print(f"{name}: learning rate {lr}, PyTorch's loss from {theirs[0]:.4f} to {theirs[-1]:.4f}; largest relative differences:")
    passed = True
    if not a.torch_only:
        with tempfile.TemporaryDirectory() as directory:
            ours = lockstep_losses(weights, lr, directory, a)
        passed = compare("Lockstep against PyTorch f32", ours, theirs) < LIMIT or not judged
    last = torch_losses(copy.deepcopy(net).to(memory_format=torch.channels_last), images, labels, a.steps, a.batch, lr)
    compare("PyTorch f32 channels_last against f32", last, theirs)
    compare("PyTorch f64 against f32", torch_losses(net.double(), images, labels, a.steps, a.batch, lr), theirs)
    return passed


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--cases", default=",".join(c[0] for c in CASES))
    p.add_argument("--steps", type=int, default=100)
    p.add_argument("--batch", type=int, default=256)
    p.add_argument("--devices")
    p.add_argument("--data", default=DATA)
    p.add_argument("--lockstep", default=PROGRAM)
    p.add_argument("--torch-only", action="store_true", help="leave out Lockstep")
    a = p.parse_args()
    images, labels = tensors(*load(a.data, "train"))
    chosen = [c for c in CASES if c[0] in a.cases.split(",")]
    results = [run_case(*c, images, labels, a) for c in chosen]
    return verdict(all(results)) if not a.torch_only else 0


if __name__ == "__main__":
    sys.exit(main())
