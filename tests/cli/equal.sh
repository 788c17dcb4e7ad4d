#!/bin/sh
# Two builds of the program train to equal fingerprints: equal.sh PROGRAM OTHER.
. "$(dirname -- "$0")/common.sh"
other=$2
python3 "$here/make_data.py" "$work/data" 1000 64 || exit 1
LOCKSTEP_DATA=$work/data
export LOCKSTEP_DATA

equal() { # OPTIONS...
    runs 0 train --quiet --devices cpu:0-1 --limit-test 16 "$@"
    one=$(tail -n 1 "$work/out")
    program=$other runs 0 train --quiet --devices cpu:0-1 --limit-test 16 "$@"
    two=$(tail -n 1 "$work/out")
    [ "$one" = "$two" ] || wrong "train $*: $one and $two"
    printf '%s: %s\n' "$*" "$one"
}

for isa in avx512 avx2; do
    equal --isa "$isa" --limit 950 --batch 250 --shard 32 --epochs 1
done
equal --isa plain --limit 32 --batch 32 --shard 16 --steps 1 # one number at a time: slow
equal --model resnet18 --limit 40 --batch 20 --shard 8 --steps 2
ends
