#!/bin/sh
# doctor: is content with a sound machine, and names each thing that is wrong, when that is brought about.
# doctor.sh PROGRAM FAULTY: the second is tests/cli/faulty.c, to be loaded before the C library.
. "$(dirname -- "$0")/common.sh"
faulty=$2
build=$(CDPATH='' cd -- "$(dirname -- "$program")" && pwd -P)
unset LOCKSTEP_DATA
# A core may be busy while tests run, and not every machine has the data set: what is sound must be so without those two.
quiet_checks="--skip cores,data"

finds() { # PATTERN ARGUMENTS...: status 1, and one finding
    pattern=$1
    shift
    runs 1 doctor "$@"
    [ "$(wc -l <"$work/err")" = 1 ] || wrong "$called: not one finding"
    grep -qE "^lockstep: $pattern" "$work/err" || wrong "$called: does not find '$pattern'"
}

# Sound.
# shellcheck disable=SC2086 # options
runs 0 doctor $quiet_checks --model resnet18 --momentum 0.9 --batch 16 --shard 16 --checkpoint "$work/kept"
[ ! -s "$work/err" ] || wrong "a sound machine has findings"
for line in 'ok  devices ' 'ok  memory ' 'ok  canary ' 'ok  copies ' 'ok  disk '; do
    grep -q "^$line" "$work/out" || wrong "no line '$line'"
done
[ ! -e "$work/kept" ] || wrong "doctor makes the folder"
# Four checkpoints of ResNet-18's 11,175,818 numbers that are trained, a momentum for each, and its 7,808 statistics.
called="doctor's figures of the disk"
python3 - "$work" <<'PY' || wrong "$called"
import os, re, sys
from recompute import found, read, told
needed, there, unit = found(r"^ok  disk  .*: three and the one being written take (\d+) MiB of ([\d.]+) ([MG])iB$", read(sys.argv[1] + "/out"), "disk")
told(needed, 4 * 4 * (2 * 11175818 + 7808) / 2**20, "needed")
disk = os.statvfs(sys.argv[1])
told(there, disk.f_bavail * disk.f_frsize / 2 ** (20 if unit == "M" else 30), "free", 0.1 * float(there)) # others write too
PY
# shellcheck disable=SC2086
runs 0 doctor $quiet_checks --quiet --devices cpu:0-4
[ ! -s "$work/out" ] && [ ! -s "$work/err" ] || wrong "--quiet says something of a sound machine"
runs 0 doctor --skip devices,cores,memory,canary,copies,mpi,data,disk
[ ! -s "$work/out" ] || wrong "skipped checks say something"
runs 0 doctor --skip devices,cores,memory,canary,mpi,data,disk --devices cpu:0-2
grep -qx 'ok  copies      9, of 4 MiB each, from the host to the devices, between them and back' "$work/out" || wrong "copies between three devices"
runs 0 doctor --skip devices,cores,canary,copies,mpi,data,disk --devices cpu:0-1 --model resnet18 --batch 128 --shard 32
grep -qxE 'ok  memory      resnet18 with a batch of 128 in shards of 32 needs [0-9]+ MiB of the [0-9.]+ [MG]iB to be had \(.+\)' "$work/out" ||
    wrong "the line of the memory"

# No memory: less address space than the model needs, and too little to begin with.
needed=$("$program" doctor --skip cores,data,canary,copies --model resnet18 --batch 128 --devices cpu:0 |
    sed -nE 's/^ok  memory .* needs ([0-9]+) MiB .*/\1/p')
case $("$program" --version)$needed in
*' '|'') wrong "doctor does not say how much memory is needed" ;;
esac
if [ "${needed:-0}" -gt 200 ]; then
    (ulimit -v $((needed * 1024 / 2 + 100 * 1024)) && exec "$program" doctor --skip cores,data,canary,copies,mpi --model resnet18 \
        --batch 128 --devices cpu:0) >"$work/out" 2>"$work/err"
    got=$?
    called="doctor with half the memory"
    [ "$got" = 1 ] || wrong "$called: status $got, not 1"
    # What is to be had is the limit without what the program has itself.
    left=$(sed -nE "s/^lockstep: memory: resnet18 with a batch of 128 in shards of 64 on 1 devices needs $needed MiB, and ([0-9]+) MiB is to be had \(ulimit -v\); raise that, or take a smaller --shard or fewer devices\$/\1/p" "$work/err")
    [ "${left:-0}" -gt $((needed / 2)) ] && [ "$left" -lt $((needed / 2 + 100)) ] || wrong "$called: ${left:-nothing} MiB to be had"
else
    wrong "resnet18 is said to need ${needed:-nothing}"
fi

# A core that another program is on.
core=$(python3 -c 'import os; print(min(os.sched_getaffinity(0)))')
taskset -c "$core" sh -c 'while :; do :; done' &
spinner=$!
ls /proc >"$work/processes"
runs 1 doctor --devices cpu:0 --skip memory,canary,copies,mpi,data
ls /proc >>"$work/processes"
other=$(sed -nE 's/^lockstep: cores: .* beside (.*), process ([0-9]+); end that.*/\2 \1/p' "$work/err")
grep -qx "${other%% *}" "$work/processes" || wrong "$called: names no process: $other"
[ "${other%% *}" != "$spinner" ] || [ "${other#* }" = "$(cat "/proc/$spinner/comm")" ] || wrong "$called: a process has another name: $other"
grep -qE "^lockstep: cores: cpu\(0\): core $core is busy: ([0-7]?[0-9]|80) % of it is to be had beside .*; end that, or leave cpu\(0\) out" "$work/err" ||
    wrong "$called: a busy core is not found"
kill "$spinner"
wait "$spinner" 2>/dev/null

# A device that computes or copies wrongly; not in a build with sanitizers, whose own functions stand in front of the C library's.
if [ "$(python3 -c 'import os; print(len(os.sched_getaffinity(0)))')" -ge 2 ] && ! grep -q __asan_init "$program" && ! grep -q __tsan_init "$program"; then
    second=$(python3 -c 'import os; print(sorted(os.sched_getaffinity(0))[1])')
    LD_PRELOAD=$faulty CORE=$second FAULT=none
    export LD_PRELOAD CORE FAULT
    # shellcheck disable=SC2086
    runs 0 doctor $quiet_checks --devices cpu:0-1
    FAULT=arithmetic
    # shellcheck disable=SC2086
    finds 'canary: cpu\(0\) and cpu\(1\) compute different numbers from the same operands; one of them is not to be trusted; leave it out, and have the machine looked at$' $quiet_checks --devices cpu:0-1
    FAULT=copies
    # shellcheck disable=SC2086
    runs 1 doctor $quiet_checks --devices cpu:0-1
    grep -qE '^lockstep: copies: cpu\(0\): 4194304 bytes copied from the host to it and on to cpu\(1\) come back changed; leave it out, and have the machine looked at$' "$work/err" ||
        wrong "$called: a transfer that changes a bit is not found"
    unset LD_PRELOAD CORE FAULT
else
    part_not_run "a faulty device" "one core, or a build with sanitizers"
fi

# Data that are not there, damaged, or another set.
finds 'data: .*nowhere; put train-images' --skip cores --data "$work/nowhere"
if has "data that are not the set's" fingerprints; then
    python3 "$here/make_data.py" "$work/data" 30 20 || exit 1
    finds "data: .*/train-images-idx3-ubyte: the content is not that of the data set .*; move it away and run 'lockstep data fetch'" \
        --skip cores --data "$work/data" --batch 16
    # Most of what LeNet needs is Fashion-MNIST itself: 70,000 times 785 bytes, 52.4 MiB.
    needed=$(sed -nE 's/^ok  memory .* needs ([0-9]+) MiB .*/\1/p' "$work/out")
    [ "${needed:-0}" -ge 53 ] && [ "$needed" -le 70 ] || wrong "LeNet needs ${needed:-nothing} MiB"
    # What a run cannot read is told in the run's words: here they are labels of more classes than the set has.
    cp -r "$work/data" "$work/letters"
    printf '\025' | dd of="$work/letters/train-labels-idx1-ubyte" bs=1 seek=14 conv=notrunc 2>/dev/null
    runs 1 train --data "$work/letters" --quiet
    said=$(sed -n 's/^lockstep: data: //p' "$work/err")
    case $said in *'label 21 of image 6, but Fashion-MNIST has the 10 classes'*) ;; *) wrong "labels of another set are not told" ;; esac
    finds 'data: .*label 21 of image 6, but Fashion-MNIST has the 10 classes' --skip cores --data "$work/letters" --batch 16
    [ "$(sed 's/^lockstep: data: //' "$work/err")" = "$said" ] || wrong "doctor and train differ about data"
    if [ -e /usr/share/datasets/fashion-mnist/train-images-idx3-ubyte.gz ]; then
        runs 0 doctor --skip cores
        grep -q '^ok  data ' "$work/out" || wrong "whole data are not found so"
        cp -rL /usr/share/datasets/fashion-mnist "$work/damaged"
        printf X | dd of="$work/damaged/t10k-labels-idx1-ubyte.gz" bs=1 seek=3000 conv=notrunc 2>/dev/null
        finds 'data: .*t10k-labels-idx1-ubyte' --skip cores --data "$work/damaged"
    else
        part_not_run "whole and damaged data" "Fashion-MNIST is not in /usr/share/datasets"
    fi
fi

# A folder for checkpoints that cannot be.
# shellcheck disable=SC2086
finds '--checkpoint: .*/no/where' $quiet_checks --checkpoint "$work/no/where/at/all"

# No plugin installed, one that is none, or another than the launcher's.
mkdir "$work/bin" || exit 1
cp "$program" "$work/bin/lockstep" || exit 1
program=$work/bin/lockstep
# shellcheck disable=SC2086
runs 0 doctor $quiet_checks
[ ! -e "$build/lockstep-openmpi.so" ] || grep -q '^--  mpi  *no plugin is installed' "$work/out" || wrong "missing plugins are not said"
for mpi in openmpi mpich; do
    [ -e "$build/lockstep-$mpi.so" ] || { part_not_run "a damaged plugin for $mpi" "this build has none" && continue; }
    echo 'no library' >"$work/bin/lockstep-$mpi.so"
    # shellcheck disable=SC2086
    runs 1 doctor $quiet_checks
    grep -qE "^lockstep: mpi: the plugin for $mpi cannot be loaded: .*lockstep-$mpi.so: " "$work/err" || wrong "a plugin that is none is not found"
done
if [ -e "$build/lockstep-openmpi.so" ] && [ -e "$build/lockstep-mpich.so" ] && command -v mpirun.openmpi >/dev/null; then
    [ "$(id -u)" != 0 ] || OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    export OMPI_ALLOW_RUN_AS_ROOT OMPI_ALLOW_RUN_AS_ROOT_CONFIRM
    rm "$work/bin/lockstep-openmpi.so"
    timeout 120 mpirun.openmpi -q --oversubscribe -n 2 "$program" doctor $quiet_checks >"$work/out" 2>"$work/err" && wrong "without the launcher's plugin: status 0"
    grep -qE '^lockstep: start: started as rank 0 of 2 by mpirun of Open MPI, but its plugin cannot be had: .*lockstep-openmpi or build' "$work/err" || wrong "a missing MPI is not named"
    cp "$build/lockstep-mpich.so" "$work/bin/lockstep-openmpi.so"
    timeout 120 mpirun.openmpi -q --oversubscribe -n 2 "$program" doctor $quiet_checks >"$work/out" 2>"$work/err" && wrong "with another MPI's plugin: status 0"
    grep -qE '^lockstep: start: mpirun of Open MPI started 2 ranks, but the MPI .*another' "$work/err" || wrong "another MPI is not named"
    cp "$build/lockstep-openmpi.so" "$build/lockstep-mpich.so" "$work/bin"
    timeout 120 mpirun.openmpi -q --oversubscribe -n 2 "$program" doctor $quiet_checks >"$work/out" 2>"$work/err" || wrong "two sound ranks: status not 0"
    grep -qE '^ok  mpi +2 ranks' "$work/out" || wrong "the ranks are not said"
    [ "$(grep -c '^ok  devices' "$work/out")" = 1 ] || wrong "not one rank alone speaks"
    # Each finding of each rank has a line.
    timeout 120 mpirun.openmpi -q --oversubscribe -n 2 "$program" doctor --skip cores,copies --data "$work/nowhere" --checkpoint "$work/no/where/at/all" \
        >"$work/out" 2>"$work/err" && wrong "two ranks with findings: status 0"
    for found in 'data: ' '--checkpoint: ' 'rank 1 on host .*: data: ' 'rank 1 on host .*: --checkpoint: '; do
        grep -qE "^lockstep: $found.*nowhere|^lockstep: $found.*no/where" "$work/err" || wrong "of two ranks '$found' is not told: $(cat "$work/err")"
    done
else
    part_not_run "ranks" "this build has not both plugins, or there is no mpirun.openmpi"
fi
ends
