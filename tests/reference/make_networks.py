#!/usr/bin/env python3
"""Five steps of the networks of examples/networks, by PyTorch's programs there, in float64.

    PYTHON tests/reference/make_networks.py [FILE]
    PYTHON tests/reference/make_networks.py --check [FILE]

`networks.json` beside this script is its output; tests/example_network.c reads it. `--check` computes the figures anew and fails where one of
the file is off by more than 1e-12 of the largest of its list.

Networks, losses and data are the programs' own: 40 examples from the number 7 on, in order, in batches of 8. A parameter's first numbers are
float32 of ((x >> 8)/2**24 - 1/2)*wide of the numbers of x = x*1664525 + 1013904223 (modulo 2**32), from FNV-1a of its name; wide is 3/sqrt(inputs
of a row), of vectors 1/4, to which 1 is added where they multiply or divide. SGD has the rate 0.03125 and momentum 0.9, AdamW the rate 0.003 and a
weight decay of 0.01. Of transfer the head has ten times the rate; of transfer_frozen the stem is frozen instead. Recorded are the loss of each step and, after SGD's last one, the norm of each tensor's difference to its start.
"""
import importlib
import math
import os
import sys

import figures
import numpy as np
import torch

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "examples", "networks"))
ROWS, BATCH = 40, 8
NAMES = ["mobilenet", "unet", "transformer", "lstm", "multilabel", "siamese", "autoencoder", "transfer", "transfer_frozen"]
CASES = [{"name": name, "optimizer": optimizer} for name in NAMES for optimizer in ("SGD", "AdamW")]


def start(name, shape):
    x, numbers = 2166136261, []
    for byte in name.encode():
        x = (x ^ byte) * 16777619 % 2**32
    one = len(shape) == 1 and name.endswith(("weight", "running_var"))
    wide = 0.25 if len(shape) == 1 else 3 / math.sqrt(shape.numel() / shape[0])
    for _ in range(shape.numel()):
        x = (x * 1664525 + 1013904223) % 2**32
        numbers.append(((x >> 8) / 2**24 - 0.5) * wide + one)
    return torch.tensor(np.array(numbers, np.float32), dtype=torch.float64).reshape(shape)


def text(program):
    x, symbols = 1, []
    for _ in range(program.TOKENS + 1 + (ROWS - 1) * program.STEP):
        x = (x * 1664525 + 1013904223) % 2**32
        symbols.append(32 + (x >> 24) % 90)
    return bytes(symbols)


def rows(name, program):
    if name == "transformer":
        return program.windows(text(program))
    return getattr(program, {"lstm": "series", "siamese": "pairs"}.get(name, "pictures"))(7, ROWS)


def program_of(name):
    return importlib.import_module(name.removesuffix("_frozen"))


def tensors_of(net):
    return {name: t for name, t in net.state_dict().items() if not name.endswith("num_batches_tracked")}


def description(case):
    return case | {"names": list(tensors_of(program_of(case["name"]).Network()))}


def by_torch(case):
    program = program_of(case["name"])
    data, net = rows(case["name"], program), program.Network().double()
    tensors = tensors_of(net)
    first = {name: start(name, t.shape) for name, t in tensors.items()}
    net.load_state_dict(first, strict=False)
    if case["name"] == "transfer_frozen":
        program.freeze(net, True)
    lr = 0.03125 if case["optimizer"] == "SGD" else 0.003
    groups = program.rates(net, lr) if case["name"] == "transfer" else net.parameters()
    if case["optimizer"] == "SGD":
        optimizer = torch.optim.SGD(groups, lr=lr, momentum=0.9)
    else:
        optimizer = torch.optim.AdamW(groups, lr=lr, weight_decay=0.01)
    losses = []
    for k in range(0, ROWS, BATCH):
        batch = [t.double() if t.is_floating_point() else t for t in data[k:k + BATCH]]
        optimizer.zero_grad()
        loss = program.loss(net, *batch)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    moved = [(t - first[name]).norm().item() for name, t in tensors.items()]
    return {"losses": losses} | ({"moved": moved} if case["optimizer"] == "SGD" else {})


if __name__ == "__main__":
    figures.main("networks", CASES, description, {"PyTorch": by_torch})
