#!/usr/bin/env python3
"""Moving averages of the weights of the network of make_freezing.py over its six steps, computed by PyTorch in float64.

    PYTHON tests/reference/make_averages.py [FILE]
    PYTHON tests/reference/make_averages.py --check [FILE]

`averages.json` beside this script is its output; tests/test_averages.c reads it. Recorded is what make_freezing.py records and, as
"average:NAME", the averages of the parameters after the last step: torch.optim.swa_utils.AveragedModel's, by
get_ema_multi_avg_fn(ema) or, with `ema_warmup`, with the decay min(ema, (1 + n)/(10 + n)), n being AveragedModel's n_averaged. Where
the interpreter has no torch, the figures come from the formulas, in Python's float64; `--check` computes them anew by both.
"""
import figures
from make_freezing import ADAM, ADAMW, SGD, SHAPES, STATISTICS, VECTORS, by_formula, by_torch, description, fitting, group, torch

PARAMETERS = [name for name in SHAPES if name not in STATISTICS]
PLAIN = {"frozen": [], "groups": []}
CASES = [{"name": "sgd", "ema": 0.75, **PLAIN, **SGD, "momentum": 0},
         {"name": "momentum", "ema": 0.9, **PLAIN, **SGD},
         {"name": "adam", "ema": 0.5, **PLAIN, **ADAM},
         {"name": "adamw_long", "ema": 0.999, **PLAIN, **ADAMW},
         {"name": "warmup", "ema": 0.999, "ema_warmup": True, **PLAIN, **SGD},
         {"name": "warmup_ends", "ema": 0.25, "ema_warmup": True, **PLAIN, **ADAM},
         {"name": "clipped", "ema": 0.75, "clip_norm": 0.25, **PLAIN, **SGD},
         {"name": "frozen", "ema": 0.75, "frozen": fitting("[01].*"), "groups": [], **ADAMW},
         {"name": "groups", "ema": 0.75, "frozen": [], "groups": [group(VECTORS, weight_decay=0), group(fitting("4.*"), lr=2)], **SGD}]


def decay(case, n):
    return min(case["ema"], (1 + n) / (10 + n)) if case.get("ema_warmup") else case["ema"]


def formula(case):
    average = {}

    def watch(k, v):
        for name in PARAMETERS:
            before, share = average.get(name, v[name]), 1 - decay(case, k)
            average[name] = [a + share * (w - a) for a, w in zip(before, v[name])]

    made = by_formula(case, watch)
    return made | {"average:" + name: values for name, values in average.items()}


def pytorch(case):
    from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
    averaged = []

    def watch(k, v):
        model = torch.nn.ParameterDict({name.replace(".", "_"): torch.nn.Parameter(v[name].detach()) for name in PARAMETERS})
        if not averaged:
            by = {"avg_fn": lambda a, w, n: a + (1 - decay(case, int(n))) * (w - a)} if case.get("ema_warmup") else \
                {"multi_avg_fn": get_ema_multi_avg_fn(case["ema"])}
            averaged.append(AveragedModel(model, use_buffers=False, **by))
        averaged[0].update_parameters(model)

    made = by_torch(case, watch)
    of = dict(averaged[0].module.named_parameters())
    return made | {"average:" + name: of[name.replace(".", "_")].detach().flatten().tolist() for name in PARAMETERS}


if __name__ == "__main__":
    figures.main("averages", CASES, description, ({"PyTorch": pytorch} if torch else {}) | {"their formulas": formula})
