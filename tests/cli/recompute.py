#!/usr/bin/env python3
"""What the program says, computed once more from the files it writes, by the definitions and with the standard library alone:
recompute.py fingerprint FILE, or train, trace, bench, profile, runs or page with what the functions of these names take."""
import ast
import hashlib
import json
import math
import re
import struct
import sys

COUNT = r"[\d,]+"


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def log_lines(path):
    """The settings, the epochs, all lines; one that was cut short is none."""
    lines = [json.loads(line) for line in read(path).split("\n")[:-1]]
    return lines[0], [line for line in lines if "epoch" in line and "lockstep" not in line], lines[1:]


def same(is_, should_be, what, tolerance=1e-9):
    assert abs(is_ - should_be) <= tolerance * max(abs(is_), abs(should_be)), (what, is_, should_be)


def told(text, value, what, doubt=0.0):
    """The text is the value, rounded to as many decimals as it has; `doubt` of the value comes from rounded input."""
    unit = 10.0 ** -len(text.partition(".")[2])
    assert abs(float(text.replace(",", "")) - value) <= (0.5 + 1e-6) * unit + doubt, (what, text, value)


def found(pattern, text, what):
    match = re.search(pattern, text, re.M)
    assert match, f"{what}: no {pattern} in\n{text}"
    return match.groups()


# ---- Weights, logits ----


def fingerprint(path):
    with open(path, "rb") as file:
        whole = file.read()
    (length,) = struct.unpack("<Q", whole[:8])
    header = json.loads(whole[8 : 8 + length])
    values = whole[8 + length :]
    header.pop("__metadata__", None)
    digest = hashlib.sha256()
    for name in sorted(header, key=lambda text: text.encode()):
        tensor = header[name]
        assert tensor["dtype"] == "F32", (name, tensor["dtype"])
        begin, end = tensor["data_offsets"]
        assert end - begin == 4 * math.prod(tensor["shape"]), name
        digest.update(name.encode() + b"\0" + values[begin:end])
    print("fingerprint:", digest.hexdigest())


def logits(path):
    """Rows of a file that predict wrote."""
    with open(path, "rb") as file:
        whole = file.read()
    (length,) = struct.unpack("<H", whole[8:10])
    rows, classes = ast.literal_eval(whole[10 : 10 + length].decode())["shape"]
    numbers = struct.unpack(f"<{rows * classes}f", whole[10 + length :])
    return [numbers[i * classes : (i + 1) * classes] for i in range(rows)]


def labels(path, rows):
    with open(path, "rb") as file:
        return list(file.read()[8 : 8 + rows])


def probabilities(row):
    powers = [math.exp(value - max(row)) for value in row]
    return [power / sum(powers) for power in powers]


def accuracy(rows, right):
    return sum(row.index(max(row)) == label for row, label in zip(rows, right)) / len(right)


def cross_entropy(rows, right):
    return sum(-math.log(probabilities(row)[label]) for row, label in zip(rows, right)) / len(right)


# ---- train ----


def train(log, out, err=None):
    """The log's epochs from its steps, and what a whole run printed from its log."""
    first, epochs, lines = log_lines(log)
    images, batch = first["images"], first["batch"]
    sizes = [min(batch, images - at) for at in range(0, images, batch)]
    steps = []
    for line in lines:
        if "step" in line:
            steps.append(line["loss"])
            continue
        rows = sizes[: len(steps)]
        same(line["train_loss"], sum(n * loss for n, loss in zip(rows, steps)) / sum(rows), "train_loss")
        same(line["sec"] * line["img_per_s"], sum(rows), "images of an epoch")
        for name, of in ("train_acc", sum(rows)), ("test_acc", first["test_images"]), ("val_acc", first["validate"]):
            if name in line:
                same(line[name] * of, round(line[name] * of), name)
        steps = []
    acc, seconds = found(r"^test acc: (\d\.\d\d), (\d+\.\d) sec/epoch on ", read(out), "train")
    kept = max(epochs, key=lambda line: line["val_acc"]) if first["keep"] == "best" else epochs[-1] # the first of equal ones
    told(acc, kept["test_acc"], "test acc")
    told(seconds, sum(line["sec"] for line in epochs) / len(epochs), "sec/epoch")
    said = re.findall(r"^epoch (\d+)/(\d+): loss ([\d.]+), train acc ([\d.]+), test acc ([\d.]+), ([\d.]+) sec, (\d+) images/s$",
                      read(err) if err else "", re.M)
    assert len(said) == (len(epochs) if err else 0), said
    for texts, line in zip(said, epochs):
        assert texts[:2] == (str(line["epoch"]), str(first["epochs"])), texts
        for text, name in zip(texts[2:], ("train_loss", "train_acc", "test_acc", "sec", "img_per_s")):
            told(text, line[name], name)


# ---- trace ----


def spans_of(path):
    """Of each line of the picture its spans, in seconds."""
    events = json.loads(read(path))["traceEvents"]
    names = {event["tid"]: event["args"]["name"] for event in events if event["name"] == "thread_name"}
    lines = {name: [] for name in names.values()}
    for event in events:
        if event["ph"] == "X":
            begin = event["ts"] / 1e6
            lines[names[event["tid"]]].append({"begin": begin, "end": begin + event["dur"] / 1e6, "step": event.get("args", {}).get("step"),
                                               "kind": event["cat"], "name": event["name"]})
    return lines


def shared(span, begin, end):
    return max(0.0, min(span["end"], end) - max(span["begin"], begin))


def trace(path, err, log):
    """What a run on CPUs says of its spans, and its log of its epochs."""
    lines, text = spans_of(path), read(err)
    devices = {name: line for name, line in lines.items() if name.startswith("cpu(")}
    steps = {span["step"]: span for span in lines["steps"]}
    n, seconds = len(steps), sum(span["end"] - span["begin"] for span in steps.values())
    count, of_steps = found(rf"^trace: .*: ({COUNT}) spans of ({COUNT}) steps; ", text, "trace")
    told(count, sum(len(line) for name, line in lines.items() if name != "program"), "spans")
    told(of_steps, n, "steps")
    # What each device was at: a shard may have sums within it.
    parts = {"computing": 0.0, "reducing": 0.0, "waiting": 0.0}
    for line in devices.values():
        work = [span for span in line if span["kind"] in ("shard", "help")]
        for span in line:
            long = span["end"] - span["begin"]
            if span["kind"] in ("shard", "help"):
                parts["computing"] += long
            elif span["kind"] == "reduce":
                parts["reducing"] += long
                if any(around["begin"] <= span["begin"] and span["end"] <= around["end"] for around in work):
                    parts["computing"] -= long
            elif span["kind"] == "wait" and not span["name"].startswith("idle"):
                parts["waiting"] += long
    millis, *shares = found(r"^trace: a step takes ([\d.]+) ms; of the devices' time ([\d.]+) % went into computing, ([\d.]+) % into "
                            r"reducing and updating, ([\d.]+) % into waiting$", text, "the parts")
    told(millis, 1e3 * seconds / n, "a step", 1e-5)
    for share, part in zip(shares, parts):
        told(share, 100 * parts[part] / sum(parts.values()), part, 0.05) # waits of less than a microsecond have no span
    # A step's computing ends with the last shard of all devices; one that ends behind its step was done before, and kept from its core.
    last = {}
    for name, line in devices.items():
        for span in line:
            if span["kind"] == "shard" and span["step"] in steps:
                end = min(span["end"], steps[span["step"]]["end"])
                if end > last.get(span["step"], (0.0, ""))[0]:
                    last[span["step"]] = end, name
    hidden = left = 0.0
    waits = {}
    for name, line in devices.items():
        for span in (span for span in line if span["step"] in steps):
            end, whose = last[span["step"]]
            step = steps[span["step"]]
            if span["kind"] == "reduce":
                hidden += shared(span, step["begin"], end)
                left += shared(span, end, step["end"])
            if span["name"].split()[0] == "wait" and len(span["name"].split()) < 3 and name != whose:
                waits[name, whose] = waits.get((name, whose), 0.0) + shared(span, step["begin"], end)
    tail = sum(steps[step]["end"] - end for step, (end, _) in last.items())
    share, millis, part = found(r"^trace: (\d+) % of the reducing was hidden behind computing; what is left makes a step ([\d.]+) ms longer "
                                r"\(([\d.]+) %\)$", text, "what was hidden")
    told(share, 100 * hidden / (hidden + left), "hidden", 0.01)
    told(millis, 1e3 * tail / n, "the tail", 1e-5)
    told(part, 100 * tail / seconds, "the tail's part", 1e-3)
    pair, longest = max(waits.items(), key=lambda item: item[1], default=(None, 0.0))
    if longest < 0.01 * seconds:
        assert len(devices) == 1 or "trace: no device waited for another's last shard for more than 1 % of a step\n" in text, (waits, text)
    else:
        one, millis, part, other = found(r"^trace: the longest wait: (\S+) ([\d.]+) ms a step \(([\d.]+) %\) for the last shard of (\S+)$", text,
                                         "the longest wait")
        same(waits[one, other], longest, "the longest wait", 1e-4)
        told(millis, 1e3 * longest / n, "the longest wait", 1e-4)
        told(part, 100 * longest / seconds, "its part", 1e-2)
    assert ("a larger --batch has it less often" in text) == (tail > 0.1 * seconds), (tail, seconds)
    # An epoch's seconds hold its steps, and are within its own span.
    first, epochs, numbered = log_lines(log)
    before = 0
    for line in epochs:
        step = [entry["step"] for entry in numbered[: numbered.index(line)] if "step" in entry][-1]
        of_it = [steps[i] for i in range(before + 1, step + 1)]
        before = step
        (around,) = [span for span in lines["program"] if span["name"] == f"epoch {line['epoch']}"]
        tested = sum(shared(span, around["begin"], around["end"]) for span in lines["program"] if span["name"] == "evaluation")
        assert max(span["end"] for span in of_it) - min(span["begin"] for span in of_it) <= line["sec"] + 1e-6, line
        assert line["sec"] <= around["end"] - around["begin"] - tested + 1e-6, (line, around, tested)


# ---- bench ----


def bench(path, out, seconds):
    """The table of speeds from its JSON; bench took so many seconds in all."""
    whole = json.loads(read(path))
    rows = re.findall(r"^(\S+) +\[(.*)\] +([\d.]+) +([\d.]+)(?: +([\d.]+) expected \(([+-][\d.]+) %\))?$", read(out), re.M)
    assert len(rows) == len(whole["speeds"]) > 0, rows
    measured = 0.0
    for (model, devices, images, faster, expected, more), speed in zip(rows, whole["speeds"]):
        first = speed if speed["device_count"] == 1 else first
        rate, forecast = speed["images_per_second"], speed["forecast_images_per_second"]
        assert (model, f"[{devices}]") == (speed["model"], speed["devices"]) and devices.count("cpu(") == speed["device_count"], speed
        same(rate, whole["batch"] / speed["step_seconds"], "images per second")
        told(images, rate, "images/s")
        told(faster, rate / first["images_per_second"], "speed-up")
        assert bool(expected) == (forecast is not None), speed
        if expected:
            told(expected, forecast, "expected")
            told(more.lstrip("+"), 100 * (forecast / rate - 1), "beside what was expected")
        # Half of the rounds took as long as the median, or longer.
        measured += (speed["rounds"] + 1) // 2 * speed["steps"] * speed["step_seconds"]
    assert measured <= float(seconds), (measured, seconds)
    recommended(whole, read(out))


def recommended(whole, text):
    """What a further device costs: by least squares, what each line took beyond what was expected without that."""
    line = r"^(\S+) +recommended: \d+ devices?, for (\d+) shards? a step \([\d.]+ ms a shard, [\d.]+ ms of sums, ([\d.]+) ms a further device\)$"
    for model, shards, further in re.findall(line, text, re.M):
        assert int(shards) == -(-whole["batch"] // whole["shard"]), shards
        left, weight, latency = 0.0, 0, 0.0
        for speed in whole["speeds"]:
            others, expected = speed["device_count"] - 1, speed["forecast_images_per_second"]
            if speed["model"] == model and expected is not None:
                left += others * (speed["step_seconds"] - (whole["batch"] / expected - latency * others))
                weight += others * others
                latency = left / weight if left > 0 else 0.0
        told(further, 1e3 * latency, "ms a further device")


DIRECTIONS = ("forward", "data", "weight")
RATES = r"([\d.]+|-) +(?:(\d+) %|-) +([\d.]+|-) +(?:(\d+) %|-)"


def numbers_of(shape):
    return math.prod(int(size) for size in shape.split("x"))


def work_of(row, images, shard):
    """Flops of direct convolution, and of a linear layer the bytes too: of its operands and result, images in groups of 16."""
    ins, outs = row["in"], row["out"]
    kind = row["operation"].split("_")[0]
    if row["operation"].startswith("conv_pool"): # LeNet's: four windows to a place
        return 2.0 * 4 * numbers_of(outs) * numbers_of(ins.split("x")[0]) * 9 * images, None
    if kind in ("conv", "winograd"):
        return 2.0 * numbers_of(outs) * int(ins.split("x")[0]) * row["kernel"] ** 2 * images, None
    if kind == "linear":
        weights = numbers_of(ins) * numbers_of(outs) + (numbers_of(outs) if row["direction"] == "forward" else 0)
        groups = -(-shard // 16) * 16 * row["calls"]
        return 2.0 * numbers_of(ins) * numbers_of(outs) * images, 4.0 * (groups * (numbers_of(ins) + numbers_of(outs)) + weights * row["calls"])
    return 0.0, None


def shape_of(row):
    """A row's shapes as its line has them, cut like it. A window is as high as it is wide, and keeps as many places as it has room for."""
    text = row["in"]
    if row["out"] != row["in"] or row["kernel"]:
        text += " > " + row["out"]
    if row["kernel"]:
        assert row["kernel"] == row["kernel_w"] and row["groups"] == 1, row
        size, left = (int(shape.split("x")[1]) for shape in (row["in"], row["out"]))
        spare = row["parameter"] == "W2" # the last place, which LeNet's pooling leaves out
        assert left == (size + 2 * row["padding"] - row["kernel"]) // row["stride"] + 1 - spare, row
    if row["kernel"] > 1 or row["stride"] > 1:
        text += f", {row['kernel']}x{row['kernel']}"
    if row["stride"] > 1:
        text += f" by {row['stride']}"
    return text[:31]


def is_fused(row):
    """Whether ReLU, and an addition before it, are a part of the operation, by its layer: of the book's networks."""
    name, kind = row["layer"] or row["parameter"], row["operation"]
    if row["layer"].startswith("resnet_block"):
        norm = kind.startswith("batch_norm") and not name.endswith("bn3")
        return norm, norm and name.endswith("bn2")
    relu = kind.startswith("batch_norm") or kind in ("relu_backward", "avg_pool_backward") or (name in ("W2", "W3") and row["direction"] == "forward")
    return relu, False


def profile_row(texts, row, whole, own):
    calls, millis, share, flops, peak, rate, memory = texts
    told(calls, row["calls"] / whole["steps"], "calls")
    told(millis, 1e3 * row["seconds"] / whole["steps"], "ms")
    told(share, 100 * row["seconds"] / own, "share")
    for rate, part, work, most in ((flops, peak, row["flops"], whole["core_flops_per_second"]), (rate, memory, row["bytes"], whole["core_bytes_per_second"])):
        assert (rate == "-") == (work == 0), (texts, row)
        if work:
            told(rate, work / row["seconds"] / 1e9, "a rate")
            if most:
                told(part, 100 * work / row["seconds"] / most, "part of the most")


def profile(path, out):
    """The tables of one network's profile from its JSON, and its arithmetic from its shapes."""
    text = read(out)
    settings = json.loads(read(path))
    (whole,) = settings["profiles"]
    steps, everything = whole["steps"], whole["seconds"] * whole["cores"]
    own = everything - whole["elsewhere_seconds"]
    flops, memory = found(r"^a core's most: ([\d.]+) GFLOP/s in fused multiply-adds, ([\d.]+) GB/s from and to memory$", text, "profile")
    told(flops, whole["core_flops_per_second"] / 1e9, "GFLOP/s")
    told(memory, whole["core_bytes_per_second"] / 1e9, "GB/s")
    head = f"{whole['model']} on {whole['devices']}: {steps} steps of {settings['batch']} images, shard {settings['shard']}, conv {settings['conv']}, isa {settings['isa']}\n"
    assert text.startswith(head), (head, text[:200])
    assert whole["devices"].startswith("[cpu(0)") and whole["devices"].count("cpu(") >= whole["cores"], whole
    rows = re.findall(rf"^(.{{22}}) (.{{31}}) (\S+) +({'|'.join(DIRECTIONS)}) +(\d+) +([\d.]+) +([\d.]+) % +{RATES}$", text, re.M)
    operations, together = whole["operations"], {}
    for row in operations:
        work, moved = work_of(row, whole["images"], settings["shard"])
        same(row["flops"], work, ("flops", row))
        assert moved is None or row["bytes"] == moved, (moved, row)
        total = together.setdefault((row["operation"], row["direction"]), {"calls": 0, "seconds": 0, "flops": 0, "bytes": 0})
        for name in total:
            total[name] += row[name]
    assert len(rows) == len(operations) + len(together), (len(rows), len(operations), len(together))
    for (name, shape, operation, direction, *texts), row in zip(rows, operations):
        assert shape.rstrip() == shape_of(row), (shape, row)
        assert (row["fused_relu"], row["fused_add"]) == is_fused(row), row
        assert name.strip() == (row["layer"] or row["parameter"] or "-")[:22], (name, row)
        assert direction == row["direction"] and operation == re.sub("_(data|weight|backward)$", "", row["operation"]), (operation, row)
        profile_row(texts, row, whole, own)
    for (name, shape, operation, direction, *texts), ((whose, _), total) in zip(rows[len(operations) :], sorted(together.items(), key=lambda item: -item[1]["seconds"])):
        assert not name.strip() and not shape.strip() and operation == re.sub("_(data|weight|backward)$", "", whose), (operation, whose)
        profile_row(texts, total, whole, own)
    # The parts.
    parts = {"operations": "operations", "gathering and converting images": "gathering", "reducing and updating": "reducing",
             "between operations": "between", "waiting for work": "waiting", "taken by other programs": "elsewhere"}
    seconds = {name: whole[key + "_seconds"] for name, key in parts.items()}
    same(sum(seconds.values()), everything, "the parts")
    same(seconds["operations"], sum(row["seconds"] for row in operations), "operations")
    seconds["sum"] = sum(seconds.values())
    for name, value in seconds.items():
        millis, share = found(rf"^{name} +(-?[\d.]+) +(-?[\d.]+) %$", text, name)
        told(millis, 1e3 * value / steps, name)
        told(share, 100 * value / everything, name)
    millis, cores, images = found(r"^a step by the clock: ([\d.]+) ms on (\d+) cores?; ([\d.]+) images/s$", text, "by the clock")
    told(millis, 1e3 * whole["seconds"] / steps, "by the clock")
    told(images, whole["images"] / whole["seconds"], "images/s")
    assert int(cores) == whole["cores"] and whole["images"] == steps * settings["batch"], whole
    assert ("with the cores to itself" in text) == (whole["elsewhere_seconds"] > 0.01 * everything), text
    if "with the cores to itself" in text:
        millis, images = found(r"^with the cores to itself it would take ([\d.]+) ms; ([\d.]+) images/s$", text, "alone")
        told(millis, 1e3 * own / steps / whole["cores"], "alone")
        told(images, whole["images"] * whole["cores"] / own, "images/s alone")
    millis, share = found(r"^reducing and updating that computing does not hide: ([\d.]+) ms of a step, ([\d.]+) %$", text, "what is not hidden")
    told(millis, 1e3 * whole["unhidden_seconds"] / steps, "not hidden")
    told(share, 100 * whole["unhidden_seconds"] / whole["seconds"], "not hidden")


# ---- report ----


def summary(path):
    """Of a run's log: test acc, train loss, sec/epoch and images/s, as reports have them."""
    first, epochs, _ = log_lines(path)
    seconds = sum(line["sec"] for line in epochs)
    kept = max(epochs, key=lambda line: line["val_acc"]) if first["keep"] == "best" else epochs[-1]
    return (kept["test_acc"], epochs[-1]["train_loss"], seconds / len(epochs),
            sum(line["sec"] * line["img_per_s"] for line in epochs) / seconds)


def runs(out, *logs):
    """The table that report prints."""
    lines = read(out).rstrip("\n").split("\n")[1:]
    assert len(lines) == len(logs), lines
    first = summary(logs[0])
    for line, log in zip(lines, logs):
        texts = re.search(r"  +(\d\.\d{4})  +([\d.]+)  +([\d.]+)  +(\d+)  +([\d.]+)  (-|as run \d+)$", line)
        assert texts and line.startswith(log), line
        is_ = summary(log)
        for text, value in zip(texts.groups(), is_ + (is_[3] / first[3],)):
            told(text, value, log)


def axis(marks, what):
    """From places to values, by an axis' labels: (place, text) each."""
    (at, low), *_, (end, high) = sorted((float(place), float(text)) for place, text in marks)
    for place, text in marks:
        assert abs(low + (float(place) - at) * (high - low) / (end - at) - float(text)) <= 0.01 * abs(high - low), (what, place, text)
    return lambda place: low + (place - at) * (high - low) / (end - at)


def curves(html):
    """Of each picture of a page, by its name, the curves by their class: points in the axes' units, and what a unit of the picture is."""
    pictures = {}
    for name, body in re.findall(r'<svg viewBox="[^"]*" role="img" aria-label="([^"]*)">(.*?)</svg>', html, re.S):
        x = axis(re.findall(r'<text class="t1" x="([\d.]+)" y="[\d.]+" text-anchor="middle">([\d.]+)<', body), name)
        y = axis([(str(float(place) - 4), text) for place, text in re.findall(r'<text class="t1" x="[\d.]+" y="([\d.]+)" text-anchor="end">([\d.]+)<', body)], name)
        found_ = {}
        for tint, points in re.findall(r'<polyline class="t(\d+)" stroke-width="1.8"[^>]* points="([^"]*)"', body):
            found_[int(tint)] = [(x(float(a)), y(float(b))) for a, b in (point.split(",") for point in points.split())]
        pictures[name] = found_, x(1) - x(0), abs(y(1) - y(0))
    return pictures


def drawn(curve, wanted, picture, what):
    points, across, up = picture[0][curve], picture[1], picture[2]
    assert len(points) == len(wanted), (what, points, wanted)
    for (x, y), (want_x, want_y) in zip(points, wanted):
        assert abs(x - want_x) <= 0.2 * across and abs(y - want_y) <= 0.2 * up, (what, (x, y), (want_x, want_y))


def is_path(path, points):
    """Whether a path of straight lines is that through the points. Cairo leaves out what lies on the way."""
    numbers = [float(number) for number in re.findall(r"[\d.]+", path)]
    corners = list(zip(numbers[::2], numbers[1::2]))
    if "C" in path or len(corners) < 2 or not all(any(abs(x - a) < 0.2 and abs(y - b) < 0.2 for a, b in points) for x, y in corners):
        return False
    ends = list(zip(corners, corners[1:]))
    return all(any(a - 0.2 < x < b + 0.2 and abs((b - a) * (y - c) - (d - c) * (x - a)) < 0.3 * math.hypot(b - a, d - c) for (a, c), (b, d) in ends)
               for x, y in points)


def ends_of(first, epochs, lines):
    """How many steps an epoch has, and where each of a log's epochs ends, in epochs. A log that has no number of images has its first epoch."""
    steps = [sum("step" in line for line in lines[: lines.index(epoch)]) for epoch in epochs]
    batches = math.ceil(first["images"] / first["batch"]) if "images" in first else steps[0]
    return batches, [step / batches for step in steps]


def smoothed(losses, most=120):
    """Neighbours together, so that no more points than these are drawn."""
    together = -(-len(losses) // most)
    parts = [losses[at : at + together] for at in range(0, len(losses), together)]
    return [tuple(sum(numbers) / len(part) for numbers in zip(*part)) for part in parts]


def page(folder, *logs):
    """The curves of a report over one or several runs: the page's are the logs', and the SVG's are the page's."""
    html, svg = read(folder + "/report.html"), read(folder + "/curve.svg")
    for i, picture in enumerate(re.findall(r"<svg .*?</svg>", html, re.S)):
        for points in re.findall(r'stroke-width="1.8"[^>]* points="([^"]*)"', picture):
            at = [[float(number) for number in point.split(",")] for point in points.split()]
            wanted = [(x + 14 + 430 * i, y + 14) for x, y in at]
            assert any(is_path(path, wanted) for path in re.findall(r' d="M ([^"]*)"', svg)), wanted
    pictures = curves(html)
    for i, log in enumerate(logs):
        first, epochs, lines = log_lines(log)
        batches, ends = ends_of(first, epochs, lines)
        losses = smoothed([(line["step"] / batches, line["loss"]) for line in lines if "step" in line])
        drawn(3 + i, losses, pictures["train loss by epoch"], log)
        drawn(5 if len(logs) == 1 else 3 + i, [(end, epoch["test_acc"]) for end, epoch in zip(ends, epochs)], pictures["test acc by epoch"], log)
        if len(logs) == 1:
            drawn(4, [(end, epoch["train_acc"]) for end, epoch in zip(ends, epochs)], pictures["test acc by epoch"], log)
            if "val_acc" in epochs[0]:
                drawn(6, [(end, epoch["val_acc"]) for end, epoch in zip(ends, epochs)], pictures["test acc by epoch"], log)
        else:
            spent = [sum(epoch["sec"] for epoch in epochs[: n + 1]) for n in range(len(epochs))]
            drawn(3 + i, [(second, epoch["test_acc"]) for second, epoch in zip(spent, epochs)], pictures["test acc by seconds of training"], log)


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
