#!/bin/sh
# --trace: Chrome's trace format as Perfetto takes it. Spans nest, what a device is at fills every step, nothing is lost or changed by
# it; and what the run says it comes to.
. "$(dirname -- "$0")/common.sh"
python3 "$here/make_data.py" "$work/data" 640 64 || exit 1
LOCKSTEP_DATA=$work/data
export LOCKSTEP_DATA
small="--limit-test 64 --epochs 2 --batch 128 --shard 32 --lr 0.3"

cat >"$work/check.py" <<'PY'
"""check.py TRACE DEVICES STEPS: the format, and that all of it fits together."""
import json, sys

path, devices, steps = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
trace = json.load(open(path, encoding="utf-8"))
assert trace["displayTimeUnit"] in ("ms", "ns") and isinstance(trace["otherData"], dict)
events = trace["traceEvents"]
lines, spans = {}, {}
for event in events:
    assert isinstance(event["pid"], int) and isinstance(event["tid"], int) and isinstance(event["name"], str) and event["name"], event
    assert event["ph"] in ("M", "X"), event
    if event["ph"] == "M":
        assert event["name"] in ("process_name", "thread_name", "thread_sort_index"), event
        if event["name"] == "thread_name":
            lines[event["tid"]] = event["args"]["name"]
        continue
    assert isinstance(event["ts"], (int, float)) and isinstance(event["dur"], (int, float)) and event["dur"] >= 0, event
    assert event["cat"] in ("wait", "shard", "help", "evaluation", "reduce", "operation", "data", "step", "checkpoint", "program"), event
    assert set(event.get("args", {})) <= {"step", "pass"}, event
    spans.setdefault(lines[event["tid"]], []).append(event)
assert len({event["pid"] for event in events}) == 1
assert list(lines.values()) == ["program", "steps"] + [f"cpu({i})" for i in range(devices)] + ["checkpoint writer"], lines

# On each line every span lies within the one around it, to the nanosecond: Perfetto drops what overlaps.
for name, line in spans.items():
    for event in line:
        event["ts"], event["dur"] = round(1000 * event["ts"]), round(1000 * event["dur"])
    line.sort(key=lambda e: (e["ts"], -e["dur"]))
    around = []
    for event in line:
        while around and around[-1]["ts"] + around[-1]["dur"] <= event["ts"]:
            around.pop()
        assert not around or event["ts"] + event["dur"] <= around[-1]["ts"] + around[-1]["dur"], (name, event, around[-1])
        event["top"] = not around
        event["within"] = around[-1]["cat"] if around else None
        around.append(event)

# In every step each device's line is full.
told = sorted(spans["steps"], key=lambda e: e["args"]["step"])
assert len(told) == steps and [e["args"]["step"] for e in told] == list(range(told[0]["args"]["step"], told[0]["args"]["step"] + steps)), len(told)
worst = 0
for step in told:
    begin, end = step["ts"], step["ts"] + step["dur"]
    for i in range(devices):
        filled = sum(max(0, min(end, e["ts"] + e["dur"]) - max(begin, e["ts"])) for e in spans[f"cpu({i})"] if e["top"])
        worst = max(worst, abs(filled / step["dur"] - 1))
assert worst < 0.02, worst
print(f"{len(events)} events, {steps} steps; a step and what its devices are at differ by at most {100 * worst:.3f} %")

of_devices = [e for i in range(devices) for e in spans[f"cpu({i})"]]
names = {e["name"].split()[0] for e in of_devices if e["cat"] == "operation"}
assert {"winograd", "channel_sum"} <= names or {"conv", "conv_weight"} <= names, names
assert {e["name"] for e in of_devices} >= {name + layer for name in ("linear", "linear_data", "linear_weight") for layer in (" W3", " W4")}, names
assert all(e["within"] in ("shard", "help") for e in of_devices if e["cat"] in ("operation", "data"))
assert {e["args"]["pass"] for e in of_devices if e["cat"] == "operation"} == {"forward", "backward to the data", "backward to the weights"}
for category in ("shard", "data", "reduce"):
    assert any(e["cat"] == category for e in of_devices), category
# Every shard is gathered once and then of the same operations, whole or in parts, which take most of it: of one shard at least, as
# other programs may take the core between any two. Others help: with some parts, which the shard's device then waits for, or with all of
# them, where it was kept from its own.
kinds, shares = set(), []
helps = [e for e in of_devices if e["cat"] == "operation" and e["within"] == "help"]
for i in range(devices):
    line = spans[f"cpu({i})"]
    for shard in (e for e in line if e["cat"] == "shard"):
        end = shard["ts"] + shard["dur"]
        inside = [e for e in line if e["within"] == "shard" and shard["ts"] <= e["ts"] and e["ts"] + e["dur"] <= end]
        assert sum(e["cat"] == "data" for e in inside) == 1, inside
        own = frozenset((e["name"], e["args"]["pass"]) for e in inside if e["cat"] == "operation")
        helped = [e for e in helps if shard["ts"] <= e["ts"] and e["ts"] + e["dur"] <= end]
        kinds.add((own, frozenset((e["name"], e["args"]["pass"]) for e in helped)))
        at, filled = shard["ts"], 0
        for e in sorted(helped + [e for e in inside if e["cat"] in ("operation", "data")], key=lambda e: e["ts"]):
            filled += max(0, e["ts"] + e["dur"] - max(at, e["ts"]))
            at = max(at, e["ts"] + e["dur"])
        shares.append(filled / shard["dur"])
every = max((own for own, helped in kinds), key=len)
assert len(every) > 10 and all(own <= every <= own | helped for own, helped in kinds), kinds
assert 0.5 < max(shares) <= 1, shares
if len(sys.argv) > 4:
    own = [e["name"] for e in spans["program"]]
    assert [name for name in own if name.startswith("epoch")] == ["epoch 1", "epoch 2"], own
    assert own.count("evaluation") == 2, own
    assert sum(e["name"].startswith("evaluate shard") for e in of_devices) == 2 * 2, "shards of the evaluation"
    assert sum(e["cat"] == "shard" for e in of_devices) == 2 * 20, "shards"
    assert len(spans["checkpoint writer"]) >= 2 and own.count("checkpoint") >= 1, own
PY

if has checkpoints 'weights files'; then
    keep="--checkpoint $work/kept --checkpoint-every 5" all=all
else
    keep='' all=''
fi
# shellcheck disable=SC2086 # options
runs 0 train $small --devices cpu:0 --quiet
tail -n 1 "$work/out" >"$work/without"
# shellcheck disable=SC2086
runs 0 train $small $keep --devices cpu:0-1 --trace "$work/t.json" --log "$work/t.jsonl"
tail -n 1 "$work/out" | cmp -s - "$work/without" || wrong "--trace changes the fingerprint"
[ "$(wc -l <"$work/out")" = 2 ] || wrong "not two lines on stdout"
# shellcheck disable=SC2086
python3 "$work/check.py" "$work/t.json" 2 10 $all || wrong "the trace"
python3 "$here/recompute.py" trace "$work/t.json" "$work/err" "$work/t.jsonl" || wrong "what is said is not what the spans show"
grep -qE '^trace: to change: ' "$work/err" || wrong "what to change is not said"
[ "$(find "$work" -maxdepth 1 -name '.t.json*')" = '' ] || wrong "something is left beside the trace"

# Devices that share cores.
# shellcheck disable=SC2086
runs 0 train $small --devices cpu:0-4 --epochs 1 --trace "$work/five.json" --log "$work/five.jsonl"
python3 "$here/recompute.py" trace "$work/five.json" "$work/err" "$work/five.jsonl" || wrong "what is said of five devices is not what the spans show"
python3 "$work/check.py" "$work/five.json" 5 5 || wrong "the trace of five devices"

if [ "$(nproc)" -ge 2 ]; then
    # Five shards for two devices: with a batch of another size both would always have work.
    # shellcheck disable=SC2086
    runs 0 train $small --devices cpu:0-1 --epochs 1 --batch 160 --trace "$work/odd.json"
    grep -q 'trace: to change: 5 shards a step do not divide by 2 devices: .*--batch 192 would feed all' "$work/err" ||
        wrong "shards that do not divide are not said"

    # A device that another program has half of is named.
    taskset -c "$(python3 -c 'import os; print(sorted(os.sched_getaffinity(0))[1])')" sh -c 'while :; do :; done' &
    spinner=$!
    # shellcheck disable=SC2086
    runs 0 train $small --devices cpu:0-1 --epochs 15 --trace "$work/busy.json"
    kill "$spinner"
    wait "$spinner" 2>/dev/null
    grep -qE '^trace: to change: other programs had the core of cpu\(1\) for [1-9][0-9] % ' "$work/err" || wrong "a busy core is not named"
else
    part_not_run "what to change on two cores" "there is one"
fi

# Over several processes it is refused by name.
build=$(CDPATH='' cd -- "$(dirname -- "$program")" && pwd -P)
if [ -e "$build/lockstep-mpich.so" ] && command -v mpirun.mpich >/dev/null; then
    timeout 120 mpirun.mpich -n 2 "$build/$(basename -- "$program")" train --quiet --trace "$work/ranks.json" >"$work/out" 2>"$work/err" &&
        wrong "two ranks: --trace is taken"
    grep -q '^lockstep: .*--trace: works within one process so far' "$work/err" || wrong "two ranks: --trace is not refused by name"
    [ ! -e "$work/ranks.json" ] || wrong "two ranks: a trace all the same"
else
    part_not_run ranks "there is no MPICH"
fi

# With nothing on stderr; stopped in the middle, what was there is written; what cannot be is refused or named.
# shellcheck disable=SC2086
runs 0 train $small --devices cpu:0 --quiet --trace "$work/quiet.json"
[ ! -s "$work/err" ] || wrong "--quiet says something"
"$program" train --batch 64 --limit-test 10 --epochs 100000 --quiet --log "$work/stopped.jsonl" --trace "$work/stopped.json" >"$work/out" 2>"$work/err" &
running=$!
until grep -q '^{"step":20,' "$work/stopped.jsonl" 2>/dev/null || ! kill -0 "$running" 2>/dev/null; do
    sleep 0.1
done
kill -TERM "$running"
wait "$running"
got=$?
[ "$got" = 143 ] || wrong "SIGTERM: status $got, not 143"
python3 -c 'import json, sys; assert len(json.load(open(sys.argv[1]))["traceEvents"]) > 100' "$work/stopped.json" || wrong "the trace of a stopped run"
(ulimit -f 8 && exec "$program" train --limit-test 64 --epochs 2 --devices cpu:0 --quiet --trace "$work/full.json") >"$work/out" 2>"$work/err"
got=$?
called="--trace on a disk that is full"
[ "$got" = 1 ] || wrong "$called: status $got, not 1"
grep -q '^lockstep: --trace: .*full.json: File too large$' "$work/err" || wrong "$called: is not named"
[ ! -e "$work/full.json" ] && [ "$(find "$work" -maxdepth 1 -name '.full.json*')" = '' ] || wrong "$called: something is left"
# shellcheck disable=SC2086
runs 1 train $small --devices cpu:0 --quiet --lr 1e20 --trace "$work/broken.json"
[ ! -e "$work/broken.json" ] || wrong "a run that failed left a trace"
[ "$(find "$work" -maxdepth 1 -name '.broken.json*')" = '' ] || wrong "a run that failed left something"
ends
