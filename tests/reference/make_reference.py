#!/usr/bin/env python3
"""Reference training steps of the book's two networks, computed by PyTorch in float64.

    PYTHON tests/reference/make_reference.py [--data DIR] [--out DIR] [--processes N,N...] [CASE...]

needs torch and numpy (`bench/peers/run --setup torch` makes an interpreter that has them). The JSON files beside this script
are its output, made with PyTorch 2.15 on two threads; the tests read them. Another number of threads changes the
float64 figures by about 1e-14 and the yardsticks by about 1e-5, relatively.

What is fixed, so that another program can repeat a run without a file from here:
- Images: the first BATCH training images of Fashion-MNIST in file order, as x/255; step k takes images
  [k*BATCH, (k+1)*BATCH). No shuffling.
- Weights: element i (C order) of the parameter called NAME is scale * (2*u - 1),
  u = (splitmix64(fnv1a64(NAME) + i) >> 11) / 2**53.
  fnv1a64: offset basis 14695981039346656037, prime 1099511628211, over the UTF-8 bytes of NAME.
  splitmix64(x): x += 0x9E3779B97F4A7C15; x = (x ^ x>>30) * 0xBF58476D1CE4E5B9; x = (x ^ x>>27) * 0x94D049BB133111EB;
  x ^= x>>31 (all modulo 2**64).
  scale: weights and W* sqrt(6/fan_in); biases 0.05; a BatchNorm's weight is 1 + 0.05*(2u-1); running_mean 0, running_var 1.
- Loss: softmax cross-entropy summed over the batch, divided by the batch size for reporting.
- Gradient g: sum over shards of the shard's gradient of its summed loss, divided by BATCH. Update (PyTorch's SGD):
  g += wd*w; v = g at the first step, then momentum*v + g; w -= lr * (g + momentum*v if nesterov else v).
- A shard is a contiguous block of SHARD images of the batch (the last may be smaller). BatchNorm takes its statistics
  over the shard alone: biased variance, eps 1e-5. Running statistics move once per step:
  r = 0.9*r + 0.1 * sum_s (n_s/BATCH) * stat_s, with stat_s the shard's mean and its unbiased variance.

What is written for each case: the loss of each step; for each parameter after the last step its L2 norm and its
projection sum_i w_i * (2*v_i - 1), v_i like u above with NAME + "#probe"; the same for the summed gradient of step 0 (not
divided); and, as a yardstick for each parameter, how far float32 runs of the same case are from float64: the largest of
12 runs of PyTorch in float32 in which each convolution's and product's output is multiplied by 1 + 4.8e-7*N(0,1) (so
that the chance of a ReLU that flips is in it). Measured is the L2 norm of the difference, relative to the parameter's
norm or to a thousandth of the norm of all parameters together, whichever is larger (a bias in front of a BatchNorm has
a true gradient of zero). A program under test is measured alike, with differences of norms and projections in place of
the norm of the difference. Running statistics are among the final weights.

With --processes nothing is written. Cases with one shard a batch are trained by as many processes instead, in float64, each
with so many images of the batch, whose BatchNorms meet by all_reduce (gloo); printed is how far that is from one process.
"""
import argparse
import json
import math
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "bench", "peers"))
import numpy as np
import torch
import torch.nn.functional as F
from networks import DATA, LeNet, load, resnet18
from torch import nn

#          model      batch shard steps lr  momentum weight decay nesterov
CASES = (("lenet", 64, 64, 5, 0.2, 0, 0, False),
         ("lenet", 50, 16, 3, 0.2, 0, 0, False),
         ("lenet", 64, 16, 6, 0.05, 0.9, 5e-4, False),
         ("lenet", 64, 32, 6, 0.05, 0.9, 0, True),
         ("resnet18", 32, 32, 3, 0.005, 0, 0, False),
         ("resnet18", 32, 8, 3, 0.005, 0, 0, False),
         ("resnet18", 20, 8, 2, 0.005, 0, 0, False),
         ("resnet18", 20, 20, 5, 0.005, 0, 0, False),
         ("resnet18", 48, 16, 1, 0.005, 0, 0, False),
         ("resnet18", 32, 16, 3, 0.002, 0.9, 5e-4, False))
TRIALS = 12
NOISE = 4.8e-7

noise = 0.0  # of the run in progress


def uniform(name, n):
    """n numbers in [0, 1), a function of the name and the index alone."""
    h = 14695981039346656037
    for b in name.encode():
        h = ((h ^ b) * 1099511628211) & 0xFFFFFFFFFFFFFFFF
    with np.errstate(over="ignore"):
        x = np.arange(n, dtype=np.uint64) + np.uint64(h)
        x = x + np.uint64(0x9E3779B97F4A7C15)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        x = x ^ (x >> np.uint64(31))
    return (x >> np.uint64(11)).astype(np.float64) / 2.0**53


def batch_norms(net):
    return [(name, m) for name, m in net.named_modules() if isinstance(m, nn.BatchNorm2d)]


def init(net):
    normalised = {name for name, _ in batch_norms(net)}
    with torch.no_grad():
        for name, p in net.named_parameters():
            u = torch.from_numpy(uniform(name, p.numel())).reshape(p.shape) * 2 - 1
            owner, _, leaf = name.rpartition(".")
            if owner in normalised and leaf == "weight":
                value = 1 + 0.05 * u
            elif leaf == "bias" or leaf.startswith("b"):
                value = 0.05 * u
            else:
                fan_in = p.shape[0] if leaf in ("W3", "W4") else p[0].numel()
                value = math.sqrt(6 / fan_in) * u
            p.copy_(value.to(p.dtype))


def noisy(fn):
    def call(*args, **kw):
        out = fn(*args, **kw)
        return out * (1 + noise * torch.randn_like(out)) if noise else out
    return call


def allow_noise():
    F.conv2d, F.linear = noisy(F.conv2d), noisy(F.linear)
    torch.Tensor.__matmul__ = noisy(torch.Tensor.__matmul__)


def run(case, data, dtype, trial=0):
    """Trains the case; gives the losses, the summed gradients of step 0 and the final weights. Trial 0 has no noise."""
    global noise
    model, batch, shard, steps, lr, momentum, wd, nesterov = case
    torch.manual_seed(trial)
    noise = NOISE if trial else 0.0
    net = (resnet18() if model == "resnet18" else LeNet()).to(dtype)
    init(net)
    net.train()
    norms = batch_norms(net)
    for _, m in norms:
        m.momentum = 1.0  # running_* then holds the shard's own statistics
    running = [(m.running_mean.clone(), m.running_var.clone()) for _, m in norms]
    images, labels = data
    velocity = [None] * len(list(net.parameters()))
    losses, first = [], None
    for k in range(steps):
        x = torch.from_numpy(images[k * batch:(k + 1) * batch].astype(np.float64) / 255).to(dtype)
        y = torch.from_numpy(labels[k * batch:(k + 1) * batch].astype(np.int64))
        net.zero_grad(set_to_none=True)
        total = 0.0
        sums = [(torch.zeros_like(m.running_mean), torch.zeros_like(m.running_var)) for _, m in norms]
        for start in range(0, batch, shard):
            xs, ys = x[start:start + shard], y[start:start + shard]
            loss = F.cross_entropy(net(xs), ys, reduction="sum")
            loss.backward()
            total += loss.item()
            for (mean, var), (_, m) in zip(sums, norms):
                weight = len(ys) / batch
                mean += weight * m.running_mean
                var += weight * m.running_var
        running = [(0.9 * rm + 0.1 * mean, 0.9 * rv + 0.1 * var) for (rm, rv), (mean, var) in zip(running, sums)]
        if first is None:
            first = {n: p.grad.double().clone() for n, p in net.named_parameters()}
        with torch.no_grad():
            for i, p in enumerate(net.parameters()):
                g = p.grad / batch + wd * p
                velocity[i] = g.clone() if velocity[i] is None else momentum * velocity[i] + g
                p -= lr * (g + momentum * velocity[i] if nesterov else velocity[i])
        losses.append(total / batch)
    final = {n: p.detach().double() for n, p in net.named_parameters()}
    for (name, _), (mean, var) in zip(norms, running):
        final[name + ".running_mean"], final[name + ".running_var"] = mean.double(), var.double()
    return losses, first, final


class MeetingNorm(nn.BatchNorm2d):
    """Statistics over the images of all processes, from the formulas alone: torch's SyncBatchNorm takes no CPU tensors."""

    def forward(self, x):
        n = all_reduce(torch.tensor(float(x.numel() // x.shape[1]), dtype=x.dtype))
        mean = all_reduce(x.sum((0, 2, 3))) / n
        d = x - mean[:, None, None]
        squares = all_reduce((d * d).sum((0, 2, 3)))
        with torch.no_grad():
            self.running_mean += 0.1 * (mean - self.running_mean)
            self.running_var += 0.1 * (squares / (n - 1) - self.running_var)
        return d * (self.weight / torch.sqrt(squares / n + self.eps))[:, None, None] + self.bias[:, None, None]


def all_reduce(x):
    """Its gradient is the sum of the processes' gradients."""
    from torch.distributed.nn.functional import all_reduce as differentiable
    return differentiable(x)


def process(rank, case, data, sizes, store, results):
    """One of the processes that train a case together."""
    torch.distributed.init_process_group("gloo", init_method="file://" + store, rank=rank, world_size=len(sizes))
    model, batch, shard, steps, lr, momentum, wd, nesterov = case
    assert shard == batch and not momentum and not wd
    net = resnet18().double()
    init(net)
    for _, m in batch_norms(net):
        m.__class__ = MeetingNorm
    first, losses, begin = None, [], sum(sizes[:rank])
    for k in range(steps):
        mine = slice(k * batch + begin, k * batch + begin + sizes[rank])
        x = torch.from_numpy(data[0][mine].astype(np.float64) / 255)
        net.zero_grad(set_to_none=True)
        loss = F.cross_entropy(net(x), torch.from_numpy(data[1][mine].astype(np.int64)), reduction="sum")
        loss.backward()
        total = loss.detach().clone()
        torch.distributed.all_reduce(total)
        losses.append(total.item() / batch)
        with torch.no_grad():
            for p in net.parameters():
                torch.distributed.all_reduce(p.grad)
            first = first or {n: p.grad.clone() for n, p in net.named_parameters()}
            for p in net.parameters():
                p -= lr * p.grad / batch
    if rank == 0:
        final = {n: v.detach() for n, v in net.state_dict().items() if not n.endswith("num_batches_tracked")}
        torch.save((losses, first, final), results)
    torch.distributed.destroy_process_group()


def meet(case, data, sizes):
    """The largest relative differences of losses, gradients and final weights between one process and several."""
    import tempfile
    with tempfile.TemporaryDirectory() as folder:
        results = os.path.join(folder, "results")
        torch.multiprocessing.spawn(process, (case, data, sizes, os.path.join(folder, "store"), results), len(sizes))
        losses, first, final = torch.load(results)
    alone = run(case, data, torch.float64)
    return (max(abs(a - b) / b for a, b in zip(losses, alone[0])), max(relative(first, alone[1]).values()),
            max(relative(final, alone[2]).values()))


def relative(p, q):
    """Per parameter, the norm of the difference relative to q's."""
    floor = 1e-3 * math.sqrt(sum(float(v.norm()) ** 2 for v in q.values()))
    return {n: float((p[n] - q[n]).norm() / max(float(q[n].norm()), floor)) for n in q}


def summary(values, float32_values):
    differences = [relative(v, values) for v in float32_values]
    out = {}
    for name, v in values.items():
        flat = v.reshape(-1).numpy()
        probe = uniform(name + "#probe", flat.size) * 2 - 1
        out[name] = {"shape": list(v.shape), "norm": float(np.linalg.norm(flat)), "projection": float(flat @ probe),
                     "float32_yardstick": max(d[name] for d in differences)}
    return out


def name_of(case):
    model, batch, shard, _, _, momentum, _, nesterov = case
    return f"{model}_b{batch}_s{shard}" + (f"_m{momentum}" if momentum else "") + ("_nesterov" if nesterov else "")


def make(case, data):
    model, batch, shard, steps, lr, momentum, wd, nesterov = case
    losses, gradient, weights = run(case, data, torch.float64)
    trials = [run(case, data, torch.float32, t) for t in range(1, TRIALS + 1)]
    return {"model": model, "batch": batch, "shard": shard, "steps": steps, "lr": lr, "momentum": momentum,
            "weight_decay": wd, "nesterov": nesterov, "losses": losses,
            "loss_float32_yardstick": [max(abs(t[0][k] - losses[k]) for t in trials) for k in range(steps)],
            "gradient_step0": summary(gradient, [t[1] for t in trials]),
            "weights_final": summary(weights, [t[2] for t in trials])}


def main():
    names = [name_of(c) for c in CASES]
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--data", default=DATA)
    p.add_argument("--out", default=HERE)
    p.add_argument("--processes", help="images of each, such as 13,7")
    p.add_argument("cases", nargs="*", metavar="CASE", help="default: all of " + ", ".join(names))
    a = p.parse_args()
    for name in set(a.cases) - set(names):
        p.error(f"no case {name}")
    data = load(a.data, "train")
    if a.processes:
        sizes = [int(n) for n in a.processes.split(",")]
        for case in CASES:
            if case[1] == case[2] == sum(sizes) and (not a.cases or name_of(case) in a.cases):
                print(name_of(case), "losses off by %.1e, gradients by %.1e, weights and statistics by %.1e" % meet(case, data, sizes))
        return
    allow_noise()
    for case in CASES:
        name = name_of(case)
        if a.cases and name not in a.cases:
            continue
        document = make(case, data)
        with open(os.path.join(a.out, name + ".json"), "w") as f:
            json.dump(document, f, indent=1)
        worst = [max((v["float32_yardstick"], n) for n, v in document[part].items()) for part in ("gradient_step0", "weights_final")]
        print(name, [round(x, 6) for x in document["losses"]], *worst, flush=True)


if __name__ == "__main__":
    main()
