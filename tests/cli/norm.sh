#!/bin/sh
# --bn: BatchNorm's statistics over the whole batch are those of one shard of it, on any devices, and other ones than the shards'.
# norm.sh PROGRAM
. "$(dirname -- "$0")/common.sh"
needs fingerprints
python3 "$here/make_data.py" "$work/data" 60 20 || exit 1
LOCKSTEP_DATA=$work/data
export LOCKSTEP_DATA

# ends_with OPTIONS...: the fingerprint of a small run, whose last batch is smaller than the others.
ends_with() {
    runs 0 train --model resnet18 --batch 24 --limit 40 --limit-test 16 --epochs 1 --init he --log "$work/run.jsonl" "$@"
    tail -n 1 "$work/out"
}

one=$(ends_with --shard 24 --devices cpu:0)
for devices in cpu:0 cpu:0-1 cpu:0-2; do
    [ "$(ends_with --bn sync --devices $devices)" = "$one" ] || wrong "--bn sync on $devices: not the fingerprint of --shard 24"
    head -n 1 "$work/run.jsonl" | grep -q '"shard":24,.*"bn":"sync"' || wrong "--bn sync: not in the log"
done
grep -q '^note: with --bn sync one device computes the batch' "$work/err" || wrong "--bn sync: no note of what the devices do"
[ "$(ends_with --bn sync --shard 24 --devices cpu:0)" = "$one" ] || wrong "--bn sync --shard 24: another fingerprint"
shards=$(ends_with --shard 8 --devices cpu:0)
[ "$shards" != "$one" ] || wrong "the statistics of shards are those of the batch"
[ "$(ends_with --bn shard --shard 8 --devices cpu:0)" = "$shards" ] || wrong "--bn shard is not what it is without"
ends
