#!/usr/bin/env python3
"""What torchvision calls the parts of its networks: names, types and shapes of their state_dict, a line for each.

    PYTHON tests/reference/make_torchvision.py

`torchvision_resnet18.txt`, `torchvision_resnet50.txt` and `torchvision_vgg11.txt` beside this script are its output;
tests/test_torchvision.c reads them.
"""
import os

import torch
import torchvision

for model in ("resnet18", "resnet50", "vgg11"):
    with torch.device("meta"):  # shapes alone
        state = getattr(torchvision.models, model)().state_dict()
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), f"torchvision_{model}.txt"), "w") as file:
        for name, tensor in state.items():
            print(name, str(tensor.dtype).removeprefix("torch."), *tensor.shape, file=file)
