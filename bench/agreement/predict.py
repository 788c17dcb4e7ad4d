#!/usr/bin/env python3
"""Files in both directions: Lockstep predicts with PyTorch's weights, PyTorch with Lockstep's.

For both networks:
1. PyTorch trains a few steps (so that ResNet-18's running statistics are real ones) and saves its state_dict as
   safetensors, num_batches_tracked included. `lockstep predict` must give PyTorch's logits to 1e-4 of the largest.
2. Lockstep trains a few steps and saves; Python's safetensors reads the file, a strict load_state_dict takes it, and
   PyTorch's logits must agree again.

    PYTHON bench/agreement/predict.py [--images N] [--devices LIST] [--lockstep PATH]
"""
import argparse
import hashlib
import os
import sys
import tempfile

from common import PROGRAM, lockstep, verdict
import numpy as np
import torch
import torch.nn.functional as F
from networks import DATA, LeNet, init_default, load, resnet18, tensors
from safetensors import safe_open
from safetensors.torch import load_file, save_file

LIMIT = 1e-4


def make(model):
    torch.manual_seed(0)
    if model == "resnet18":
        return resnet18()
    net = LeNet()
    init_default(net)
    return net


def train_a_little(net, images, labels, steps=4, batch=64, lr=0.05):
    net.train()
    for k in range(steps):
        rows = slice(k * batch, (k + 1) * batch)
        net.zero_grad()
        F.cross_entropy(net(images[rows]), labels[rows]).backward()
        with torch.no_grad():
            for p in net.parameters():
                p -= lr * p.grad


def torch_logits(net, images):
    net.eval()
    with torch.no_grad():
        return net(images).numpy()


def lockstep_logits(weights, model, directory, a):
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


def compare(what, ours, theirs):
    """Prints and judges the largest difference, relative to the largest logit."""
    largest = float(np.abs(theirs).max())
    worst = float(np.abs(ours - theirs).max()) / largest
    same = int((ours.argmax(1) == theirs.argmax(1)).sum())
    print(f"  {what}: largest difference {worst:.2e} of the largest logit ({largest:.3f}); same class for {same} of {len(ours)}")
    return worst < LIMIT


def fingerprint(tensors_by_name):
    """SHA-256 over name, a zero byte and the values, in byte order of the names."""
    digest = hashlib.sha256()
    for name in sorted(tensors_by_name, key=str.encode):
        digest.update(name.encode() + b"\0" + tensors_by_name[name].numpy().astype("<f4").tobytes())
    return digest.hexdigest()


def check_model(model, train, test, directory, a):
    print(model)
    images = test[0][:a.images]

    net = make(model)
    train_a_little(net, *train)
    theirs = os.path.join(directory, model + "_torch.safetensors")
    save_file(net.state_dict(), theirs)
    passed = compare("PyTorch's file", lockstep_logits(theirs, model, directory, a), torch_logits(net, images))
    if a.torch_only:
        return passed

    ours = os.path.join(directory, model + "_lockstep.safetensors")
    arguments = ["train", "--model", model, "--init", "he", "--lr", 0.05, "--batch", 64, "--steps", 4, "--limit", 256,
                 "--limit-test", 64, "--data", a.data, "--save", ours, "--quiet"]
    if a.devices:
        arguments += ["--devices", a.devices]
    said = lockstep(a.lockstep, *arguments).strip().splitlines()[-1]
    state = load_file(ours)
    net = make(model)
    net.load_state_dict(state, strict=True)
    with safe_open(ours, "pt") as f:
        print(f"  Lockstep's file: {len(state)} tensors, strict load_state_dict takes it; metadata {f.metadata()}")
    if said != f"fingerprint: {fingerprint(state)}":
        print(f"  fingerprint from the file {fingerprint(state)}, but the program says: {said}")
        passed = False
    logits = lockstep_logits(ours, None, directory, a)  # the file's metadata names the model
    return compare("Lockstep's file", logits, torch_logits(net, images)) and passed


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--images", type=int, default=200)
    p.add_argument("--devices")
    p.add_argument("--data", default=DATA)
    p.add_argument("--lockstep", default=PROGRAM)
    p.add_argument("--torch-only", action="store_true", help="only the first of the two directions")
    a = p.parse_args()
    train, test = tensors(*load(a.data, "train")), tensors(*load(a.data, "t10k"))
    with tempfile.TemporaryDirectory() as directory:
        results = [check_model(model, train, test, directory, a) for model in ("lenet", "resnet18")]
    return verdict(all(results))


if __name__ == "__main__":
    sys.exit(main())
