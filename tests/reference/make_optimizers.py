#!/usr/bin/env python3
"""Twenty steps of each optimizer and schedule, computed by PyTorch in float64.

    PYTHON tests/reference/make_optimizers.py [FILE]

needs torch and numpy (`bench/peers/run --setup torch` makes an interpreter that has them). `optimizers.json` beside this script is its
output, made with PyTorch 2.15; tests/test_optimizers.c reads it.

The network is one linear layer of 12 numbers to 5 classes, trained for twenty steps on 60 images in batches of 20 that come in order,
over and over; where it says so of 24, the last of which has 12. Where it names a full batch, gradients are the sums over the images
divided by that, and else their means. Byte i of the images is x >> 24 of the i-th number of x = x*1664525 + 1013904223 (modulo 2**32), from x = 1, used as
byte/255; image i has the label 7*i % 5. Where the weights start is written with the results: the loss and learning rate of each step, the norm of
each gradient where these are clipped, and the weights and biases after the last step. `float32_yardstick` is how far PyTorch's own float32 run is from them, the largest difference relative to
the largest weight.
"""
import json
import os
import sys

import numpy as np
import torch
import torch.nn.functional as F

ROWS, INPUTS, CLASSES, BATCH, STEPS = 60, 12, 5, 20, 20

SGD, ADAM, ADAMW = torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW


def constant(optimizer, case):
    return torch.optim.lr_scheduler.ConstantLR(optimizer, factor=1)


def warmup(optimizer, case):
    steps = case["warmup"]
    return torch.optim.lr_scheduler.LinearLR(optimizer, start_factor=1 / steps, total_iters=steps - 1)


def step(optimizer, case):
    total = case["total"]
    return torch.optim.lr_scheduler.MultiStepLR(optimizer, [total // 2, total * 3 // 4], gamma=0.1)


def cosine(optimizer, case):
    return torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=case["total"], eta_min=rate(optimizer) * case.get("end_factor", 0))


def linear(optimizer, case):
    return torch.optim.lr_scheduler.LinearLR(optimizer, start_factor=case.get("start_factor", 1), end_factor=case.get("end_factor", 0),
                                             total_iters=case["total"])


class exponential:
    """ExponentialLR as it is called once a period."""

    def __init__(self, optimizer, case):
        self.scheduler, self.period, self.steps = torch.optim.lr_scheduler.ExponentialLR(optimizer, case["gamma"]), case.get("period", 1), 0

    def step(self):
        self.steps += 1
        if self.steps % self.period == 0:
            self.scheduler.step()


def one_cycle(optimizer, case):
    start, total = case.get("start_factor", 1 / 25), case["total"]
    return torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=rate(optimizer), total_steps=total, cycle_momentum=False,
                                               pct_start=case["warmup"] / total if "warmup" in case else 0.3, div_factor=1 / start,
                                               final_div_factor=start / case["end_factor"] if "end_factor" in case else 1e4)


def warm_restarts(optimizer, case):
    return torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, T_0=case["period"], T_mult=case.get("period_factor", 1),
                                                                eta_min=rate(optimizer) * case.get("end_factor", 0))


def rate(optimizer):
    return optimizer.param_groups[0]["lr"]


#        name, optimizer, its options, schedule, what this and the loss are told
CASES = [("sgd", SGD, {"lr": 0.5}, constant, {}),
         ("sgd_momentum", SGD, {"lr": 0.2, "momentum": 0.9}, constant, {}),
         ("sgd_nesterov", SGD, {"lr": 0.2, "momentum": 0.8, "nesterov": True, "weight_decay": 0.05}, constant, {}),
         ("sgd_decay", SGD, {"lr": 0.5, "weight_decay": 0.1}, constant, {}),
         ("adam", ADAM, {"lr": 0.02}, constant, {}),
         ("adam_decay", ADAM, {"lr": 0.02, "weight_decay": 0.1}, constant, {}),
         ("adam_betas", ADAM, {"lr": 0.05, "betas": [0.7, 0.95], "eps": 0.01}, constant, {}),
         ("adamw", ADAMW, {"lr": 0.02, "weight_decay": 0.01}, constant, {}),
         ("adamw_decay", ADAMW, {"lr": 0.05, "betas": [0.8, 0.9], "eps": 0.001, "weight_decay": 0.5}, constant, {}),
         ("adamw_smooth", ADAMW, {"lr": 0.05, "weight_decay": 0.01}, constant, {"label_smoothing": 0.2}),
         ("sgd_clip", SGD, {"lr": 0.5, "momentum": 0.9, "weight_decay": 0.02}, constant, {"clip_norm": 0.25}),
         ("adam_clip", ADAM, {"lr": 0.05, "eps": 0.01}, constant, {"clip_norm": 0.25}),
         ("sgd_mean", SGD, {"lr": 0.5, "momentum": 0.9, "weight_decay": 0.02}, constant, {"batch": 24}),
         ("sgd_share", SGD, {"lr": 0.5, "momentum": 0.9, "weight_decay": 0.02}, constant, {"batch": 24, "full_batch": 24}),
         ("sgd_share_clip", SGD, {"lr": 0.5}, constant, {"batch": 24, "full_batch": 24, "clip_norm": 0.25}),
         ("adam_share", ADAM, {"lr": 0.05, "eps": 0.01}, constant, {"batch": 24, "full_batch": 24}),
         ("sgd_warmup", SGD, {"lr": 0.5}, warmup, {"warmup": 8}),
         ("sgd_step", SGD, {"lr": 0.5, "momentum": 0.5}, step, {"total": 20}),
         ("sgd_cosine", SGD, {"lr": 0.5}, cosine, {"total": 24}),
         ("adam_warmup", ADAM, {"lr": 0.05}, warmup, {"warmup": 8}),
         ("adam_step", ADAM, {"lr": 0.05}, step, {"total": 20}),
         ("adamw_cosine", ADAMW, {"lr": 0.05, "weight_decay": 0.2}, cosine, {"total": 20}),
         ("adam_cosine_end", ADAM, {"lr": 0.05}, cosine, {"total": 24, "end_factor": 0.25}),
         ("sgd_linear", SGD, {"lr": 0.5, "momentum": 0.5}, linear, {"total": 20}),
         ("adam_linear", ADAM, {"lr": 0.05}, linear, {"total": 12, "start_factor": 0.25, "end_factor": 0.75}),
         ("sgd_exponential", SGD, {"lr": 0.5, "momentum": 0.5}, exponential, {"gamma": 0.8}),
         ("adamw_exponential", ADAMW, {"lr": 0.05, "weight_decay": 0.2}, exponential, {"gamma": 0.5, "period": 6}),
         ("sgd_one_cycle", SGD, {"lr": 0.5, "momentum": 0.5}, one_cycle, {"total": 20}),
         ("sgd_one_cycle_long", SGD, {"lr": 0.5}, one_cycle, {"total": 34, "end_factor": 0.5}),
         ("adam_one_cycle", ADAM, {"lr": 0.05}, one_cycle, {"total": 20, "warmup": 8, "start_factor": 0.125, "end_factor": 0.03125}),
         ("sgd_restarts", SGD, {"lr": 0.5}, warm_restarts, {"period": 6}),
         ("adamw_restarts", ADAMW, {"lr": 0.05, "weight_decay": 0.2}, warm_restarts, {"period": 3, "period_factor": 2, "end_factor": 0.125})]


def pixels():
    x, out = 1, []
    for _ in range(ROWS * INPUTS):
        x = (x * 1664525 + 1013904223) % 2**32
        out.append(x >> 24)
    return np.array(out, dtype=np.float64).reshape(ROWS, INPUTS) / 255


def start():
    random = np.random.default_rng(7)
    return [np.float32(random.uniform(-0.5, 0.5, s)).astype(np.float64) for s in ((CLASSES, INPUTS), (CLASSES,))]


def train(case, dtype):
    _, make, options, schedule, more = case
    parameters = [torch.tensor(v, dtype=dtype, requires_grad=True) for v in start()]
    optimizer = make(parameters, **options)
    scheduler = schedule(optimizer, more)
    X, y = torch.tensor(pixels(), dtype=dtype), torch.arange(ROWS) * 7 % CLASSES
    losses, norms, rates = [], [], []
    batches = list(zip(X.split(more.get("batch", BATCH)), y.split(more.get("batch", BATCH))))
    for k in range(STEPS):
        images, labels = batches[k % len(batches)]
        optimizer.zero_grad()
        logits = F.linear(images, *parameters)
        loss = F.cross_entropy(logits, labels, label_smoothing=more.get("label_smoothing", 0))
        (loss * (len(labels) / more.get("full_batch", len(labels)))).backward()
        if "clip_norm" in more:
            norms.append(torch.nn.utils.clip_grad_norm_(parameters, more["clip_norm"]).item())
        rates.append(rate(optimizer))
        optimizer.step()
        scheduler.step()
        losses.append(loss.item())
    return losses, norms, rates, [p.detach().double().numpy() for p in parameters]


def make(case):
    name, optimizer, options, schedule, more = case
    losses, norms, rates, final = train(case, torch.float64)
    *_, single = train(case, torch.float32)
    size = max(np.abs(v).max() for v in final)
    off = max(np.abs(a - b).max() for a, b in zip(final, single)) / size
    return {"name": name, "optimizer": optimizer.__name__, **options, "schedule": schedule.__name__, **more,
            "losses": losses, "rates": rates, **({"norms": norms} if norms else {}), "weight": final[0].ravel().tolist(), "bias": final[1].tolist(),
            "float32_yardstick": float(off)}


def main():
    path = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(os.path.abspath(__file__)), "optimizers.json")
    weight, bias = start()
    document = {"start": {"weight": weight.ravel().tolist(), "bias": bias.tolist()}, "cases": [make(c) for c in CASES]}
    with open(path, "w") as f:
        json.dump(document, f, indent=1)
        f.write("\n")
    for case in document["cases"]:
        print(f"{case['name']}: loss {case['losses'][0]:.6f} to {case['losses'][-1]:.6f}, float32 is off by "
              f"{case['float32_yardstick']:.2g}")


if __name__ == "__main__":
    main()
