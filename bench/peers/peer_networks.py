#!/usr/bin/env python3
"""One network of bench/networks, one figure: how fast PyTorch or onnxruntime trains it or infers with it on this machine's CPU.

    PYTHON bench/peers/peer_networks.py train FOLDER --network NAME [--mode eager|channels_last|compile|compile_channels_last]
                                                     [--dtype f32|bf16] [--batch N] [--threads N] [--seconds S]
    PYTHON bench/peers/peer_networks.py infer FOLDER --network NAME [--mode ... | --mode onnxruntime] [the same]

FOLDER has what `bench_networks list` and `bench_networks write` say: the network's weights, which PyTorch takes by name, its ONNX model, and
the outputs that Lockstep makes of some inputs. A network that does not give them, or whose loss does not fall, is no peer.
Batches lie ready in memory as float32. `train` times whole steps of plain SGD, `infer` passes in inference mode, until they took
--seconds, but at least one; what counts is the median behind the warm-up, which also compiles. Prints one JSON line.
"""
import argparse
import json
import os
import statistics

import numpy as np
import peer
from measure import MODES

APART = 1e-4  # the largest difference of an output in float32, relative to the largest output


def described(a):
    with open(os.path.join(a.folder, "networks.json")) as f:
        return next(n for n in json.load(f) if n["name"] == a.network)


def batches(network, rows, slots):
    """`slots` batches of numbers and targets that can be learned from them, as bench/networks.c makes them."""
    rng, shades, made = np.random.default_rng(1), 10, []
    for _ in range(slots):
        x = rng.random((rows, *network["row"]), np.float32)
        labels = np.arange(rows) % shades
        if network["symbols"]:
            x = (x * network["symbols"]).astype(np.int64)
            y = (x * 7 + 3) % network["classes"]
        elif network["target"]:
            y = (x * network["classes"]).astype(np.int64).reshape(rows, *network["target"])
        else:
            x = (x + (labels / shades).astype(np.float32).reshape(-1, *[1] * len(network["row"]))) / 2
            y = labels
        made.append((x, y.astype(np.int64)))
    return made


def written(a, network):
    """Inputs, and the outputs that Lockstep makes of them, as rows of numbers."""
    x, y = (np.load(os.path.join(a.folder, a.network + end)) for end in ("_in.npy", "_out.npy"))
    x = x.reshape(-1, *network["row"])
    return x.astype(np.int64) if network["symbols"] else x, y


def check(ours, theirs):
    apart = float(np.abs(ours - theirs.reshape(ours.shape)).max() / np.abs(ours).max())
    if not apart < APART:
        raise SystemExit(f"its outputs are {apart:.1e} of the largest apart from Lockstep's")
    return apart


# ---- PyTorch ----

def torch_network(a, network):
    """The network with Lockstep's weights, whose outputs were compared, and the version."""
    import torch
    from other_networks import NETWORKS, load, taken
    from safetensors.torch import load_file
    torch.set_num_threads(a.threads)
    torch.manual_seed(0)
    make, loss = NETWORKS[a.network]
    net = taken(load(make(), load_file(os.path.join(a.folder, a.network + ".safetensors"))), a.mode)
    x, y = written(a, network)
    with torch.inference_mode():
        apart = check(y, net.eval()(taken(torch.from_numpy(x), a.mode)).numpy())
    return net, loss, apart


def compiled(a, net):
    import torch
    return torch.compile(net) if a.mode.startswith("compile") else net


def torch_train(a, network):
    import torch
    from other_networks import parameters, taken
    net, loss_of, apart = torch_network(a, network)
    forward = compiled(a, net.train())
    slots = [(taken(torch.from_numpy(x), a.mode), torch.from_numpy(y)) for x, y in batches(network, a.batch, network["slots"])]
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)

    def step(i):
        x, y = slots[i]
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=a.dtype == "bf16"):
            loss = loss_of(forward, x, y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    times, first, last = peer.measure(a, step, len(slots), a.seconds)
    peer.check_learns(a.network, first, last)
    return times, {"parameters": parameters(net), "loss_first": round(first, 4), "loss_last": round(last, 4), "apart": apart}


def torch_infer(a, network):
    import torch
    from other_networks import parameters, taken
    net, _, apart = torch_network(a, network)
    forward = compiled(a, net)
    x = taken(torch.from_numpy(batches(network, a.batch, 1)[0][0]), a.mode)
    with torch.inference_mode(), torch.autocast("cpu", dtype=torch.bfloat16, enabled=a.dtype == "bf16"):
        peer.timed(lambda i: forward(x), a.warmup)
        return peer.timed(lambda i: forward(x), a.steps, a.seconds), {"parameters": parameters(net), "apart": apart}


# ---- onnxruntime ----

def onnx_infer(a, network):
    import onnxruntime
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = a.threads, 1
    session = onnxruntime.InferenceSession(os.path.join(a.folder, a.network + ".onnx"), options, providers=["CPUExecutionProvider"])
    name = session.get_inputs()[0].name
    x, y = written(a, network)
    apart = check(y, session.run(None, {name: x})[0])
    x = batches(network, a.batch, 1)[0][0]
    peer.timed(lambda i: session.run(None, {name: x}), a.warmup)
    return peer.timed(lambda i: session.run(None, {name: x}), a.steps, a.seconds), {"apart": apart}


def version(a):
    if a.mode == "onnxruntime":
        import onnxruntime
        return "onnxruntime " + onnxruntime.__version__
    import torch
    return "pytorch " + torch.__version__


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("what", choices=("train", "infer"))
    p.add_argument("folder")
    p.add_argument("--network", required=True)
    p.add_argument("--mode", default="eager", choices=(*MODES, "onnxruntime"))
    p.add_argument("--dtype", default="f32", choices=("f32", "bf16"))
    p.add_argument("--batch", type=int, help="default: the network's")
    p.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    p.add_argument("--seconds", type=float, default=5)
    p.add_argument("--warmup", type=int, default=2)
    a = p.parse_args()
    network, a.steps = described(a), 1
    a.batch = a.batch or network["batch"]
    if a.mode == "onnxruntime" and (a.what == "train" or a.dtype != "f32"):
        p.error("onnxruntime only infers, in f32")
    measure = onnx_infer if a.mode == "onnxruntime" else torch_train if a.what == "train" else torch_infer
    times, more = measure(a, network)
    print(json.dumps({"peer": version(a), "network": a.network, "mode": a.mode, "dtype": a.dtype, "batch": a.batch,
                      "threads": a.threads, "steps": len(times), **more,
                      "rows_per_s": round(a.batch / statistics.median(times), 3)}))


if __name__ == "__main__":
    main()
