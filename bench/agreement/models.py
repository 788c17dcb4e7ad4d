#!/usr/bin/env python3
"""ONNX models: onnxruntime runs what `lockstep export` writes, with Lockstep's logits to 1e-4 of the largest.

For both networks Lockstep trains a few steps (so that ResNet-18's running statistics are real ones), saves, predicts and exports;
onnxruntime predicts the same images, all at once and in batches of another size.

    PYTHON bench/agreement/models.py [--images N] [--devices LIST] [--lockstep PATH] [--more FOLDER]

--more adds a model with its input and output as `test_onnx FOLDER` writes them, of every operation.
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


def run(path, images, batch):
    """What onnxruntime makes of the images, so many at once."""
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    given, = session.get_inputs()
    images = images.reshape(-1, *given.shape[1:])
    return np.concatenate([session.run(None, {given.name: images[i:i + batch]})[0] for i in range(0, len(images), batch)])


def check_model(model, images, directory, a):
    print(model)
    weights, _ = lockstep_weights(model, directory, a)
    path = os.path.join(directory, model + ".onnx")
    lockstep(a.lockstep, "export", "--onnx", path, "--weights", weights, "--quiet")
    ours = lockstep_logits(weights, None, directory, a)
    return all([compare(f"onnxruntime {onnxruntime.__version__}, batches of {batch}", ours, run(path, images, batch))
                for batch in (len(images), 7)])


def check_more(folder):
    print("every operation")
    path = os.path.join(folder, "everything")
    return compare("onnxruntime", np.load(path + "_out.npy"), run(path + ".onnx", np.load(path + "_in.npy"), 3))


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
