# Sourced by the tests of the program under an MPI: $1 is the program, $2 the MPI. Makes small data, and skips the test where the MPI is
# not there.
# shellcheck shell=sh
. "$(dirname -- "$0")/common.sh"
mpi=$2
build=$(CDPATH='' cd -- "$(dirname -- "$program")" && pwd -P)
program=$build/$(basename -- "$program")

skip() {
    printf 'SKIPPED: %s\n' "$*"
    exit 77
}
[ -e "$build/lockstep-$mpi.so" ] || skip "this build has no plugin for $mpi"
launcher=$(command -v "mpirun.$mpi" || command -v mpirun) || skip "there is no mpirun"
case $mpi,$("$launcher" --version 2>&1) in
openmpi,*open-mpi.org*) launcher="$launcher -q --oversubscribe" ;;
mpich,*HYDRA*) ;;
*) skip "mpirun is not $mpi's" ;;
esac
# Containers are root's, where Open MPI wants to be asked twice.
[ "$(id -u)" != 0 ] || OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_ALLOW_RUN_AS_ROOT OMPI_ALLOW_RUN_AS_ROOT_CONFIRM

python3 "$here/make_data.py" "$work/data" 400 120 || exit 1
LOCKSTEP_DATA=$work/data
export LOCKSTEP_DATA

# ranks STATUS ARGUMENTS...: as `runs`, with mpirun's arguments; any status but 0 for a failure, as launchers make their own.
ranks() {
    expected=$1
    shift
    called="mpirun $*"
    # shellcheck disable=SC2086 # a command and its options
    timeout -k 10 120 $launcher "$@" >"$work/out" 2>"$work/err"
    got=$?
    [ "$got" != 124 ] || wrong "$called: hangs"
    [ "$expected" = any ] || [ "$((got != 0))" = "$((expected != 0))" ] || wrong "$called: status $got, not $expected"
}

# says PATTERN [results]: one line of ours on stderr, among what the launcher says; results only where they were whole before.
says() {
    [ "$(grep -c '^lockstep: ' "$work/err")" = 1 ] || wrong "$called: not one line of ours"
    grep -qE "^lockstep: $1" "$work/err" || wrong "$called: its line does not match '$1'"
    [ "${2-}" = results ] || ! grep -q '^fingerprint' "$work/out" || wrong "$called: a failure with results"
}

# number_of PROCESS: its rank.
number_of() {
    tr '\0' '\n' 2>/dev/null <"/proc/$1/environ" | sed -nE 's/^(OMPI_COMM_WORLD_RANK|PMI_RANK)=//p'
}

# ours: the processes of this test's program.
ours() {
    pgrep -f -- "--data $work/data"
}
