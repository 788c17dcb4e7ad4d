# Sourced by ./run and ./check: what they say on stderr while something takes long. POSIX sh.

# beside SECONDS TELL COMMAND...: runs COMMAND, and TELL every so many seconds meanwhile; ends with COMMAND's status. The command is in
# front, so that Ctrl-C reaches it; who tells goes when this script does, and holds none of its locks.
beside() {
    pause=$1 tell=$2
    shift 2
    while sleep "$pause" >/dev/null 2>&1 && kill -0 $$ 2>/dev/null; do
        "$tell"
    done </dev/null >/dev/null 8>&- 9>&- &
    teller=$!
    command_status=0
    "$@" || command_status=$?
    # What this script catches is lost on a teller that has only just begun, which would be waited for for ever.
    kill -9 "$teller" 2>/dev/null || true
    wait "$teller" 2>/dev/null || true
    return $command_status
}

# How far the build is that writes $build_log: on a terminal in one line, else in a line whenever it is another.
tell_build() {
    # make says "[ 42%] Building ...", Ninja "[3/120] Building ...".
    part=$(sed -nE 's/^\[ *([0-9]+)%\] .*/\1 %/p; s,^\[([0-9]+/[0-9]+)\] .*,\1,p' "$build_log" | tail -n 1)
    if [ -z "$part" ]; then
        return
    elif [ -t 2 ]; then
        printf '\r\033[Klockstep set-up: building %s: %s' "$build_place" "$part" >&2
    elif [ "$part" != "${build_told-}" ]; then
        printf 'lockstep set-up: building %s: %s\n' "$build_place" "$part" >&2
        build_told=$part
    fi
}

# The line of tell_build goes, where it is one.
end_build() {
    [ ! -t 2 ] || printf '\r\033[K' >&2
}

# How far the section $title is, begun at $began; of tests how many are done, by what ctest writes to $test_log.
tell_tests() {
    part=$(sed -nE 's,^ *([0-9]+)/([0-9]+) Test +#.*,\1 of \2 tests done,p' "$test_log" 2>/dev/null | tail -n 1)
    printf '%s: %s (%d s)\n' "$title" "${part:-under way}" $(($(date +%s) - began)) >&2
}
