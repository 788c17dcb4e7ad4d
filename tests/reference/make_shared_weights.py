#!/usr/bin/env python3
"""Steps of networks whose modules and parameters have several uses, computed by PyTorch in float64.

    PYTHON tests/reference/make_shared_weights.py [FILE]
    PYTHON tests/reference/make_shared_weights.py --check [FILE]

`shared_weights.json` beside this script is its output; tests/test_shared_weights.c reads it. `--check` computes the figures anew and fails where one
of the file is off by more than 1e-12 of the largest of its list.

The network is trained on 12 images of 4 x 4, in order, in batches of 6. Byte i of the images is x >> 24 of the i-th number of
x = x*1664525 + 1013904223 (modulo 2**32), from x = 1, used as byte/255; image i has the label 7*i % 3. A convolution of 3 x 3 to two
channels, "in"; a second one, "again", with tanh behind it, a LayerNorm over the channels, "norm", and a BatchNorm of the momentum 1/4,
"bn", in turn, each used as often as the case says; the result h as features; then 0.5*h + (h W') W with W of (5, features), "W"; and a linear layer to three classes, "fc". SGD of
the rate 0.0625 with momentum 0.9. Recorded are the loss of each step and all tensors after the last one.
"""
import figures
import torch
import torch.nn.functional as F

ROWS, SIZE, CHANNELS, CLASSES, BATCH, STEPS, MIDDLE = 12, 4, 2, 3, 6, 5, 5
FEATURES = CHANNELS * SIZE * SIZE
SHAPES = {"in.weight": [CHANNELS, 1, 3, 3], "in.bias": [CHANNELS], "again.weight": [CHANNELS, CHANNELS, 3, 3], "again.bias": [CHANNELS],
          "norm.weight": [CHANNELS], "norm.bias": [CHANNELS], "bn.weight": [CHANNELS], "bn.bias": [CHANNELS],
          "bn.running_mean": [CHANNELS], "bn.running_var": [CHANNELS], "W": [MIDDLE, FEATURES], "fc.weight": [CLASSES, FEATURES], "fc.bias": [CLASSES]}
CASES = [{"name": "once", "convolutions": 1, "norms": 1, "batch_norms": 1},
         {"name": "twice", "convolutions": 2, "norms": 2, "batch_norms": 2},
         {"name": "four", "convolutions": 4, "norms": 2, "batch_norms": 3}]


def start():
    """Multiples of 1/64 between -1/4 and 1/4, and 1 more of what multiplies or divides."""
    values = {}
    for k, (name, shape) in enumerate(SHAPES.items()):
        n = torch.Size(shape).numel()
        values[name] = [((17 * k + 29 * i) % 33 - 16) / 64 + (name in ("norm.weight", "bn.weight", "bn.running_var")) for i in range(n)]
    return values


def pixels():
    x, out = 1, []
    for _ in range(ROWS * SIZE * SIZE):
        x = (x * 1664525 + 1013904223) % 2**32
        out.append((x >> 24) / 255)
    return torch.tensor(out, dtype=torch.float64).reshape(ROWS, 1, SIZE, SIZE)


def forward(case, v, x):
    x = F.conv2d(x, v["in.weight"], v["in.bias"], padding=1)
    for k in range(case["convolutions"]):
        x = torch.tanh(F.conv2d(x, v["again.weight"], v["again.bias"], padding=1))
        if k < case["norms"]:
            x = F.layer_norm(x.movedim(1, -1), [CHANNELS], v["norm.weight"], v["norm.bias"], 0.125).movedim(-1, 1)
        if k < case["batch_norms"]:
            x = F.batch_norm(x, v["bn.running_mean"], v["bn.running_var"], v["bn.weight"], v["bn.bias"], True, 0.25, 1e-5)
    h = x.flatten(1)
    return F.linear(0.5 * h + F.linear(h, v["W"]) @ v["W"], v["fc.weight"], v["fc.bias"])


def by_torch(case):
    v = {name: torch.tensor(values, dtype=torch.float64).reshape(SHAPES[name]) for name, values in start().items()}
    trained = [t.requires_grad_() for name, t in v.items() if "running" not in name]
    optimizer = torch.optim.SGD(trained, lr=0.0625, momentum=0.9)
    losses, images = [], pixels()
    labels = torch.tensor([7 * i % CLASSES for i in range(ROWS)])
    for k in range(STEPS):
        of = slice(k * BATCH % ROWS, k * BATCH % ROWS + BATCH)
        loss = F.cross_entropy(forward(case, v, images[of]), labels[of])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return {"losses": losses, **{name: t.detach().flatten().tolist() for name, t in v.items()}}


def description(case):
    return case | {"start": start()}


if __name__ == "__main__":
    figures.main("shared_weights", CASES, description, {"PyTorch": by_torch})
