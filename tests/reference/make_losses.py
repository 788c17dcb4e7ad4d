#!/usr/bin/env python3
"""The losses and their gradients, computed by PyTorch in float64.

    PYTHON tests/reference/make_losses.py [FILE]
    PYTHON tests/reference/make_losses.py --check [FILE]

`losses.json` beside this script is its output; tests/test_losses.c reads it. Where the interpreter has no torch, the figures come from
the formulas that PyTorch documents, in Python's float64. `--check` computes them anew, by both where torch is there, and fails where a
figure of the file is off by more than 1e-12 of the largest of its loss.

Each loss has x and y, which floats hold exactly, and of the loss of each image i, as `reduction="none"` gives it and a mean over the
image, or of cross-entropies a sum: `each`, and dx and dy, the gradients of the sum of each * (i % 3 + 1). dy is null where targets have
none. `mean` is PyTorch's, over all there is, and mean_dx its gradient.
"""
import math

import figures

try:
    import torch
    import torch.nn.functional as F
except ImportError:
    torch = None


def numbers(n, seed, scale):
    """Multiples of 1/64 between -scale and scale, in no order."""
    return [((seed + 7919 * i) * 104729 % 2039 % (128 * scale + 1) - 64 * scale) / 64 for i in range(n)]


def count(shape):
    return math.prod(shape)


def weights(n):
    return [0.5 + (3 * c % 5) / 4 for c in range(n)]


def share(n, seed):
    """Multiples of 1/16 from 0 to 1."""
    return [(seed + 11 * i) % 17 / 16 for i in range(n)]


# ---- The formulas: of each image, its loss and the gradients of that, and how much of a mean it is ----


def of_pairs(one):
    """A loss that is a mean over an image's numbers: one(x, y, class) gives the loss and its two slopes."""
    def losses(case):
        images, inner = case["shape"][0], count(case["shape"][1:])
        places = count(case["shape"][2:])
        for i in range(images):
            made = [one(case, case["x"][k], case["y"][k], k % inner // places) for k in range(i * inner, (i + 1) * inner)]
            yield (sum(m[0] for m in made) / inner, [m[1] / inner for m in made], [m[2] / inner for m in made], 1)
    return losses


def mse(case, x, y, c):
    return (x - y)**2, 2 * (x - y), 2 * (y - x)


def l1(case, x, y, c):
    sign = (x > y) - (x < y)
    return abs(x - y), sign, -sign


def huber(case, x, y, c):
    d, delta = x - y, case.get("delta", 1)
    slope = d if abs(d) <= delta else math.copysign(delta, d)
    return (d * d / 2 if abs(d) <= delta else delta * (abs(d) - delta / 2)), slope, -slope


def bce(case, x, y, c):
    w = case["class_weights"][c] if "class_weights" in case else 1
    p = case["positive_weights"][c] if "positive_weights" in case else 1
    logarithm, q = min(x, 0) - math.log1p(math.exp(-abs(x))), 1 + (p - 1) * y
    below = 1 / (1 + math.exp(x))
    return w * ((1 - y) * x - q * logarithm), w * (1 - y - q * below), w * (-x - (p - 1) * logarithm)


def cross_entropy(case):
    """With labels of places, or as many targets as logits; PyTorch's documentation has the formula."""
    images, classes, each = case["shape"][0], case["shape"][1], count(case["shape"][2:])
    w, smoothing = case.get("class_weights", [1] * classes), case.get("smoothing", 0)
    labels = len(case["y"]) == images * each
    for i in range(images):
        loss, slopes, counted = 0, [0] * (classes * each), 0
        for at in range(each):
            z = [case["x"][(i * classes + c) * each + at] for c in range(classes)]
            y = [case["y"][(i * classes + c) * each + at] for c in range(classes)] if not labels else None
            label = case["y"][i * each + at] if labels else None
            if labels and label == case.get("ignore"):
                continue
            t = [w[c] * ((1 - smoothing) * (y[c] if y else c == label) + smoothing / classes) for c in range(classes)]
            s = math.log(math.fsum(map(math.exp, z)))
            loss += sum(t[c] * (s - z[c]) for c in range(classes))
            counted += w[label] if labels else 1
            for c in range(classes):
                slopes[c * each + at] = sum(t) * math.exp(z[c] - s) - t[c]
        yield loss, slopes, None, counted


# ---- PyTorch's ----


def tensor(values, shape):
    return torch.tensor(values, dtype=torch.float64).reshape(shape)


def by_class(case, key):
    return tensor(case[key], [-1] + [1] * (len(case["shape"]) - 2)) if key in case else None


def torch_bce(case, x, y, reduction):
    return F.binary_cross_entropy_with_logits(x, y, by_class(case, "class_weights"), reduction=reduction,
                                              pos_weight=by_class(case, "positive_weights"))


def torch_cross_entropy(case, x, y, reduction):
    labels = len(case["y"]) < len(case["x"])
    shape = [case["shape"][0]] + case["shape"][2:] if labels else case["shape"]
    w = torch.tensor(case["class_weights"], dtype=torch.float64) if "class_weights" in case else None
    y = torch.tensor(case["y"], dtype=torch.long if labels else torch.float64).reshape(shape)
    return F.cross_entropy(x, y, w, reduction=reduction, ignore_index=case.get("ignore", -100),
                           label_smoothing=case.get("smoothing", 0))


LOSSES = {"cross_entropy": (cross_entropy, torch_cross_entropy),
          "mse": (of_pairs(mse), lambda case, x, y, reduction: F.mse_loss(x, y, reduction=reduction)),
          "l1": (of_pairs(l1), lambda case, x, y, reduction: F.l1_loss(x, y, reduction=reduction)),
          "huber": (of_pairs(huber),
                    lambda case, x, y, reduction: F.huber_loss(x, y, reduction=reduction, delta=case.get("delta", 1))),
          "bce": (of_pairs(bce), torch_bce)}


def pairs(name, shape, **options):
    return {"name": name, "shape": shape, "x": numbers(count(shape), 5, 3), "y": numbers(count(shape), 77, 3), **options}


def chances(shape, **options):
    return {"name": "bce", "shape": shape, "x": numbers(count(shape), 3, 7), "y": share(count(shape), 4), **options}


CASES = [pairs("mse", [5, 3, 2, 4]), pairs("l1", [5, 3, 2, 4]), pairs("l1", [37, 7]), pairs("huber", [5, 3, 2, 4]),
         pairs("huber", [37, 7], delta=0.375), pairs("huber", [37], delta=2.5), chances([37, 7]), chances([5]),
         chances([5, 3, 2, 4], class_weights=weights(3)), chances([37, 7], positive_weights=weights(7)),
         chances([5, 3, 2, 4], class_weights=weights(3), positive_weights=[3, 0, 1])]


def labelled(shape, **options):
    classes, places = shape[1], shape[0] * count(shape[2:])
    labels = [options["ignore"] if "ignore" in options and i % 5 == 3 else (7 * i + i // 3) % classes for i in range(places)]
    return {"name": "cross_entropy", "shape": shape, "x": numbers(count(shape), 9, 5), "y": labels, **options}


def spread(shape, **options):
    """Targets that sum up to 1."""
    classes, each = shape[1], count(shape[2:])
    parts = [(3 * i + i // 7) % 5 + 1 for i in range(count(shape))]
    sums = [sum(parts[(i * classes + c) * each + at] for c in range(classes)) for i in range(shape[0]) for at in range(each)]
    targets = [round(2**20 * part / sums[k // each // classes * each + k % each]) / 2**20 for k, part in enumerate(parts)]
    return {"name": "cross_entropy", "shape": shape, "x": numbers(count(shape), 9, 5), "y": targets, **options}


CASES += [labelled([37, 7]), labelled([37, 7], smoothing=0.125), labelled([37, 7], class_weights=weights(7), ignore=255),
          labelled([37, 7], class_weights=weights(7), smoothing=0.25, ignore=2), labelled([5, 3, 2, 4]),
          labelled([5, 3, 2, 4], ignore=-100), labelled([5, 4, 6], class_weights=[0, 1, 2.5, 1], ignore=-100, smoothing=0.125),
          spread([37, 7]), spread([5, 3, 2, 4], smoothing=0.125), spread([5, 4, 6], class_weights=weights(4), smoothing=0.25)]


def turns(n):
    return [i % 3 + 1 for i in range(n)]


def by_formula(case):
    made = list(LOSSES[case["name"]][0](case))
    counted = sum(m[3] for m in made)
    slopes = {key: [turn * d for m, turn in zip(made, turns(len(made))) for d in m[k]] for k, key in ((1, "dx"), (2, "dy")) if made[0][k]}
    return {"each": [m[0] for m in made], **slopes, "mean": [sum(m[0] for m in made) / counted],
            "mean_dx": [d / counted for m in made for d in m[1]]}


def by_torch(case):
    loss, pairs = LOSSES[case["name"]][1], case["name"] != "cross_entropy"
    x = tensor(case["x"], case["shape"]).requires_grad_()
    y = tensor(case["y"], case["shape"]).requires_grad_() if pairs else None
    each = loss(case, x, y, "none").reshape(case["shape"][0], -1)
    each = each.mean(1) if pairs else each.sum(1)
    (each * tensor(turns(len(each)), [-1])).sum().backward()
    slopes = {key: t.grad.flatten().tolist() for key, t in (("dx", x), ("dy", y)) if t is not None}
    x.grad = None
    mean = loss(case, x, y, "mean")
    mean.backward()
    return {"each": each.tolist(), **slopes, "mean": [mean.item()], "mean_dx": x.grad.flatten().tolist()}


if __name__ == "__main__":
    figures.main("losses", CASES, dict, ({"PyTorch": by_torch} if torch else {}) | {"their formulas": by_formula})
