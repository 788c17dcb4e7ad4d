#!/usr/bin/env python3
"""Files in both directions: Lockstep predicts with PyTorch's weights, PyTorch with Lockstep's.

For both networks:
1. PyTorch trains a few steps (so that ResNet-18's running statistics are real ones) and saves its state_dict as
   safetensors, num_batches_tracked included. `lockstep predict` must give PyTorch's logits to 1e-4 of the largest.
2. Lockstep trains a few steps and saves; Python's safetensors reads the file, NumPy's arrays of it have the fingerprint that the
   program said, a strict load_state_dict takes it, and PyTorch's logits must agree again.

    PYTHON bench/agreement/predict.py [--images N] [--devices LIST] [--lockstep PATH]
"""
import argparse
import hashlib
import os
import sys
import tempfile

from common import verdict
from logits import add_options, compare, lockstep_logits, lockstep_weights
import torch
import torch.nn.functional as F
from networks import LeNet, init_default, load, resnet18, tensors
from safetensors import safe_open
from safetensors.numpy import load_file as load_arrays
from safetensors.torch import load_file, save_file


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


def fingerprint(arrays):
    """SHA-256 over name, a zero byte and the values, in byte order of the names."""
    digest = hashlib.sha256()
    for name in sorted(arrays, key=str.encode):
        digest.update(name.encode() + b"\0" + arrays[name].astype("<f4").tobytes())
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

    ours, said = lockstep_weights(model, directory, a)
    state = load_file(ours)
    net = make(model)
    net.load_state_dict(state, strict=True)
    with safe_open(ours, "pt") as f:
        print(f"  Lockstep's file: {len(state)} tensors, strict load_state_dict takes it; metadata {f.metadata()}")
    digits = fingerprint(load_arrays(ours))
    if said != f"fingerprint: {digits}":
        print(f"  fingerprint of NumPy's arrays from the file {digits}, but the program says: {said}")
        passed = False
    logits = lockstep_logits(ours, None, directory, a)  # the file's metadata names the model
    return compare("Lockstep's file", logits, torch_logits(net, images)) and passed


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    add_options(p)
    p.add_argument("--torch-only", action="store_true", help="only the first of the two directions")
    a = p.parse_args()
    train, test = tensors(*load(a.data, "train")), tensors(*load(a.data, "t10k"))
    with tempfile.TemporaryDirectory() as directory:
        results = [check_model(model, train, test, directory, a) for model in ("lenet", "resnet18")]
    return verdict(all(results))


if __name__ == "__main__":
    sys.exit(main())
