#!/bin/sh
# Ranks from Python: the same script alone and under an MPI's mpirun, and with communicators of mpi4py, which pip compiles for that MPI where
# MPI4PY, a Python, has it not. python_ranks.sh PROGRAM MPI [PYTHON [MPI4PY]]
. "$(dirname -- "$0")/mpi.sh"
. "$here/python_package.sh"
package_python package "${3-}" "no cffi, scikit-build-core, numpy or pytest"
export PYTHONPATH
script=$root/python/tests/ranks.py
cd "$work" || exit 1

"$python" "$script" launched >"$work/alone" 2>"$work/err" || wrong "$script, alone"
same() { # RANKS PYTHON WHAT
    ranks 0 -n "$1" "$2" "$script" "$3"
    cmp -s "$work/out" "$work/alone" || wrong "$called: other results than one process"
    [ "$(grep -c "^[0-9] of $1\$" "$work/err")" = "$1" ] || wrong "$called: not $1 ranks"
}
ends_all() { # PYTHON WHAT: an exception of one rank is told, and ends all.
    ranks 1 -n 3 "$1" "$script" "$2"
    grep -q '^ValueError: mine' "$work/err" || wrong "$called: its exception is not told"
}
for n in 1 2 3; do
    same $n "$python" launched
done
for what in methods together; do
    ranks 0 -n 2 "$python" "$script" $what
    [ "$(grep -c '^fine$' "$work/out")" = 2 ] || wrong "$called: not fine on two ranks"
done
ends_all "$python" raises
ends_all "$python" raises_within

MPICC=mpicc.$mpi
command -v "$MPICC" >/dev/null || MPICC=mpicc
CFLAGS='-O0 -g0' # mpi4py is large
export MPICC CFLAGS
if ! mpi4py=$(python3 "$root/bench/peers/venvs.py" "mpi4py-$mpi" ${4:+"$4"}); then
    part_not_run "communicators of mpi4py" "pip installs no mpi4py for $mpi; cmake -DLOCKSTEP_MPI4PY_$mpi=PATH names a Python that has it"
    ends
fi
same 2 "$mpi4py" communicator
ranks 0 -n 3 "$mpi4py" "$script" parts
[ "$(sort "$work/out" | uniq -c | awk '{print $1 "x" $2}' | tr '\n' ' ')" = '5x1 4x2 3x3 ' ] || wrong "$called: other ranks"
[ "$(cut -d ' ' -f 2 "$work/out" | sort -u | wc -l)" = 1 ] || wrong "$called: several fingerprints"
ends_all "$mpi4py" raises_of_communicator
ends
