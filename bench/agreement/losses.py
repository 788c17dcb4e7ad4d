#!/usr/bin/env python3
"""The same starting weights, the same images in the same order: do Lockstep's losses follow PyTorch's?

LeNet, 100 steps in file order, batch 256, learning rate 0.2, from two sets of weights that are written as safetensors:
PyTorch's own start of such layers (learns at once) and the book's Normal(0, 0.01). Prints the largest relative difference
of the losses between Lockstep and PyTorch in float32 (must be below 1 %), and how far PyTorch's own float32 runs are from
PyTorch in float64: once as they are, and once with channels_last, which changes nothing but the order of additions.

    PYTHON bench/agreement/losses.py [--steps N] [--devices LIST] [--lockstep PATH] [--torch-only]
"""
import argparse
import os
import sys
import tempfile

from common import PROGRAM, lockstep, read_log, verdict
import torch
import torch.nn.functional as F
from networks import DATA, LeNet, init_default, init_normal, load, tensors
from safetensors.torch import save_file

LIMIT = 0.01


def torch_losses(weights, images, labels, a, dtype=torch.float32, memory_format=torch.contiguous_format):
    net = LeNet()
    net.load_state_dict(weights)
    net = net.to(dtype).to(memory_format=memory_format)
    losses = []
    batches = -(-len(labels) // a.batch)
    for k in range(a.steps):
        rows = slice(k % batches * a.batch, (k % batches + 1) * a.batch)
        net.zero_grad()
        loss = F.cross_entropy(net(images[rows].to(dtype, memory_format=memory_format)), labels[rows])
        loss.backward()
        with torch.no_grad():
            for p in net.parameters():
                p -= a.lr * p.grad
        losses.append(loss.item())
    return losses


def lockstep_losses(weights, directory, a):
    start, log = os.path.join(directory, "start.safetensors"), os.path.join(directory, "run.jsonl")
    save_file(weights, start)
    arguments = ["train", "--model", "lenet", "--weights", start, "--no-shuffle", "--steps", a.steps, "--batch", a.batch,
                 "--lr", a.lr, "--data", a.data, "--limit-test", 256, "--log", log, "--quiet"]
    if a.devices:
        arguments += ["--devices", a.devices]
    lockstep(a.lockstep, *arguments)
    return [r["loss"] for r in read_log(log) if "step" in r and "loss" in r]


def difference(a, b):
    """The largest relative difference and the step (from 1) where it is."""
    if len(a) != len(b):
        sys.exit(f"{len(a)} losses against {len(b)}")
    return max((abs(x - y) / abs(y), k) for k, (x, y) in enumerate(zip(a, b), 1))


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--steps", type=int, default=100)
    p.add_argument("--batch", type=int, default=256)
    p.add_argument("--lr", type=float, default=0.2)
    p.add_argument("--devices")
    p.add_argument("--data", default=DATA)
    p.add_argument("--lockstep", default=PROGRAM)
    p.add_argument("--torch-only", action="store_true", help="leave out Lockstep")
    a = p.parse_args()
    images, labels = tensors(*load(a.data, "train"))
    passed = True
    for name, init in (("pytorch", init_default), ("normal:0.01", init_normal)):
        torch.manual_seed(0)
        net = LeNet()
        init(net)
        weights = {n: t.clone() for n, t in net.state_dict().items()}
        exact = torch_losses(weights, images, labels, a, torch.float64)
        plain = torch_losses(weights, images, labels, a)
        other = torch_losses(weights, images, labels, a, memory_format=torch.channels_last)
        print(f"start {name}: PyTorch's loss goes from {plain[0]:.6f} to {plain[-1]:.6f} in {a.steps} steps")
        pairs = [("PyTorch f32 against f64", plain, exact), ("PyTorch f32, channels_last against f64", other, exact)]
        if not a.torch_only:
            with tempfile.TemporaryDirectory() as directory:
                ours = lockstep_losses(weights, directory, a)
            pairs += [("Lockstep against PyTorch f64", ours, exact), ("Lockstep against PyTorch f32", ours, plain)]
        for what, x, y in pairs:
            worst, step = difference(x, y)
            print(f"  {what + ':':40s} largest relative difference {worst:.2e} (step {step})")
        if not a.torch_only:
            passed = passed and difference(ours, plain)[0] < LIMIT
    return verdict(passed) if not a.torch_only else 0


if __name__ == "__main__":
    sys.exit(main())
