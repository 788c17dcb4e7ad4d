#!/bin/sh
# --trace on cards: operations, copies and sums of each device on a line of its own, beside its thread's; and bench --profile there.
# trace_card.sh PROGRAM [FOLDER]: on this machine's one card; or with cards that are the host (tests/emulated), where the folder has the
# plugin and a driver.
. "$(dirname -- "$0")/common.sh"
lists='cuda:0 cuda:0x2'
apart=1 # microseconds by which events may seem to overlap
if [ $# -gt 1 ]; then
    lists="$lists cuda:0-1"
    apart=0.002
    mkdir "$work/bin"
    cp "$program" "$work/bin/lockstep" && ln -s "$2/lockstep-cuda.so" "$work/bin/" || exit 1
    program=$work/bin/lockstep # the plugin beside a program comes first
    LD_LIBRARY_PATH=$2
    export LD_LIBRARY_PATH
fi
python3 "$here/make_data.py" "$work/data" 48 16 || exit 1
LOCKSTEP_DATA=$work/data
export LOCKSTEP_DATA

cat >"$work/check.py" <<'PY'
"""check.py TRACE APART CARDS DEVICE...: what each device's card did, in two steps of three shards."""
import json, sys

path, apart, cards, devices = sys.argv[1], float(sys.argv[2]), int(sys.argv[3]), sys.argv[4:]
events = json.load(open(path, encoding="utf-8"))["traceEvents"]
names = {e["tid"]: e["args"]["name"] for e in events if e["name"] == "thread_name"}
wanted = ["program", "steps"] + [line for d in devices for line in (d, d + ", the card")] + ["checkpoint writer"]
assert [names[tid] for tid in sorted(names)] == wanted, names
spans = {name: [e for e in events if e["ph"] == "X" and names[e["tid"]] == name] for name in wanted}
card = [e for d in devices for e in spans[d + ", the card"]]
assert all(e["cat"] in ("operation", "data", "copy", "reduce") for e in card)
assert not any(e["cat"] in ("operation", "data", "copy") for d in devices for e in spans[d])
operations = {e["name"] for e in card if e["cat"] == "operation"}
assert {name.split()[0] for name in operations} >= {"conv", "winograd_data", "conv_weight", "avg_pool_backward"}, operations
assert {e["args"]["pass"] for e in card if e["cat"] == "operation"} == {"forward", "backward to the data", "backward to the weights"}
count = {cat: sum(e["cat"] == cat for e in card) for cat in ("operation", "data", "copy", "reduce")}
shards = sum(e["cat"] == "shard" for d in devices for e in spans[d])
assert shards == 6 and count["data"] == shards and count["operation"] % shards == 0, count
copies = [e["name"] for e in card if e["cat"] == "copy"]
sums = [e for e in card if e["cat"] == "reduce"]
if cards == 1:
    assert copies.count("copy to the card") == copies.count("copy from the card") == shards and sums, copies
    # One card does one thing after another, whichever of its devices it is for.
    behind = 0
    for e in sorted(card, key=lambda e: e["ts"]):
        assert e["ts"] >= behind - apart, e
        behind = e["ts"] + e["dur"]
else: # besides, weights to the second card, and its gradients to the first, which sums
    brought = sum(e["cat"] == "shard" for e in spans[devices[1]])
    assert copies.count("copy from the card") == shards + brought and brought > 0, copies
    assert copies.count("copy to the card") > shards and sums == [e for e in spans[devices[0] + ", the card"] if e["cat"] == "reduce"], copies
    assert sums
begin = min(e["ts"] for e in spans["steps"])
end = max(e["ts"] + e["dur"] for e in spans["steps"])
assert all(begin - 200 <= e["ts"] and e["ts"] + e["dur"] <= end + 200 for e in card if e["cat"] != "copy")
PY

small="--limit-test 16 --batch 24 --shard 8 --epochs 1 --lr 0.1"
# shellcheck disable=SC2086 # options
runs 0 train $small --quiet --devices cpu:0
tail -n 1 "$work/out" >"$work/without"
for list in $lists; do
    case $list in
    cuda:0) cards=1 devices='gpu(0)' ;;
    cuda:0x2) cards=1 devices='gpu(0.0) gpu(0.1)' ;;
    *) cards=2 devices='gpu(0) gpu(1)' ;;
    esac
    # shellcheck disable=SC2086
    runs 0 train $small --devices $list --trace "$work/t.json"
    tail -n 1 "$work/out" | cmp -s - "$work/without" || wrong "--trace on $list changes the fingerprint"
    # shellcheck disable=SC2086
    python3 "$work/check.py" "$work/t.json" $apart $cards $devices || wrong "the trace of $list"
    grep -qE '^trace: a step takes [0-9.]+ ms; .* [0-9.]+ % went into computing, ' "$work/err" || wrong "$list: where the time went is not said"
    grep -qE '^trace: [0-9]+ % of the reducing was hidden behind computing; ' "$work/err" || wrong "$list: what was hidden is not said"
done
# A card that fails is said once, and costs nothing but itself; it may come too late for a shard.
if [ $# -gt 1 ]; then
    for try in 1 2 3 4 5; do
        # shellcheck disable=SC2086
        EMULATED_LOST=cuda:1 runs 0 train $small --quiet --devices cuda:0-1
        tail -n 1 "$work/out" | cmp -s - "$work/without" || wrong "a lost card changes the fingerprint"
        [ -s "$work/err" ] && break
        [ $try -lt 5 ] || wrong "a lost card is not said"
    done
    printf '%s\n' 'lockstep: devices: cuda:1: a copy between cards failed: the card is lost; the others go on without it' |
        cmp -s - "$work/err" || wrong "a lost card is not said in one line"
fi
# Two models would round differently, but not in f32. NVIDIA's libraries, which some variables turn round, do not compute in f32.
if [ $# -gt 1 ]; then
    # shellcheck disable=SC2086
    EMULATED_OTHER=cuda:1 NVIDIA_TF32_OVERRIDE=1 CUBLAS_EMULATE_SINGLE_PRECISION=1 runs 0 train $small --quiet --devices cuda:0-1
    tail -n 1 "$work/out" | cmp -s - "$work/without" ||
        wrong "two models of cards have two fingerprints, or variables of NVIDIA's libraries change the fingerprint"
    # shellcheck disable=SC2086
    EMULATED_OTHER=cuda:1 runs 1 train $small --devices cuda:0-1 --dtype bf16
    grep -q '^lockstep: --devices: cuda:0 (the host) and cuda:1 (another) are two models of GPU' "$work/err" ||
        wrong "two models are not refused by name"
    # shellcheck disable=SC2086
    NVIDIA_TF32_OVERRIDE=0 runs 1 train $small --devices cuda:0 --dtype tf32
    grep -q 'NVIDIA_TF32_OVERRIDE is set, and turns TF32 off against --dtype; unset it' "$work/err" || wrong "TF32 may be turned off"
    # shellcheck disable=SC2086
    CUBLAS_EMULATE_SINGLE_PRECISION=1 runs 1 train $small --devices cuda:0 --dtype bf16
    grep -q 'CUBLAS_EMULATE_SINGLE_PRECISION is set' "$work/err" || wrong "cuBLAS may be turned round"
fi
# A core beside a card: its operations are its own, and all have the same bits.
# shellcheck disable=SC2086
runs 0 train $small --devices cpu:0,cuda:0 --trace "$work/t.json"
tail -n 1 "$work/out" | cmp -s - "$work/without" || wrong "a core beside a card has another fingerprint"
python3 - "$work/t.json" <<'PY' || wrong "the trace of cores and cards"
import json, sys
events = json.load(open(sys.argv[1], encoding="utf-8"))["traceEvents"]
names = {e["tid"]: e["args"]["name"] for e in events if e["name"] == "thread_name"}
assert [names[tid] for tid in sorted(names)] == ["program", "steps", "cpu(0)", "gpu(0)", "gpu(0), the card", "checkpoint writer"], names
shards = [names[e["tid"]] for e in events if e["ph"] == "X" and e["cat"] == "shard"]
gathered = [names[e["tid"]] for e in events if e["ph"] == "X" and e["cat"] == "data"]
assert len(shards) == 6 and sorted(gathered) == sorted(name + ", the card" * (name == "gpu(0)") for name in shards), (shards, gathered)
PY
# shellcheck disable=SC2086
runs 0 train $small --quiet --devices cpu:0,cuda:0 --verify 2
tail -n 1 "$work/out" | cmp -s - "$work/without" || wrong "--verify on a core and a card changes the fingerprint"
# shellcheck disable=SC2086
runs 1 train $small --devices cpu:0,cuda:0 --dtype bf16
one_line '--dtype: bf16 is for GPUs; a CPU computes in f32'
runs 0 bench --profile --model lenet --devices cuda:0 --dtype bf16 --batch 16 --shard 8 --steps 1
for words in '^lenet on \[gpu\(0\)\]: 1 steps of 16 images, shard 8, dtype bf16$' '^W2 .* conv +forward +2 +[0-9.]+ ' \
    '^copies to the cards and back +[0-9.]+ ' '^sum +[0-9.]+ 100.00 %$' '^a step by the clock: [0-9.]+ ms on 1 card; '; do
    grep -qE -- "$words" "$work/out" || wrong "bench --profile says nothing like $words"
done
ends
