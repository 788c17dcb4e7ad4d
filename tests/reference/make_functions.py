#!/usr/bin/env python3
"""The functions of one number and their gradients, computed by PyTorch in float64.

    PYTHON tests/reference/make_functions.py [FILE]
    PYTHON tests/reference/make_functions.py --check [FILE]

`functions.json` beside this script is its output; tests/test_functions.c reads it. Where the interpreter has no torch, the figures
come from the formulas that PyTorch documents, in Python's float64. `--check` computes them anew, by both where torch is there, and
fails where a figure of the file is off by more than 1e-12 of the largest of its function.

Each function has its numbers x, which floats hold exactly, y, and dx: the gradient of the sum of y * dy, where dy of number i is
(7 * i % 11 - 5) / 4.
"""
import math

import figures

try:
    import torch
    import torch.nn.functional as F
except ImportError:
    torch = None

ANY = [k / 64 for k in range(-544, 545, 17)]
POSITIVE = [k / 64 for k in range(1, 545, 17)]


def sigmoid(x):
    return 1 / (1 + math.exp(-x))


def normal(x):
    return math.erfc(-x / math.sqrt(2)) / 2


def gelu_slope(x):
    return normal(x) + x * math.exp(-x * x / 2) / math.sqrt(2 * math.pi)


def gelu_inside(x):
    return math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)


def gelu_tanh_slope(x):
    t = math.tanh(gelu_inside(x))
    return (1 + t) / 2 + x / 2 * (1 - t * t) * math.sqrt(2 / math.pi) * (1 + 3 * 0.044715 * x * x)


#        name, arguments, numbers, PyTorch's, the formula, its derivative
CASES = [("tanh", [], ANY, lambda x: x.tanh(), math.tanh, lambda x: 1 - math.tanh(x)**2),
         ("sigmoid", [], ANY, lambda x: x.sigmoid(), sigmoid, lambda x: sigmoid(x) * sigmoid(-x)),
         ("leaky_relu", [0.125], ANY, lambda x, a: F.leaky_relu(x, a), lambda x, a: x if x > 0 else a * x,
          lambda x, a: 1 if x > 0 else a),
         ("silu", [], ANY, lambda x: F.silu(x), lambda x: x * sigmoid(x),
          lambda x: sigmoid(x) * (1 + x * sigmoid(-x))),
         ("gelu", [], ANY, lambda x: F.gelu(x), lambda x: x * normal(x), gelu_slope),
         ("gelu_tanh", [], ANY, lambda x: F.gelu(x, approximate="tanh"), lambda x: x * (1 + math.tanh(gelu_inside(x))) / 2,
          gelu_tanh_slope),
         ("clamp", [-1.5, 2.25], ANY, lambda x, a, b: x.clamp(a, b), lambda x, a, b: min(max(x, a), b),
          lambda x, a, b: 1 if a <= x <= b else 0),
         ("exp", [], ANY, lambda x: x.exp(), math.exp, math.exp),
         ("log", [], POSITIVE, lambda x: x.log(), math.log, lambda x: 1 / x),
         ("log_sigmoid", [], ANY, lambda x: F.logsigmoid(x), lambda x: min(x, 0) - math.log1p(math.exp(-abs(x))),
          lambda x: sigmoid(-x)),
         ("sqrt", [], POSITIVE, lambda x: x.sqrt(), math.sqrt, lambda x: 1 / (2 * math.sqrt(x))),
         ("abs", [], ANY, lambda x: x.abs(), abs, lambda x: (x > 0) - (x < 0)),
         ("power", [3], ANY, lambda x, p: x.pow(p), lambda x, p: x**p, lambda x, p: p * x**(p - 1)),
         ("power", [-1.5], POSITIVE, lambda x, p: x.pow(p), lambda x, p: x**p, lambda x, p: p * x**(p - 1)),
         ("power", [0.5], POSITIVE, lambda x, p: x.pow(p), lambda x, p: x**p, lambda x, p: p * x**(p - 1))]


def gradients(n):
    return [(7 * i % 11 - 5) / 4 for i in range(n)]


def by_formula(case):
    _, arguments, numbers, _, function, slope = case
    return {"y": [function(x, *arguments) for x in numbers],
            "dx": [dy * slope(x, *arguments) for x, dy in zip(numbers, gradients(len(numbers)))]}


def by_torch(case):
    _, arguments, numbers, function, *_ = case
    x = torch.tensor(numbers, dtype=torch.float64, requires_grad=True)
    y = function(x, *arguments)
    y.backward(torch.tensor(gradients(len(numbers)), dtype=torch.float64))
    return {"y": y.tolist(), "dx": x.grad.tolist()}


def description(case):
    return {"name": case[0], "arguments": case[1], "x": case[2]}


if __name__ == "__main__":
    figures.main("functions", CASES, description, ({"PyTorch": by_torch} if torch else {}) | {"their formulas": by_formula})
