#!/bin/sh
# --bn: BatchNorm's statistics over the whole batch are those of one shard of it, on any devices, and other ones than the shards'.
# norm.sh PROGRAM
. "$(dirname -- "$0")/common.sh"
needs fingerprints
python3 "$here/make_data.py" "$work/data" 10 4 || exit 1
LOCKSTEP_DATA=$work/data
export LOCKSTEP_DATA

# ends_with OPTIONS...: the fingerprint of a small run, whose last batch is smaller than the others.
ends_with() {
    runs 0 train --model resnet18 --batch 6 --limit 10 --limit-test 4 --epochs 1 --init he --log "$work/run.jsonl" "$@"
    tail -n 1 "$work/out"
}

one=$(ends_with --shard 6 --devices cpu:0)
for devices in cpu:0 cpu:0-1 cpu:0-2; do
    [ "$(ends_with --bn sync --devices $devices)" = "$one" ] || wrong "--bn sync on $devices: not the fingerprint of --shard 6"
    head -n 1 "$work/run.jsonl" | grep -q '"shard":6,.*"bn":"sync"' || wrong "--bn sync: not in the log"
done
grep -q '^note: with --bn sync one device computes the batch' "$work/err" || wrong "--bn sync: no note of what the devices do"
[ "$(ends_with --bn sync --shard 6 --devices cpu:0)" = "$one" ] || wrong "--bn sync --shard 6: another fingerprint"
shards=$(ends_with --shard 2 --devices cpu:0)
[ "$shards" != "$one" ] || wrong "the statistics of shards are those of the batch"
[ "$(ends_with --bn shard --shard 2 --devices cpu:0)" = "$shards" ] || wrong "--bn shard is not what it is without"
ends
