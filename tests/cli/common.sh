# Sourced by the tests of the program: $1 is the program. Each check that fails says so and the test ends with status 1.
# shellcheck shell=sh
set -u
program=$1
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd -P)
PYTHONPATH=$here # for run_logs.py
PYTHONDONTWRITEBYTECODE=1
export PYTHONPATH PYTHONDONTWRITEBYTECODE
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' INT TERM
# Fontconfig, beneath cairo, keeps what it knows of fonts to the process's end; with the leak sanitizer that is not ours.
echo 'leak:libfontconfig' >"$work/leaks"
LSAN_OPTIONS=suppressions=$work/leaks:print_suppressions=0
export LSAN_OPTIONS
failures=0

wrong() {
    printf 'WRONG: %s\n' "$*"
    sed 's/^/  stdout: /' "$work/out" 2>/dev/null
    sed 's/^/  stderr: /' "$work/err" 2>/dev/null
    failures=$((failures + 1))
}

# ends_as STATUS NAME COMMAND ARGUMENTS...: a command, of this name in messages, ends with this status; its output is in $work/out and
# $work/err.
ends_as() {
    expected=$1 called=$2 ran=$3
    shift 3
    called="$called $*"
    "$ran" "$@" >"$work/out" 2>"$work/err"
    got=$?
    [ "$got" = "$expected" ] || wrong "$called: status $got, not $expected"
}

# runs STATUS ARGUMENTS...: the same of the program.
runs() {
    expected=$1
    shift
    ends_as "$expected" lockstep "$program" "$@"
}

# one_line PATTERN: stderr is one line that begins with `lockstep: ` and matches.
one_line() {
    [ "$(wc -l <"$work/err")" = 1 ] || wrong "$called: not one line on stderr"
    grep -qE "^lockstep: $1" "$work/err" || wrong "$called: its line does not match '$1'"
    [ ! -s "$work/out" ] || wrong "$called: a failure with results on stdout"
}

# What cannot be run here is said by name and counted, by tools/tests.sh. part_not_run PART WHY: the rest of the test is run.
part_not_run() {
    printf 'not run: %s: %s\n' "$1" "$2"
}
# none_run WHY: nothing of the test is run.
none_run() {
    printf 'not run: %s\n' "$1"
    exit 77
}
# built_with FEATURE: as --version names it.
built_with() {
    ! "$program" --version | grep -q "^$1: not built in"
}
# needs FEATURE...: nothing of the test is run in a build without one of them.
needs() {
    for feature in "$@"; do
        built_with "$feature" || none_run "this build has no $feature"
    done
}
# has PART FEATURE, has_tool PART TOOL: whether a part of the test can be run.
has() {
    built_with "$2" || { part_not_run "$1" "this build has no $2" && return 1; }
}
has_tool() {
    command -v "$2" >/dev/null 2>&1 || { part_not_run "$1" "there is no $2" && return 1; }
}
# needs_tool TOOL...
needs_tool() {
    for tool in "$@"; do
        command -v "$tool" >/dev/null 2>&1 || none_run "there is no $tool"
    done
}

ends() {
    [ "$failures" = 0 ] || { printf '%s: %d wrong\n' "$0" "$failures"; exit 1; }
    exit 0
}
