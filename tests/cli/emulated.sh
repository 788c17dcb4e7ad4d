#!/bin/sh
# LeNet's fingerprint after three steps on this machine and on an emulated one: emulated.sh PROGRAM COMMAND..., where COMMAND
# runs dump_parameters on the other.
. "$(dirname -- "$0")/common.sh"
shift
python3 "$here/make_data.py" "$work/data" 400 16 || exit 1
runs 0 train --quiet --data "$work/data" --limit 300 --batch 100 --shard 32 --steps 3 --devices cpu:0-1 --limit-test 16
native=$(tail -n 1 "$work/out")
for devices in cpu:0 cpu:0-2; do
    "$@" "$work/data" 300 100 32 3 "$devices" >"$work/parameters" || wrong "$* failed on $devices"
    emulated="fingerprint: $(sha256sum <"$work/parameters" | cut -d ' ' -f 1)"
    [ "$native" = "$emulated" ] || wrong "here $native, emulated on $devices $emulated"
done
ends
