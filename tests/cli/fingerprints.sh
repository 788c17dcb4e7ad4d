#!/bin/sh
# One fingerprint, one file and one list of losses for each network, on real Fashion-MNIST: whatever devices, pull order,
# instruction set and repetition. fingerprints.sh PROGRAM [OTHER_BUILD]
. "$(dirname -- "$0")/common.sh"
other=${2:-$program}

# same NAME COMMAND-OPTIONS...: the run's fingerprint, saved file and losses equal those of the first run called NAME.
same() {
    name=$1
    shift
    runs 0 train --quiet --limit-test 64 --save "$work/this.safetensors" --log "$work/this.jsonl" "$@"
    tail -n 1 "$work/out" >"$work/this.print"
    sed -n 's/.*"step":\([0-9]*\),"loss":\([^,}]*\).*/\1 \2/p' "$work/this.jsonl" >"$work/this.losses"
    [ -s "$work/this.losses" ] || wrong "train $*: no losses in the log"
    printf '%s  %s\n' "$(cat "$work/this.print")" "$*"
    for part in print losses safetensors; do
        if [ ! -e "$work/$name.$part" ]; then
            cp "$work/this.$part" "$work/$name.$part"
        elif ! cmp -s "$work/this.$part" "$work/$name.$part"; then
            wrong "train $*: $part differs from the first run's"
        fi
    done
}

variants() { # NAME OPTIONS...
    for devices in cpu:0 cpu:0-1 cpu:0-2 cpu:0-6 cpu:0-15 cpu:0; do
        same "$@" --devices "$devices"
    done
    same "$@" --devices cpu:0-2 --shuffle-pulls 1
    same "$@" --devices cpu:0-1 --shuffle-pulls 2
    for isa in avx512 avx2 neon; do
        if "$program" train --quiet --limit 16 --limit-test 16 --steps 1 --isa $isa >"$work/out" 2>&1; then
            same "$@" --devices cpu:0-1 --isa $isa
        else
            printf '%s is not here\n' "$isa"
        fi
    done
    program=$other same "$@" --devices cpu:0-1
}

variants lenet --batch 250 --shard 32 --limit 1901 --epochs 2
same lenet --batch 250 --shard 32 --limit 1901 --epochs 2 --isa plain
variants resnet18 --model resnet18 --batch 100 --shard 16 --limit 290 --steps 6
variants resnet18_direct --model resnet18 --batch 100 --shard 16 --limit 290 --steps 2 --conv direct
for devices in cpu:0 cpu:0-1 cpu:0-1 cpu:0-2; do # one shard, which all cores share
    same shared --model resnet18 --batch 64 --shard 64 --limit 64 --steps 2 --devices $devices
    same lenet_shared --batch 250 --shard 250 --limit 1901 --epochs 2 --devices $devices
done
same plain --model resnet18 --batch 20 --shard 16 --limit 20 --steps 1
same plain --model resnet18 --batch 20 --shard 16 --limit 20 --steps 1 --isa plain
ends
