#!/usr/bin/env python3
"""One peer, one figure: how fast PyTorch trains the book's networks on this machine's CPU.

    PYTHON bench/peers/peer_torch.py --model lenet|resnet18 --mode eager|channels_last|compile|compile_channels_last
                                     [--dtype f32|bf16] [--batch N] [--threads N] [--ranks N] [--steps N] [--data DIR]

Real Fashion-MNIST lies ready in memory as float32, so that nothing but whole training steps (forward, backward, update)
is timed. img_per_s is batch / median step time after the warm-up steps, which also compile. --ranks 2 runs
DistributedDataParallel (gloo) in two processes of --threads threads with batch/ranks images each.
Prints one JSON line.
"""
import argparse
import json
import os
import resource
import statistics
import time

import torch
from networks import DATA, lenet_layers, load, resnet18, tensors
from torch import nn

SLOTS = 8  # different batches, used in turn


def measure(rank, a):
    torch.set_num_threads(a.threads)
    torch.manual_seed(0)
    net = resnet18() if a.model == "resnet18" else lenet_layers()
    last = a.mode.endswith("channels_last")
    if last:
        net = net.to(memory_format=torch.channels_last)
    if a.ranks > 1:
        import torch.distributed as dist
        os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(a.port))
        dist.init_process_group("gloo", rank=rank, world_size=a.ranks)
        net = nn.parallel.DistributedDataParallel(net)
    forward = torch.compile(net) if a.mode.startswith("compile") else net

    rows = a.batch // a.ranks
    images, labels = load(a.data, "train")
    mine = slice(rank * SLOTS * rows, (rank + 1) * SLOTS * rows)
    x, y = tensors(images[mine], labels[mine])
    if last:
        x = x.contiguous(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
    loss_of = nn.CrossEntropyLoss()

    def step(i):
        part = slice(i % SLOTS * rows, (i % SLOTS + 1) * rows)
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=a.dtype == "bf16"):
            loss = loss_of(forward(x[part]), y[part])
        loss.backward()
        optimizer.step()

    for i in range(a.warmup):
        step(i)
    times = []
    for i in range(a.steps):
        start = time.perf_counter()
        step(i)
        times.append(time.perf_counter() - start)
    if rank == 0:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(json.dumps({"peer": "pytorch " + torch.__version__, "model": a.model, "mode": a.mode, "dtype": a.dtype,
                          "batch": a.batch, "threads": a.threads, "ranks": a.ranks, "steps": a.steps,
                          "img_per_s": round(a.batch / statistics.median(times), 1),
                          "mean_img_per_s": round(a.batch / statistics.mean(times), 1),
                          "best_img_per_s": round(a.batch / min(times), 1), "peak_mib": round(peak),
                          "cpu_capability": torch.backends.cpu.get_cpu_capability()}), flush=True)
    if a.ranks > 1:
        dist.destroy_process_group()


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--model", default="resnet18", choices=("lenet", "resnet18"))
    p.add_argument("--mode", default="channels_last", choices=("eager", "channels_last", "compile", "compile_channels_last"))
    p.add_argument("--dtype", default="f32", choices=("f32", "bf16"))
    p.add_argument("--batch", type=int, default=256)
    p.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    p.add_argument("--ranks", type=int, default=1)
    p.add_argument("--steps", type=int, default=5)
    p.add_argument("--warmup", type=int, default=2)
    p.add_argument("--port", type=int, default=29511)
    p.add_argument("--data", default=DATA)
    a = p.parse_args()
    if a.batch % a.ranks:
        p.error(f"--batch {a.batch} is not a multiple of --ranks {a.ranks}")
    if a.ranks > 1:
        import torch.multiprocessing as processes
        processes.spawn(measure, (a,), a.ranks)
    else:
        measure(0, a)


if __name__ == "__main__":
    main()
