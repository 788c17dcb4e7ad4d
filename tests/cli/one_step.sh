#!/bin/sh
# A step of LeNet as examples/one_step.c has it, without the library, is the library's: the loss, and the file of new
# weights byte by byte. one_step.sh PROGRAM, with the examples beside it.
. "$(dirname -- "$0")/common.sh"
needs 'weights files'
one_step=$(CDPATH='' cd -- "$(dirname -- "$program")" && pwd -P)/examples/one_step
python3 "$here/make_data.py" "$work/data" 320 8 || exit 1
images=$work/data/train-images-idx3-ubyte labels=$work/data/train-labels-idx1-ubyte

trains() { # OPTIONS...
    runs 0 train --quiet --data "$work/data" --devices cpu:0 --epochs 1 "$@"
}

step() { # STATUS ARGUMENTS...
    expected=$1
    shift
    ends_as "$expected" one_step "$one_step" "$@"
}

# Weights that have learned something, and 20 images: four lanes have two, the others one.
trains --batch 32 --init xavier --save "$work/before"
trains --weights "$work/before" --conv direct --no-shuffle --limit 20 --log "$work/log" --save "$work/theirs"
step 0 "$work/before" "$images" "$labels" "$work/ours" 20
sed -n 's/^{"step":1,"loss":\(.*\)}$/loss \1/p' "$work/log" >"$work/loss"
cmp "$work/out" "$work/loss" || wrong "$called: not the library's loss, $(cat "$work/loss")"
cmp "$work/ours" "$work/theirs" || wrong "$called: not the library's new weights"
! cmp -s "$work/ours" "$work/before" || wrong "$called: the weights are those of before"

# refuses WHAT ARGUMENTS...: one line, and no file.
refuses() {
    what=$1
    shift
    step 1 "$@" "$work/none"
    { [ "$(wc -l <"$work/err")" = 1 ] && grep -q "^one_step: .*$what" "$work/err"; } ||
        wrong "$called does not say '$what'"
    [ ! -e "$work/none" ] || wrong "$called: wrote a file"
}
step 2
grep -q '^usage: one_step WEIGHTS' "$work/err" || wrong "$called: no usage"
step 2 "$work/before" "$images" "$labels" "$work/none" 65
refuses 'nothing: cannot be read' "$work/nothing" "$images" "$labels"
refuses 'ubyte: cannot be read' "$work/before" "$labels" "$labels"
refuses 'W1: ' "$images" "$images" "$labels"
head -c 500000 "$work/before" >"$work/cut"
refuses 'W3: ' "$work/cut" "$images" "$labels"
ends
