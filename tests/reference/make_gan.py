#!/usr/bin/env python3
"""300 steps of the GAN of examples/gan.py, by PyTorch in float64.

    PYTHON tests/reference/make_gan.py [FILE]
    PYTHON tests/reference/make_gan.py --check [FILE]
    PYTHON tests/reference/make_gan.py --float32

`gan.json` beside this script is its output; tests/test_gan.c reads it. `--check` computes the figures anew and fails where one of the
file is off by more than 1e-7 of the largest of its list: over 300 steps two networks that train against each other make a million times as
much of a rounding. `--float32` tells how far PyTorch's own float32 is from them.

Networks, optimizers and steps are the program's own, in batches of 32. Biases begin at 0, number i of the other parameters at 0.07 *
((x >> 8)/2**24 - 1/2), float32, of the numbers of x = x*1664525 + 1013904223 (modulo 2**32), from FNV-1a of the name, "G.0.weight". Number i of
step k's noise (32, 32) is ((x >> 8)/2**24 - 1/2) * 3 of the numbers from x = k + 1 on. Picture n of step k is number 32*k + n modulo 512: a
disc of radius 4 + n % 5 around (9 + 5*n % 11, 9 + 3*n % 11), as bright as (155 + 11*n % 101)/255, on black.
"""
import os
import sys

import figures
import numpy as np
import torch

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "examples"))
import gan

torch.set_num_threads(1)  # so little work is slower by several
STEPS, BATCH, PICTURES = 300, 32, 512
CASES = [{"name": "gan", "steps": STEPS}]


def stream(x, count):
    numbers = np.empty(count)
    for i in range(count):
        x = (x * 1664525 + 1013904223) % 2**32
        numbers[i] = (x >> 8) / 2**24 - 0.5
    return numbers


def start(name, shape):
    if name.endswith("bias"):
        return torch.zeros(shape)
    x = 2166136261
    for byte in name.encode():
        x = (x ^ byte) * 16777619 % 2**32
    return torch.tensor((stream(x, shape.numel()) * 0.07).astype(np.float32)).reshape(shape)


def pictures(k):
    n = torch.arange(BATCH * k, BATCH * (k + 1)).reshape(-1, 1, 1, 1) % PICTURES
    y, x = torch.arange(gan.SIDE).reshape(-1, 1), torch.arange(gan.SIDE)
    inside = (x - 9 - 5 * n % 11)**2 + (y - 9 - 3 * n % 11)**2 <= (4 + n % 5)**2
    return (inside * (155 + 11 * n % 101)).float() / 255


def noise(k):
    return torch.tensor((stream(k + 1, BATCH * gan.NOISE) * 3).astype(np.float32)).reshape(BATCH, gan.NOISE)


def losses(dtype):
    nets = {"G": gan.generator().to(dtype), "D": gan.discriminator().to(dtype)}
    for which, net in nets.items():
        net.load_state_dict({name: start(which + "." + name, p.shape) for name, p in net.named_parameters()})
    g, d = (gan.optimizer(net) for net in nets.values())
    made = [gan.take_step(nets["G"], nets["D"], g, d, pictures(k).to(dtype), noise(k).to(dtype)) for k in range(STEPS)]
    return {key: list(of) for key, of in zip(("d_losses", "g_losses"), zip(*made))}


def by_torch(case):
    return losses(torch.float64)


def tell_float32():
    wanted, made = losses(torch.float64), losses(torch.float32)
    for n in (20, STEPS):
        worst = max(abs(a / b - 1) for key in made for a, b in zip(made[key][:n], wanted[key][:n]))
        print(f"PyTorch {torch.__version__}, float32, {n} steps: off by {worst:.1e}")


if __name__ == "__main__":
    if "--float32" in sys.argv:
        tell_float32()
    else:
        figures.main("gan", CASES, dict, {"PyTorch": by_torch}, 1e-7)
