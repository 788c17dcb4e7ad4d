"""What the peers' scripts share: the data set, the options, the clock, and the JSON line that bench/peers/run reads.

Needs numpy alone, so that every peer's virtual environment can import it.
"""
import argparse
import gzip
import json
import os
import resource
import statistics
import sys
import time

import numpy as np

DATA = os.environ.get("LOCKSTEP_DATA", "/usr/share/datasets/fashion-mnist")
PARAMETERS = {"lenet": 129068, "resnet18": 11175818}  # trainable numbers; Lockstep's networks have as many
RATE = {"lenet": 0.05, "resnet18": 0.01}  # small enough that every peer's own start learns from the first steps
SLOTS = 8  # different batches, used in turn


def load(directory, part):
    """Images (n, 1, 28, 28) and labels (n,) of "train" or "t10k", both as bytes; files raw or gzip'ed."""
    def read(name, header):
        path = os.path.join(directory, name)
        with (gzip.open(path + ".gz") if os.path.exists(path + ".gz") else open(path, "rb")) as f:
            return np.frombuffer(f.read(), np.uint8)[header:]
    images = read(f"{part}-images-idx3-ubyte", 16).reshape(-1, 1, 28, 28)
    return images, read(f"{part}-labels-idx1-ubyte", 8)


def batches(a, channels_last=False, rank=0, ranks=1):
    """SLOTS lists of images as float32 in [0, 1] and labels as int32: what rank `rank` of `ranks` trains on in turn."""
    images, labels = load(a.data, "train")
    rows = a.batch // ranks
    made = []
    for i in range(SLOTS):
        part = slice(i * a.batch + rank * rows, i * a.batch + (rank + 1) * rows)
        x = images[part].astype(np.float32) / 255
        made.append((x.reshape(-1, 28, 28, 1) if channels_last else x, labels[part].astype(np.int32)))
    return made


def options(doc):
    p = argparse.ArgumentParser(description=doc.split("\n")[0])
    p.add_argument("--model", default="resnet18", choices=tuple(PARAMETERS))
    p.add_argument("--batch", type=int, default=256, help="images to a step, over all devices")
    p.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)), help="of each device or process")
    p.add_argument("--ranks", type=int, default=1, help="devices or processes that share the batch")
    p.add_argument("--steps", type=int, default=5)
    p.add_argument("--warmup", type=int, default=2)
    p.add_argument("--data", default=DATA)
    return p


def parse(p):
    a = p.parse_args()
    if a.batch % a.ranks:
        p.error(f"--batch {a.batch} is not a multiple of --ranks {a.ranks}")
    if a.warmup < 1 or a.steps < 1:
        p.error("--warmup and --steps must be 1 or more")
    return a


def timed(call, steps, seconds=0.0):
    """The seconds of each of so many calls, `call(i)`, or of more, until they took so many seconds."""
    times = []
    while len(times) < steps or sum(times) < seconds:
        start = time.perf_counter()
        call(len(times))
        times.append(time.perf_counter() - start)
    return times


def measure(a, step, slots=SLOTS, seconds=0.0):
    """Runs `step(i)`, which trains on batch i, waits for the result and gives the loss before its update.

    Gives the seconds of each timed step, and the loss on batch 0 at the first step and after the last one.
    """
    first = step(0)
    for i in range(1, a.warmup):
        step(i % slots)
    times = timed(lambda i: step(i % slots), a.steps, seconds)
    return times, float(first), float(step(0))


def check_learns(peer, first, last):
    if not last < first:
        sys.exit(f"{peer}'s loss on the first batch went from {first:.4f} to {last:.4f}")


def report(a, peer, parameters, measured, **more):
    """Prints the JSON line. A network of another size, or one that does not learn, is no peer: it ends the script."""
    times, first, last = measured
    if parameters != PARAMETERS[a.model]:
        sys.exit(f"{peer}'s {a.model} has {parameters} parameters, not {PARAMETERS[a.model]}")
    check_learns(peer, first, last)
    print(json.dumps({"peer": peer, "model": a.model, "batch": a.batch, "threads": a.threads, "ranks": a.ranks, "steps": a.steps,
                      "parameters": parameters, "loss_first": round(first, 4), "loss_last": round(last, 4),
                      "img_per_s": round(a.batch / statistics.median(times), 1),
                      "mean_img_per_s": round(a.batch / statistics.mean(times), 1),
                      "best_img_per_s": round(a.batch / min(times), 1),
                      "peak_mib": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024), **more}), flush=True)
