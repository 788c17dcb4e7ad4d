#!/bin/sh
# What the program says of GPUs where there are none: one line with the reason, and status 1. Skipped where there are some.
. "$(dirname -- "$0")/common.sh"

runs 0 devices
grep -qE '^cpu:0  core ' "$work/out" || wrong "devices does not list cpu:0"
! grep -q '^cuda:' "$work/out" || none_run "there is a GPU"
grep -qE '^no GPUs: ' "$work/err" || wrong "devices does not say why there are no GPUs: $(cat "$work/err")"
why=$(sed -n 's/^no GPUs: //p' "$work/err")
for list in cuda:0 gpu:0 cuda:0-3 cuda:0x2 cpu:0,cuda:0; do
    runs 1 train --devices "$list"
    one_line '--devices: .*there is no cuda:0: '
    grep -qF "$why" "$work/err" || wrong "--devices $list does not say: $why"
done
for list in cuda: cuda:x cuda:0x0 cuda:0x cuda:1-0; do
    runs 2 train --devices "$list"
    one_line '--devices: '
done
ends
