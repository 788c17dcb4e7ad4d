#!/bin/sh
# Every example at a small size: what it prints. examples.sh PROGRAM, with the examples beside it.
. "$(dirname -- "$0")/common.sh"
build=$(CDPATH='' cd -- "$(dirname -- "$program")" && pwd -P)
program=$build/$(basename -- "$program") examples=$build/examples
python3 "$here/make_data.py" "$work/data" 1024 512 || exit 1
LOCKSTEP_DATA=$work/data
export LOCKSTEP_DATA
cd "$work" || exit 1

# example NAME ARGUMENTS...: ends with status 0 and says nothing of a failure; its output is in $work/out.
example() {
    called=$*
    name=$1
    shift
    began=$(date +%s)
    "$examples/$name" "$@" >"$work/out" 2>"$work/err" || wrong "$called: status $?"
    ! grep -q "^$name: " "$work/err" || wrong "$called: a failure"
    printf '%s: %d s\n' "$called" $(($(date +%s) - began))
}

prints() { # PATTERN [TIMES]: a whole line, so often
    times=$(grep -cE "^$1\$" "$work/out")
    [ "$times" = "${2-1}" ] || wrong "$called: $times times '$1', not ${2-1}"
}

says() { # TEXT: lines that follow each other, as they are
    python3 - "$work/out" "$1" <<'PY' || wrong "$called does not say '$1'"
import sys
assert "\n" + sys.argv[2] + "\n" in "\n" + open(sys.argv[1]).read()
PY
}

number='-?[0-9.]+(e-?[0-9]+)?'
acc_line='test acc: [01]\.[0-9][0-9], [0-9]+\.[0-9] sec/epoch on '

# Each says what it takes and what it writes, and refuses what it does not know, before it does anything.
for path in "$here"/../../examples/*.c "$here"/../../examples/networks/*.c; do
    name=$(basename -- "$path" .c)
    [ -x "$examples/$name" ] || continue # own_communicator is one program for each MPI
    [ "$name" != one_step ] || continue  # it is compiled alone, and has a test of its own
    called="$name --help"
    "$examples/$name" --help >"$work/out" 2>"$work/err" || wrong "$called: status $?"
    { grep -qE "^usage: $name( \[|\$)" "$work/out" && grep -qE 'writes (no file|.* to )' "$work/out"; } || wrong "$called does not say what it takes and writes"
    for words in --no-such -1 'none' '1 0x' '1 2 three 4 5'; do
        called="$name $words"
        # shellcheck disable=SC2086 # words
        "$examples/$name" $words >"$work/out" 2>"$work/err"
        [ $? = 2 ] || wrong "$called: not status 2"
        { [ ! -s "$work/out" ] && [ "$(grep -cE "^$name: '.*' is no .*; --help says" "$work/err")" = 1 ]; } || wrong "$called: no line, or more"
    done
done

example from_scratch 1 512
says 'devices: [cpu(0), cpu(1)]'
says 'b1 weight: [0, 0, 0, ..., 0, 0, 0] on cpu(0)'
says 'b1 grad: empty on cpu(0)'
says 'before allreduce:
[[1, 1]] on cpu(0)
[[2, 2]] on cpu(1)
after allreduce:
[[3, 3]] on cpu(0)
[[3, 3]] on cpu(1)'
says 'load into [cpu(0), cpu(1)]'
python3 - "$work/out" <<'PY' || wrong "$called: the scattered 4 x 5"
import re, sys
text = open(sys.argv[1]).read()
whole, parts = re.search(r"^input:\n(.*?)\nload into .*?\noutput:\n(.*?)\ntest acc", text, re.S | re.M).groups()
def rows(text):
    return [[float(n) for n in re.findall(r"[\d.]+", row)] for row in re.findall(r"\[([^][]+)\]", text)]
first, second = re.split(r" on cpu\(0\)\n", parts)
assert second.endswith(" on cpu(1)"), second
whole, first, second = rows(whole), rows(first), rows(second)
assert whole == [[float(5 * i + j) for j in range(5)] for i in range(4)], whole
assert (first, second) == (whole[:2], whole[2:]), (first, second)
PY
prints "$acc_line\[cpu\(0\)\]"
prints "$acc_line\[cpu\(0\), cpu\(1\)\]"
# On one device the program trains the same network to the same bits; 256 images are whole shards on two devices too.
if built_with fingerprints; then
    fingerprint=$("$program" train --devices cpu:0 --seed 0 --epochs 1 --limit 512 --limit-test 512 --quiet 2>"$work/err" | tail -n 1)
    prints "$fingerprint" 2
fi

example concise 1 16
head -n 1 "$work/err" | grep -qE "^two trainings: the first will take about [0-9.]+ minutes, the second [0-9.]+$" ||
    wrong "$called does not begin with how long it will take"
says '0.weight: shape not known before the first forward'
says 'not initialized on cpu(7)'
python3 - "$work/out" <<'PY' || wrong "$called: the forward on parts, and the first filter on each device"
import re, sys
text = open(sys.argv[1]).read()
parts = re.search(r"^\((.*? on cpu\(0\)),\n (.*? on cpu\(1\))\)\n(.*?) on cpu\(0\)\n(.*?) on cpu\(1\)\nnot init", text, re.S | re.M).groups()
assert all(part.count("]") == 3 for part in parts[:2]), parts[:2]  # two rows of logits each
assert parts[2] == parts[3] and parts[2].count("]") == 5, parts[2:]  # (1, 3, 3), equal on both
PY
prints "$acc_line\[cpu\(0\)\]"
prints "$acc_line\[cpu\(0\), cpu\(1\)\]"
! built_with fingerprints || prints 'fingerprint: [0-9a-f]{64}' 2

example three_ways 2 512
for way in 'one device' 'by layers' 'by channels' 'by data'; do
    prints "$way +[1-9][0-9]* bytes moved a step"
done
prints "the ways agree: largest difference $number, where training moved a parameter by $number"

example allreduce 4 4000
says 'all-reduce over [cpu(0), cpu(1), cpu(2), cpu(3)]'
prints '.* ms, +96000 bytes moved: right on every device' 4
example allreduce 3 1000
prints '.*: right on every device' 3
prints 'halving, doubling +needs a power of two'
example allreduce 16 1600
prints '.*: right on every device' 4

example devices 2 0.1
prints "one device +$number ms a step"
prints "a slow one and a fast one, evenly +$number ms a step"
prints "a slow one and a fast one, pulled +$number ms a step: $number times as fast"
prints "sixteen devices +$number ms a step"
prints 'fingerprint [0-9a-f]{16}: the same each time'
# Evenly, the slow one sleeps for 8 shards, 0.8 s; unless the machine is busy beyond measure, others are done long before.
python3 - "$work/out" <<'PY' || wrong "$called: nothing gained"
import re, sys
text = open(sys.argv[1]).read()
alone, gain = (float(re.search(p, text).group(1)) for p in (r"^one device +([\d.]+)", r"([\d.]+) times as fast"))
assert gain > 1.1 or alone > 600, (gain, alone)
PY

example waiting 2 512
prints "waiting (per batch|per epoch|not at all) +[0-9]+ images/s, +[0-9]+% of the time in the calls, fingerprint [0-9a-f]{16}" 4
says 'the fingerprints are equal'

example sweep 2 200 "$work/sweep.svg"
prints " *[0-9]+ +[0-9.]+ \|( [01]\.[0-9]{3}){2}" 6
python3 - "$work/sweep.svg" <<'PY' || wrong "$called: the drawing"
import sys, xml.etree.ElementTree as tree
root = tree.parse(sys.argv[1]).getroot()
lines = [e for e in root if e.tag.endswith("polyline")]
assert len(lines) == 6 and all(len(line.get("points").split()) == 2 for line in lines)
PY

example own_operation 2 1024
prints 'bend: backward against finite differences: [0-9.]+e-0[4-9]'
prints 'test acc: [01]\.[0-9]{2}'
prints 'a of each channel: \[.*\] on cpu\(0\)'

example gan 1 512 "$work/gan.safetensors"
prints 'epoch 1: loss of D 0\.[67][0-9]+, of G 0\.[67][0-9]+'
grep -qF "wrote $work/gan.safetensors: the generator's weights" "$work/err" || wrong "$called does not say what it wrote"

example memory 2 400 "$work/memory.safetensors"
prints 'test acc: (0\.9[0-9]|1\.00)'
grep -qF "wrote $work/memory.safetensors: the weights" "$work/err" || wrong "$called does not say what it wrote"
"$program" fingerprint "$work/memory.safetensors" >"$work/out" || wrong "$called saved nothing that is read"

# A state_dict of torchvision's ResNet-18 in F16, its names as recorded, with values that are random and small.
python3 - "$here/../reference/torchvision_resnet18.txt" "$work/theirs.safetensors" <<'PY'
import json, math, random, struct, sys
random.seed(1)
block = [random.uniform(-0.05, 0.05) for _ in range(4099)]
header, data, end = {}, [], 0
for line in open(sys.argv[1]):
    name, dtype, *shape = line.split()
    shape = [int(size) for size in shape]
    count = math.prod(shape)
    if dtype == "int64":
        raw = struct.pack("<q", 1)
    elif len(shape) == 1:
        raw = struct.pack("<e", 1 if name.endswith(("var", "weight")) else 0) * count
    else:
        raw = (struct.pack(f"<{len(block)}e", *block) * (count // len(block) + 1))[: 2 * count]
    header[name] = {"dtype": "I64" if dtype == "int64" else "F16", "shape": shape, "data_offsets": [end, end + len(raw)]}
    data.append(raw)
    end += len(raw)
text = json.dumps(header).encode()
open(sys.argv[2], "wb").write(struct.pack("<Q", len(text)) + text + b"".join(data))
PY
example pretrained 1 256 "$work/theirs.safetensors"
says 'read 100 of 102 parameters; 20 num_batches_tracked say nothing and are passed over
converted from F16 to float32: all
kept, skipped: fc.weight, fc.bias'
prints 'test acc: [01]\.[0-9]{2}'
"$examples/pretrained" 1 256 "$work/none.safetensors" >"$work/out" 2>"$work/err"
[ $? = 1 ] || wrong "pretrained without weights: not status 1"
grep -q '^pretrained: .*none.safetensors: ' "$work/err" || wrong "pretrained without weights: no line"

# The networks, each with the weights that it saved; PyTorch's programs beside them are run by agreement.sh.
network() { # LINE NAME ARGUMENTS...: what it prints after each of two epochs
    line=$1
    shift
    example "$@" "$work/$1.safetensors"
    prints "epoch [12]: $line" 2
    "$program" fingerprint "$work/$name.safetensors" >/dev/null || wrong "$called saved nothing that is read"
}
network 'test acc [01]\.[0-9]{3}' mobilenet 2 130
network 'test loss [0-9]\.[0-9]{4} a place' unet 2 100
network 'test acc( [01]\.[0-9]{3}){4}' multilabel 2 130
network 'test acc [01]\.[0-9]{3}' lstm 2 500
network 'test acc [01]\.[0-9]{3}' siamese 2 130
network 'test loss 0\.[0-9]{5}' autoencoder 2 130
example transfer 2 130 "$work/marks.safetensors" "$work/transfer.safetensors"
prints 'epoch [12]: test acc [01]\.[0-9]{3}' 6
says 'read 15 of 17 parameters
kept, not in the file: pair.weight, pair.bias
passed over, not in the network: mark.bias, mark.weight'
for name in marks transfer; do
    "$program" fingerprint "$work/$name.safetensors" >/dev/null || wrong "$called saved no $name that is read"
done
network 'test loss [0-9]\.[0-9]{3} a character' transformer 2 40 "$here/../../LICENSE"
[ "$(sed '1,2d' "$work/out" | wc -c)" -gt 40 ] || wrong "$called wrote no text of its own"
for file in "$work/none" /dev/null; do
    "$examples/transformer" 1 40 "$file" >"$work/out" 2>"$work/err"
    [ $? = 1 ] || wrong "transformer without a text: not status 1"
    grep -q "^transformer: $file: no file that can be read, or of too few" "$work/err" || wrong "transformer without a text: no line"
done

example train
prints 'epoch [12]: test acc [01]\.[0-9]{3}' 2
[ -s "$work/own.safetensors" ] || wrong "$called saved nothing"
ends
