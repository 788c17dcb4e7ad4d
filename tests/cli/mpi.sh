# Sourced by the tests of the program under an MPI: $1 is the program, $2 the MPI. Makes small data, and skips the test where the MPI is
# not there.
# shellcheck shell=sh
. "$(dirname -- "$0")/common.sh"
mpi=$2
build=$(CDPATH='' cd -- "$(dirname -- "$program")" && pwd -P)
program=$build/$(basename -- "$program")

# must COMMAND...: what a test cannot go on without.
must() {
    "$@" >"$work/out" 2>"$work/err" || {
        wrong "$*"
        ends
    }
}
# has_mpi MPI: this build has a plugin for it, and it is here, started by $found; or $why not.
has_mpi() {
    [ -e "$build/lockstep-$1.so" ] || { why="this build has no plugin for $1" && return 1; }
    found=$(command -v "mpirun.$1" || command -v mpirun) || { why="there is no mpirun" && return 1; }
    case $1,$("$found" --version 2>&1) in
    openmpi,*open-mpi.org* | mpich,*HYDRA*) ;;
    *) why="mpirun is not $1's" && return 1 ;;
    esac
}
has_mpi "$mpi" || none_run "$why"
launcher=$found
[ "$mpi" = mpich ] || launcher="$launcher -q --oversubscribe"
# shellcheck disable=SC2034 # not every test wants it
case $mpi in # launchers that leave the other ranks alone when one dies, as srun does
openmpi) heedless="$launcher --enable-recovery" ;;
*) heedless="$launcher -disable-auto-cleanup" ;;
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
    judge_ranks $? "$expected"
}

# begin_ranks NAME ARGUMENTS...: the same in the background.
begin_ranks() {
    name=$1
    shift
    # shellcheck disable=SC2086
    timeout -k 10 120 $launcher "$@" >"$work/$name.out" 2>"$work/$name.err" &
    echo $! >"$work/$name.process"
    echo "$name: mpirun $*" >"$work/$name.called"
}

# end_ranks NAME STATUS: waits for it; what it said is then where `ranks` leaves it.
end_ranks() {
    wait "$(cat "$work/$1.process")"
    got=$?
    called=$(cat "$work/$1.called")
    mv "$work/$1.out" "$work/out"
    mv "$work/$1.err" "$work/err"
    judge_ranks $got "$2"
}

judge_ranks() { # STATUS EXPECTED
    got=$1
    [ "$got" != 124 ] || wrong "$called: hangs"
    [ "$2" = any ] || [ "$((got != 0))" = "$(($2 != 0))" ] || wrong "$called: status $got, not $2"
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

# ours [DATA]: the processes of this test's program, on these data.
ours() {
    pgrep -f -- "--data $work/${1-data} "
}

# nobody_left [DATA]: none of them outlives its launcher by more than a moment.
nobody_left() {
    for _ in $(seq 100); do
        [ -n "$(ours "$@")" ] || return 0
        sleep 0.1
    done
    wrong "$called: processes left behind: $(ours "$@")"
}
