#!/bin/sh
# --bn: BatchNorm's statistics over a batch, or over several shards of it, are the same on any devices, also where a run goes on
# on others, and other ones than the shards'.
# norm.sh PROGRAM
. "$(dirname -- "$0")/common.sh"
needs fingerprints
python3 "$here/make_data.py" "$work/data" 8 2 || exit 1
LOCKSTEP_DATA=$work/data
export LOCKSTEP_DATA

# ends_with OPTIONS...: the fingerprint of a small run, whose last batch is smaller than the others.
ends_with() {
    runs 0 train --model resnet18 --batch 6 --limit 8 --limit-test 2 --epochs 1 --init he --shard 2 --log "$work/run.jsonl" "$@"
    tail -n 1 "$work/out"
}

one=$(ends_with --bn sync --devices cpu:0)
[ "$(ends_with --bn sync --devices cpu:0-15)" = "$one" ] || wrong "--bn sync on 16 devices: another fingerprint"
head -n 1 "$work/run.jsonl" | grep -q '"shard":2,.*"bn":"sync"' || wrong "--bn sync: not in the log"
[ "$(ends_with --bn sync --verify 1 --devices cpu:0-1)" = "$one" ] || wrong "--bn sync --verify: another fingerprint"
ends_with --bn sync --steps 1 --checkpoint "$work/half" --devices cpu:0 >"$work/first"
[ "$(ends_with --bn sync --checkpoint "$work/half" --resume --devices cpu:0-2)" = "$one" ] || wrong "--bn sync, resumed: another fingerprint"
runs 1 train --model resnet18 --batch 6 --limit 8 --limit-test 2 --epochs 1 --init he --shard 2 --checkpoint "$work/half" --resume
grep -q 'bn' "$work/err" || wrong "a checkpoint of --bn sync is not refused by name: $(cat "$work/err")"
two=$(ends_with --bn 4 --devices cpu:0)
[ "$(ends_with --bn 4 --devices cpu:0-2)" = "$two" ] || wrong "--bn 4: another fingerprint on three devices"
shards=$(ends_with --devices cpu:0)
[ "$shards" != "$one" ] && [ "$shards" != "$two" ] && [ "$one" != "$two" ] || wrong "statistics of shards, of two and of all are not different"
for bn in shard 2; do
    [ "$(ends_with --bn $bn --devices cpu:0)" = "$shards" ] || wrong "--bn $bn is not what it is without"
done
ends
