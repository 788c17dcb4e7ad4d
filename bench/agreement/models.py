#!/usr/bin/env python3
"""ONNX models: onnxruntime runs what `lockstep export` writes, with Lockstep's logits to 1e-4 of the largest.

For both networks Lockstep trains a few steps (so that ResNet-18's running statistics are real ones), saves, predicts and exports;
onnxruntime predicts the same images, all at once and in batches of another size.

    PYTHON bench/agreement/models.py [--images N] [--devices LIST] [--lockstep PATH] [--more FOLDER]

--more adds the models of a folder with their inputs and outputs as `test_onnx FOLDER` writes them, of every operation, and tests of examples
(`test_unet FOLDER`), to 1e-5 of the largest.
"""
import argparse
import os
import sys
import tempfile

from common import lockstep, verdict
from logits import add_options, compare, lockstep_logits, lockstep_weights
import numpy as np
import onnxruntime
from peer import load


def run(path, inputs, batch):
    """What onnxruntime makes of the inputs, so many rows at once, as rows of numbers."""
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    given = {i.name: rows.reshape(-1, *i.shape[1:]) for i, rows in zip(session.get_inputs(), inputs, strict=True)}
    n = len(inputs[0])
    parts = [session.run(None, {name: rows[i:i + batch] for name, rows in given.items()})[0] for i in range(0, n, batch)]
    return np.concatenate(parts).reshape(n, -1)


def check_model(model, images, directory, a):
    print(model)
    weights, _ = lockstep_weights(model, directory, a)
    path = os.path.join(directory, model + ".onnx")
    lockstep(a.lockstep, "export", "--onnx", path, "--weights", weights, "--quiet")
    ours = lockstep_logits(weights, None, directory, a)
    return all([compare(f"onnxruntime {onnxruntime.__version__}, batches of {batch}", ours, run(path, [images], batch))
                for batch in (len(images), 7)])


def check_more(folder):
    """Of each model X.onnx: the inputs X_in.npy, X_in1.npy and so on, and X_out.npy, which Lockstep made of them."""
    results = []
    for name in sorted(entry[:-len(".onnx")] for entry in os.listdir(folder) if entry.endswith(".onnx")):
        print(name)
        path = os.path.join(folder, name)
        files = [path + "_in.npy"] + [path + f"_in{i}.npy" for i in (1, 2, 3)]
        theirs = run(path + ".onnx", [np.load(file) for file in files if os.path.exists(file)], 3)
        results.append(compare("onnxruntime", np.load(path + "_out.npy"), theirs, 1e-5))
    return bool(results) and all(results)


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    add_options(p)
    p.add_argument("--more", metavar="FOLDER")
    a = p.parse_args()
    images = load(a.data, "t10k")[0][:a.images].astype(np.float32) / 255
    with tempfile.TemporaryDirectory() as directory:
        results = [check_model(model, images, directory, a) for model in ("lenet", "resnet18")]
    if a.more:
        results.append(check_more(a.more))
    return verdict(all(results))


if __name__ == "__main__":
    sys.exit(main())
