# Sourced after mpi.sh: what ranks print, log and save is what one process does.
# shellcheck shell=sh

# same RANKS... -- OPTIONS...: for each of these numbers of ranks. A run may end with a line of ours that matches $tolerated, where that is
# set, once its results are whole.
same() {
    counts=
    while [ "$1" != -- ]; do
        counts="$counts $1"
        shift
    done
    shift
    run one "$@"
    for n in $counts; do
        run "$n" "$@"
        for part in print log safetensors; do
            cmp -s "$work/one.$part" "$work/this.$part" || wrong "$n ranks, train $*: $part differs from one process's"
        done
        printf '%s: %s ranks: %s\n' "$mpi" "$n" "$(cat "$work/this.print")"
    done
}

# Nothing, but for what is tolerated, and for what Open MPI says when an agent is quicker than mpirun, which wanted to put it in a
# group of its own.
check_said() {
    if [ "$n" != one ] && [ -n "${tolerated-}" ]; then
        grep '^lockstep: ' "$work/err" | grep -vE "$tolerated"
    else
        grep -v ' plm:rsh: Warning: setpgid' "$work/err"
    fi >"$work/said"
    [ ! -s "$work/said" ] || wrong "$called: something on stderr"
}

run() { # RANKS|one OPTIONS...
    n=$1
    shift
    set -- train --quiet --log "$work/this.jsonl" --save "$work/this.safetensors" "$@"
    if [ "$n" = one ]; then runs 0 "$@"; else ranks "$([ -n "${tolerated-}" ] && echo any || echo 0)" -n "$n" "$program" "$@"; fi
    [ "$(wc -l <"$work/out")" = 2 ] || wrong "$called: not two lines on stdout"
    check_said
    [ "$n" = one ] || python3 "$here/recompute.py" train "$work/this.jsonl" "$work/out" || wrong "$called: figures that are not the log's"
    tail -n 1 "$work/out" >"$work/this.print"
    # Without the settings, which name the devices, and the times.
    sed -e 1d -e 's/,"sec":.*//' "$work/this.jsonl" >"$work/this.log"
    [ "$n" != one ] || for part in print log safetensors; do cp "$work/this.$part" "$work/one.$part"; done
}
