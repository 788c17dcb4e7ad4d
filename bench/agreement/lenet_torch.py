#!/usr/bin/env python3
"""The accuracy that PyTorch reaches with the book's from-scratch LeNet, over several seeds.

Normal(0, 0.01) weights, zero biases, batch 256 (the last of an epoch has 96), learning rate 0.2 without momentum,
10 epochs in a new order each, images/255. Writes the test accuracy after each epoch to a JSON file after each seed,
and prints mean and standard error at the end.

    PYTHON bench/agreement/lenet_torch.py [--seeds N] [--threads N] [--out FILE]
"""
import argparse
import json
import os
import platform
import sys
import time

from common import HERE, mean_and_error
import torch
import torch.nn.functional as F
from networks import DATA, LeNet, init_normal, load, tensors


def train(seed, epochs, batch, lr, train_set, test_set):
    torch.manual_seed(seed)
    net = LeNet()
    init_normal(net)
    x, y = train_set
    accuracy = []
    for epoch in range(epochs):
        start = time.perf_counter()
        order = torch.randperm(len(y))
        for k in range(0, len(y), batch):
            rows = order[k:k + batch]
            net.zero_grad()
            F.cross_entropy(net(x[rows]), y[rows]).backward()
            with torch.no_grad():
                for p in net.parameters():
                    p -= lr * p.grad
        seconds = time.perf_counter() - start
        with torch.no_grad():
            right = sum(int((net(a).argmax(1) == b).sum()) for a, b in zip(test_set[0].split(1000), test_set[1].split(1000)))
        accuracy.append(right / len(test_set[1]))
        print(f"seed {seed} epoch {epoch + 1:2d}: test acc {accuracy[-1]:.4f}, {seconds:.1f} s", file=sys.stderr, flush=True)
    return accuracy


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--seeds", type=int, default=5)
    p.add_argument("--epochs", type=int, default=10)
    p.add_argument("--batch", type=int, default=256)
    p.add_argument("--lr", type=float, default=0.2)
    p.add_argument("--threads", type=int, default=1)
    p.add_argument("--data", default=DATA)
    p.add_argument("--out", default=os.path.join(HERE, "lenet_torch.json"))
    a = p.parse_args()
    torch.set_num_threads(a.threads)
    train_set, test_set = tensors(*load(a.data, "train")), tensors(*load(a.data, "t10k"))
    result = {"peer": "pytorch " + torch.__version__, "python": platform.python_version(), "model": "lenet",
              "init": "normal:0.01", "batch": a.batch, "lr": a.lr, "epochs": a.epochs, "accuracy": {}}
    for seed in range(a.seeds):
        result["accuracy"][str(seed)] = train(seed, a.epochs, a.batch, a.lr, train_set, test_set)
        with open(a.out + ".part", "w") as f:
            json.dump(result, f, indent=1)
            f.write("\n")
        os.replace(a.out + ".part", a.out)
    final = [curve[-1] for curve in result["accuracy"].values()]
    mean, error = mean_and_error(final)
    print(f"final test accuracy {final}: mean {mean:.4f}, standard error {error:.4f}")


if __name__ == "__main__":
    main()
