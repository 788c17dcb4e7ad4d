#!/usr/bin/env python3
"""gpu_torch.py [WORD...]: how fast PyTorch trains the book's networks on a card, rows for tools/gpu-check; only those whose name has
all words, such as resnet18 bf16.

Images lie on the card as bytes and are gathered and normalised there, as Lockstep does it; only whole training steps are timed.
"""
import itertools
import sys
import time

import torch
from networks import lenet_layers, resnet18
from torch import nn

# `tuned` has cuDNN time its engines and take the quickest, which the others leave to its heuristics.
MODES = ("eager", "channels_last", "eager_tuned", "tuned", "graph", "compile", "compile_tuned")


def step_of(model, dtype, batch, mode):
    torch.manual_seed(0)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = dtype == "tf32"
    torch.backends.cudnn.benchmark = "tuned" in mode
    net = (resnet18() if model == "resnet18" else lenet_layers()).cuda()
    last = not mode.startswith("eager")
    if last:
        net = net.to(memory_format=torch.channels_last)
    forward = torch.compile(net) if mode.startswith("compile") else net
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    loss_of = nn.CrossEntropyLoss()
    images = torch.randint(0, 256, (60000, 1, 28, 28), dtype=torch.uint8, device="cuda")
    labels = torch.randint(0, 10, (60000,), device="cuda")
    index = torch.randint(0, 60000, (batch,), device="cuda")

    def step():
        x = images[index].float() / 255
        if last:
            x = x.contiguous(memory_format=torch.channels_last)
        optimizer.zero_grad(set_to_none=mode != "graph")
        with torch.autocast("cuda", dtype=torch.bfloat16, enabled=dtype == "bf16"):
            loss = loss_of(forward(x), labels[index])
        loss.backward()
        optimizer.step()

    if mode != "graph":
        return step
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        for _ in range(5):
            step()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return graph.replay


def measure(step, steps):
    for _ in range(15):
        step()
    torch.cuda.synchronize()
    began = time.perf_counter()
    for _ in range(steps):
        step()
    torch.cuda.synchronize()
    return (time.perf_counter() - began) / steps


def main():
    networks = (("resnet18", 1024, 20), ("lenet", 256, 500), ("lenet", 1024, 300))
    for mode in MODES:  # the slowest to get ready comes last
        for (model, batch, steps), dtype in itertools.product(networks, ("bf16", "tf32", "f32")):
            name = f"{model}, {dtype}, batch {batch}, {mode}"
            if not all(word in name for word in sys.argv[1:]):
                continue
            try:
                torch.cuda.reset_peak_memory_stats()
                seconds = measure(step_of(model, dtype, batch, mode), steps)
                memory = torch.cuda.max_memory_allocated() / 2**20
                print(f"row {name}|{batch / seconds:.0f} images/s, {memory:.0f} MiB", flush=True)
            except Exception as error:  # one mode that fails must not cost the others
                print(f"row {name}|failed: {type(error).__name__}: {str(error)[:100]}", flush=True)
            torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
