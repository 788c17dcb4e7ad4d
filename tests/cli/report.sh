#!/bin/sh
# --report and `report`: the page's numbers are the log's, its pictures are the test set's, PNG and SVG are valid, and where
# something fails nothing is left.
. "$(dirname -- "$0")/common.sh"
python3 "$here/make_data.py" "$work/data" 400 120 || exit 1
LOCKSTEP_DATA=$work/data
export LOCKSTEP_DATA
small="--limit 300 --limit-test 100 --epochs 3 --batch 64 --shard 32 --lr 0.1 --quiet"
learns="$small --init xavier"

refused() { # STATUS PATTERN ARGUMENTS...
    expected_status=$1 pattern=$2
    shift 2
    runs "$expected_status" "$@"
    one_line "$pattern"
}

pages() { # FOLDER LOG...: a report over these runs
    python3 "$here/recompute.py" page "$@" || wrong "$1: curves that are not the log's"
    python3 "$here/drawing.py" "$@" || wrong "$1: its charts and pictures"
}

if ! has "what is in reports" reports; then
    # shellcheck disable=SC2086 # options
    refused 1 '--report: .*built without cairo' train $small --report "$work/look"
    refused 1 'report: .*built without' report "$work/none.jsonl"
    ends
fi

# A seed above 2^63 is a seed as others are.
if has "large seeds" 'weights files'; then
    # shellcheck disable=SC2086
    runs 0 train $small --epochs 1 --seed 18446744073709551615 --log "$work/seed.jsonl"
    # shellcheck disable=SC2086
    runs 0 train $small --epochs 1 --seed 18446744073709551614 --log "$work/other.jsonl"
    runs 0 report "$work/seed.jsonl" "$work/other.jsonl" --out "$work/seeds"
    for seed in 18446744073709551615 18446744073709551614; do
        grep -q "$seed" "$work/seeds/report.html" || wrong "the report does not show the seed $seed"
    done
fi

# Images that are held out are said where the others are. Files are as open as the system is told that they be, and the command in the log
# is one for a shell, whatever is in a name.
mask=$(umask)
umask 027
signs=$(printf "it's \001\177\377 \$1")
runs 0 train --limit 300 --limit-test 100 --epochs 1 --validate 60 --report "$work/held" --trace "$work/\$1.json" --log "$work/$signs.jsonl"
umask "$mask"
[ "$(stat -c %a "$work/held" "$work/held/report.html" "$work/held/curve.png" "$work/\$1.json" "$work/$signs.jsonl" | tr '\n' ' ')" = '750 640 640 640 640 ' ] ||
    wrong "a run's files are more or less open than they are to be"
python3 - "$work" "$work/$signs.jsonl" <<'PY' || wrong "a log with signs in its name"
import json, os, re, subprocess, sys
work, path = sys.argv[1], os.fsencode(sys.argv[2])
line = open(path, "rb").readline().decode()
assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f]", line), line
words = subprocess.run(["sh", "-c", "printf '%s\n' " + json.loads(line)["command"]], stdout=subprocess.PIPE).stdout.decode()
wanted = ["lockstep", *"train --limit 300 --limit-test 100 --epochs 1 --validate 60 --report".split(), work + "/held", "--trace", work + "/$1.json", "--log", path.decode(errors="replace")]
assert words.split("\n")[:-1] == wanted, (words, wanted)
PY
sed 's/<[^>]*>//g' "$work/held/report.html" | grep -q 'Trained on 240 of the first 300 images alone (--limit); 60, drawn at random, held out for validation (--validate); tested on the first 100 images' ||
    wrong "the report does not say which images are trained on"
grep -q '/curve.png: the curves$' "$work/err" || wrong "a picture is said to be a page"

# What only a later run has is a difference too; where a run leaves its files is none.
# shellcheck disable=SC2086
runs 0 train $small --epochs 1 --log "$work/plain.jsonl"
# shellcheck disable=SC2086
runs 0 train $small --epochs 1 --log "$work/clipped.jsonl" --clip-norm 0.5 --trace "$work/t.json" --timeout 600
runs 0 report "$work/plain.jsonl" "$work/clipped.jsonl" --out "$work/clip"
grep -q '^run *clip_norm  test acc' "$work/out" || wrong "the report's table does not have clip_norm alone"

# shellcheck disable=SC2086
runs 0 train $learns --devices cpu:0-1 --save "$work/two.safetensors" --log "$work/two.jsonl" --report "$work/look"
[ ! -s "$work/err" ] || wrong "--quiet says something"
[ "$(ls -A "$work/look" | tr '\n' ' ')" = 'curve.png curve.svg report.html ' ] || wrong "left in the folder: $(ls -A "$work/look")"
cp "$work/out" "$work/two.out"
python3 "$here/recompute.py" train "$work/two.jsonl" "$work/two.out" || wrong "figures that are not the log's"
pages "$work/look" "$work/two.jsonl"
if has "who is taken for what" 'weights files'; then
    runs 0 predict --weights "$work/two.safetensors" --limit-test 100 --out "$work/two.npy" --quiet
fi

cat >"$work/page.py" <<'PY'
"""A page's numbers, images and links; every tag closed."""
import html.parser, re
void = {"meta", "link", "img", "circle", "polyline"}

class Page(html.parser.HTMLParser):
    def __init__(self, path):
        super().__init__()
        self.open, self.tables, self.images, self.links, self.texts, self.captions = [], {}, [], [], {}, []
        self.cells, self.alts, self.cards, self.bars = [], [], [], []  # of the confusion matrix style and title; name of each figure; shares
        self.figures = []  # value and text of each
        self.feed(open(path, encoding="utf-8").read())
        self.close()
        assert not self.open, self.open

    def handle_starttag(self, tag, given):
        given = dict(given)
        self.links += [given[name] for name in ("src", "href") if name in given]
        if tag == "img":
            self.images.append(given["src"])
            self.alts.append(given["alt"])
        if tag == "td" and "title" in given:
            self.cells.append((given["style"], given["title"]))
        if given.get("class") == "bar":
            self.bars.append(float(given["style"].removeprefix("width:").removesuffix("%")))
        if tag not in void:
            self.open.append((tag, given.get("id")))
        if tag == "table":
            self.table = self.tables.setdefault(given.get("id") or given.get("class"), [])
        if tag == "tr":
            self.table.append([])
        if tag in ("td", "th"):
            self.table[-1].append("")
        if tag == "figcaption":
            self.captions.append("")
        if given.get("class") == "origin":
            self.open[-1] = (tag, "origin")
        if tag == "data":
            self.figures.append([float(given["value"]), ""])
        if tag == "data" and any(t == "td" for t, _ in self.open):
            self.table[-1][-1] = float(given["value"])

    def handle_startendtag(self, tag, given):
        self.handle_starttag(tag, given)
        if tag not in void:
            self.handle_endtag(tag)

    def handle_endtag(self, tag):
        top, _ = self.open.pop()
        assert top == tag, (top, tag, self.getpos())

    def handle_data(self, text):
        tags = [tag for tag, _ in self.open]
        if "data" in tags:
            self.figures[-1][1] += text
        if "figcaption" in tags:
            self.captions[-1] += text
        if tags[-2:] == ["div", "span"]:
            self.cards.append(text)
        if tags[-1:] in (["h1"], ["p"]):
            self.texts.setdefault(tags[-1], text)
        if ("td" in tags or "th" in tags) and "data" not in tags and isinstance(self.table[-1][-1], str):
            self.table[-1][-1] += text
        for _, name in self.open:
            if name:
                self.texts[name] = self.texts.get(name, "") + text
PY

cat >"$work/png.py" <<'PY'
"""A PNG's size and rows, every chunk's sum checked."""
import struct, zlib

def read_png(data):
    assert data[:8] == b"\x89PNG\r\n\x1a\n", data[:8]
    at, packed, names = 8, b"", []
    while at < len(data):
        size, name = struct.unpack(">I4s", data[at : at + 8])
        body = data[at + 8 : at + 8 + size]
        assert struct.unpack(">I", data[at + 8 + size : at + 12 + size])[0] == zlib.crc32(name + body), name
        if name == b"IHDR":
            width, height, depth, colour = struct.unpack(">IIBB", body[:10])
        packed += body if name == b"IDAT" else b""
        names.append(name)
        at += 12 + size
    assert names[0] == b"IHDR" and names[-1] == b"IEND" and depth == 8
    wide = {0: 1, 2: 3, 6: 4}[colour]
    flat, rows, before = zlib.decompress(packed), [], bytes(width * wide)
    assert len(flat) == height * (1 + width * wide)
    for y in range(height):
        kind, line = flat[y * (1 + width * wide)], bytearray(flat[y * (1 + width * wide) + 1 : (y + 1) * (1 + width * wide)])
        for i in range(len(line)):
            a, b, c = (line[i - wide] if i >= wide else 0), before[i], (before[i - wide] if i >= wide else 0)
            p = a + b - c
            paeth = min((abs(p - a), 0, a), (abs(p - b), 1, b), (abs(p - c), 2, c))[2]
            line[i] = (line[i] + (0, a, b, (a + b) // 2, paeth)[kind]) & 255
        rows.append(bytes(line))
        before = line
    return width, height, colour, rows
PY

PYTHONPATH=$work:$here python3 - "$work" "$program" <<'PY' || wrong "the report"
import base64, json, os, re, subprocess, sys, xml.etree.ElementTree as tree
from page import Page
from png import read_png
from recompute import logits, probabilities, same, summary, told
work = sys.argv[1]
page = Page(work + "/look/report.html")
for value, text in page.figures:
    told(text, value, "a figure as text")
lines = [json.loads(line) for line in open(work + "/two.jsonl", encoding="utf-8")]
first, epochs = lines[0], [line for line in lines if "epoch" in line]

# The epochs, with all their digits.
shown = [row[:6] for row in page.tables["epochs"][1:]]
wanted = [[str(e["epoch"])] + [e[name] for name in ("train_loss", "train_acc", "test_acc", "sec", "img_per_s")] for e in epochs]
assert shown == wanted, (shown, wanted)
for (value, _), wanted in zip(page.figures, summary(work + "/two.jsonl")):
    same(value, wanted, "a figure at the page's head")

# Every setting of the log.
settings = {row[0]: row[1] for row in page.tables[None]}
for name, value in first.items():
    if name in ("lockstep", "built_with", "date", "host", "command"):
        assert name not in settings
        continue
    text = settings[name.replace("_", " ")]
    if value is None:
        assert text == "\u2013", (name, text)
    elif isinstance(value, bool):
        assert text == str(value).lower(), (name, text)
    elif isinstance(value, (int, float)):
        assert float(text) == value, (name, text)
    else:
        assert text == value, (name, text)
said = subprocess.run([sys.argv[2], "--version"], capture_output=True, text=True).stdout.replace("reports: cairo ", "pictures: ").splitlines()
assert page.tables["versions"] == [said[0].split(" ")] + [line.split(": ") for line in said[1:]], (page.tables["versions"], said)

# The head: of what network, on what, and what each figure is; a bar is as long as its epoch is fast.
assert (page.texts["h1"], page.texts["p"]) == ("LeNet on Fashion-MNIST", "3 epochs, batch 64, on [cpu(0), cpu(1)]"), page.texts
assert page.cards == ["test accuracy", "train loss, last epoch", "seconds an epoch", "images a second"], page.cards
for share, epoch in zip(page.bars, epochs, strict=True):
    assert abs(share - 100 * epoch["img_per_s"] / max(e["img_per_s"] for e in epochs)) < 0.051, (page.bars, epochs)
assert [row[0] for row in page.tables["devices"]] == ["cpu(0)", "cpu(1)"]
assert "fingerprint: " + page.texts["fingerprint"] == open(work + "/two.out").read().split("\n")[1]

# The confusion matrix counts every test image once, and its diagonal is the accuracy.
labels = open(work + "/data/t10k-labels-idx1-ubyte", "rb").read()[8:108]
pixels = open(work + "/data/t10k-images-idx3-ubyte", "rb").read()[16:]
taken = [[int(n or 0) for n in row[1:]] for row in page.tables["taken"][1:]]
assert [sum(row) for row in taken] == [labels.count(c) for c in range(10)], taken
right = sum(taken[c][c] for c in range(10))
names = [row[0] for row in page.tables["taken"][1:]]
assert page.tables["taken"][0][1:] == names, page.tables["taken"][0]
for i, (style, title) in enumerate(page.cells):
    label, guess = divmod(i, 10)
    n, of = taken[label][guess], sum(taken[label])
    assert title == f"{names[label]} taken for {names[guess]}: {n} of {of}", title
    kind, part = re.fullmatch(r"background:rgba\(var\(--(right|wrong)\),([\d.]+)\)", style).groups()
    assert kind == ("right" if label == guess else "wrong") and abs(float(part) - (0.06 + 0.74 * (n / of) ** 0.5 if n else 0.02)) < 0.00051, (style, n, of)
assert len(page.cells) == 100
for c, (name, images, recall, precision) in enumerate(page.tables["classes"][1:]):
    assert images == str(sum(taken[c])) and recall == taken[c][c] / sum(taken[c]), (name, images, recall)
    guesses = sum(row[c] for row in taken)
    assert precision == (taken[c][c] / guesses if guesses else "\u2013"), (name, precision)
assert right / 100 == epochs[-1]["test_acc"], (right, epochs[-1])
if os.path.exists(work + "/two.npy"):
    guesses = [row.index(max(row)) for row in logits(work + "/two.npy")]
    sure = [probabilities(row) for row in logits(work + "/two.npy")]
    assert taken == [[sum(pair == (c, g) for pair in zip(labels, guesses)) for g in range(10)] for c in range(10)], taken
    # Where the label was thought least of comes first.
    numbers = [int(caption.rsplit(" ", 1)[1]) for caption in page.captions]
    wrong = {i: sure[i][label] for i, label in enumerate(labels) if guesses[i] != label}
    assert len(set(numbers)) == len(numbers) and all(i in wrong for i in numbers), numbers
    assert all(wrong[a] <= wrong[b] + 1e-6 for a, b in zip(numbers, numbers[1:])), numbers
    assert max(wrong[i] for i in numbers) <= min([p for i, p in wrong.items() if i not in numbers], default=1) + 1e-6, numbers
    for number, caption in zip(numbers, page.captions):
        told(re.search(r" (\d+) %,", caption)[1], 100 * max(sure[number]), caption, 1e-3)

# The most wrong: as many as there are wrong ones, up to 24; each is the picture that its number says.
assert len(page.images) == min(24, 100 - right) > 0, (len(page.images), right)
for source, alt, caption in zip(page.images, page.alts, page.captions, strict=True):
    label, guess, sure, number = re.fullmatch(r"(.*) taken for (.*) (\d+) %, number (\d+)", caption).groups()
    number = int(number)
    assert names[labels[number]] == label != guess and alt == f"test image {number}: {label}", (caption, alt, labels[number])
    assert taken[names.index(label)][names.index(guess)] > 0
    head, data = source.split(",")
    assert head == "data:image/png;base64"
    width, height, colour, rows = read_png(base64.b64decode(data, validate=True))
    assert (width, height, colour) == (28, 28, 0)
    assert b"".join(rows) == pixels[784 * number : 784 * (number + 1)], number

# Where it comes from, and that it is not of all images.
import datetime, socket
origin = page.texts["origin"]
assert origin == f"Trained on the first 300 images alone (--limit), tested on the first 100 images alone (--limit-test). Begun at {first['date']} on host {first['host']}: {first['command']}", origin
began = datetime.datetime.strptime(first["date"], "%Y-%m-%dT%H:%M:%S%z")
assert abs((datetime.datetime.now(datetime.timezone.utc) - began).total_seconds()) < 86400 and first["host"] == socket.gethostname(), first
assert first["command"].startswith("lockstep train --limit 300 --limit-test 100 ") and first["command"].endswith(" --report " + work + "/look"), first
text = open(work + "/look/report.html", encoding="utf-8").read()
assert "<h2>Confusion matrix</h2>" in text and "The first 100 test images (--limit-test)" in text

# Every text stands out from what is behind it, in light and dark: by WCAG's formula 4.5 to 1 at least.
def luminance(colour):
    parts = [c / 255 / 12.92 if c / 255 <= 0.04045 else ((c / 255 + 0.055) / 1.055) ** 2.4 for c in colour]
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]
def contrast(a, b):
    low, high = sorted((luminance(a), luminance(b)))
    return (high + 0.05) / (low + 0.05)
def colour(text):
    if "," in text:
        return [int(part) for part in text.split(",")]
    return [int(2 * c if len(text) == 4 else c, 16) for c in re.findall("." if len(text) == 4 else "..", text[1:])]
cells = set(re.findall(r"rgba\(var\(--(\w+)\),([\d.]+)\)", text)) | {("right", "0.800"), ("wrong", "0.800")}
light, dark = [{name: colour(value) for name, value in re.findall(r"--(\w+):(#\w+|[\d,]+)", css)} for css in re.findall(r":root\{[^{}]*\}", text)]
for scheme in light, {**light, **dark}:
    behind = [scheme["paper"], scheme["card"]]
    ratios = {(name, i): contrast(scheme[name], paper) for name in ("text", "quiet") for i, paper in enumerate(behind)}
    for name, part in cells:
        mixed = [float(part) * c + (1 - float(part)) * p for c, p in zip(scheme[name], scheme["paper"])]
        ratios[name, part] = contrast(scheme["text"], mixed)
    assert min(ratios.values()) >= 4.5, min(ratios.items(), key=lambda item: item[1])
drawn = open(work + "/look/curve.svg", encoding="utf-8").read()
inks = re.findall(r"<g fill=\"rgb\(([\d.]+)%, ([\d.]+)%, ([\d.]+)%\)\"[^>]*>\s*<use", drawn)
inks = inks or re.findall(r"<g style=\"fill:rgb\(([\d.]+)%,([\d.]+)%,([\d.]+)%\)[^>]*>\s*<use", drawn)
assert inks and all(contrast([255 * float(c) / 100 for c in ink], [255] * 3) >= 4.5 for ink in inks), inks[:3]

# One file: no link leads out of it.
assert all(link.startswith("data:") for link in page.links), page.links
text = open(work + "/look/report.html", encoding="utf-8").read()
assert "http" not in text and "url(" not in text and "@import" not in text and "<script" not in text
assert "prefers-color-scheme" in text and "viewport" in text

width, height, colour, rows = read_png(open(work + "/look/curve.png", "rb").read())
assert width > height > 400 and len(set(rows)) > 20
root = tree.parse(work + "/look/curve.svg").getroot()
assert root.tag.endswith("}svg") and len(list(root.iter())) > 10
PY

# Another number of devices: not a pixel differs.
# shellcheck disable=SC2086
runs 0 train $learns --devices cpu:0 --log "$work/one.jsonl" --report "$work/look-one/"
cmp "$work/look/curve.png" "$work/look-one/curve.png" || wrong "curve.png depends on the devices"
# A run that went on from a checkpoint tells all of it, from its log.
if has "a resumed run" 'weights files'; then
    # shellcheck disable=SC2086
    runs 0 train $learns --devices cpu:0 --steps 7 --checkpoint "$work/kept" --log "$work/parts.jsonl"
    # shellcheck disable=SC2086
    runs 0 train $learns --devices cpu:0-1 --resume --checkpoint "$work/kept" --log "$work/parts.jsonl" --report "$work/look-parts"
    cmp "$work/look/curve.png" "$work/look-parts/curve.png" || wrong "a resumed run's report has other curves"
fi
# shellcheck disable=SC2086
runs 0 train $learns --devices cpu:0 --lr 0.2 --log "$work/tröis <&\".jsonl"
# Over an old report, and from a log whose last line was cut short.
printf '{"step":99,"lo' >>"$work/one.jsonl"
for time in first second; do
    runs 0 report "$work/two.jsonl" "$work/one.jsonl" "$work/tröis <&\".jsonl" --out "$work/compared"
    [ "$(ls -A "$work/compared" | tr '\n' ' ')" = 'curve.png curve.svg report.html ' ] || wrong "the $time comparison left $(ls -A "$work/compared")"
done
# Points that fall on one another have one number.
timeout 60 "$program" report "$work/plain.jsonl" "$work/plain.jsonl" "$work/plain.jsonl" --out "$work/thrice" >"$work/said" 2>&1 ||
    wrong "no report of equal runs of one epoch: $(cat "$work/said")"
"$program" report "$work/plain.jsonl" --out "$work/epoch" >/dev/null 2>&1 || wrong "no report of one epoch"
python3 "$here/drawing.py" "$work/thrice" "$work/plain.jsonl" "$work/plain.jsonl" "$work/plain.jsonl" || wrong "equal runs of one epoch"
python3 "$here/drawing.py" "$work/epoch" "$work/plain.jsonl" || wrong "a run of one epoch"
# Points that are near one another have their numbers beside them, and beside no point that has another number.
cat >"$work/numbers.py" <<'PY'
import itertools, json, os, re, subprocess, sys

program, here, work = sys.argv[1:]
sys.path.insert(0, here)
from drawing import CHARTS, of_page

lines = [json.loads(line) for line in open(work + "/plain.jsonl", encoding="utf-8")]
first, steps, (epoch,) = lines[0], [line for line in lines[1:] if "step" in line], [line for line in lines[1:] if "epoch" in line]


def run(name, *accuracies, sec=1.0):
    with open(f"{work}/{name}", "w", encoding="utf-8") as log:
        for line in [first, *steps, *({**epoch, "epoch": i, "test_acc": acc, "sec": sec} for i, acc in enumerate(accuracies, 1))]:
            print(json.dumps(line), file=log)
    return f"{work}/{name}"


def numbers_of(accuracies):
    for i, (accs, sec) in enumerate(accuracies):
        run(f"near{i}", *accs, sec=sec)
    logs = [f"{work}/near{i}" for i in range(len(accuracies))]
    subprocess.run([program, "report", *logs, "--out", work + "/near"], check=True, capture_output=True)
    html = open(work + "/near/report.html", encoding="utf-8").read()
    for width, height, title, x_label, body in re.findall(CHARTS, html, re.S):
        if title == "train loss":
            continue
        marks = of_page(body)
        dots = [(mark[2], accuracies[mark[1] - 3][0]) for mark in marks if mark[0] == "dot" and mark[3] == 3.5]
        numbers = [(mark[2], mark[3], mark[4]) for mark in marks if mark[0] == "text" and mark[1] == 0 and re.fullmatch(r"0\.\d+", mark[4])]
        wanted = {f"{accs[0]:.4g}" for accs, _ in accuracies if len(accs) == 1}
        assert {words for _, _, words in numbers} == wanted, (numbers, wanted)
        boxes = [((x if anchor == 0 else x - 6.8 * len(words)), (x if anchor == 2 else x + 6.8 * len(words)), y) for (x, y), anchor, words in numbers]
        for a, b in itertools.combinations(boxes, 2):
            assert a[0] > b[1] or a[1] < b[0] or abs(a[2] - b[2]) > 12, (title, x_label, numbers)
        for (left, right, y), (_, _, words) in zip(boxes, numbers):
            assert 44 <= left and right <= 416 and 34 <= y <= 262, (left, right, y)
            beside = [accs for (x, dot), accs in dots if left - 8.9 < x < right + 8.9 and abs(dot + 4 - y) < 12.9]
            assert all(len(accs) == 1 and f"{accs[0]:.4g}" == words for accs in beside), (title, x_label, words, beside)
            near = [accs for (x, dot), accs in dots if min(abs(left - x), abs(right - x)) < 9.2 and abs(dot + 4 - y) < 60]
            assert any(len(accs) == 1 and f"{accs[0]:.4g}" == words for accs in near), (words, near)


numbers_of([([0.4565], 1.79), ([0.442, 0.49, 0.56], 1.5), ([0.4565], 1.3)])
numbers_of([([0.4565], 1.0), ([0.4566], 1.0), ([0.4567], 1.0), ([0.4568], 1.0)])
numbers_of([([0.7], 1.0), ([0.71, 0.9], 1.0), ([0.69, 0.2], 1.0), ([0.705], 1.1)])
PY
python3 "$work/numbers.py" "$program" "$here" "$work" || wrong "numbers of single points"
pages "$work/compared" "$work/two.jsonl" "$work/one.jsonl" "$work/tröis <&\".jsonl"
python3 "$here/recompute.py" runs "$work/out" "$work/two.jsonl" "$work/one.jsonl" "$work/tröis <&\".jsonl" || wrong "a table that is not the logs'"
PYTHONPATH=$work:$here python3 - "$work" <<'PY' || wrong "the comparison"
import json, re, sys, xml.etree.ElementTree as tree
from page import Page
from png import read_png
from recompute import same, summary, told
work = sys.argv[1]
page = Page(work + "/compared/report.html")
head, *rows = page.tables["runs"]
paths = [work + "/" + name for name in ("two.jsonl", "one.jsonl", 'tröis <&".jsonl')]
assert len(rows) == 3 and head[2:4] == ["devices", "lr"], head
for value, text in page.figures:
    told(text, value, "a figure as text")
first = None
shown = []
for n, (path, row) in enumerate(zip(paths, rows)):
    whole = [line for line in open(path, encoding="utf-8") if line.endswith("\n")]
    lines = [json.loads(line) for line in whole]
    epochs = [line for line in lines if "epoch" in line]
    row = dict(zip(head, row))
    *_, seconds, speed = summary(path)
    first = first or speed
    wanted = {"run": path, "devices": lines[0]["devices"], "lr": str(lines[0]["lr"]), "test acc": epochs[-1]["test_acc"], "train loss": epochs[-1]["train_loss"]}
    assert {name: row[name] for name in wanted} == wanted, (row, wanted)
    for name, value in (("sec/epoch", seconds), ("images/s", speed), ("times", speed / first)):
        same(row[name], value, name)
    assert row["same losses"] == ("as run 1" if n == 1 else "\u2013"), row
    shown += [[str(e["epoch"])] + [e[name] for name in ("train_loss", "train_acc", "test_acc", "sec", "img_per_s")] for e in epochs]
assert [row[:6] for row in page.tables["epochs"] if row[0] != "epoch"] == shown
# No run is drawn heavier than another; each has colour and dashes of its own.
html = open(work + "/compared/report.html", encoding="utf-8").read()
curves = re.findall(r'<polyline class="t([3-9]|1\d)" stroke-width="([\d.]+)"( stroke-dasharray="[^"]*")?', html)
assert len({width for tint, width, dash in curves}) == 1 and len({tint for tint, width, dash in curves}) == 3, curves
assert len({dash for tint, width, dash in curves}) == 3, curves

# A run of one epoch: its points are drawn, with their numbers. And an axis that does not begin at 0 says so.
page = Page(work + "/epoch/report.html")
html = open(work + "/epoch/report.html", encoding="utf-8").read()
epoch = page.tables["epochs"][1]
for value in epoch[2:4]:
    assert re.search(f">{value:.4g}</text>", html), (value, epoch)
note = re.findall(r">axis from ([\d.]+), not 0</text>", html)
assert note and all(f'text-anchor="end">{low}</text>' in html for low in note), note
text = open(work + "/out", encoding="utf-8").read().rstrip().split("\n")
assert len(text) == 4 and text[0].split()[0] == "run" and text[2].endswith("as run 1") and text[3].endswith("-"), text
assert len({line.rindex("  ") for line in text}) == 1, text # columns of characters, not of bytes
assert all(link.startswith("data:") for link in page.links)
read_png(open(work + "/compared/curve.png", "rb").read())
tree.parse(work + "/compared/curve.svg")
PY

# Logs made by hand: more steps than points are drawn, no number of images, accuracies of 0, losses that differ in one byte, and settings
# of each kind. What is not there has a dash.
weird=$(printf 'odd\033[2J\377.jsonl')
python3 - "$work" <<'PY'
import json, math, struct, sys
work = sys.argv[1]
first = json.loads(open(work + "/two.jsonl", encoding="utf-8").readline())


def made(name, losses, every, settings=first, without=(), **more):
    with open(f"{work}/{name}.jsonl", "w", encoding="utf-8") as file:
        print(json.dumps(settings), file=file)
        for step, loss in enumerate(losses, 1):
            print(json.dumps({"step": step, "loss": loss}), file=file)
            if step % every == 0:
                n = step // every
                epoch = {"epoch": n, "train_loss": 2 / n, "train_acc": 0.9 - 0.8 / n, "test_acc": 0.8 - 0.5 / n, "sec": 0.5 + 0.01 * n, "img_per_s": 600.0, **more}
                print(json.dumps({key: value for key, value in epoch.items() if key not in without}), file=file)


falling = [2.3 / (1 + 0.02 * step) + 0.1 * math.sin(step) for step in range(301)]
made("long", falling, 5, val_acc=0.7)
made("bare", falling[:14], 7, {key: value for key, value in first.items() if key not in ("images", "batch")})
made("zero", falling[:10], 5, train_acc=0, test_acc=0)
made("top", falling[:10], 5, {**first, "model": "resnet18", "test_images": 1, "limit_test": 1}, train_acc=0.975, test_acc=0.995)
made("none", falling[:10], 5, without=("test_acc", "img_per_s"))
made("falling", falling[:10], 5, {**first, "nesterov": False, "freeze": "1.5x", "data": "\x1b[2J", "lr": 0.3})
made("again", falling[:10], 5, {**first, "nesterov": True})
for byte in (0, 7):
    bits = bytearray(struct.pack("<d", falling[0]))
    bits[byte] ^= 1
    made(f"byte{byte}", [*struct.unpack("<d", bits), *falling[1:10]], 5)
PY
for name in long bare zero top; do
    runs 0 report "$work/$name.jsonl" --out "$work/made"
    pages "$work/made" "$work/$name.jsonl"
done
grep -qx '<p>1 run of ResNet-18</p>' "$work/made/report.html" || wrong "the network is not named"
grep -q 'tested on the first 1 image alone (' "$work/made/report.html" || wrong "a single image is not one"
runs 0 report "$work/long.jsonl" "$work/zero.jsonl" "$work/bare.jsonl" --out "$work/made"
pages "$work/made" "$work/long.jsonl" "$work/zero.jsonl" "$work/bare.jsonl"
cp "$work/none.jsonl" "$work/$weird"
runs 0 report "$work/falling.jsonl" "$work/again.jsonl" "$work/byte0.jsonl" "$work/byte7.jsonl" "$work/$weird" --out "$work/made"
PYTHONPATH=$work:$here python3 - "$work" <<'PY' || wrong "logs made by hand"
import sys
from page import Page
from recompute import read
work = sys.argv[1]
page, table = Page(work + "/made/report.html"), read(work + "/out")
head, *rows = page.tables["runs"]
assert [row[-1] for row in rows] == ["\u2013", "as run 1", "\u2013", "\u2013", "as run 1"], rows
rows = [dict(zip(head, row)) for row in rows]
assert [row["nesterov"] for row in rows] == ["false", "true", "false", "false", "false"] and [row["lr"] for row in rows] == ["0.3"] + ["0.1"] * 4, rows
assert [(row["freeze"], row["data"]) for row in rows] == [("1.5x", "?[2J")] + [("-", "-")] * 4, rows
for name in ("test acc", "images/s", "times"):
    assert [row[name] == "\u2013" for row in rows] == [False] * 4 + [True], (name, rows)
assert rows[4]["run"] == work + "/odd?[2J?.jsonl" and "\x1b" not in table, table
name, *_, acc, loss, seconds, speed, times, _, _, same = table.rstrip("\n").split("\n")[5].split()
assert (name, acc, speed, times, same) == (rows[4]["run"], "-", "-", "-", "1") and float(loss) == 1 and float(seconds) > 0, table
settings = [row for row in page.tables[None] if row[0] in ("freeze", "nesterov", "lr")]
assert ["freeze", "1.5x"] in settings and ["nesterov", "true"] in settings and ["lr", 0.3] in settings, settings
epochs = [row for row in page.tables["epochs"] if row[0] != "epoch"]
assert [row[3] for row in epochs[-2:]] == ["\u2013"] * 2 and [row[5] for row in epochs[-2:]] == ["\u2013"] * 2, epochs
assert page.bars[-2:] == [0, 0] and page.bars[:2] == [100, 100], page.bars
PY

# What is wrong is said before anything is written or trained.
: >"$work/file"
printf 'no json\n' >"$work/bad.jsonl"
printf '{"step":1,"loss":2}\n' >"$work/headless.jsonl"
{ cat "$work/two.jsonl"; printf 'no json\n'; } >"$work/spoilt.jsonl"
# shellcheck disable=SC2086
{
    refused 1 '--report: .*nowhere: ' train $small --report "$work/nowhere/look"
    refused 1 '--report: .*file: ' train $small --report "$work/file"
    mkdir -p "$work/taken/curve.png"
    refused 1 '--report: .*taken/curve.png: Is a directory' train $small --report "$work/taken"
    refused 2 "--report: its value is empty" train $small --report ''
}
refused 2 'report: takes the logs' report
refused 2 'report: takes the logs' report --out "$work/none"
refused 1 'report: .*missing.jsonl: ' report "$work/missing.jsonl" --out "$work/none"
refused 1 'report: .*bad.jsonl:1: ' report "$work/bad.jsonl" --out "$work/none"
refused 1 'report: .*headless.jsonl: ' report "$work/headless.jsonl" --out "$work/none"
refused 1 'report: .*file: .*empty' report "$work/file" --out "$work/none"
mkfifo "$work/fifo.jsonl"
refused 1 'report: .*fifo.jsonl: not a regular file' report "$work/fifo.jsonl" --out "$work/none"
refused 1 'report: /dev/zero: not a regular file' report /dev/zero --out "$work/none"
python3 -c 'print("{\"lockstep\":1%s}" % "".join(",\"s%d\":1" % i for i in range(1200)))' >"$work/endless.jsonl"
refused 1 'report: .*endless.jsonl: .* no end of settings' report "$work/endless.jsonl" --out "$work/none"
refused 1 'report: .*spoilt.jsonl:[0-9]+: ' report "$work/two.jsonl" "$work/spoilt.jsonl" --out "$work/none"
[ ! -e "$work/none" ] || wrong "a refused report left a folder"
mkdir "$work/blocked" "$work/blocked/curve.png"
refused 1 'report: .*blocked/curve.png: ' report "$work/two.jsonl" --out "$work/blocked"
[ -z "$(find "$work/blocked" -name '.*' -type f)" ] || wrong "a failed report left $(ls -A "$work/blocked")"

# Nor over what no report has written: other kinds, and pages and pictures of others. An empty file holds nothing.
others=$work/others
mkdir "$others" "$others/look"
python3 - "$work/look" "$others" <<'PY' || wrong "files of others"
import struct, sys
look, others = sys.argv[1:]
open(others + "/report.html", "w").write('<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<title>mine</title>\n')
png, svg = open(look + "/curve.png", "rb").read(), open(look + "/curve.svg").read()
width, height = struct.unpack(">II", png[16:24])
for name, size in (("wide", (width + 2, height)), ("odd", (width + 1, height)), ("high", (width, height + 2)), ("tall", (width, height + 1))):
    open(f"{others}/curve.png.{name}", "wb").write(png[:16] + struct.pack(">II", *size) + png[24:])
for name, size in (("wide", (width // 2 + 1, height // 2)), ("high", (width // 2, height // 2 + 1))):
    made = svg.replace(f'viewBox="0 0 {width // 2} {height // 2}"', 'viewBox="0 0 %d %d"' % size)
    assert made != svg
    open(f"{others}/curve.svg.{name}", "w").write(made)
open(others + "/curve.png", "wb").write(png[:20])
open(others + "/curve.svg", "w").write("<svg>mine</svg>")
PY
for file in "$others"/*.*; do
    name=${file##*/}
    case $name in report.html) kind=page ;; curve.png*) name=curve.png kind=picture ;; *) name=curve.svg kind=picture ;; esac
    rm -f "$others"/look/*
    cp "$file" "$others/look/$name"
    said=".*/look/$name: is no $kind of a report, and would be lost; name another folder, or move it away\$"
    refused 1 "report: $said" report "$work/plain.jsonl" --out "$others/look"
    # shellcheck disable=SC2086
    refused 1 "--report: $said" train $small --report "$others/look"
    [ "$(ls -A "$others/look")" = "$name" ] && cmp -s "$file" "$others/look/$name" || wrong "wrote beside or over $file"
    : >"$others/look/$name"
    runs 0 report "$work/plain.jsonl" --out "$others/look"
done

# Numbers that no run can have, and names that mean something in HTML and to a terminal.
head -n 1 "$work/two.jsonl" | sed 's/^{/{"<b>\\u001b[2J_x":0.5,/' >"$work/odd.jsonl"
printf '%s\n' '{"step":1e300,"loss":1e308}' '{"step":9223372036854775807,"loss":1e308}' \
    '{"epoch":1e99,"sec":1e308,"img_per_s":1e308}' '{"epoch":2,"sec":1e308,"img_per_s":1e-320,"test_acc":-1e308}' >>"$work/odd.jsonl"
cp "$work/odd.jsonl" "$work/tiny.jsonl"
sed -i 's/1e308/5e-324/g' "$work/tiny.jsonl"
for name in odd tiny; do
    runs 0 report "$work/$name.jsonl" "$work/two.jsonl" --out "$work/strange"
    grep -q '<b>.*_x\|<th><b' "$work/strange/report.html" && wrong "$name.jsonl: a setting's name is markup in the page"
    LC_ALL=C grep -q "$(printf '\033')" "$work/out" "$work/strange/report.html" && wrong "$name.jsonl: control characters come through"
    grep -qE '"(-?nan|-?inf)|[ ,](-?nan|-?inf)[ ,]' "$work/strange/curve.svg" && wrong "$name.jsonl: a curve without places"
done
ends
