#!/bin/sh
# --validate, --keep best and --patience: which images are held out, computed again by Python; the best epoch's weights, also of a run that
# was broken off. validation.sh PROGRAM
. "$(dirname -- "$0")/common.sh"
needs 'weights files' fingerprints
cat >"$work/validation.py" <<'PY'
import json, os, re, shutil, subprocess, sys

here, program, work = sys.argv[1:4]
sys.argv = ["make_sets.py", "npy", work + "/whole", "90", "30"]
exec(open(here + "/make_sets.py").read())
log, kept = work + "/run.jsonl", work + "/kept"
MASK = 2**32 - 1


def philox(counter, key):
    c, (k0, k1) = list(counter), key
    for _ in range(10):
        p0, p1 = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(p1 >> 32) ^ c[1] ^ k0, p1 & MASK, (p0 >> 32) ^ c[3] ^ k1, p0 & MASK]
        k0, k1 = (k0 + 0x9E3779B9) & MASK, (k1 + 0xBB67AE85) & MASK
    return c


def held_out(seed, rows, n):
    """docs/data.md: the first n of Fisher-Yates over the stream of purpose 7."""
    d = philox([0, 0, 0, 0], [seed & MASK, seed >> 32])
    order = list(range(rows))
    for i in range(rows, 1, -1):
        word = philox([i & MASK, 0, d[2] ^ 7, d[3]], [d[0], d[1]])
        j = (word[1] << 32 | word[0]) * i >> 64
        order[i - 1], order[j] = order[j], order[i - 1]
    return sorted(order[:n])


def train(*options, status=0):
    run = subprocess.run([program, "train", "--batch", "20", "--shard", "10", "--init", "xavier", *options], capture_output=True, text=True, timeout=600)
    assert run.returncode == status, (options, run.returncode, run.stderr)
    return run.stdout, run.stderr


def lines():
    return [json.loads(line) for line in open(log)]


def epochs():
    return [line for line in lines() if "epoch" in line and "lockstep" not in line]


# A run with images held out is the run on a set without them, and its validation is that set's test.
PIXELS = 3 * SIDE * SIDE
images = open(work + "/whole/X_train.npy", "rb").read()[-90 * PIXELS :]
labels = struct.unpack("<90q", open(work + "/whole/y_train.npy", "rb").read()[-720:])
whole = ["--dataset", "npy", "--data", work + "/whole"]
common = ["--lr", "0.1", "--epochs", "3", "--flip", "--quiet", "--log", log]
for seed, rows, said, n in ((0, 90, "0.3", 27), (2**40 + 5, 90, "12", 12), (3, 50, "0.25", 13), (3, 90, "0.001", 1)):
    out = held_out(seed, rows, n)
    for part, chosen in (("train", [i for i in range(rows) if i not in out]), ("test", out)):
        write(work + "/cut/X_%s.npy" % part, npy("|u1", (len(chosen), 3, SIDE, SIDE), b"".join(images[i * PIXELS : (i + 1) * PIXELS] for i in chosen)))
        write(work + "/cut/y_%s.npy" % part, npy("<i8", (len(chosen),), struct.pack("<%dq" % len(chosen), *(labels[i] for i in chosen))))
    wanted, _ = train("--dataset", "npy", "--data", work + "/cut", "--seed", str(seed), *common)
    tested = epochs()
    for devices in ("cpu:0", "cpu:0-2"):
        got, _ = train(*whole, "--seed", str(seed), "--limit", str(rows), "--validate", said, "--devices", devices, *common)
        assert got.splitlines()[1] == wanted.splitlines()[1], (said, got, wanted)
        assert [line["val_acc"] for line in epochs()] == [line["test_acc"] for line in tested], (epochs(), tested)
        assert all(line["val_loss"] > 0 for line in epochs())
        first = lines()[0]
        assert (first["images"], first["validate"], first["keep"]) == (rows - n, n, "last"), first

# The best epoch's weights are those of a run that ends there.
best = [*whole, "--validate", "30", "--keep", "best", "--lr", "0.6", "--momentum", "0.9", "--seed", "0", "--epochs", "7"]


def fingerprint(*options):
    out, err = train(*best, "--log", log, *options)
    return out.splitlines()[1], out.split(",")[0], err


digits, accuracy, err = fingerprint("--save", work + "/best.safetensors")
found = epochs()
top = max(line["val_acc"] for line in found)
at = [line["val_acc"] for line in found].index(top) + 1
assert 1 < at < 7, [line["val_acc"] for line in found]
assert f"held out for validation, the best epoch kept" in err
assert f"note: the weights are those of epoch {at}, the best by validation: val acc {top:.4f}\n" in err, err
assert re.search(rf"epoch {at}/7: loss .*, val acc {top:.4f}, test acc ", err), err
assert accuracy == "test acc: %.2f" % found[at - 1]["test_acc"], (accuracy, found)
out, _ = train(*best, "--keep", "last", "--epochs", str(at), "--quiet")
assert out.splitlines()[1] == digits
assert subprocess.run([program, "fingerprint", work + "/best.safetensors"], capture_output=True, text=True).stdout.strip() == digits
said = subprocess.run([program, "report", log, "--out", work + "/kept_report"], capture_output=True, text=True)
assert said.returncode == 0 and f"  {found[at - 1]['test_acc']:.4f}  " in said.stdout.splitlines()[1], (said, found)
numbers = [{name: value for name, value in line.items() if name not in ("sec", "img_per_s")} for line in found]


def assert_same(options, what):
    got, line, _ = fingerprint("--checkpoint", kept, "--resume", *options)
    assert (got, line) == (digits, accuracy), (what, got, digits, line, accuracy)
    again = [{name: value for name, value in line.items() if name not in ("sec", "img_per_s")} for line in epochs()]
    assert again == numbers, (what, again, numbers)


# Broken off within an epoch, at its end, before and behind the best one; a complete run is said again.
for step in (1, 3, 3 * at - 1, 3 * at, 3 * at + 1, 20, 21):
    shutil.rmtree(kept, ignore_errors=True)
    fingerprint("--checkpoint", kept, "--steps", str(step), "--quiet")
    assert_same(["--quiet", "--devices", "cpu:0-1"], step)
    assert_same(["--quiet"], "again")
# Killed at any moment.
dice = generator(7)
shutil.rmtree(kept)
for turn in range(8):
    run = subprocess.Popen([program, "train", "--batch", "20", "--shard", "10", "--init", "xavier", *best, "--log", log, "--checkpoint", kept, "--resume", "--checkpoint-every", "1"],
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        run.communicate(timeout=0.05 + next(dice) % 350 / 1000)
    except subprocess.TimeoutExpired:
        run.kill()
        run.communicate()
assert_same(["--quiet"], "killed")


def refused(status, pattern, *options):
    out, err = train(*options, "--quiet", status=status)
    assert out == "" and re.fullmatch("lockstep: " + pattern + ".*\n", err), (options, err)


# What would be another run is refused, and allowed.
refused(1, "--resume: .*data was 60 images .* and is 70 images .*validate was 30 and is 20 now", *best, "--validate", "20", "--checkpoint", kept, "--resume")
refused(1, "--resume: .*keep was best and is not set now", *best, "--keep", "last", "--checkpoint", kept, "--resume")
out, _ = train(*best, "--keep", "last", "--checkpoint", kept, "--resume", "--allow-changed", "keep", "--quiet")
last, _ = train(*best, "--keep", "last", "--quiet")
assert out.splitlines() [1] == last.splitlines()[1] != digits
out, _ = train(*best, "--checkpoint", kept, "--resume", "--allow-changed", "keep", "--epochs", "8", "--quiet")

# Patience looks at validation.
_, err = train(*best, "--epochs", "40", "--patience", "2", "--keep", "last", "--log", log)
found = [line["val_acc"] for line in epochs()]
assert len(found) < 40 and max(found) == max(found[:-2]) and found[-3] == max(found[:-2]), found
assert f"note: no validation accuracy above that of epoch {len(found) - 2}, {max(found):.4f}, in 2 epochs: the run ends\n" in err, err
# A run that fails, or is stopped: the best epoch's weights are what is saved, not those of the last step.
import signal, time

ends = [*whole, "--validate", "30", "--keep", "best", "--lr", "0.6", "--momentum", "0.9", "--seed", "0", "--save", work + "/ends.safetensors"]


def is_best(err, options):
    said = re.search(r"; the weights of step (\d+), the best by validation, of epoch (\d+), are in (.*)\n", err)
    assert said and said[3] == work + "/ends.safetensors" and int(said[1]) == 3 * int(said[2]), err
    train(*whole, "--validate", "30", "--lr", "0.6", "--momentum", "0.9", "--seed", "0", "--epochs", "100", "--steps", said[1], *options, "--save", work + "/there.safetensors", "--quiet")
    digits = [subprocess.run([program, "fingerprint", path], capture_output=True, text=True).stdout for path in (said[3], work + "/there.safetensors")]
    assert digits[0] == digits[1], (said, digits)
    return int(said[2])


grows = ["--schedule", "exponential", "--gamma", "1.5"]
_, err = train(*ends, *grows, "--epochs", "100", "--quiet", status=1)
assert "not finite" in err and is_best(err, grows) < 30, err
for more in [], ["--checkpoint", work + "/ends"]:
    os.path.exists(log) and os.remove(log)
    run = subprocess.Popen([program, "train", "--batch", "20", "--shard", "10", "--init", "xavier", *ends, *more, "--epochs", "100000", "--log", log, "--quiet"], stderr=subprocess.PIPE, text=True)
    while not os.path.exists(log) or len(epochs()) < 8:
        assert run.poll() is None, run.communicate()
        time.sleep(0.02)
    run.send_signal(signal.SIGTERM)
    _, err = run.communicate(timeout=600)
    assert run.returncode == 143, (run.returncode, err)
    is_best(err, [])

# No epoch is whole: there is no best one.
_, err = train(*best, "--steps", "2")
assert "note: no epoch came to its end: the weights are the last ones" in err

for value in ("0", "-1", "1.5", "nan", "1e-400", "x", "0.1x"):
    refused(2, f"--validate: '{value}' is neither a number of images nor a share above 0 and below 1", *whole, "--validate", value)
refused(1, "--validate: 90 of 90 training images leave none to train on", *whole, "--validate", "90")
refused(1, "--validate: 90 of 90 training images leave none to train on", *whole, "--validate", "0.999")
refused(2, "--keep: best needs --validate", *whole, "--keep", "best")
refused(2, "--keep: 'first' is none of: last, best", *whole, "--keep", "first")

# A report shows it.
if re.search("^reports: cairo", subprocess.run([program, "--version"], capture_output=True, text=True).stdout, re.M):
    train(*best, "--report", work + "/look", "--quiet")
    page = open(work + "/look/report.html", encoding="utf-8").read()
    assert '<th class="n">val acc</th>' in page and f'<data value="{top:.17g}">{top:.4f}</data>' in page and ">val acc</text>" in page
PY
python3 "$work/validation.py" "$here" "$program" "$work" || wrong "validation"
ends
