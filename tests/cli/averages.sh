#!/bin/sh
# train --ema: the same bits on any devices and after a break; what a run is judged by, saves and ends with is the average, and its own
# weights are not touched by it. averages.sh PROGRAM
. "$(dirname -- "$0")/common.sh"
needs 'weights files' fingerprints
python3 "$here/make_data.py" "$work/data" 400 120 || exit 1
LOCKSTEP_DATA=$work/data
export LOCKSTEP_DATA
small="--limit 300 --limit-test 100 --batch 64 --shard 16 --epochs 2 --lr 0.3 --momentum 0.9"
ema="--ema 0.75"
kept="--checkpoint $work/kept"

last() {
    tail -n 1 "$work/out"
}

# shellcheck disable=SC2086 # options
runs 0 train $small --devices cpu:0 --steps 1 --quiet
first=$(last)
# shellcheck disable=SC2086
runs 0 train $small --devices cpu:0 --quiet --save "$work/without.safetensors"
without=$(last)

# shellcheck disable=SC2086
runs 0 train $small $ema --devices cpu:0 --steps 1 --quiet
[ "$(last)" = "$first" ] || wrong "$called: the first average is not the weights"
# shellcheck disable=SC2086
runs 0 train $small $ema --devices cpu:0 --save "$work/averages.safetensors" --log "$work/run.jsonl"
whole=$(last) result=$(tail -n 2 "$work/out" | head -n 1)
grep -q ', judged and saved by the average of weights with ema 0.75, schedule' "$work/err" || wrong "$called: its heading does not say it"
[ "$whole" != "$without" ] || wrong "$called: the fingerprint of the weights"
runs 0 fingerprint "$work/averages.safetensors"
[ "$(last)" = "$whole" ] || wrong "$called: saved was something else"
runs 0 eval --weights "$work/averages.safetensors" --limit-test 100 --shard 16
grep -q "$(printf '%s' "$result" | sed -e 's/^\(test acc: [0-9.]*\).*/\1/')" "$work/out" || wrong "$called: judged was something else: $result"

for where in 'cpu:0-1' 'cpu:0-2 --isa avx2'; do
    # shellcheck disable=SC2086
    runs 0 train $small $ema --quiet --devices $where
    [ "$(last)" = "$whole" ] || wrong "$called: another fingerprint"
done
# shellcheck disable=SC2086
runs 0 train $small $ema $kept --quiet --devices cpu:0-1 --steps 7
# shellcheck disable=SC2086
runs 1 train $small $kept --quiet --resume
one_line '--resume: .*ema was 0.75 and is not set now; go on with what was, or say --allow-changed ema$'
# shellcheck disable=SC2086
runs 1 train $small --ema 0.75 --ema-warmup $kept --quiet --resume
one_line '--resume: .*ema_warmup was not set and is yes now; go on with what was, or say --allow-changed ema-warmup$'
cp -r "$work/kept" "$work/other"
# shellcheck disable=SC2086
runs 0 train $small $ema $kept --quiet --devices cpu:0-2 --resume
[ "$(last)" = "$whole" ] || wrong "$called: another fingerprint after a break"
# shellcheck disable=SC2086
runs 0 train $small $ema $kept --quiet --resume
[ "$(last)" = "$whole" ] || wrong "$called: another fingerprint of the complete run"
# The averages are no part of the weights' own way.
# shellcheck disable=SC2086
runs 0 train $small --checkpoint "$work/other" --quiet --resume --allow-changed ema
[ "$(last)" = "$without" ] || wrong "$called: the weights have learned otherwise"
rm -rf "$work/kept"
# shellcheck disable=SC2086
runs 0 train $small $kept --quiet --steps 7
# shellcheck disable=SC2086
runs 0 train $small --ema 0.75 --ema-warmup $kept --quiet --resume --allow-changed ema,ema-warmup
[ "$(last)" != "$whole" ] || wrong "$called: averages of updates that were none of its"

# The best epoch is the averages' best: of a rate that makes the weights jump, the first, or the second.
# shellcheck disable=SC2086
runs 0 train $small $ema --validate 60 --keep best --log "$work/run.jsonl" --save "$work/best.safetensors"
best=$(last)
python3 - "$work/run.jsonl" >"$work/epoch" <<'PY' || wrong "$called: its log"
import json, sys
epochs = [line for line in map(json.loads, open(sys.argv[1], encoding="utf-8")) if "epoch" in line]
print(max(epochs, key=lambda line: line["val_acc"])["epoch"])
PY
# shellcheck disable=SC2086
runs 0 train $small $ema --validate 60 --quiet $([ "$(cat "$work/epoch")" = 1 ] && echo --steps 4)
[ "$(last)" = "$best" ] || wrong "$called: not the weights of epoch $(cat "$work/epoch")"

# BatchNorm's statistics: the network's own, or averaged as the weights are. The weights are the same both times.
tiny="--model resnet18 --limit 8 --limit-test 4 --batch 4 --shard 4 --epochs 2 --quiet --no-shuffle"
for steps in 1 2 3; do
    # shellcheck disable=SC2086
    runs 0 train $tiny --steps $steps --save "$work/own$steps.safetensors"
done
# shellcheck disable=SC2086
runs 0 train $tiny --steps 3 $ema --save "$work/weights.safetensors"
# shellcheck disable=SC2086
runs 0 train $tiny --steps 3 $ema --ema-buffers --devices cpu:0 --save "$work/both.safetensors"
both=$(last)
python3 - "$work" <<'PY' || wrong "$called: its statistics"
import array, json, sys

def read(name):
    content = open(f"{sys.argv[1]}/{name}.safetensors", "rb").read()
    begin = 8 + int.from_bytes(content[:8], "little")
    return {name: array.array("f", content[begin + about["data_offsets"][0]:begin + about["data_offsets"][1]])
            for name, about in json.loads(content[8:begin]).items() if name != "__metadata__"}

own, weights, both = [read(f"own{i}") for i in (1, 2, 3)], read("weights"), read("both")
statistics = [name for name in both if "running_" in name]
assert len(statistics) == 34, statistics
for name in both:
    if name not in statistics:
        assert both[name] == weights[name], name
        continue
    assert weights[name] == own[2][name], name
    average = own[0][name]
    for later in own[1:]:
        average = [0.75 * a + 0.25 * b for a, b in zip(average, later[name])]
    near = 1e-6 * max(map(abs, average)) # three rounded sums
    assert all(abs(a - b) <= near for a, b in zip(both[name], average)), name
    assert both[name] != own[2][name], name
PY
rm -rf "$work/kept"
# shellcheck disable=SC2086
runs 0 train $tiny --steps 2 $ema --ema-buffers $kept
# shellcheck disable=SC2086
runs 1 train $tiny --steps 3 $ema $kept --resume
one_line '--resume: .*ema_buffers was yes and is not set now; go on with what was, or say --allow-changed ema-buffers$'
# shellcheck disable=SC2086
runs 0 train $tiny --steps 3 $ema --ema-buffers $kept --resume --devices cpu:0-1
[ "$(last)" = "$both" ] || wrong "$called: another fingerprint after a break"

# A run that comes to no good end leaves the weights that there are, and says which.
# shellcheck disable=SC2086
runs 1 train $small $ema --quiet --lr 1e20 --init he --save "$work/lost.safetensors"
grep -q 'the weights of step [0-9]* (not averaged).* are in' "$work/err" || wrong "$called: not told what the weights are"

runs 2 train --ema 1
one_line '--ema: must be at least 0 and below 1'
runs 2 train --ema-warmup
one_line '--ema-warmup: needs --ema'
runs 2 train --ema-buffers
one_line '--ema-buffers: needs --ema'
ends
