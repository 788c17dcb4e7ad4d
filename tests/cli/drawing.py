#!/usr/bin/env python3
"""drawing.py FOLDER LOG...: what stands around the curves of a report over these runs, and that its pictures are the page's, part for part."""
import re
import struct
import sys

from recompute import axis, ends_of, is_path, log_lines, read

CHARTS = r'<svg viewBox="0 0 (\d+) (\d+)" role="img" aria-label="([^"]*) by ([^"]*)">(.*?)</svg>'
LEFT, RIGHT, TOP, BOTTOM = 44.0, 416.0, 34.0, 258.0  # the axes' corners in a chart
MARGIN, NAME_LINE = 14, 20


def attribute(element, name, otherwise=None):
    """Of an element, be it one of its own or within its style."""
    match = re.search(rf'[\s";]{name}(?:="|:)([^;"]*)', element)
    return match[1] if match else otherwise


def of_page(body):
    """The marks of a chart, in order: (kind, class, ...)."""
    marks = []
    for element, words in re.findall(r"<((?:polyline|circle|text) [^>]*)>(?:([^<]*)</text>)?", body):
        tint = int(attribute(element, "class")[1:])
        if element.startswith("polyline"):
            points = [tuple(float(number) for number in point.split(",")) for point in attribute(element, "points").split()]
            dashes = [float(number) for number in attribute(element, "stroke-dasharray", "").split()]
            marks.append(("line", tint, points, float(attribute(element, "stroke-width")), dashes))
        elif element.startswith("circle"):
            marks.append(("dot", tint, (float(attribute(element, "cx")), float(attribute(element, "cy"))), float(attribute(element, "r"))))
        else:
            place = float(attribute(element, "x")), float(attribute(element, "y"))
            marks.append(("text", tint, place, ("start", "middle", "end").index(attribute(element, "text-anchor")), words))
    return marks


# ---- A chart of the page ----


def texts(marks, tint, anchor=None):
    return [(place, words) for kind, is_, place, *more in marks if kind == "text" and is_ == tint
            for how, words in [more] if anchor is None or how == anchor]


def frame(marks, x_label, farthest, whole):
    """Both axes: a line for each label of y, a label for each step of x as far as the runs reach, which is the right end."""
    labels = [(x, y - 4) for (x, y), words in texts(marks, 1, 2) if words != x_label]
    grid = [points for kind, tint, points, *_ in marks if kind == "line" and tint == 2]
    assert grid == [[(LEFT, y), (RIGHT, y)] for _, y in labels] and len(labels) == 5, (grid, labels)
    assert {x for x, _ in labels} == {LEFT - 8} and (labels[0][1], labels[-1][1]) == (BOTTOM, TOP), labels
    values = [float(words) for _, words in texts(marks, 1, 2) if words != x_label]
    assert all(a < b for a, b in zip(values, values[1:])), values
    ticks = [(x, float(words)) for (x, y), words in texts(marks, 1, 1)]
    step = ticks[1][1]
    unit = 0.5 * 10.0 ** -max(len(words.partition(".")[2]) for _, words in texts(marks, 1, 1))
    assert all(abs(value - i * step) <= unit * (i + 1) for i, (_, value) in enumerate(ticks)), ticks
    assert not whole or all(value == int(value) for _, value in ticks), ticks
    for x, value in ticks:
        assert abs(x - (LEFT + value / farthest * (RIGHT - LEFT))) <= 0.1 + unit / farthest * (RIGHT - LEFT), (x, value, farthest)
    assert ticks[0] == (LEFT, 0) and len(ticks) * step > farthest * (1 - 1e-6) - unit * len(ticks), (ticks, farthest)
    assert ((RIGHT, BOTTOM + 36), x_label) in texts(marks, 1, 2), x_label


def named(marks, title, curves):
    """In the title each curve's name, behind a mark of it; they stand apart. Without names it says what is drawn."""
    if not curves:
        assert [words for _, words in texts(marks, 0, 0)] == [title]
        return
    at = LEFT
    for (tint, name, dots), ((x, y), words) in zip(curves, texts(marks, 0, 0), strict=True):
        assert words == name and x >= at + 22, (words, name, x, at)
        mark = ("dot", tint, (x - 14, y - 4), 4.0) if dots else ("line", tint, [(x - 22, y - 4), (x - 6, y - 4)], 2.5, [])
        assert [of[:3] for of in marks].count(mark[:3]) == 1 and mark in marks, mark
        at = x + 6 * len(name)


def dotted(marks, tint, all_of_them):
    """A dot on each of a curve's points, or where they are too close on the last."""
    dots = [place for kind, is_, place, *more in marks if kind == "dot" and is_ == tint and more == [3.5]]
    lines = [points for kind, is_, points, *more in marks if kind == "line" and is_ == tint and more[0] == 1.8]
    if not lines: # a single point, with its number on the side where there is more room; equal ones at one place have one
        ((x, y),) = dots
        side = x - 9 if x > (LEFT + RIGHT) / 2 else x + 9
        beside = [place for place, _ in texts(marks, 0, 2 if side < x else 0) if abs(place[0] - side) < 0.11 and abs(place[1] - 4 - y) < 0.11]
        assert len(beside) == 1, (beside, dots)
        return
    (points,) = lines
    apart = (RIGHT - LEFT) / len(points) > 8
    assert dots == ((points if apart else points[-1:]) if all_of_them else []), (tint, dots, points)


def chart(marks, title, x_label, logs):
    farthest = 0.0
    single = len(logs) == 1
    loss = title == "train loss"
    validates = False
    for log in logs:
        first, epochs, lines = log_lines(log)
        batches, ends = ends_of(first, epochs, lines)
        reaches = sum(epoch["sec"] for epoch in epochs) if x_label.startswith("seconds") else \
            [line["step"] for line in lines if "step" in line][-1] / batches if loss else ends[-1]
        farthest = max(farthest, reaches)
        validates |= any("val_acc" in epoch for epoch in epochs)
    frame(marks, x_label, farthest, x_label == "epoch")
    if single:
        accuracies = [(4, "train acc", False)] + [(6, "val acc", True)] * validates + [(5, "test acc", True)]
        named(marks, title, [(3, "train loss", False)] if loss else accuracies)
        for tint, _, dots in [(3, "", False)] if loss else accuracies:
            dotted(marks, tint, dots)
    else:
        named(marks, title, [])
        for i in range(len(logs)):
            dotted(marks, 3 + i % 8, not loss)
    if not loss:
        assert all(0 <= float(words) <= 1 for _, words in texts(marks, 1, 2) if words != x_label), texts(marks, 1, 2)


# ---- The pictures ----


def colour(text):
    """Of the page's style, or of cairo's."""
    if text.startswith("#"):
        digits = text[1:] if len(text) == 7 else "".join(2 * digit for digit in text[1:])
        return tuple(int(digits[i : i + 2], 16) for i in (0, 2, 4))
    return tuple(round(2.55 * float(part)) for part in re.findall(r"([\d.]+)%", text))


def of_picture(svg):
    """The same marks of cairo's file, with colours in place of classes."""
    marks = []
    body = svg[svg.index("</defs>") :]
    for element, uses in re.findall(r"<(path [^>]*)/>|<g ([^>]*>(?:\s*<use [^>]*/>)+)", body):
        if uses:
            places = re.findall(r'<use xlink:href="#([^"]*)" x="([\d.]+)" y="([\d.]+)"/>', uses)
            marks.append(("text", colour(attribute(" " + uses, "fill")), [(name, float(x), float(y)) for name, x, y in places]))
        elif attribute(element, "fill") == "none":
            dashes = [float(number) for number in re.findall(r"[\d.]+", attribute(element, "stroke-dasharray", ""))]
            marks.append(("line", colour(attribute(element, "stroke")), attribute(element, "d"), float(attribute(element, "stroke-width")), dashes))
        else:
            numbers = [float(number) for number in re.findall(r"[\d.]+", attribute(element, "d"))]
            marks.append(("dot", colour(attribute(element, "fill")), numbers[::2], numbers[1::2]))
    return marks


def middle_of(numbers):
    return (max(numbers) + min(numbers)) / 2, (max(numbers) - min(numbers)) / 2


def is_mark(there, mark, colours, at, letters):
    """Whether a picture's mark is the page's, moved."""
    kind, tint, place, *more = mark
    assert there[:2] == (kind, colours[tint]), (there, mark, colours[tint])
    if kind == "line":
        assert is_path(there[2], [(x + at[0], y + at[1]) for x, y in place]) and list(there[3:]) == more, (there, mark)
    elif kind == "dot":
        (x, radius), (y, _) = middle_of(there[2]), middle_of(there[3]) # from left to right and back, with points aside of its arcs
        assert abs(x - place[0] - at[0]) < 0.1 and abs(y - place[1] - at[1]) < 0.1 and abs(radius - more[0]) < 0.1, (there, mark)
    else:
        anchor, words = more
        assert len(there[2]) == len(words) and all(abs(y - place[1] - at[1]) < 0.1 for _, _, y in there[2]), (there, mark)
        for (glyph, _, _), letter in zip(there[2], words):
            assert letters.setdefault(letter, glyph) == glyph, (letter, there, mark)
        x, first, last = place[0] + at[0], there[2][0][1], there[2][-1][1]
        assert (abs(x - first) < 0.1, 1 < x - (first + last) / 2 < 7, 2 < x - last < 12)[anchor], (there, mark)


def drawing(folder, *logs):
    html, svg = read(folder + "/report.html"), read(folder + "/curve.svg")
    charts = re.findall(CHARTS, html, re.S)
    assert len(charts) == (2 if len(logs) == 1 else 3) and {chart[:2] for chart in charts} == {("430", "300")}, charts
    light = dict(re.findall(r"--(\w+):(#\w+)", re.search(r":root\{[^{}]*\}", html)[0]))
    colours = {0: colour(light["text"]), 1: colour(light["quiet"]), 2: colour(light["edge"])}
    for i in range(8):
        assert f"polyline.t{3 + i}{{stroke:var(--c{i})}}circle.t{3 + i}{{fill:var(--c{i})}}.swatch.t{3 + i}{{background:var(--c{i})}}\n" in html, i
        colours[3 + i] = colour(light[f"c{i}"])
    assert len(set(colours.values())) == len(colours), colours
    wanted, dashes = [], {}
    for i, (_, _, title, x_label, body) in enumerate(charts):
        marks = of_page(body)
        chart(marks, title, x_label, logs)
        for mark in marks:
            if mark[0] == "line" and mark[3] == 1.8:
                dashes.setdefault(mark[1], mark[4])
        wanted += [(mark, (MARGIN + 430 * i, MARGIN)) for mark in marks]
    width, height = 430 * len(charts) + 2 * MARGIN, 300 + 2 * MARGIN + (NAME_LINE * len(logs) if len(logs) > 1 else 0)
    for i in range(len(logs) if len(logs) > 1 else 0):
        y = 300 + MARGIN + NAME_LINE * (i + 0.5)
        wanted.append((("line", 3 + i % 8, [(MARGIN + 44, y - 4), (MARGIN + 64, y - 4)], 2.5, dashes.get(3 + i % 8, [])), (0, 0)))
        wanted.append((("text", 0, (MARGIN + 72, y), 0, logs[i]), (0, 0)))
        swatch = re.search(rf"\.swatch\.d{(i - 1) % 3 + 1 if i else 0}\{{mask-image:repeating-linear-gradient\(90deg,(.*?)\)\}}", html)
        shown, at = [], 0.0
        for k, length in enumerate(dashes.get(3 + i % 8, [])):
            shown.append(f"{'transparent' if k % 2 else '#000'} {at:g}px {at + length:g}px")
            at += length
        assert (swatch[1].split(",") if swatch else []) == shown, (swatch, shown)
    assert tuple(float(number) for number in re.search(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', svg).groups()) == (width, height)
    letters, there = {}, of_picture(svg)
    assert len(there) == len(wanted), (len(there), len(wanted))
    for is_, (mark, at) in zip(there, wanted):
        is_mark(is_, mark, colours, at, letters)
    with open(folder + "/curve.png", "rb") as file:
        assert struct.unpack(">II", file.read(24)[16:]) == (2 * width, 2 * height)


if __name__ == "__main__":
    drawing(*sys.argv[1:])
