#!/usr/bin/env python3
"""One peer, one figure: how fast PyTorch trains the book's networks on this machine's CPU.

    PYTHON bench/peers/peer_torch.py --model lenet|resnet18 --mode eager|channels_last|compile|compile_channels_last
                                     [--dtype f32|bf16] [--batch N] [--threads N] [--ranks N] [--steps N] [--data DIR]

Real Fashion-MNIST lies ready in memory as float32, so that nothing but whole training steps (forward, backward, update)
is timed. img_per_s is batch / median step time after the warm-up steps, which also compile. --ranks 2 runs
DistributedDataParallel (gloo) in two processes of --threads threads with batch/ranks images each.
Prints one JSON line.
"""
import os

import peer
import torch
from measure import MODES
from networks import lenet_layers, resnet18
from torch import nn


def measure(rank, a):
    torch.set_num_threads(a.threads)
    torch.manual_seed(0)
    net = resnet18() if a.model == "resnet18" else lenet_layers()
    last = torch.channels_last if a.mode.endswith("channels_last") else torch.contiguous_format
    if last == torch.channels_last:
        net = net.to(memory_format=last)
    parameters = sum(p.numel() for p in net.parameters())
    if a.ranks > 1:
        import torch.distributed as dist
        os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(a.port))
        dist.init_process_group("gloo", rank=rank, world_size=a.ranks)
        net = nn.parallel.DistributedDataParallel(net)
    forward = torch.compile(net) if a.mode.startswith("compile") else net

    slots = [(torch.from_numpy(x).contiguous(memory_format=last), torch.from_numpy(y).long())
             for x, y in peer.batches(a, rank=rank, ranks=a.ranks)]
    optimizer = torch.optim.SGD(net.parameters(), lr=peer.RATE[a.model])
    loss_of = nn.CrossEntropyLoss()

    def step(i):
        x, y = slots[i]
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=a.dtype == "bf16"):
            loss = loss_of(forward(x), y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    measured = peer.measure(a, step)
    if rank == 0:
        peer.report(a, "pytorch " + torch.__version__, parameters, measured, mode=a.mode, dtype=a.dtype,
                    cpu_capability=torch.backends.cpu.get_cpu_capability())
    if a.ranks > 1:
        dist.destroy_process_group()


def main():
    p = peer.options(__doc__)
    p.add_argument("--mode", default="channels_last", choices=MODES)
    p.add_argument("--dtype", default="f32", choices=("f32", "bf16"))
    p.add_argument("--port", type=int, default=29511)
    a = peer.parse(p)
    if a.ranks > 1:
        import torch.multiprocessing as processes
        processes.spawn(measure, (a,), a.ranks)
    else:
        measure(0, a)


if __name__ == "__main__":
    main()
