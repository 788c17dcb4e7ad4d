#!/bin/sh
# Pictures from files: predict says what they show, with per cent that Python computes again from logits of the same pixels, which it
# has made to fit by the formula of docs/data.md.
. "$(dirname -- "$0")/common.sh"
needs 'weights files' 'PNG files'
cat >"$work/pictures.py" <<'PY'
import json, math, os, re, struct, subprocess, sys
from fractions import Fraction

here, program, work = sys.argv[1:4]
sys.argv = ["make_sets.py", "folder", work + "/images", "60", "10"]
exec(open(here + "/make_sets.py").read())  # its functions, and the folder of images
W = work + "/w.safetensors"


def call(*options):
    run = subprocess.run([program, *options], capture_output=True, timeout=600)
    return run.returncode, run.stdout.decode(), run.stderr.decode()


def png_of(width, height, planes):
    rows = b"".join(b"\0" + bytes(planes[k][y * width + x] for x in range(width) for k in range(len(planes))) for y in range(height))
    chunk = lambda name, body: struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))
    head = struct.pack(">IIBBBBB", width, height, 8, 0 if len(planes) == 1 else 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def overlap(i, k, size, to):  # of pixel i of `size` and pixel k of `to`, in pixels of the former
    return max(Fraction(0), min(Fraction(i + 1), Fraction((k + 1) * size, to)) - max(Fraction(i), Fraction(k * size, to)))


def fit(width, height, planes, channels, to):
    if channels == 1 and len(planes) == 3:
        planes = [[math.floor(Fraction(299 * r + 587 * g + 114 * b, 1000) + Fraction(1, 2)) for r, g, b in zip(*planes)]]
    if channels == 3 and len(planes) == 1:
        planes = planes * 3
    across = [[(j, w) for j in range(width) for w in [overlap(j, x, width, to)] if w] for x in range(to)]
    down = [[(i, w) for i in range(height) for w in [overlap(i, y, height, to)] if w] for y in range(to)]
    area = Fraction(width * height, to * to)
    made = b""
    for plane in planes:
        for ys in down:
            for xs in across:
                made += bytes([math.floor(sum(v * w * plane[i * width + j] for i, v in ys for j, w in xs) / area + Fraction(1, 2))])
    return made


numbers = generator(7)
shapes = {"same": (32, 32, 3), "large": (71, 45, 3), "small": (9, 13, 3), "grey": (40, 32, 1), "dot": (1, 1, 3)}
pictures = {}
for name, (width, height, planes) in shapes.items():
    block = [[255 if (x * 4 // width + y * 4 // height + k) % 2 else next(numbers) % 256 for y in range(height) for x in range(width)] for k in range(planes)]
    pictures[name] = (width, height, block)
    write(work + "/%s.png" % name, png_of(width, height, block))

names = ["class 0", "class 1", "sac \u00e0 dos\x1b"] + ["class %d" % i for i in range(3, 10)]
for part in ("train", "test"):
    os.rename(work + "/images/%s/class 2" % part, work + "/images/%s/%s" % (part, names[2]))
names.sort(key=str.encode)


def check(channels, side, weights, names, *options):
    """The lines against the softmax of the logits that a data set of the fitted pixels gets."""
    set_folder = work + "/set"
    made = [fit(*pictures[name], channels, side) for name in pictures]
    shape = (len(made), channels, side, side)
    for part in ("train", "test"):
        write(set_folder + "/X_%s.npy" % part, npy("|u1", shape, b"".join(made)))
        write(set_folder + "/y_%s.npy" % part, npy("<i8", (len(made),), struct.pack("<%dq" % len(made), *range(9, 9 - len(made), -1))))
    status, out, err = call("predict", "--dataset", "npy", "--data", set_folder, "--weights", weights, "--out", work + "/l.npy", "--devices", "cpu:0", "--quiet")
    assert (status, out, err) == (0, "", ""), err
    logits = struct.unpack("<%df" % (10 * len(made)), open(work + "/l.npy", "rb").read()[-40 * len(made):])
    status, out, err = call("predict", "--weights", weights, *[work + "/%s.png" % name for name in pictures], "--devices", "cpu:0-1", *options)
    assert (status, err) == (0, ""), err
    lines = out.splitlines()
    assert len(lines) == len(pictures)
    for i, (name, line) in enumerate(zip(pictures, lines)):
        row = logits[10 * i : 10 * i + 10]
        whole = sum(math.exp(x - max(row)) for x in row)
        shares = [math.exp(x - max(row)) / whole for x in row]
        order = sorted(range(10), key=lambda k: -row[k])[:3]
        words = ["%s %d %%" % (names[k], math.floor(100 * shares[k] + 0.5)) for n, k in enumerate(order) if n == 0 or math.floor(100 * shares[k] + 0.5) >= 1]
        assert line == work + "/%s.png: " % name + ", ".join(words), (line, words)
    return lines


status, out, err = call("train", "--dataset", "folder", "--data", work + "/images", "--epochs", "2", "--batch", "20", "--lr", "0.1", "--init", "xavier", "--devices", "cpu:0", "--save", W, "--quiet")
assert status == 0, err
shown = [name.replace("\x1b", "?") for name in names]
lines = check(3, 32, W, shown)
assert len(set(line.split(": ")[1] for line in lines)) > 1, lines

# Weights of a file without metadata, for grey images of another size: numbers for names, and sizes that --input says.
grey = work + "/grey-set"
made = b"".join(fit(*pictures[name], 1, 28) for name in pictures)
for part in ("train", "test"):
    write(grey + "/X_%s.npy" % part, npy("|u1", (len(pictures), 28, 28), made))
    write(grey + "/y_%s.npy" % part, npy("<i8", (len(pictures),), struct.pack("<5q", *range(9, 4, -1))))
status, out, err = call("train", "--dataset", "npy", "--data", grey, "--epochs", "1", "--batch", "5", "--init", "xavier", "--devices", "cpu:0", "--save", work + "/g.safetensors", "--quiet")
assert status == 0, err
raw = open(work + "/g.safetensors", "rb").read()
length = struct.unpack("<Q", raw[:8])[0]
header = json.loads(raw[8 : 8 + length])
assert header["__metadata__"]["images"] == "1x28x28" and "classes" not in header["__metadata__"]
del header["__metadata__"]
text = json.dumps(header).encode()
text += b" " * (-len(text) % 8)
write(work + "/bare.safetensors", struct.pack("<Q", len(text)) + text + raw[8 + length :])
check(1, 28, work + "/g.safetensors", [str(i) for i in range(10)])


def refused(status, pattern, *options):
    got, out, err = call("predict", *options)
    assert (got, out) == (status, "") and re.fullmatch("lockstep: " + pattern + "\n", err), (options, got, out, err)


picture = work + "/same.png"
refused(2, "--weights: is needed.*", picture)
refused(2, "--out: gets the logits of a data set's test images: leave out either it or the pictures", "--weights", W, "--out", work + "/x.npy", picture)
refused(2, "--out: is needed: the file for the logits; or name pictures to predict", "--weights", W)
for option, value in (("data", "x"), ("limit-test", "4"), ("allow-changed", "classes")):
    refused(2, f"--{option}: is of a data set, which pictures do without", "--weights", W, f"--{option}", value, picture)
refused(2, "--input: is of pictures; .*", "--weights", W, "--out", work + "/x.npy", "--input", "3x32x32")
refused(1, "--weights: .*bare.safetensors does not say the size of its images: say it with --input, such as 1x28x28",
        "--weights", work + "/bare.safetensors", "--model", "lenet", picture)
status, out, err = call("predict", "--weights", work + "/bare.safetensors", "--model", "lenet", "--input", "1x28x28", picture)
assert status == 0 and out == call("predict", "--weights", work + "/g.safetensors", picture)[1], err
refused(1, "--weights: .*bare.safetensors: parameter W1 has shape .*", "--weights", work + "/bare.safetensors", "--model", "lenet", "--input", "3x28x28", picture)

# One that is bad costs none of the others.
write(work + "/bad.png", open(picture, "rb").read()[:500])
status, out, err = call("predict", "--weights", W, work + "/bad.png", picture, work + "/none.jpg", work + "/dot.png", work)
assert status == 1 and [line.split(": ")[0] for line in out.splitlines()] == [picture, work + "/dot.png"], (status, out)
assert [re.sub(":.*", "", line) for line in re.findall("lockstep: predict: (.*)\n", err)] == [work + "/bad.png", work + "/none.jpg", work], err
assert len(err.splitlines()) == 3

# One that is too large is told with what to do.
write(work + "/large.png", png_of(1025, 1024, [bytes(1025 * 1024)]))
refused(1, "predict: .*/large.png: 1024 x 1025 pixels, and at most 1048576 in all are taken; scale it down first", "--weights", W, work + "/large.png")

# Weights that overflow on what is not black: nothing is said of any picture but which it is.
raw = open(W, "rb").read()
begin = 8 + struct.unpack("<Q", raw[:8])[0]
values = list(struct.unpack("<%df" % ((len(raw) - begin) // 4), raw[begin:]))
for entry in json.loads(raw[8:begin]).values():
    first, end = (at // 4 for at in entry.get("data_offsets", (0, 0)))
    values[first:end] = [1e35 * value if len(entry["shape"]) > 1 else 0 for value in values[first:end]]
write(work + "/huge.safetensors", raw[:begin] + struct.pack("<%df" % len(values), *values))
write(work + "/black.png", png_of(32, 32, [bytes(1024)] * 3))
refused(1, "predict: what the network makes of image 1 is not finite: .*", "--weights", work + "/huge.safetensors", work + "/black.png", picture)
PY
python3 "$work/pictures.py" "$here" "$program" "$work" || wrong "pictures"
ends
