#!/usr/bin/env python3
"""Six steps of a network of which parts are frozen, and others are updated at other rates, computed by PyTorch in float64.

    PYTHON tests/reference/make_freezing.py [FILE]
    PYTHON tests/reference/make_freezing.py --check [FILE]

`freezing.json` beside this script is its output; tests/test_freezing.c reads it. Where the interpreter has no torch, the figures come
from the formulas, in Python's float64. `--check` computes them anew, by both where torch is there, and fails where a figure of the file
is off by more than 1e-12 of the largest of its list.

The network is a convolution of 3 x 3 to two channels, a BatchNorm, ReLU and a linear layer to three classes: "0", "1" and "4". It is
trained on 12 images of 4 x 4, in order, in batches of 6. Byte i of the images is x >> 24 of the i-th number of
x = x*1664525 + 1013904223 (modulo 2**32), from x = 1, used as byte/255; image i has the label 7*i % 3. `frozen` lists names that are
frozen: parameters that no update changes, and running statistics by which their BatchNorm normalises, and which stay. `groups` lists
names with factors for rate and weight decay. Recorded are the loss of each step, the norm of the gradient of what trains where it is
clipped, and all tensors after the last step.
"""
import fnmatch
import math

import figures

try:
    import torch
    import torch.nn.functional as F
except ImportError:
    torch = None

ROWS, SIZE, CHANNELS, CLASSES, BATCH, STEPS, EPS, MOMENTUM = 12, 4, 2, 3, 6, 6, 1e-5, 0.1
SHAPES = {"0.weight": [CHANNELS, 1, 3, 3], "0.bias": [CHANNELS], "1.weight": [CHANNELS], "1.bias": [CHANNELS],
          "1.running_mean": [CHANNELS], "1.running_var": [CHANNELS], "4.weight": [CLASSES, 8], "4.bias": [CLASSES]}
STATISTICS = ["1.running_mean", "1.running_var"]


def start():
    """Multiples of 1/64 between -1/2 and 1/2, of a variance between 1/2 and 3/2."""
    values = {}
    for k, (name, shape) in enumerate(SHAPES.items()):
        n = math.prod(shape)
        values[name] = [((17 * k + 29 * i) % 65 - 32) / 64 + (name == "1.running_var" or name == "1.weight") for i in range(n)]
    return values


def fitting(*patterns):
    return [name for name in SHAPES if any(fnmatch.fnmatchcase(name, p) for p in patterns)]


def group(names, lr=1, weight_decay=1):
    return {"names": names, "lr": lr, "weight_decay": weight_decay}


VECTORS = [name for name, shape in SHAPES.items() if len(shape) == 1 and name not in STATISTICS]
SGD = {"optimizer": "SGD", "lr": 0.5, "momentum": 0.9, "weight_decay": 0.1}
ADAM = {"optimizer": "Adam", "lr": 0.05, "eps": 0.01, "weight_decay": 0.2}
ADAMW = {"optimizer": "AdamW", "lr": 0.05, "eps": 0.01, "weight_decay": 0.4}

CASES = [{"name": "stem", "frozen": fitting("[01].*"), "groups": [], **SGD},
         {"name": "stem_adam", "frozen": fitting("[01].*"), "groups": [], **ADAM},
         {"name": "convolution", "frozen": fitting("0.*"), "groups": [], **SGD},
         {"name": "moving_statistics", "frozen": fitting("0.*", "1.weight", "1.bias"), "groups": [], **SGD},
         {"name": "statistics", "frozen": STATISTICS, "groups": [], **SGD},
         {"name": "head", "frozen": fitting("4.*"), "groups": [], **SGD},
         {"name": "middle", "frozen": fitting("1.*"), "groups": [], **ADAMW},
         {"name": "middle_trains", "frozen": fitting("[04].*"), "groups": [], **SGD},
         {"name": "clipped", "frozen": fitting("[01].*"), "groups": [], "clip_norm": 0.25, **SGD},
         {"name": "rates", "frozen": [], "groups": [group(fitting("4.*"), lr=2), group(fitting("0.*"), lr=0.25)], **SGD},
         {"name": "no_decay", "frozen": [], "groups": [group(VECTORS, weight_decay=0)], **ADAMW},
         {"name": "both_adam", "frozen": [], "groups": [group(VECTORS, lr=0.5, weight_decay=0), group(["4.weight"], lr=3)], **ADAM},
         {"name": "groups_clipped", "frozen": fitting("0.*"), "clip_norm": 0.25,
          "groups": [group(VECTORS, weight_decay=0), group(fitting("4.*"), lr=2)], **SGD}]


def trained(case):
    return [name for name in SHAPES if name not in STATISTICS and name not in case["frozen"]]


def factors(case, name):
    of = [g for g in case["groups"] if name in g["names"]]
    return math.prod(g["lr"] for g in of), math.prod(g["weight_decay"] for g in of)


def pixels():
    x, out = 1, []
    for _ in range(ROWS * SIZE * SIZE):
        x = (x * 1664525 + 1013904223) % 2**32
        out.append((x >> 24) / 255)
    return [out[i * SIZE * SIZE:(i + 1) * SIZE * SIZE] for i in range(ROWS)]


def batch(k):
    first = k * BATCH % ROWS
    return pixels()[first:first + BATCH], [7 * i % CLASSES for i in range(first, first + BATCH)]


# ---- The formulas ----

PLACES = [(i, j) for i in range(SIZE - 2) for j in range(SIZE - 2)]
TAPS = [(i, j) for i in range(3) for j in range(3)]


def windows(image):
    return [[image[(i + a) * SIZE + j + b] for a, b in TAPS] for i, j in PLACES]


def normalise(case, v, maps):
    """The statistics of each channel, 1/sqrt(variance + eps), and normalised maps; what is not frozen moves."""
    own = "1.running_mean" not in case["frozen"]
    means, inverses, made = [], [], [[None] * CHANNELS for _ in maps]
    for c in range(CHANNELS):
        numbers = [z for m in maps for z in m[c]]
        n = len(numbers)
        mean = sum(numbers) / n if own else v["1.running_mean"][c]
        variance = sum((z - mean)**2 for z in numbers) / n if own else v["1.running_var"][c]
        if own:
            v["1.running_mean"][c] += MOMENTUM * (mean - v["1.running_mean"][c])
            v["1.running_var"][c] += MOMENTUM * (variance * n / (n - 1) - v["1.running_var"][c])
        means.append(mean)
        inverses.append(1 / math.sqrt(variance + EPS))
        for m, to in zip(maps, made):
            to[c] = [(z - mean) * inverses[c] for z in m[c]]
    return inverses, made, own


def slopes(case, v, images, labels):
    """The mean loss, and the gradients of it."""
    of = [windows(image) for image in images]
    maps = [[[sum(w * x for w, x in zip(v["0.weight"][9 * c:9 * c + 9], at)) + v["0.bias"][c] for at in of_image] for c in range(CHANNELS)]
            for of_image in of]
    inverses, normed, own = normalise(case, v, maps)
    ys = [[v["1.weight"][c] * x + v["1.bias"][c] for c in range(CHANNELS) for x in n[c]] for n in normed]
    g = {name: [0.0] * math.prod(SHAPES[name]) for name in SHAPES if name not in STATISTICS}
    loss, dys = 0, []
    for y, label in zip(ys, labels):
        h = [max(x, 0) for x in y]
        logits = [sum(v["4.weight"][8 * o + i] * h[i] for i in range(8)) + v["4.bias"][o] for o in range(CLASSES)]
        most = max(logits)
        total = sum(math.exp(z - most) for z in logits)
        loss += most + math.log(total) - logits[label]
        d = [(math.exp(z - most) / total - (o == label)) / len(labels) for o, z in enumerate(logits)]
        for o in range(CLASSES):
            g["4.bias"][o] += d[o]
            for i in range(8):
                g["4.weight"][8 * o + i] += d[o] * h[i]
        dys.append([sum(d[o] * v["4.weight"][8 * o + i] for o in range(CLASSES)) * (y[i] > 0) for i in range(8)])
    for c in range(CHANNELS):
        dy = [d[4 * c:4 * c + 4] for d in dys]
        beta = sum(x for d in dy for x in d)
        gamma = sum(a * b for d, n in zip(dy, normed) for a, b in zip(d, n[c]))
        g["1.bias"][c], g["1.weight"][c] = beta, gamma
        n = 4 * len(labels)
        for d, xs, at in zip(dy, normed, of):
            for k in range(4):
                dz = v["1.weight"][c] * inverses[c] * (d[k] - (beta / n + xs[c][k] * gamma / n if own else 0))
                g["0.bias"][c] += 0 if own else dz
                for tap in range(9):
                    g["0.weight"][9 * c + tap] += dz * at[k][tap]
    return loss / len(labels), g


def update(case, name, w, g, moments, step):
    rate, decay = (a * b for a, b in zip(factors(case, name), (case["lr"], case["weight_decay"])))
    for i in range(len(w)):
        d = g[i]
        if case["optimizer"] != "AdamW":
            d += decay * w[i]
        if case["optimizer"] == "SGD":
            moments[i] = d if step == 0 else case["momentum"] * moments[i] + d
            w[i] -= rate * moments[i]
            continue
        m, s = moments[i] if step else (0, 0)
        moments[i] = m, s = 0.9 * m + 0.1 * d, 0.999 * s + 0.001 * d * d
        if case["optimizer"] == "AdamW":
            w[i] -= rate * decay * w[i]
        w[i] -= rate * m / (1 - 0.9**(step + 1)) / (math.sqrt(s / (1 - 0.999**(step + 1))) + case["eps"])


def by_formula(case, watch=lambda k, v: None):
    """`watch` is shown the tensors after each step."""
    v, losses, norms = start(), [], []
    moments = {name: [0.0] * len(v[name]) for name in v}
    for k in range(STEPS):
        loss, g = slopes(case, v, *batch(k))
        losses.append(loss)
        if "clip_norm" in case:
            norms.append(math.sqrt(sum(x * x for name in trained(case) for x in g[name])))
            shrink = min(1, case["clip_norm"] / (norms[-1] + 1e-6))
            g = {name: [x * shrink for x in g[name]] for name in g}
        for name in trained(case):
            update(case, name, v[name], g[name], moments[name], k)
        watch(k, v)
    return {"losses": losses, **({"norms": norms} if norms else {}), **v}


# ---- PyTorch ----


def by_torch(case, watch=lambda k, v: None):
    v = {name: torch.tensor(values, dtype=torch.float64).reshape(SHAPES[name]) for name, values in start().items()}
    for name in trained(case):
        v[name].requires_grad_()
    options = {key: case[key] for key in ("momentum", "eps") if key in case}
    lists = [{"params": [v[name]], "lr": case["lr"] * factors(case, name)[0], "weight_decay": case["weight_decay"] * factors(case, name)[1]}
             for name in trained(case)]
    optimizer = getattr(torch.optim, case["optimizer"])(lists, lr=case["lr"], **options)
    own, losses, norms = "1.running_mean" not in case["frozen"], [], []
    for k in range(STEPS):
        images, labels = batch(k)
        x = torch.tensor(images, dtype=torch.float64).reshape(-1, 1, SIZE, SIZE)
        x = F.conv2d(x, v["0.weight"], v["0.bias"])
        x = F.batch_norm(x, v["1.running_mean"], v["1.running_var"], v["1.weight"], v["1.bias"], own, MOMENTUM, EPS)
        loss = F.cross_entropy(F.linear(F.relu(x).flatten(1), v["4.weight"], v["4.bias"]), torch.tensor(labels))
        optimizer.zero_grad()
        loss.backward()
        if own and v["0.bias"].requires_grad:
            v["0.bias"].grad.zero_()  # by definition and not by rounding
        if "clip_norm" in case:
            norms.append(torch.nn.utils.clip_grad_norm_([v[name] for name in trained(case)], case["clip_norm"]).item())
        optimizer.step()
        watch(k, v)
        losses.append(loss.item())
    return {"losses": losses, **({"norms": norms} if norms else {}), **{name: t.detach().flatten().tolist() for name, t in v.items()}}


def description(case):
    return case | {"start": start()}


if __name__ == "__main__":
    figures.main("freezing", CASES, description, ({"PyTorch": by_torch} if torch else {}) | {"their formulas": by_formula})
