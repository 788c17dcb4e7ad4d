#!/bin/sh
# A run that is stopped, killed or ended early goes on to the fingerprint and the log of the whole run; what it cannot go on from
# is refused in one line. checkpoint.sh PROGRAM RECORDED: the second is recorded.c, whose clock may go by steps.
. "$(dirname -- "$0")/common.sh"
needs 'weights files' fingerprints
# Another user must reach it too, whoever owns the folder that it was built in.
chmod 755 "$work"
cp "$program" "$work/lockstep" || exit 1
program=$work/lockstep
recorded=$2
python3 "$here/make_data.py" "$work/data" 400 120 && python3 "$here/make_data.py" "$work/much" 128 4000 || exit 1
LOCKSTEP_DATA=$work/data
export LOCKSTEP_DATA
cat >"$work/runs.py" <<'PY'
import glob, json, os, re, shutil, signal, subprocess, sys, time

import run_logs

program, work, recorded = sys.argv[1:4]
files = run_logs.Kept(work)
folder, log, kept = files.folder, files.log, files.options
clean, checkpoints, numbers = files.clean, files.checkpoints, files.numbers
small = "--limit 300 --limit-test 100 --batch 64 --shard 32 --epochs 3 --lr 0.1 --momentum 0.9".split()  # 5 steps an epoch


def call(*options, **more):
    run = subprocess.run([program, "train", *options], capture_output=True, text=True, timeout=600, **more)
    return run.returncode, run.stdout, run.stderr


def done(*options, **more):
    status, out, err = call(*options, **more)
    assert status == 0, (options, status, err)
    assert re.fullmatch(r"test acc: .*\nfingerprint: [0-9a-f]{64}\n", out), out
    return out.splitlines()[1], err


def refused(status, pattern, *options, **more):
    got, out, err = call("--quiet", *options, **more)
    assert (got, out) == (status, ""), (options, got, out, err)
    assert re.fullmatch("lockstep: " + pattern + "[^\n]*\n", err), (options, pattern, err)
PY
part() { # WHAT: the Python on stdin, after runs.py
    cat "$work/runs.py" - >"$work/part.py"
    python3 "$work/part.py" "$program" "$work" "$recorded" || wrong "$1"
}

part 'from every step' <<'PY'
whole, _ = done(*small, "--quiet", "--log", work + "/whole.jsonl")
wanted = numbers(work + "/whole.jsonl")
# `plain` computes fused multiply-adds in software where it must: the same bits, and a long wait.
other = "avx2" if call(*small, "--steps", "1", "--quiet", "--isa", "avx2")[0] == 0 else "auto"
ways = [("cpu:0", other), ("cpu:0-1", other), ("cpu:0-2", "auto")]
for step in (1, 4, 5, 7, 10, 14):  # inside epochs, and at their ends
    clean()
    done(*small, *kept, "--steps", str(step), "--devices", "cpu:0-1")
    devices, isa = ways[step % 3]
    digits, err = done(*small, *kept, "--resume", "--devices", devices, "--isa", isa)
    assert f"json: step {step} of 15\n" in err, err
    assert digits == whole, (step, digits, whole)
    assert numbers() == wanted, (step, numbers(), wanted)
# In one go with a checkpoint at every step, the last three of which stay, and one of the result.
clean()
digits, _ = done(*small, *kept, "--checkpoint-every", "1", "--quiet")
assert digits == whole and numbers() == wanted
assert len(checkpoints()) == 3 and sorted(os.listdir(folder))[-1].endswith("16.safetensors"), os.listdir(folder)
# A complete run prints its last two lines again, and can save.
first = call(*small, *kept, "--resume", "--quiet")
again = call(*small, *kept, "--resume", "--devices", "cpu:0-2", "--save", work + "/w.safetensors")
assert first[:2] == again[:2] and first[0] == 0, (first, again)
assert ", a complete run\n" in again[2], again
assert numbers() == wanted
assert subprocess.run([program, "fingerprint", work + "/w.safetensors"], capture_output=True, text=True).stdout.strip() == whole
# Without a word on them whole checkpoints are not put at risk.
before = {path: open(path, "rb").read() for path in glob.glob(folder + "/*")}
refused(2, f"--checkpoint: {folder} has checkpoints of an earlier run: --resume goes on from them, --restart trains anew", *small, *kept)
assert before == {path: open(path, "rb").read() for path in glob.glob(folder + "/*")} and numbers() == wanted
refused(2, "--restart: trains anew, and --resume goes on", *small, *kept, "--resume", "--restart")
refused(2, "--restart: needs --checkpoint DIR", *small, "--restart")
# Anew in the same folder: said, and its own are the newest.
digits, err = done(*small, "--steps", "1", "--checkpoint", folder, "--restart")
assert f"note: the checkpoints of an earlier run in {folder} give way to this run's" in err, err
assert json.load(open(checkpoints()[-1]))["position"]["step"] == 1
os.remove(checkpoints()[-1])
# What a save left that did not end is no checkpoint, and is no reason to refuse.
rest = folder + "/rest"
os.mkdir(rest)
shutil.copy(sorted(glob.glob(folder + "/*.safetensors"))[-1], rest)
done(*small, "--steps", "1", "--checkpoint", rest, "--quiet")
shutil.rmtree(rest)
# More epochs: as if they had been asked for from the start. Fewer: refused.
longer, _ = done(*small[:-6], *small[-4:], "--epochs", "4", "--quiet", "--log", work + "/longer.jsonl")
digits, _ = done(*small, "--epochs", "4", *kept, "--resume", "--quiet")
assert digits == longer and numbers() == numbers(work + "/longer.jsonl")
refused(1, "--resume: .*is of step 20 already.* after 10", *small, "--epochs", "2", *kept, "--resume")
# A schedule's length defines the result.
clean()
cosine = small + ["--schedule", "cosine", "--warmup", "3"]
whole, _ = done(*cosine, "--quiet", "--log", work + "/whole.jsonl")
done(*cosine, *kept, "--checkpoint-every", "4", "--quiet")
for path in checkpoints()[1:]:
    os.remove(path)
    os.remove(path[:-4] + "safetensors")
digits, err = done(*cosine, *kept, "--resume", "--devices", "cpu:0")
assert digits == whole and "step 8 of 15" in err and numbers() == numbers(work + "/whole.jsonl"), err
refused(1, "--resume: .*total was 15 and is 20 now", *cosine, "--epochs", "4", *kept, "--resume")
PY

part 'signals' <<'PY'
endless = [*small, "--epochs", "1000000", "--devices", "cpu:0", "--quiet"]
slow_step = "--model resnet18 --limit 64 --limit-test 10 --batch 64 --epochs 2 --devices cpu:0 --isa plain".split()


def started(*options):
    """A run that is in the middle of its steps."""
    run = subprocess.Popen([program, "train", *endless, *kept, *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    began = open(log).read().count("\n") if os.path.exists(log) else 0
    while not os.path.exists(log) or open(log).read().count("\n") < began + 3:
        assert run.poll() is None, run.communicate()
        time.sleep(0.02)
    return run


# An evaluation is broken off, which the plain instruction set makes long; the run goes on with it.
tested = ["--data", work + "/much", *"--batch 64 --epochs 1 --ema 0.5 --devices cpu:0 --isa plain".split()]
weights = work + "/broken_off.safetensors"
clean()
run = subprocess.Popen([program, "train", *tested, *kept, "--save", weights], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
while not os.path.exists(log) or '"step":2,' not in open(log).read().replace(" ", ""):
    assert run.poll() is None, run.communicate()
    time.sleep(0.02)
run.send_signal(signal.SIGTERM)
out, err = run.communicate(timeout=600)
assert run.returncode == 143 and re.search(rf"SIGTERM: stopped after step 2 of 2; saved in {folder}, --resume goes on from there; the weights of step 2 are in {weights}\n", err), (run.returncode, err)
assert os.path.exists(weights) and not any("epoch" in line and "step" not in line for line in numbers()), numbers()
digits, _ = done(*tested, *kept, "--resume")
whole, _ = done(*tested, "--log", work + "/whole.jsonl")
assert digits == whole and numbers() == numbers(work + "/whole.jsonl")
clean()
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2, signal.SIGXCPU, signal.SIGHUP):
    run = started("--resume")
    run.send_signal(number)
    out, err = run.communicate(timeout=600)
    assert run.returncode == 128 + number, (run.returncode, err)
    name = signal.Signals(number).name
    said = re.fullmatch(rf"lockstep: {name}: stopped after step (\d+) of \d+; saved in {folder}, --resume goes on from there\n", err)
    assert out == "" and said, (out, err)
    assert [line["step"] for line in numbers() if "step" in line] == list(range(1, int(said[1]) + 1))
# One request comes as several signals, from several senders, before the first is looked at or after it.
for first, then in (signal.SIGTERM, signal.SIGTERM), (signal.SIGINT, signal.SIGINT), (signal.SIGHUP, signal.SIGHUP), (signal.SIGTERM, signal.SIGINT):
    for stopped in True, False:
        run = started("--resume")
        if stopped:
            run.send_signal(signal.SIGSTOP)
        run.send_signal(first)
        subprocess.run(["kill", f"-{int(then)}", str(run.pid)])
        run.send_signal(signal.SIGCONT)
        out, err = run.communicate(timeout=600)
        said = re.search(r"(SIG\w+): stopped after step \d+ of \d+; saved in", err)
        assert said and said[1] in (first.name, then.name) and run.returncode == 128 + signal.Signals[said[1]], (run.returncode, err)
# One that comes a second later ends the run in the middle of a step, which the plain instruction set makes long.
kept_weights = work + "/unsaved.safetensors"
for attempt in range(4):
    run = subprocess.Popen([program, "train", *slow_step, "--save", kept_weights], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    status = run_logs.end_twice(run, 2 << attempt)
    out, err = run.communicate(timeout=600)
    if status == 130:
        break
    os.remove(kept_weights)  # it ended in peace
assert run.returncode == 130 and "stopped" not in err and not os.path.exists(kept_weights), (run.returncode, err)
steps = json.load(open(checkpoints()[-1]))["position"]["step"] + 2
digits, _ = done(*endless, "--steps", str(steps), *kept, "--resume")
whole, _ = done(*endless, "--steps", str(steps), "--log", work + "/whole.jsonl")
assert digits == whole
assert numbers() == numbers(work + "/whole.jsonl"), (len(numbers()), len(numbers(work + "/whole.jsonl")), [(a, b) for a, b in zip(numbers(), numbers(work + "/whole.jsonl")) if a != b][:3])

# A second run on the same folder; and the first one killed, which leaves its lock file.
clean()
run = started()
run.send_signal(signal.SIGSTOP)
refused(1, rf"--checkpoint: {folder}/lock: another run uses this folder: process {run.pid} on ", *small, "--checkpoint", folder, "--resume")
run.send_signal(signal.SIGKILL)
run.communicate()
assert os.path.exists(folder + "/lock")
digits, err = done(*small, *kept, "--resume")
assert "there is no whole checkpoint in" in err, err
whole, _ = done(*small, "--quiet")
assert digits == whole and not os.path.exists(folder + "/lock")
PY

part 'by time' <<'PY'
# A second a step, and two a test: a checkpoint when its time has come, then not before its time has come again; also in the next run.
clean()
whole, _ = done(*small, "--quiet")
found, steps = [], []
for end in (13, 15):
    environment = {**os.environ, "CLOCK": "1", "RECORD_FOLDER": os.path.realpath(work), "RECORD_TO": work + "/record"}
    run = subprocess.run([recorded, "train", *small, *kept, "--resume", "--steps", str(end), "--checkpoint-every", "6s", "--quiet"],
                         env=environment, capture_output=True, text=True, timeout=600)
    assert run.returncode == 0, run.stderr
    found.append(re.findall(r"^rename \S+ kept/checkpoint-0*(\d+)\.json$", open(work + "/record").read(), re.M))
    steps.append([json.load(open(path))["position"]["step"] for path in checkpoints()])
assert found == [["1", "2", "3"], ["4"]] and steps[0][2] == 13 and steps[1][1:] == [13, 15], (found, steps)
assert 4 <= steps[0][0] <= 8 and 4 <= steps[0][1] - steps[0][0] <= 8, steps
lines = [json.loads(line) for line in open(log)]
# Each epoch has five steps, of which the last one's were in two runs; testing and saving are no part of it.
assert [(line["sec"], line["img_per_s"]) for line in lines if "epoch" in line] == [(5, 60)] * 3, [line for line in lines if "epoch" in line]
assert run.stdout.splitlines()[1] == whole
PY

part 'killed' <<'PY'
import random

random.seed(7)
whole, _ = done(*small, "--quiet", "--log", work + "/whole.jsonl")
clean()
kills = 0
for turn in range(12):
    run = subprocess.Popen([program, "train", *small, *kept, "--resume", "--checkpoint-every", "1", "--devices", random.choice(["cpu:0", "cpu:0-2"])],
                           stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        run.communicate(timeout=random.uniform(0.02, 0.5))
    except subprocess.TimeoutExpired:
        run.kill()
        run.communicate()
        kills += 1
    if turn == 5:  # the last line of the log is torn, as by a machine that stopped
        open(log, "a").write('{"step":7,"lo')
digits, _ = done(*small, *kept, "--resume", "--checkpoint-every", "1")
assert digits == whole and numbers() == numbers(work + "/whole.jsonl"), kills
assert not glob.glob(folder + "/*.tmp")
PY

part 'what cannot be written' <<'PY'
import resource

whole, _ = done(*small, "--quiet")
clean()


def full():
    resource.setrlimit(resource.RLIMIT_FSIZE, (100000, 100000))


done(*small, "--steps", "4", "--checkpoint", folder)
before = {path: open(path, "rb").read() for path in glob.glob(folder + "/*")}
status, out, err = call(*small, "--checkpoint", folder, "--checkpoint-every", "3", "--resume", "--quiet", preexec_fn=full, env={"LOCKSTEP_DATA": os.environ["LOCKSTEP_DATA"], "TMPDIR": work + "/none"})
assert status == 1 and out.splitlines()[1] == whole, (status, out)
lines = err.splitlines()
last = lines.pop()
assert len(lines) == 4 and all(re.match(r"note: a checkpoint was not written: .*/checkpoint-0+\d+\.safetensors: .*too large; the ones before it stay", line) for line in lines), err
assert re.fullmatch(r"lockstep: --checkpoint: .*/checkpoint-0+\d+\.safetensors: .*too large; the weights are lost: no other place takes them either", last), err
assert before == {path: open(path, "rb").read() for path in glob.glob(folder + "/*")}

# Where there are none before it, none are spoken of.
clean()
status, out, err = call(*small, "--checkpoint", folder, "--checkpoint-every", "3", "--quiet", preexec_fn=full)
notes = [line for line in err.splitlines() if line.startswith("note: a checkpoint was not written: ")]
assert status == 1 and notes and all(line.endswith("too large; the run goes on") for line in notes), (status, err)


def nobody():
    if os.geteuid() == 0:
        os.setgid(65534)
        os.setuid(65534)


# A log that is shorter than the checkpoint: said, and gone on with.
clean()
done(*small, *kept, "--steps", "7", "--quiet")
lines = open(log).readlines()
open(log, "w").writelines([*lines[:5], '{"step":5,"lo\n'])  # torn, and ended by another's line
digits, err = done(*small, *kept, "--resume")
assert digits == whole and f"note: --log: {log} has the steps up to 4, the checkpoint is of step 7: " in err, err
assert [line["step"] for line in numbers() if "step" in line] == [1, 2, 3, 4] + list(range(8, 16))

os.chmod(folder, 0o555)
refused(1, rf"--checkpoint: {folder}/lock: cannot be written: Permission denied", *small, "--checkpoint", folder, "--resume", preexec_fn=nobody)
os.chmod(folder, 0o755)
refused(1, f"--checkpoint: .*/none: the directory cannot be made: Permission denied", *small, "--checkpoint", folder + "/none", preexec_fn=nobody)
open(work + "/file", "w").write("mine")
refused(1, "--checkpoint: .*/file: the directory cannot be made: what is there is no directory", *small, "--checkpoint", work + "/file")
refused(1, "--log: .*/file: is no log of a run", *small, "--checkpoint", folder, "--resume", "--log", work + "/file")
assert open(work + "/file").read() == "mine"
PY

part 'the settings in the log' <<'PY'
import resource


def settings():
    return {name: value for name, value in json.loads(open(log).readline()).items() if not re.match("checkpoint|date$|host$|command$", name)}


# Those of the run that ends it: as if it had been asked for from the start. The log's own place and mode stay.
done(*small, "--log", log, "--devices", "cpu:0", "--quiet")
wanted, steps = settings(), numbers()
clean()
done(*small, *kept, "--steps", "7", "--devices", "cpu:0-1", "--save", work + "/w.safetensors", "--quiet")
assert settings() != wanted
os.rename(log, work + "/elsewhere.jsonl")
os.symlink("elsewhere.jsonl", log)
os.chmod(log, 0o640)
done(*small, *kept, "--resume", "--devices", "cpu:0", "--quiet")
assert settings() == wanted and numbers() == steps, (settings(), wanted)
assert os.path.islink(log) and os.stat(log).st_mode & 0o777 == 0o640
assert not [name for name in os.listdir(work) if "elsewhere" in name and name != "elsewhere.jsonl"], os.listdir(work)
# Where the first line cannot be another's it stays, and that is said: the log's name leaves no room for a longer one.
clean()
long = work + "/" + "l" * 255
done(*small, "--checkpoint", folder, "--log", long, "--steps", "7", "--devices", "cpu:0-1", "--quiet")
first = open(long).readline()
_, err = done(*small, "--checkpoint", folder, "--log", long, "--resume", "--devices", "cpu:0")
assert f"note: --log: {long} keeps the settings that the run began with: File name too long\n" in err, err
assert open(long).readline() == first and numbers(long) == steps, numbers(long)
# The first line after it that cannot be written leaves no part of it, wherever the new first line moved it to.
clean()
done(*small, *kept, "--steps", "7", "--devices", "cpu:0-1", "--quiet")
done(*small, *kept, "--resume", "--devices", "cpu:0", "--quiet")
first = open(log).readline()
clean()
done(*small, *kept, "--steps", "7", "--devices", "cpu:0-1", "--quiet")
settled = len(first.encode()) + sum(len(line.encode()) for line in open(log).readlines()[1:9])  # an epoch's times have any number of digits
status, _, err = call(*small, *kept, "--resume", "--devices", "cpu:0", "--quiet", env={"LOCKSTEP_DATA": os.environ["LOCKSTEP_DATA"], "TMPDIR": work + "/none"},
                      preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (settled + 5, settled + 5)))
assert status == 1 and f"lockstep: --log: {log}: File too large; the run goes on without it\n" in err, (status, err)
assert os.path.getsize(log) == settled and numbers() == steps[:8], numbers()
# Nothing to go on from: the log is this run's alone, though it was another's.
clean()
done(*small, "--log", log, "--seed", "5", "--quiet")
done(*small, *kept, "--resume", "--devices", "cpu:0", "--quiet")
assert settings() == wanted and numbers() == steps, settings()
PY

part 'what is refused and allowed' <<'PY'
clean()
done(*small, "--checkpoint", folder, "--checkpoint-every", "6", "--quiet")
for path in checkpoints()[1:]:  # step 6 stays
    os.remove(path)
    os.remove(path[:-4] + "safetensors")
for option, words in {"--seed 3": "seed was 0 and is 3 now", "--batch 50": "batch was 64 and is 50 now", "--lr 0.2": "lr was 0.1 and is 0.2 now",
                      "--shard 16": "shard was 32 and is 16 now", "--momentum 0.5": "momentum was 0.9 and is 0.5 now", "--nesterov": "nesterov was no and is yes now",
                      "--weight-decay 0.01": "weight_decay was 0 and is 0.01 now", "--init he": "init was normal:0.01 and is he now", "--conv direct": "conv was auto and is direct now",
                      "--limit 299": "data was 300 images .* and is 299 images", "--no-shuffle": "shuffle was yes and is no now", "--schedule step": "schedule was constant and is step now",
                      "--warmup 2": "warmup was 0 and is 2 now", "--model resnet18 --lr 0.1": "model was lenet and is resnet18 now"}.items():
    allow = ".*; go on with what was"
    if "model" not in option:  # whose weights would not fit
        typed = [word[2:].replace("limit", "data") for word in option.split() if word.startswith("--")]
        allow += ", or say --allow-changed " + ",".join(typed + ["epochs"] * ("schedule" in typed)) + "$"
    else:
        allow += "$"
    refused(1, "--resume: .*/checkpoint-000001.json: of a run with other settings: .*" + words + allow, *small, *option.split(), "--checkpoint", folder, "--resume")
weights = work + "/start.safetensors"
done(*small, "--steps", "1", "--save", weights, "--quiet")
refused(1, "--resume: .*weights was none and is [0-9a-f]{64} now", *small, "--weights", weights, "--checkpoint", folder, "--resume")
# The data set itself, at the same place and of the same size.
images = work + "/data/train-images-idx3-ubyte"
content = bytearray(open(images, "rb").read())
content[5000] ^= 1
open(images, "wb").write(content)
refused(1, "--resume: .*data was 300 images ", *small, "--checkpoint", folder, "--resume")
content[5000] ^= 1
open(images, "wb").write(content)
# Damage is told, and the run starts anew where nothing else is left.
path = folder + "/checkpoint-000001.safetensors"
content = bytearray(open(path, "rb").read())
content[99999] ^= 4
open(path, "wb").write(content)
whole, _ = done(*small, "--quiet")
digits, err = done(*small, "--checkpoint", folder, "--resume", "--quiet")
assert digits == whole and "note: passed over: " + path + ": damaged: the SHA-256 of its weights is " in err, err
for option in ("--lr 0.2 --allow-changed lr", "--weight-decay 0.01 --batch 50 --allow-changed weight-decay,batch", "--limit 250 --allow-changed limit", "--no-shuffle --seed 5 --allow-changed no-shuffle --allow-changed seed"):
    shutil.rmtree(folder)
    done(*small, "--steps", "6", "--checkpoint", folder, "--quiet")
    digits, err = done(*small, *option.split(), "--checkpoint", folder, "--resume")
    assert digits != whole and "json: step 6 of " in err, err
# Of 3 epochs of 5 steps one and a batch are behind it; a second batch of 128 and a third are new in epoch 2.
for steps, last in ((6, 11), (14, 15)):
    clean()
    done(*small, *kept, "--steps", str(steps), "--quiet")
    digits, err = done(*small, *kept, "--batch", "128", "--allow-changed", "batch", "--resume")
    assert f"json: step {steps} of {last}\n" in err, err
    assert [line["step"] for line in numbers() if "step" in line] == list(range(1, last + 1)), numbers()
    assert [line["epoch"] for line in numbers() if "test_acc" in line] == [1, 2, 3], numbers()
refused(1, "--resume: .*json: is of step 15 already, and the run would end after 12;", *small, "--checkpoint", folder, "--batch", "128", "--allow-changed", "batch",
        "--resume", "--steps", "12")
PY
ends
