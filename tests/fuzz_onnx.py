#!/usr/bin/env python3
"""Random networks of fuzz_networks as ONNX models: onnxruntime gives the outputs of ls_module_infer to 1e-4 of the largest.

    PYTHON tests/fuzz_onnx.py PROGRAM [--seed N] [--count N] [--only K]

A network without a model is a failure, as every operation has one.
"""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "networks"))

import numpy as np  # noqa: E402
import onnxruntime  # noqa: E402
from written import networks  # noqa: E402

MOST_OFF = 1e-4


def array(shape_and_bytes):
    shape, numbers = shape_and_bytes
    return np.frombuffer(numbers, np.float32).reshape(shape)


def off(network):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(network.model, options, providers=["CPUExecutionProvider"])
    inputs = {f"input{k}" if int(k) else "input": array(x) for k, x in network.arrays["input"].items()}
    made, = session.run(["output"], {given.name: inputs[given.name] for given in session.get_inputs()})
    wanted = array(network.arrays["output"]["0"])
    if made.shape != wanted.shape:
        return float("inf")
    return float(np.abs(made - wanted).max() / max(np.abs(wanted).max(), 1e-6))


def main(program, settings):
    count, without, worst, wrong = 0, 0, 0, 0
    for network in networks(program, settings):
        count += 1
        if not os.path.exists(network.model):
            without += 1
            continue
        try:
            this, why = off(network), ""
        except Exception as failure:  # onnxruntime's are of several kinds
            this, why = float("inf"), f": {failure}"
        if not this <= MOST_OFF:
            wrong += 1
            print(f"{network} in onnxruntime is off by {this:.1e}{why}")
        else:
            worst = max(worst, this)
    print(f"{count} networks in onnxruntime: {wrong} wrong, {without} without a model, the others off by at most {worst:.1e}")
    return 1 if wrong or without or not count else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
