#!/bin/sh
# Several ranks under one MPI: the one-process run's fingerprint, log and files; differences, and ranks that are killed or stopped,
# end in one line and leave no process behind. hosts.sh PROGRAM openmpi|mpich [long]
. "$(dirname -- "$0")/mpi.sh"
. "$(dirname -- "$0")/same.sh"

small="--quiet --limit 200 --limit-test 60 --batch 100 --shard 16 --epochs 1"

# What does not depend on the MPI: more settings and ways to cut a run, the other commands, and differences.
whatever_the_mpi() {
    same 3 -- --limit 100 --limit-test 50 --batch 70 --shard 64 --steps 2 --lr 0.3 --nesterov --momentum 0.9 --weight-decay 0.01
    same 2 3 -- --optimizer adamw --lr 0.01 --label-smoothing 0.1 --ema 0.75 --ema-warmup --limit 100 --limit-test 50 --batch 40 --shard 8 --epochs 2
    same 2 3 -- --flip --crop 3 --erase 0.5 --limit 100 --limit-test 50 --batch 40 --shard 8 --epochs 2
    same 2 3 -- --clip-norm 0.3 --ema 0.75 --last-batch share --lr 0.3 --momentum 0.9 --limit 100 --limit-test 50 --batch 40 --shard 8 --epochs 2
    same 2 3 -- --model resnet18 --init he --bn sync --limit 20 --limit-test 4 --batch 10 --shard 2 --epochs 1
    same 3 -- --model resnet18 --init he --bn 4 --limit 10 --limit-test 4 --batch 10 --shard 2 --epochs 1
    # As if on three hosts of three, three and one.
    same 7 -- --host-ranks 3 --limit 301 --limit-test 100 --batch 150 --shard 12 --epochs 1 --lr 0.3 --momentum 0.9

    # The best epoch, which comes before step 17, and its weights from a checkpoint of other ranks.
    python3 "$here/make_sets.py" npy "$work/set" 90 30 || exit 1
    best="--dataset npy --data $work/set --batch 20 --shard 10 --init xavier --lr 0.6 --momentum 0.9 --validate 30 --keep best --epochs 7"
    # shellcheck disable=SC2086
    {
        same 2 -- $best
        ranks 0 -n 2 "$program" train --quiet $best --steps 17 --checkpoint "$work/best"
        ranks 0 -n 3 "$program" train --quiet $best --checkpoint "$work/best" --resume
    }
    [ "$(tail -n 1 "$work/out")" = "$(tail -n 1 "$work/one.print")" ] || wrong "$called: another fingerprint than one process's"

    # Shards by speed.
    same 3 -- --balance --limit 301 --limit-test 100 --batch 50 --shard 8 --epochs 2 --lr 0.3 --momentum 0.9
    ranks 0 -n 2 "$program" train --balance --limit 301 --limit-test 50 --batch 50 --shard 8 --epochs 2
    grep -qE "^note: a step's shards by the ranks' measured speed: [0-7], [0-7]\$" "$work/err" || wrong "$called: no note of the shards"

    # The other commands.
    ranks 0 -n 3 "$program" eval --weights "$work/this.safetensors"
    [ "$(cut -d' ' -f1-4 "$work/out")" = "$("$program" eval --weights "$work/this.safetensors" | cut -d' ' -f1-4)" ] ||
        wrong "$called: another accuracy than one process's"
    ranks 0 -n 3 "$program" predict --quiet --weights "$work/this.safetensors" --out "$work/three.npy"
    runs 0 predict --quiet --weights "$work/this.safetensors" --out "$work/one.npy"
    cmp -s "$work/one.npy" "$work/three.npy" || wrong "predict on 3 ranks: other logits than one process's"

    # Differences are named, by one line.
    # shellcheck disable=SC2086
    {
        ranks 1 -n 2 "$program" train $small : -n 1 "$program" train $small --batch 99
        says 'batch differs: 99 on rank 2 on host [^ ]+, 100 on rank 0$'
        cp -r "$work/data" "$work/other"
        printf x | dd of="$work/other/train-images-idx3-ubyte" bs=1 seek=5000 conv=notrunc 2>/dev/null
        ranks 1 -n 1 "$program" train $small : -n 2 "$program" train $small --data "$work/other"
        says 'the checksum of the training images differs: [0-9a-f]+ on rank 1 on host'
        # The changed image is one of those that are held out.
        ranks 1 -n 1 "$program" train $small --validate 199 : -n 1 "$program" train $small --validate 199 --data "$work/other"
        says 'the checksum of the validation images differs: [0-9a-f]+ on rank 1 on host'
        cp "$work/data/train-images-idx3-ubyte" "$work/other"
        printf x | dd of="$work/other/t10k-images-idx3-ubyte" bs=1 seek=5000 conv=notrunc 2>/dev/null
        ranks 1 -n 1 "$program" train $small : -n 1 "$program" train $small --data "$work/other"
        says 'the checksum of the test images differs: [0-9a-f]+ on rank 1 on host'
        ranks 1 -n 1 "$program" train $small : -n 1 "$program" train $small --weights "$work/this.safetensors"
        says 'the checksum of the first weights differs: [0-9a-f]+ on rank 1 on host'
        # Another version, of the program and of its plugin; and a rank whose arithmetic is another.
        mkdir "$work/newer"
        python3 - "$build" "$work/newer" "$mpi" "$program" <<'PY' || wrong "a program of another version"
import os, re, shutil, subprocess, sys
build, newer, mpi, program = sys.argv[1:]
version = subprocess.run([program, "--version"], capture_output=True, text=True).stdout.split()[1]
for path in program, f"{build}/lockstep-{mpi}.so":
    text = open(path, "rb").read().replace(version.encode(), version[:-1].encode() + b"x")
    copy = f"{newer}/{os.path.basename(path)}"
    open(copy, "wb").write(text)
    shutil.copymode(path, copy)
PY
        ranks 1 -n 2 "$program" train $small : -n 1 "$work/newer/${program##*/}" train $small
        says "lockstep's version differs: [0-9.]+x on rank 2 on host [^ ]+, [0-9.]+ on rank 0\$"
        printf '#include <fenv.h>\nint fesetenv(const fenv_t *e){return e ? fesetround(FE_DOWNWARD) : 1;}\n' >"$work/down.c"
        if cc -shared -fPIC "$work/down.c" -lm -o "$work/down.so" 2>/dev/null; then
            ranks 1 -n 1 "$program" train $small : -n 1 env LD_PRELOAD="$work/down.so" "$program" train $small
            says 'what a self-test computes differs: [0-9a-f]{16} on rank 1 on host'
        else
            part_not_run 'a rank that computes otherwise' 'there is no cc'
        fi
        ranks 2 -n 3 "$program" train $small --bad
        says '--bad: unknown'
        ranks 1 -n 3 "$program" train $small --save "$work/missing/w.safetensors"
        says 'rank 0 on host [^ ]+: --save: '
    }
}

if [ "${3-}" = long ]; then
    same 1 2 3 4 5 7 -- --limit 301 --limit-test 100 --batch 150 --shard 12 --epochs 2 --lr 0.3 --momentum 0.9
    same 1 2 3 4 5 7 -- --model resnet18 --batch 26 --shard 8 --limit 41 --limit-test 20 --epochs 1 --momentum 0.9
    same 2 3 -- --model resnet18 --batch 40 --shard 4 --limit 40 --limit-test 9 --steps 1 --conv direct
    for host_ranks in 1 8 24; do # one level; hosts of eight; hosts of 24, 24 and 16
        same 64 -- --host-ranks $host_ranks --limit 390 --limit-test 100 --batch 130 --shard 2 --steps 4 --momentum 0.9
    done
    whatever_the_mpi
    ends
fi

# Runs that ranks cannot share evenly, an uneven last batch, and more ranks than its shards.
same 1 3 4 7 -- --limit 301 --limit-test 100 --batch 150 --shard 12 --epochs 2 --lr 0.3 --momentum 0.9
same 3 -- --model resnet18 --batch 10 --shard 4 --limit 13 --limit-test 5 --epochs 1 --momentum 0.9
# As if on two hosts of four.
same 8 -- --host-ranks 4 --limit 301 --limit-test 100 --batch 150 --shard 12 --epochs 1 --lr 0.3 --momentum 0.9
# MPICH starts ranks in half the time.
if [ "$mpi" = mpich ] || ! has_mpi mpich; then
    whatever_the_mpi
fi

# Ranks with devices of their own.
# shellcheck disable=SC2086
runs 0 train $small
tail -n 1 "$work/out" >"$work/one.print"
began=$(date +%s%N)
# shellcheck disable=SC2086
ranks 0 -n 1 "$program" train $small --devices cpu:0-2 : -n 2 "$program" train $small --devices cpu:0 --isa plain
# Twice what a whole run takes is too long: MPI's start waits for the name service, which may take seconds to answer.
patience=$((2 * ($(date +%s%N) - began + 1000000000) / 1000000000))
tail -n 1 "$work/out" | cmp -s - "$work/one.print" || wrong "$called: another fingerprint"

# A program with its own communicator, one process left out.
for n in 1 4 3; do
    own=$build/examples/own_communicator_$mpi
    [ "$n" != 3 ] || own=$build/tests/cli/pieces_$mpi
    ranks 0 -n "$n" "$own" "$work/data" 300
    sed 's/.*: //' "$work/out" >"$work/own.$n"
    [ "$(wc -l <"$work/own.$n")" = 1 ] || wrong "$called: not one line"
done
cmp -s "$work/own.1" "$work/own.4" || wrong "own_communicator: another fingerprint on 3 ranks"
cmp -s "$work/own.1" "$work/own.3" || wrong "own_communicator, messages in pieces: another fingerprint on 2 ranks"

# A failure of one rank before the first step, and one of all in it.
# shellcheck disable=SC2086
{
    ranks 1 -n 2 "$program" train $small : -n 1 "$program" train $small --data "$work/missing"
    says 'rank 2 on host [^ ]+: data: .*missing'
    ranks 1 -n 1 "$program" train $small --bn sync : -n 1 "$program" train $small --bn 32
    says 'bn differs: 32 on rank 1 on host [^ ]+, sync on rank 0$'
    ranks 1 -n 3 "$program" train $small --lr 1e20
    says 'train: step [0-9]+: the (loss|update) of .* is not finite'
}

# A log that cannot be written costs its status, and nothing else.
if [ -w /dev/full ]; then
    usual=$launcher
    for launcher in "$usual" "$heedless"; do
        # Open MPI's launcher forgets statuses of ranks when it is to leave the others alone.
        # shellcheck disable=SC2086
        ranks "$([ "$launcher" = "$usual" ] && echo 1 || echo any)" -n 3 "$program" train --data "$work/data" $small --log /dev/full
        says '--log: /dev/full: No space left on device; the run goes on without it' results
        grep -q '^fingerprint: ' "$work/out" || wrong "a log that cannot be written ends the run"
        nobody_left
    done
    launcher=$usual
fi

# ---- Ranks that die or stop ----

# too_slow: the run that has ended did not even start within its time-out, and said so: the machine is slower than it was when the
# time-out was measured. The next one is longer.
too_slow() {
    grep -qE '^lockstep: rank [0-9]+ of [0-9]+: no progress since step 0, in the start of MPI' "$work/err" && [ "$patience" -lt 40 ] || return 1
    printf '%s: %s s are too short to start now\n' "$mpi" "$patience"
    nobody_left
    patience=$((2 * patience))
}

# stop_at_the_end: one rank is stuck after the last step. Its data have another name, as it waits while others do.
ln -s "$work/data" "$work/same"
stop_at_the_end() {
    # shellcheck disable=SC2086
    begin_ranks 'stuck at the end' -n 2 "$program" train --data "$work/same" $small --timeout $patience : \
        -n 1 env LD_PRELOAD="$work/stop.so" "$program" train --data "$work/same" $small --timeout $patience
}
printf '#include <signal.h>\nint MPI_Finalize(void){return raise(SIGSTOP);}\n' >"$work/stop.c"
if cc -shared -fPIC "$work/stop.c" -o "$work/stop.so" 2>/dev/null; then
    stop_at_the_end
    stuck=yes
fi

# stop_in_steps: one rank of a run that is under way is stopped; all are gone within the time-out and 10 seconds.
stop_in_steps() {
    # shellcheck disable=SC2086
    begin_ranks 'stopped in steps' -n 3 "$program" train --data "$work/data" $small --epochs 1000000 --timeout $patience --log "$work/run.jsonl"
    until grep -q '"step":20,' "$work/run.jsonl" 2>/dev/null || ! kill -0 "$(cat "$work/stopped in steps.process")" 2>/dev/null; do
        sleep 0.05
    done
    began=$(date +%s)
    for process in $(ours); do
        [ "$(number_of "$process")" != 2 ] || kill -STOP "$process" 2>/dev/null
    done
    end_ranks 'stopped in steps' 1
    took=$(($(date +%s) - began))
    rm -f "$work/run.jsonl"
}
# Other ranks and moments, killed ones, and launchers that leave the others alone: hosts_checkpoint.sh.
stop_in_steps
while too_slow; do stop_in_steps; done
[ "$took" -le $((patience + 10)) ] || wrong "$called: it took $took s"
says 'rank 2 on host [^ ]+: no progress since step [0-9]+, in (step|data|evaluation)$'
printf '%s: a rank is stopped: %s s; %s\n' "$mpi" "$took" "$(grep '^lockstep' "$work/err")"
nobody_left
if [ -n "${stuck-}" ]; then
    end_ranks 'stuck at the end' 1
    while too_slow; do
        stop_at_the_end
        end_ranks 'stuck at the end' 1
    done
    says 'rank 2 on host [^ ]+: no progress since step 2, in the end of MPI: its process is stopped' results
    nobody_left same
fi

# The only port that MPI may use is another's: it says so, and nothing starts.
python3 - "$mpi" "$program" "$launcher" <<'PY' || wrong "a port that is taken"
import os, socket, subprocess, sys

mpi, program, launcher = sys.argv[1:]
other = socket.socket()
other.bind(("", 0))
other.listen()
port = other.getsockname()[1]
over_tcp = ["--mca", "btl", "self,tcp", "--mca", "btl_tcp_port_min_v4", str(port), "--mca", "btl_tcp_port_range_v4", "1"]
words = launcher.split() + (over_tcp if mpi == "openmpi" else []) + ["-n", "2", program, "train", "--quiet", "--limit", "64", "--steps", "1"]
run = subprocess.run(words, capture_output=True, text=True, timeout=600, env={**os.environ, "MPIEXEC_PORT_RANGE": f"{port}:{port}"})
assert run.returncode != 0 and run.stdout == "" and "port" in run.stderr, run
PY

# The program elsewhere, without its plugin.
cp "$program" "$work/lockstep"
# shellcheck disable=SC2086
ranks 1 -n 2 "$work/lockstep" train $small
says "start: started as rank 0 of 2 by .*: there is no lockstep-$mpi.so"
ends
