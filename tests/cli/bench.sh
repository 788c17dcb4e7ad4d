#!/bin/sh
# bench: its tables and their JSON, with sizes so small that no time says anything.
. "$(dirname -- "$0")/common.sh"
tiny="--batch 24 --shard 8 --steps 2"

begun=$(date +%s)
# shellcheck disable=SC2086 # options
runs 0 bench $tiny --model lenet --devices cpu:0-2 --json "$work/speeds.json"
python3 "$here/recompute.py" bench "$work/speeds.json" "$work/out" $(($(date +%s) - begun + 1)) || wrong "the table of speeds"
grep -q 'batch 24, shard 8, conv auto, isa ' "$work/out" || wrong "the settings are not said"
grep -vE '^note: core [0-9]+ is busy: ' "$work/err" >"$work/said"
[ "$(cat "$work/said")" = "wrote $work/speeds.json: the figures" ] || wrong "bench says on stderr: $(cat "$work/said")"

runs 0 bench --batch 1 --shard 1 --steps 1 --conv direct --devices cpu:0
[ "$(grep -cE '^(lenet|resnet18) +\[' "$work/out")" = 2 ] || wrong "not a line for each network"
# A device on a core of its own lets more be expected, and how many are worth it; shards that are shared out evenly gain.
# Beside another program none is: that is said in their place.
begun=$(date +%s)
cores=$(python3 -c 'import os; print(min(2, len(os.sched_getaffinity(0))))')
runs 0 bench --batch 64 --shard 4 --steps 6 --model lenet --devices cpu:0-$((cores - 1)) --json "$work/many.json"
python3 "$here/recompute.py" bench "$work/many.json" "$work/out" $(($(date +%s) - begun + 1)) || wrong "the speed of many shards"
if grep -q '^note: core [0-9]* is busy: ' "$work/err"; then
    part_not_run forecasts "a core is busy"
else
    grep -qE '^lenet +recommended: [0-9]+ devices?, for 16 shards a step ' "$work/out" || wrong "no number of devices is recommended"
    for devices in $((2 * cores)) 8 16; do
        grep -qE "^lenet +$devices +[0-9.]+ +[0-9.]+ +forecast\$" "$work/out" || wrong "no forecast for $devices devices"
    done
fi
if has_tool "a busy core" taskset; then
    core=$(python3 -c 'import os; print(sorted(os.sched_getaffinity(0))[0])')
    spinners=
    for spinner in 1 2 3; do
        taskset -c "$core" sh -c 'while :; do :; done' &
        spinners="$spinners $!"
    done
    runs 0 bench --batch 64 --shard 4 --steps 1 --model lenet --devices cpu:0
    # shellcheck disable=SC2086 # numbers
    kill $spinners
    wait 2>/dev/null
    grep -qE "^note: core $core is busy: ([0-7]?[0-9]|80) % of it is to be had beside .*; these speeds .* no number of devices is recommended; " "$work/err" ||
        wrong "a busy core is not said"
    [ "$(grep -c '^note: ' "$work/err")" = 1 ] || wrong "a busy core is said more than once"
    grep -qE 'recommended|forecast' "$work/out" && wrong "beside another program a number of devices is recommended"
fi
runs 0 bench --batch 1 --shard 1 --steps 1 --isa plain --model lenet --devices cpu:0
grep -q 'conv auto, isa plain' "$work/out" || wrong "--isa is not heeded"

# shellcheck disable=SC2086
runs 0 bench $tiny --profile --model lenet --devices cpu:0-1 --json "$work/lenet.json"
python3 "$here/recompute.py" profile "$work/lenet.json" "$work/out" || wrong "LeNet's profile"
# shellcheck disable=SC2086
runs 0 bench $tiny --profile --model resnet18 --devices cpu:0 --json "$work/resnet18.json"
python3 "$here/recompute.py" profile "$work/resnet18.json" "$work/out" || wrong "ResNet's profile"

python3 - "$work" <<'PY' || wrong "the JSON"
import json, sys

work = sys.argv[1]
speeds = json.load(open(work + "/speeds.json"))
assert (speeds["batch"], speeds["shard"], speeds["conv"]) == (24, 8, "auto"), speeds
assert [s["device_count"] for s in speeds["speeds"]] == [1, 2, 3]
assert speeds["speeds"][0]["forecast_images_per_second"] is None
assert all(s["images_per_second"] > 0 and s["model"] == "lenet" and s["steps"] == 2 for s in speeds["speeds"])
for model, first in ("lenet", "W1"), ("resnet18", "0.weight"):
    (p,) = json.load(open(f"{work}/{model}.json"))["profiles"]
    assert (p["model"], p["steps"], p["images"]) == (model, 2, 48), p
    rows = p["operations"]
    assert [row["seconds"] for row in rows] == sorted((row["seconds"] for row in rows), reverse=True)
    assert all(row["calls"] == 6 for row in rows)
    assert {row["direction"] for row in rows} == {"forward", "data", "weight"}
    assert sorted(row["direction"] for row in rows if row["parameter"] == first) == ["forward", "weight"]
    assert any("winograd" in row["operation"] for row in rows)
    # A linear layer is one, though a convolution of one tap computes it; a layer may have strides.
    if model == "lenet":
        kinds = {(row["parameter"], row["operation"].split("_")[0], row["in"], row["out"], row["kernel"]) for row in rows if row["parameter"] in ("W2", "W3")}
        assert kinds == {("W2", "winograd", "20x13x13", "50x8x8", 5), ("W3", "linear", "800x1x1", "128x1x1", 0)}, kinds
        assert [row["parameter"] for row in rows].count("W2") == [row["parameter"] for row in rows].count("W3") == 3, rows
    else:
        strided = {(row["in"], row["out"], row["stride"]) for row in rows if row["layer"] == "resnet_block2.0.conv1" and row["kernel"]}
        assert strided == {("64x28x28", "128x14x14", 2)}, strided
    # An image through every convolution: forward, the gradient of the weights, and of the data but for the first.
    macs = {d: sum(row["flops"] for row in rows if row["direction"] == d) / 48 / 2 for d in ("forward", "data", "weight")}
    assert macs["forward"] == macs["weight"] > macs["data"] > 0.8 * macs["forward"], macs
    assert p["core_flops_per_second"] > 0 and p["core_bytes_per_second"] > 0
PY

runs 2 bench extra
one_line 'bench: .*extra'
runs 2 bench --model vgg
one_line "--model: 'vgg'"
runs 2 bench --steps 0
one_line '--steps: '
runs 2 bench --devices cpu:x
one_line '--devices: '
runs 1 bench --json "$work/nowhere/x.json"
one_line '--json: .*nowhere'
"$program" bench >&- 2>"$work/err"
got=$?
[ "$got" = 1 ] || wrong "bench on closed stdout: status $got, not 1"
ends
