#!/bin/sh
# A small run through train, eval, predict and fingerprint: what they print, log and write.
. "$(dirname -- "$0")/common.sh"
python3 "$here/make_data.py" "$work/data" 400 120 || exit 1
LOCKSTEP_DATA=$work/data
export LOCKSTEP_DATA

last_lines() { # ACCURACY-LINE-PATTERN: the two lines that train ends with
    [ "$(wc -l <"$work/out")" = 2 ] || wrong "$called: not two lines on stdout"
    sed -n 1p "$work/out" | grep -qE "^test acc: [01]\.[0-9][0-9], [0-9]+\.[0-9] sec/epoch on $1\$" || wrong "$called: accuracy line"
    sed -n 2p "$work/out" | grep -qE '^fingerprint: [0-9a-f]{64}$' || wrong "$called: fingerprint line"
}

small="--limit 300 --limit-test 100 --epochs 2 --batch 128 --shard 32 --lr 0.3"
# shellcheck disable=SC2086 # options
runs 0 train $small --devices cpu:0-1 --log "$work/run.jsonl" --save "$work/w.safetensors"
last_lines '\[cpu\(0\), cpu\(1\)\]'
fingerprint=$(tail -n 1 "$work/out")
sed -n 1p "$work/err" | grep -q 'batch 128, shard 32, epochs 2, seed 0, init normal:0.01' || wrong "the first line lacks the settings"
python3 "$here/recompute.py" train "$work/run.jsonl" "$work/out" "$work/err" || wrong "figures that are not the log's"
LC_ALL=C grep -q "$(printf '[\r\033]')" "$work/err" && wrong "a progress bar without a terminal"
# Each file has its line; weights that are not kept too, and how they would be.
tail -n 2 "$work/err" >"$work/said"
printf 'wrote %s: the trained weights\nwrote %s: the log\n' "$work/w.safetensors" "$work/run.jsonl" | cmp - "$work/said" ||
    wrong "the files that were written are not said"
# shellcheck disable=SC2086
runs 0 train $small --limit 64 --epochs 1 --log /dev/null --save /dev/null --trace /dev/null
[ -c /dev/null ] || wrong "/dev/null is a file now"
last_lines '\[.*\]'
mv "$work/err" "$work/lost"
grep -q '^note: the weights of this run are not kept; --save FILE keeps them, --checkpoint DIR ' "$work/lost" ||
    wrong "that the weights are lost is not said"
grep -q '^wrote ' "$work/lost" && wrong "a file that is none is said to be written: $(cat "$work/lost")"

python3 - "$work/run.jsonl" <<'PY' || wrong "the log"
import json, math, sys
lines = open(sys.argv[1], encoding="utf-8").read().split("\n")
assert lines.pop() == "", "the last line is not whole"
lines = [json.loads(line) for line in lines]
first = lines.pop(0)
for name in ("lockstep", "model", "devices", "batch", "shard", "epochs", "seed", "init", "lr", "momentum", "weight_decay", "schedule",
             "save", "checkpoint", "checkpoint_every", "verify", "timeout", "balance", "report", "trace"):
    assert name in first, name
assert (first["batch"], first["shard"], first["lr"], first["model"]) == (128, 32, 0.3, "lenet"), first
steps = [line for line in lines if "step" in line]
epochs = [line for line in lines if "epoch" in line]
assert [line["step"] for line in steps] == [1, 2, 3, 4, 5, 6], steps
assert all(set(line) == {"step", "loss"} and math.isfinite(line["loss"]) for line in steps)
assert abs(steps[0]["loss"] - math.log(10)) < 0.1, steps[0]
assert [line["epoch"] for line in epochs] == [1, 2], epochs
for line in epochs:
    assert set(line) == {"epoch", "train_loss", "train_acc", "test_acc", "sec", "img_per_s"}, line
PY

# The fingerprint by its definition, by the program, and after one changed bit.
[ "$(python3 "$here/recompute.py" fingerprint "$work/w.safetensors")" = "$fingerprint" ] || wrong "Python computes another fingerprint"
runs 0 fingerprint "$work/w.safetensors"
[ "$(cat "$work/out")" = "$fingerprint" ] || wrong "'fingerprint' of the saved file differs"
python3 - "$work/w.safetensors" "$work/bit.safetensors" <<'PY'
import sys
whole = bytearray(open(sys.argv[1], "rb").read())
whole[-1000] ^= 1
open(sys.argv[2], "wb").write(whole)
PY
runs 0 fingerprint "$work/bit.safetensors"
[ "$(cat "$work/out")" != "$fingerprint" ] || wrong "one changed bit keeps the fingerprint"

# Nor over half of a checkpoint; without its manifest it is weights like others.
cp "$work/w.safetensors" "$work/checkpoint-000001.safetensors"
: > "$work/checkpoint-000001.json"
runs 1 train --limit 64 --limit-test 10 --epochs 1 --quiet --devices cpu:0 --save "$work/checkpoint-000001.safetensors"
one_line "--save: .*/checkpoint-000001.safetensors: is half of a checkpoint, which would be lost; name another file\$"
cmp -s "$work/checkpoint-000001.safetensors" "$work/w.safetensors" || wrong "wrote over a checkpoint's weights all the same"
rm "$work/checkpoint-000001.json"
runs 0 train --limit 64 --limit-test 10 --epochs 1 --quiet --devices cpu:0 --save "$work/checkpoint-000001.safetensors"

# A slip writes over no file that holds something else; over an empty one, and over an earlier run's, a run may write.
cp "$work/w.safetensors" "$work/held.safetensors"
cp "$work/run.jsonl" "$work/held.jsonl"
runs 0 train --limit 64 --limit-test 10 --epochs 1 --quiet --devices cpu:0 --trace "$work/held.json"
runs 0 predict --weights "$work/w.safetensors" --limit-test 10 --quiet --out "$work/held.npy"
runs 0 bench --batch 1 --shard 1 --steps 1 --model lenet --devices cpu:0 --json "$work/figures"
held() { # WHAT EXTENSION OPTION COMMAND OPTIONS...: a file of each other kind is refused and stays
    what=$1 own=$2 option=$3
    shift 3
    for other in safetensors jsonl json npy; do
        [ "$other" != "$own" ] || continue
        cp "$work/held.$other" "$work/slip"
        runs 1 "$@" "$option" "$work/slip"
        one_line "$option: .*/slip: is no $what, and would be lost; name another file, or move it away\$"
        cmp -s "$work/slip" "$work/held.$other" || wrong "$called: wrote over a file all the same"
    done
}
tiny="--limit 64 --limit-test 10 --epochs 1 --quiet --devices cpu:0"
# shellcheck disable=SC2086
{
    held 'weights file' safetensors --save train $tiny
    held 'log of a run' jsonl --log train $tiny
    held 'timeline of a run' json --trace train $tiny
    held 'array of NumPy' npy --out predict --weights "$work/w.safetensors" --limit-test 10 --quiet
    if has "an ONNX model over another file" 'ONNX files'; then
        held 'ONNX model' onnx --onnx export --weights "$work/w.safetensors" --quiet
        for earlier in 1 2; do
            runs 0 export --weights "$work/w.safetensors" --quiet --onnx "$work/held.onnx"
        done
    fi
    held "file of bench's figures" figures --json bench --batch 1 --shard 1 --steps 1
    runs 1 train $tiny --log "$work/figures"
    one_line '--log: .*/figures: is no log of a run'
    for earlier in 1 2; do
        runs 0 train $tiny --save "$work/held.safetensors" --log "$work/held.jsonl" --trace "$work/held.json"
        : >"$work/held.safetensors"
        : >"$work/held.jsonl"
        : >"$work/held.json"
    done
    for earlier in 1 2; do
        runs 0 predict --weights "$work/w.safetensors" --limit-test 10 --quiet --out "$work/held.npy"
        runs 0 bench --batch 1 --shard 1 --steps 1 --model lenet --devices cpu:0 --json "$work/figures"
    done
}

# Other devices, another pull order, and a cut: same bits; and the same losses in the log.
# shellcheck disable=SC2086
runs 0 train $small --devices cpu:0,cpu:2,cpu:1 --shuffle-pulls 7 --isa avx2 --quiet --log "$work/three.jsonl"
last_lines '\[cpu\(0\), cpu\(2\), cpu\(1\)\]'
[ "$(tail -n 1 "$work/out")" = "$fingerprint" ] || wrong "three devices give another fingerprint"
[ ! -s "$work/err" ] || wrong "--quiet says something"
untimed() { # LOG: without its settings and what took time
    sed -n 's/,"sec":.*//; /^{"\(step\|epoch\)":/p' "$1"
}
untimed "$work/run.jsonl" >"$work/numbers"
untimed "$work/three.jsonl" | cmp -s - "$work/numbers" || wrong "three devices log other numbers"

# shellcheck disable=SC2086
runs 0 train $small --devices cpu:0 --steps 4 --log "$work/four.jsonl"
last_lines '\[cpu\(0\)\]'
# The first epoch whole, with three steps; the second, cut after its first step, has that one's loss.
untimed "$work/four.jsonl" >"$work/cut"
head -n 5 "$work/numbers" >"$work/wanted"
head -n 5 "$work/cut" | cmp -s - "$work/wanted" || wrong "--steps 4: other numbers than the whole run's: $(cat "$work/cut")"
loss=$(sed -n 's/^{"step":4,"loss":\(.*\)}$/\1/p' "$work/cut")
[ "$(wc -l <"$work/cut")" = 6 ] && sed -n 6p "$work/cut" | grep -qF "{\"epoch\":2,\"train_loss\":$loss,\"train_acc\":" ||
    wrong "--steps 4: the second epoch is not its one step: $(cat "$work/cut")"
# shellcheck disable=SC2086
runs 0 train $small --epochs 9 --devices cpu:0 --steps 6 --quiet
[ "$(tail -n 1 "$work/out")" = "$fingerprint" ] || wrong "six steps of nine epochs give another fingerprint than all of two"

# A start from saved weights without learning keeps them; the schedule and init options run.
runs 0 train --weights "$work/w.safetensors" --lr 0 --limit 64 --limit-test 10 --epochs 1 --quiet --log "$work/kept.jsonl"
[ "$(tail -n 1 "$work/out")" = "$fingerprint" ] || wrong "lr 0 changes the weights"
# A network that only guesses: it is said once, with what may help; one that learns has no such line, nor has --quiet any.
guessing="--lr 0 --limit 64 --limit-test 100 --epochs 2"
# shellcheck disable=SC2086
runs 0 train $guessing --save "$work/guess.safetensors"
[ "$(grep -cE '^note: test accuracy 0\.[0-9]+ after step [12] is that of guessing among 10 classes: with --lr 0 no weight changes$' "$work/err")" = 1 ] ||
    wrong "a run at chance does not say once why"
# shellcheck disable=SC2086
runs 0 train $guessing --lr 1e-9 --epochs 60 --batch 32 --limit-test 40 # of few images a guess gets 0.15, too
[ "$(grep -cE '^note: test accuracy 0\.1500 after step 100 is that of guessing among 10 classes: small first weights \(--init normal:0.01\) learn late: --init xavier mostly learns in the first epoch; or --lr 1e-09 does not suit$' "$work/err")" = 1 ] ||
    wrong "a run at chance does not say once why"
# shellcheck disable=SC2086
runs 0 train $guessing --lr 1e-9 --epochs 60 --batch 32 --weights "$work/guess.safetensors"
grep -q 'guessing among 10 classes: --lr 1e-09 may be too high or too low$' "$work/err" || wrong "weights that guess are said to be of --init"
# After few steps that is what is said, once, at the end.
runs 0 train --init xavier --lr 1e-4 --limit 64 --limit-test 100 --epochs 2
[ "$(grep -c 'step 2 is that of guessing among 10 classes: few steps were made; more --epochs, or images by a higher --limit, make more; or --lr 0.0001 does not suit$' "$work/err")" = 1 ] ||
    wrong "a run of few steps is not told so"
runs 0 train --init xavier --lr 1e-4 --limit 64 --limit-test 100 --steps 2
grep -q 'guessing among 10 classes: few steps were made; higher --steps make more; or --lr 0.0001 does not suit$' "$work/err" ||
    wrong "a run that --steps ends is advised other options"
# shellcheck disable=SC2086
runs 0 train $guessing --quiet
[ ! -s "$work/err" ] || wrong "--quiet says that the network guesses"
for tested in 100 10; do
    runs 0 train --init xavier --limit-test "$tested" --epochs 3 --batch 32
    grep -q guessing "$work/err" && wrong "a network that learns is said to guess, by $tested images"
done
for extra in '--schedule cosine --warmup 2' '--schedule step' '--momentum 0.9 --nesterov' '--init xavier' '--init he' \
    '--weight-decay 0.01' '--no-shuffle' '--seed 1'; do
    # shellcheck disable=SC2086
    runs 0 train $small --devices cpu:0 --quiet $extra
    [ "$(tail -n 1 "$work/out")" != "$fingerprint" ] || wrong "$extra changes nothing"
done

# More devices than shards is said with the batch that would feed all; long lists are shortened.
runs 0 train --limit 256 --batch 64 --limit-test 10 --epochs 1 --shard 16 --devices cpu:0-15
grep -qx 'note: a batch of 64 in shards of 16 makes 4 for 16 devices; --batch 256 would feed all' "$work/err" || wrong "idle devices are not said"
grep -qF 'on [cpu(0), ..., cpu(15)]' "$work/out" || wrong "16 devices are not shortened"

# Single images, a last batch of one, and a shard that is larger than the batch.
runs 0 train --limit 40 --batch 64 --limit-test 10 --epochs 1 --shard 16 --devices cpu:0-4
grep -qx 'note: a batch of 40 in shards of 16 makes 3 for 5 devices; a batch of 80 would feed all, and there are 40 images' "$work/err" ||
    wrong "idle devices are not said where there are too few images"
runs 0 train --limit 5 --batch 1 --limit-test 3 --epochs 1 --devices cpu:0-2 --quiet
last_lines '\[cpu\(0\), cpu\(1\), cpu\(2\)\]'
runs 0 train --model resnet18 --limit 5 --batch 4 --limit-test 1 --epochs 1 --quiet
for shard in 65 100000; do
    runs 0 train --limit 65 --batch 65 --shard $shard --limit-test 10 --epochs 1 --quiet
    tail -n 1 "$work/out" >"$work/shard.$shard"
done
cmp -s "$work/shard.65" "$work/shard.100000" || wrong "a shard larger than the batch gives another fingerprint than the batch"

runs 0 eval --weights "$work/w.safetensors" --devices cpu:0-1 --limit-test 100
grep -qE '^test acc: [01]\.[0-9][0-9] on \[cpu\(0\), cpu\(1\)\]$' "$work/out" || wrong "eval's line"
[ "$(wc -l <"$work/out")" = 1 ] || wrong "eval prints more than a line"
cp "$work/out" "$work/eval.out"

# Accuracies and losses are those of the logits, of images that were trained on too: they stand in for test images.
mkdir "$work/trained"
for kind in images-idx3 labels-idx1; do
    ln -s "$work/data/train-$kind-ubyte" "$work/trained/train-$kind-ubyte"
    ln -s "$work/data/train-$kind-ubyte" "$work/trained/t10k-$kind-ubyte"
done
runs 0 predict --weights "$work/w.safetensors" --out "$work/trained.npy" --limit-test 64 --data "$work/trained"
runs 0 predict --weights "$work/w.safetensors" --out "$work/logits.npy" --limit-test 100
python3 - "$work" <<'PY' || wrong "accuracies"
import sys
from recompute import accuracy, cross_entropy, labels, log_lines, logits, read, same, told

work = sys.argv[1]
tested, right = logits(work + "/logits.npy"), labels(work + "/data/t10k-labels-idx1-ubyte", 100)
same(log_lines(work + "/run.jsonl")[1][-1]["test_acc"], accuracy(tested, right), "test acc")
told(read(work + "/eval.out").split()[2], accuracy(tested, right), "eval")
(epoch,) = log_lines(work + "/kept.jsonl")[1]
same(epoch["test_acc"], accuracy(tested[:10], right[:10]), "test acc of ten")
trained, right = logits(work + "/trained.npy"), labels(work + "/data/train-labels-idx1-ubyte", 64)
same(epoch["train_acc"], accuracy(trained, right), "train acc")
same(epoch["train_loss"], cross_entropy(trained, right), "train loss", 1e-6)
PY
python3 - "$work/logits.npy" <<'PY' || wrong "predict's file"
import ast, math, struct, sys
whole = open(sys.argv[1], "rb").read()
assert whole[:6] == b"\x93NUMPY" and whole[6] in (1, 2)
(length,) = struct.unpack("<H", whole[8:10])
header = ast.literal_eval(whole[10 : 10 + length].decode())
assert header == {"descr": "<f4", "fortran_order": False, "shape": (100, 10)}, header
assert (10 + length) % 64 == 0
assert len(whole) == 10 + length + 100 * 10 * 4
assert all(math.isfinite(x) for x in struct.unpack("<1000f", whole[10 + length :]))
PY

# A target that cannot be is refused before anything is read or computed.
for target in "$work" "$work/none/logits.npy" /dev/null; do
    runs 1 predict --weights "$work/none.safetensors" --out "$target"
    one_line '--out: '
done

# A step that is not finite: the weights before the last update are saved, over which the loss was finite.
runs 1 train --lr 1e29 --limit 64 --batch 32 --limit-test 10 --epochs 1 --quiet --devices cpu:0 --save "$work/last.safetensors"
one_line "train: step 2: .*not finite; .*; the weights of step 0, whose loss was 2\.3.*, are in $work/last.safetensors\$"
runs 0 eval --weights "$work/last.safetensors" --limit-test 10
huge="--lr 1e29 --limit 64 --batch 32 --limit-test 10 --epochs 1 --quiet --devices cpu:0-1"
# shellcheck disable=SC2086
runs 1 train $huge
one_line 'train: step 2: .* is not finite; a lower learning rate may help; nothing was saved$'
# shellcheck disable=SC2086
runs 1 train $huge --checkpoint "$work/overflow"
one_line 'train: step 2: .*; nothing was saved$'
# shellcheck disable=SC2086
runs 1 train $huge --checkpoint "$work/overflow" --checkpoint-every 1
one_line "train: step 2: .*; the last checkpoint, of step 1, is in $work/overflow\$"

# An update that is finite, and leaves a network that overflows: no accuracy is printed, no logits are written.
runs 1 train --lr 1e29 --limit 64 --limit-test 10 --epochs 1 --quiet --save "$work/huge.safetensors"
one_line "evaluation: .*not finite.*; the weights of step 0, whose loss was 2\.3.*, are in $work/huge.safetensors\$"
runs 0 eval --weights "$work/huge.safetensors" --limit-test 10
# Beside averages too, in the evaluation by them and in the step behind one.
runs 1 train --lr 1e29 --limit 64 --limit-test 10 --epochs 1 --ema 0.5 --quiet --save "$work/averaged.safetensors"
one_line "evaluation: .*not finite.*; the weights of step 0 \(not averaged\), whose loss was 2\.[23].*, are in $work/averaged.safetensors\$"
runs 0 eval --weights "$work/averaged.safetensors" --limit-test 10
runs 1 train --lr 0.1 --schedule exponential --period 3 --gamma 1e29 --limit 96 --batch 32 --limit-test 10 --epochs 2 --ema 0.5 --quiet --devices cpu:0 \
    --save "$work/averaged.safetensors"
one_line "train: step 5: .*not finite.*; the weights of step 3 \(not averaged\), whose loss was 2\.[23].*, are in $work/averaged.safetensors\$"
runs 0 eval --weights "$work/averaged.safetensors" --limit-test 10
python3 - "$work/w.safetensors" "$work/huge.safetensors" <<'PY'
import struct, sys
whole = bytearray(open(sys.argv[1], "rb").read())
begin = 8 + struct.unpack("<Q", whole[:8])[0]
for at in range(begin, len(whole), 4):
    whole[at : at + 4] = struct.pack("<f", 1e30)
open(sys.argv[2], "wb").write(whole)
PY
runs 1 eval --weights "$work/huge.safetensors" --limit-test 10 --quiet
one_line 'eval: .*not finite'
runs 1 predict --weights "$work/huge.safetensors" --limit-test 10 --quiet --out "$work/huge.npy"
one_line 'predict: .*not finite'
for out in "" "$work/huge.npy"; do # what the data are is said before the work
    # shellcheck disable=SC2046
    runs 1 $([ "$out" ] && echo predict --out "$out" || echo eval) --weights "$work/huge.safetensors" --limit-test 10
    sed -n 1p "$work/err" | grep -q '^data: 10 images 1x28x28' || wrong "$called: the data are not told first"
done
[ ! -e "$work/huge.npy" ] || wrong "logits that are no numbers were written"

# No output is one of the files that the data are in, by another name neither.
ln "$work/data/t10k-labels-idx1-ubyte" "$work/labels"
runs 2 train --limit 64 --limit-test 10 --epochs 1 --quiet --log "$work/labels"
one_line '--log: .*/labels is one of the data.s own files'
runs 2 predict --weights "$work/w.safetensors" --limit-test 10 --out "$work/data/../data/t10k-images-idx3-ubyte"
one_line '--out: .* is one of the data.s own files'
# A FIFO without a reader is told, not waited for; one that has a reader is a log like any other. What waits for it is named.
mkfifo "$work/fifo"
called='--log of a FIFO'
timeout 60 "$program" train --limit 64 --limit-test 10 --epochs 1 --quiet --log "$work/fifo" >"$work/out" 2>"$work/err"
[ $? = 1 ] || wrong "$called: is waited for"
one_line '--log: .*fifo: is a FIFO that nobody reads'
cat "$work/fifo" >"$work/read.jsonl" &
exec 3<>"$work/fifo"
runs 0 train --limit 64 --limit-test 10 --epochs 1 --quiet --log "$work/fifo"
exec 3>&-
wait
[ "$(grep -c '"step":' "$work/read.jsonl")" = 1 ] || wrong "$called: does not come out of it"
# A reader that has stopped costs the log, and nothing of what is learnt; on standard error it costs lines.
exec 3<>"$work/fifo"
head -c 65536 /dev/zero >&3
runs 1 train --limit 64 --limit-test 10 --epochs 1 --quiet --timeout 6 --log "$work/fifo" --save "$work/unread.safetensors"
grep -q '^lockstep: --log: .*fifo: its reader takes no more; the run goes on without it$' "$work/err" || wrong "$called: a stuck reader is not told"
[ "$(wc -l <"$work/err")" = 1 ] || wrong "$called: a stuck reader is not told in one line"
[ -s "$work/unread.safetensors" ] && grep -q '^fingerprint: ' "$work/out" || wrong "$called: a stuck reader costs what was learnt"
"$program" train --limit 64 --limit-test 10 --epochs 1 --timeout 6 >"$work/out" 2>"$work/fifo" 3>&- ||
    wrong "a stuck reader of standard error ends the run"
grep -q '^fingerprint: ' "$work/out" || wrong "a stuck reader of standard error costs the results"
# While it waits for that reader a run is asked to stop: by one sender at once again is one request, by another one, or later, it is a second.
python3 - "$program" "$work" <<'PY' || wrong "signals that come twice"
import signal, subprocess, sys, time
program, work = sys.argv[1:]
options = "train --limit 64 --batch 16 --limit-test 10 --epochs 1 --quiet --log".split()
for again, timeout in ("at once", "2"), ("later", "60"), ("by another", "2"): # half of it is waited for the reader
    # One that a shell ignores, as nohup does, is left so.
    run = subprocess.Popen([program, *options, work + "/fifo", "--timeout", timeout], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                           preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
    while (caught := int(open(f"/proc/{run.pid}/status").read().split("SigCgt:")[1].split()[0], 16)) >> signal.SIGUSR1 - 1 & 1 == 0:
        assert run.poll() is None, run.communicate()
    assert caught >> signal.SIGHUP - 1 & 1 == 0, hex(caught)
    run.send_signal(signal.SIGTERM)
    while int(open(f"/proc/{run.pid}/status").read().split("ShdPnd:")[1].split()[0], 16) >> 14 & 1:
        pass # until it has been taken
    if again == "later":
        time.sleep(1.1)
    if again == "by another":
        subprocess.run(["kill", "-TERM", str(run.pid)], check=True)
    else:
        run.send_signal(signal.SIGTERM)
    out, err = run.communicate(timeout=600)
    assert run.returncode == 143 and out == "" and (err != "") == (again != "later"), (again, run.returncode, out, err)
PY
exec 3>&-

# Weights of another network are refused, and nothing is left behind.
runs 1 eval --weights "$work/w.safetensors" --model resnet18 --limit-test 10
one_line '--weights: '
runs 1 train --weights "$work/data/t10k-labels-idx1-ubyte" --save "$work/none.safetensors" --log "$work/none.jsonl" --epochs 1
one_line '--weights: '
[ ! -e "$work/none.safetensors" ] && [ ! -e "$work/none.jsonl" ] || wrong "a refused run left files"

# A prefix of all names is told, and left out by --strip-prefix; an archive of torch.save is told as what it is.
python3 - "$work/w.safetensors" "$work/prefixed.safetensors" <<'PY'
import json, struct, sys
whole = open(sys.argv[1], "rb").read()
(length,) = struct.unpack("<Q", whole[:8])
header = json.loads(whole[8 : 8 + length])
text = json.dumps({name if name == "__metadata__" else "module." + name: what for name, what in header.items()}).encode()
open(sys.argv[2], "wb").write(struct.pack("<Q", len(text)) + text + whole[8 + length :])
PY
runs 1 eval --weights "$work/prefixed.safetensors" --limit-test 10
one_line "--weights: .*all names begin with 'module\.'; give that as --strip-prefix to leave it out\$"
runs 1 eval --weights "$work/prefixed.safetensors" --strip-prefix mod --limit-test 10
one_line "--weights: .*all names begin with 'module\.'; give that as --strip-prefix to leave it out\$"
# uses NAME OPTIONS...: what eval, predict, train and export make of weights, in NAME.eval, .npy, .train and .onnx.
uses() {
    weights=$1
    shift
    runs 0 eval --weights "$work/$weights.safetensors" "$@" --limit-test 10 --quiet
    cp "$work/out" "$work/$weights.eval"
    runs 0 predict --weights "$work/$weights.safetensors" "$@" --limit-test 10 --quiet --out "$work/$weights.npy"
    # shellcheck disable=SC2086 # options
    runs 0 train $small --weights "$work/$weights.safetensors" "$@" --lr 0 --steps 1 --quiet
    tail -n 1 "$work/out" >"$work/$weights.train"
    if has "export of $weights" 'ONNX files'; then
        runs 0 export --weights "$work/$weights.safetensors" "$@" --onnx "$work/$weights.onnx"
    fi
}

equal_uses() { # NAME OTHER WHAT
    for file in eval npy train onnx; do
        [ ! -e "$work/$1.$file" ] || cmp "$work/$1.$file" "$work/$2.$file" || wrong "$file: other $3"
    done
}

uses w
uses prefixed --strip-prefix module.
equal_uses w prefixed "with a prefix that is left out"
runs 2 train --strip-prefix module.
one_line '--strip-prefix: needs --weights'

# Weights in other types than float32 count as the float32 that they become, which is said once.
python3 - "$work" <<'PY'
import json, struct, sys
folder = sys.argv[1]
whole = open(folder + "/w.safetensors", "rb").read()
(length,) = struct.unpack("<Q", whole[:8])
header, data = json.loads(whole[8 : 8 + length]), whole[8 + length :]
metadata = header.pop("__metadata__")
arrays = {name: struct.unpack(f"<{(e - b) // 4}f", data[b:e]) for name, what in header.items() for b, e in [what["data_offsets"]]}
halves = {name: struct.unpack(f"<{len(values)}e", struct.pack(f"<{len(values)}e", *values)) for name, values in arrays.items()}


def write(file, arrays, dtype, code, shapes={}):
    head, data = {"__metadata__": metadata}, b""
    for name, values in arrays.items():
        raw = struct.pack(f"<{len(values)}{code}", *values)
        shape = shapes.get(name, header[name]["shape"])
        head[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(head).encode()
    open(f"{folder}/{file}.safetensors", "wb").write(struct.pack("<Q", len(text)) + text + data)


write("rounded", halves, "F32", "f")
write("half", halves, "F16", "e")
write("wide", halves, "F64", "d")
rows, classes = header["W4"]["shape"]
write("other", {**arrays, "W4": arrays["W4"][: rows * 7], "b4": arrays["b4"][:7]}, "F32", "f", {"W4": [rows, 7], "b4": [7]})
write("infinite", {**halves, "b4": (1e300,) + halves["b4"][1:]}, "F64", "d")
PY
uses rounded
for type in half:F16 wide:F64; do
    name=${type%:*}
    uses "$name"
    equal_uses rounded "$name" "of a file in ${type#*:}"
    runs 0 fingerprint "$work/rounded.safetensors"
    cp "$work/out" "$work/fingerprint"
    runs 0 fingerprint "$work/$name.safetensors"
    cmp "$work/out" "$work/fingerprint" || wrong "the fingerprint of a file in ${type#*:}"
    runs 0 eval --weights "$work/$name.safetensors" --limit-test 10
    grep '^note: --weights: ' "$work/err" >"$work/note"
    [ "$(cat "$work/note")" = "note: --weights: converted from ${type#*:} to float32: all" ] || wrong "$called: no note, or another"
done
runs 1 eval --weights "$work/infinite.safetensors" --limit-test 10
one_line "--weights: .*infinite.safetensors: the array 'b4' holds 1e.300 at number 0, which is too large for float32\$"

# What --weights-skip names keeps its first values, and may be of another number of classes.
runs 1 train $small --weights "$work/other.safetensors" --steps 1 --quiet
one_line '--weights: .*the weights have 7 classes, the data 10: parameter W4 '
runs 0 train $small --weights "$work/other.safetensors" --weights-skip 'W4,b[4]' --steps 1 --save "$work/skipped.safetensors" --lr 0
grep -qx 'note: --weights: kept, skipped: W4, b4' "$work/err" || wrong "$called: no note"
runs 0 train $small --steps 1 --save "$work/first.safetensors" --lr 0 --quiet
python3 - "$work" <<'PY' || wrong "what --weights-skip leaves out"
import json, struct, sys


def arrays(file):
    whole = open(f"{sys.argv[1]}/{file}.safetensors", "rb").read()
    (length,) = struct.unpack("<Q", whole[:8])
    places = {name: what["data_offsets"] for name, what in json.loads(whole[8 : 8 + length]).items() if name != "__metadata__"}
    return {name: whole[8 + length + begin : 8 + length + end] for name, (begin, end) in places.items()}


skipped, first, w = arrays("skipped"), arrays("first"), arrays("w")
assert all(skipped[name] == (first if name in ("W4", "b4") else w)[name] for name in skipped) and first["W1"] != w["W1"]
PY
runs 1 train $small --weights "$work/w.safetensors" --weights-skip 'W4,fc.*' --steps 1 --quiet
one_line '--weights: .*: nothing in it or in the network is called "fc\.\*", which is to be skipped; the network.s first parameter is "W1"'
runs 2 train --weights-skip 'fc.*'
one_line '--weights-skip: needs --weights'
runs 2 train --weights w --weights-skip "$(printf '%02000d' 0)"
one_line '--weights-skip: its value is longer than 1023 letters'
runs 2 train --weights w --weights-skip "$(printf 'W,%.0s' $(seq 128))W"
one_line '--weights-skip: has more than 128 names'
python3 -c 'import zipfile, sys; zipfile.ZipFile(sys.argv[1], "w").writestr("w/data.pkl", "x" * 100)' "$work/w.pt"
runs 1 eval --weights "$work/w.pt" --model lenet
one_line '--weights: .*w.pt: no safetensors file but a zip archive of torch.save; in Python: '
ends
