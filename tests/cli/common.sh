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

# runs STATUS ARGUMENTS...: the program ends with this status; its output is in $work/out and $work/err.
runs() {
    expected=$1
    shift
    called="lockstep $*"
    "$program" "$@" >"$work/out" 2>"$work/err"
    got=$?
    [ "$got" = "$expected" ] || wrong "$called: status $got, not $expected"
}

# one_line PATTERN: stderr is one line that begins with `lockstep: ` and matches.
one_line() {
    [ "$(wc -l <"$work/err")" = 1 ] || wrong "$called: not one line on stderr"
    grep -qE "^lockstep: $1" "$work/err" || wrong "$called: its line does not match '$1'"
    [ ! -s "$work/out" ] || wrong "$called: a failure with results on stdout"
}

ends() {
    [ "$failures" = 0 ] || { printf '%s: %d wrong\n' "$0" "$failures"; exit 1; }
    exit 0
}
