#!/usr/bin/env python3
"""Draws what bench/scale predicts: DIR/scale.json becomes DIR/scale.svg and .png. Needs matplotlib.

    PYTHON bench/scale_plot.py DIR
"""
import json
import os
import sys

import matplotlib
matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402
from matplotlib.ticker import FixedLocator, NullLocator, StrMethodFormatter  # noqa: E402

NAMES = {"resnet18": "ResNet-18", "lenet": "LeNet"}
PANELS = (("core", "loopback", "cores as measured,\nTCP as measured on the loopback device"),
          ("core", "ethernet", "cores as measured,\n25 Gbit/s Ethernet, assumed"),
          ("gpu", "infiniband", "GPUs and 200 Gbit/s InfiniBand,\nboth assumed"))
LINES = {"flat": ("flat: each with each", "#b3541e", "o"), "two levels": ("two levels: inside hosts, then across", "#1f5fa8", "s"),
         "ring": ("ring (another order of sums)", "#777777", "^")}
# No date and no random names in the file: the same figures give the same bytes.
matplotlib.rcParams.update({"svg.hashsalt": "lockstep", "svg.fonttype": "path", "font.size": 10, "axes.spines.top": False,
                            "axes.spines.right": False, "axes.grid": True, "grid.color": "#dddddd", "lines.linewidth": 1.6})


def panel(axis, record, model, kind, across):
    counts, device = record["counts"], record["devices"][kind]
    computing = device["images"][model] / device["speed"][model]
    for reduction, (label, colour, mark) in LINES.items():
        found = next(s for s in record["predicted"] if (s["network"], s["device"], s["across"], s["reduction"]) ==
                     (model, kind, across, reduction))
        axis.plot(counts, [t / computing for t in found["seconds"]], color=colour, marker=mark, markersize=4, label=label)
    axis.axvspan(counts[0], record["host"], color="#f2f2f2", zorder=0)
    axis.set_xscale("log", base=2)
    axis.set_yscale("log")
    axis.xaxis.set_major_locator(FixedLocator(counts[::2]))
    axis.xaxis.set_minor_locator(NullLocator())
    axis.xaxis.set_major_formatter(StrMethodFormatter("{x:.0f}"))
    axis.set_ylim(0.9, max(3, 1.3 * axis.get_ylim()[1]))
    axis.yaxis.set_major_locator(FixedLocator([1, 1.5, 2, 3, 5, 10, 20, 50, 100, 200, 500]))
    axis.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axis.yaxis.set_minor_locator(NullLocator())
    return computing


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    with open(os.path.join(sys.argv[1], "scale.json")) as f:
        record = json.load(f)
    figure, axes = plt.subplots(len(NAMES), len(PANELS), figsize=(12, 7), sharex=True, layout="constrained")
    for row, model in zip(axes, NAMES):
        for axis, (kind, across, title) in zip(row, PANELS):
            computing = panel(axis, record, model, kind, across)
            images = record["devices"][kind]["images"][model]
            axis.set_title(f"{NAMES[model]}, {images} images in {1e3 * computing:.3g} ms a device,\n{title}", fontsize=9.5)
        row[0].set_ylabel("a step, times its computing")
    for axis in axes[-1]:
        axis.set_xlabel("devices, eight to a host (grey: one host)")
    axes[0][0].legend(frameon=False, fontsize=9, loc="upper left")
    figure.suptitle(f"Predicted time of a training step; calibrated on {record['machine']}, {record['cores']} cores", fontsize=11)
    for end, more in (("svg", {"metadata": {"Date": None}}), ("png", {"dpi": 120})):
        figure.savefig(os.path.join(sys.argv[1], f"scale.{end}"), **more)


if __name__ == "__main__":
    main()
