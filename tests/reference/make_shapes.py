#!/usr/bin/env python3
"""What changes shapes, and normalises, with its gradients, computed by PyTorch in float64.

    PYTHON tests/reference/make_shapes.py [FILE]
    PYTHON tests/reference/make_shapes.py --check [FILE]

`shapes.json` beside this script is its output; tests/test_shapes.c reads it. `--check` computes the figures anew and fails where one of
the file is off by more than 1e-12 of the largest of its list.

Each case has its name, its numbers, the shape of x, y, and the gradients dx, and where there are a weight and a bias of the normalised
size theirs, of the sum of y * dy. Number i of x is (37 * i % 101 - 50) / 16, of dy (7 * i % 11 - 5) / 4, of a weight (5 * i % 7 + 1) / 4
and of a bias (3 * i % 5 - 2) / 4.
"""
import figures
import torch
import torch.nn.functional as F


def layer_norm_of_maps(x, w, b):
    return F.layer_norm(x.movedim(1, 3), [x.shape[1]], w, b, 1e-5).movedim(3, 1)


def rms_norm(x, w):
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 0.125) * w


MAPS = [3, 4, 5, 6]
TOKENS = [3, 5, 8]
#        name, numbers, shape of x, size of weight and bias, the function
CASES = [("transpose", [1, 3], MAPS, 0, 0, lambda x: x.transpose(1, 3)),
         ("transpose", [1, 2], TOKENS, 0, 0, lambda x: x.transpose(1, 2)),
         ("slice", [2, 1, 4], MAPS, 0, 0, lambda x: x[:, :, 1:4]),
         ("slice", [1, 3, 40], [3, 40], 0, 0, lambda x: x[:, 3:40]),
         ("pad2d", [1, 2, 0, 3], MAPS, 0, 0, lambda x: F.pad(x, [1, 2, 0, 3], value=0.5)),
         ("concat", [3], MAPS, 0, 0, lambda x: torch.cat([x, 2 * x, x, x, x, x, -x, x], 3)),
         ("mean_over", [1], MAPS, 0, 0, lambda x: x.mean(1)),
         ("mean_over", [2], TOKENS, 0, 0, lambda x: x.mean(2)),
         ("max_over", [2], MAPS, 0, 0, lambda x: x.max(2).values),
         ("max_each", [], TOKENS, 0, 0, lambda x: x.flatten(1).max(1).values),
         ("upsample2d", [2, 0], MAPS, 0, 0, lambda x: F.interpolate(x, scale_factor=2, mode="nearest")),
         ("upsample2d", [3, 1], MAPS, 0, 0, lambda x: F.interpolate(x, scale_factor=3, mode="bilinear")),
         ("adaptive", [2, 4], MAPS, 0, 0, lambda x: F.adaptive_avg_pool2d(x, (2, 4))),
         ("adaptive", [7, 1], MAPS, 0, 0, lambda x: F.adaptive_avg_pool2d(x, (7, 1))),
         ("layer_norm", [1e-5], [3, 40], 40, 40, lambda x, w, b: F.layer_norm(x, [40], w, b, 1e-5)),
         ("layer_norm", [1e-5], TOKENS, 8, 8, lambda x, w, b: F.layer_norm(x, [8], w, b, 1e-5)),
         ("layer_norm", [1e-5], MAPS, 4, 4, layer_norm_of_maps),
         ("group_norm", [1e-5, 2], MAPS, 4, 4, lambda x, w, b: F.group_norm(x, 2, w, b, 1e-5)),
         ("group_norm", [1e-3, 5], [3, 10, 7], 10, 10, lambda x, w, b: F.group_norm(x, 5, w, b, 1e-3)),
         ("rms_norm", [0.125], TOKENS, 8, 0, rms_norm)]


def numbers(n, by, of, less, share):
    return torch.tensor([(by * i % of - less) / share for i in range(n)], dtype=torch.float64)


def output(case, *operands):
    return case[-1](*(operand for operand in operands if operand is not None))


def operands(case):
    """x, the weight and the bias, None where there is none."""
    _, _, shape, weights, biases, _ = case
    return (numbers(torch.Size(shape).numel(), 37, 101, 50, 16).reshape(shape), numbers(weights, 5, 7, -1, 4) if weights else None,
            numbers(biases, 3, 5, 2, 4) if biases else None)


def description(case):
    return {"name": case[0], "arguments": case[1], "shape": case[2], "to": list(output(case, *operands(case)).shape)}


def by_torch(case):
    tracked = [None if operand is None else operand.requires_grad_() for operand in operands(case)]
    y = output(case, *tracked)
    y.backward(numbers(y.numel(), 7, 11, 5, 4).reshape(y.shape))
    gradients = {key: operand.grad.flatten().tolist() for key, operand in zip(("dx", "dw", "db"), tracked) if operand is not None}
    return {"y": y.flatten().tolist(), **gradients}


if __name__ == "__main__":
    figures.main("shapes", CASES, description, {"PyTorch": by_torch})
