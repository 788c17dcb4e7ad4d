#!/usr/bin/env python3
"""Draws what bench/scaling measured: DIR/scaling.json becomes DIR/scaling-MODEL.svg and .png. Needs matplotlib.

    PYTHON bench/scaling_plot.py DIR
"""
import json
import os
import sys

import matplotlib
matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402
from matplotlib.ticker import FixedLocator, NullLocator, StrMethodFormatter  # noqa: E402

NAMES = {"lenet": "LeNet", "resnet18": "ResNet-18"}
# No date and no random names in the file: the same figures give the same bytes.
matplotlib.rcParams.update({"svg.hashsalt": "lockstep", "svg.fonttype": "path", "font.size": 10, "axes.spines.top": False,
                            "axes.spines.right": False, "axes.grid": True, "grid.color": "#dddddd", "lines.linewidth": 1.6})
LABELS = {"batch": "images to a step (batch)", "shard": "images to a shard", "devices": "devices"}


def held(over, point):
    """What the sweep holds still, in words."""
    words = {"batch": f"batch {point['batch']}", "shard": f"shards of {point['shard']}",
             "devices": f"{point['devices']} device{'s' if point['devices'] > 1 else ''}"}
    return ", ".join(text for name, text in words.items() if name != over)


def panel(axis, values, figures, label, colour, ranges=None):
    axis.plot(values, figures, "o-", color=colour, markersize=4.5)
    if ranges:
        axis.vlines(values, [low for low, _ in ranges], [high for _, high in ranges], color=colour, linewidth=1.2)
    axis.set_xscale("log", base=2)
    axis.xaxis.set_major_locator(FixedLocator(values))
    axis.xaxis.set_minor_locator(NullLocator())
    axis.xaxis.set_major_formatter(StrMethodFormatter("{x:.0f}"))
    axis.tick_params(axis="x", labelsize=9)
    axis.yaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    axis.set_ylabel(label)


def draw(record, model, out):
    found = [s for s in record["series"] if s["model"] == model]
    figure, axes = plt.subplots(2, len(found), figsize=(11, 5.6), sharex="col", sharey="row", squeeze=False, layout="constrained")
    for column, s in enumerate(found):
        points = s["points"]
        values = [p["value"] for p in points]
        panel(axes[0][column], values, [p["img_per_s"] for p in points], "training, images/s", "#1f5fa8",
              [(min(p["rounds"]), max(p["rounds"])) for p in points])
        panel(axes[1][column], values, [p["peak_mib"] for p in points], "peak memory, MiB", "#b3541e")
        axes[0][column].set_title(held(s["over"], points[0]), fontsize=10)
        axes[1][column].set_xlabel(LABELS[s["over"]])
    points = [p for s in found for p in s["points"]]
    for row, most in zip(axes, (max(max(p["rounds"]) for p in points), max(p["peak_mib"] for p in points))):
        row[0].set_ylim(0, 1.12 * most)  # one scale for the row, and one label
        for axis in row[1:]:
            axis.set_ylabel("")
    capped = ", AVX2 only" if record["isa"] == "avx2" else ""
    rounds = f": median, lowest and highest of {record['rounds']} rounds" if record["rounds"] > 1 else ""
    figure.suptitle(f"{NAMES[model]} on {record['machine']}{capped}{rounds}", fontsize=11)
    for end, more in (("svg", {"metadata": {"Date": None}}), ("png", {"dpi": 120})):
        figure.savefig(os.path.join(out, f"scaling-{model}.{end}"), **more)
    plt.close(figure)


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    with open(os.path.join(sys.argv[1], "scaling.json")) as f:
        record = json.load(f)
    for model in dict.fromkeys(s["model"] for s in record["series"]):
        draw(record, model, sys.argv[1])


if __name__ == "__main__":
    main()
