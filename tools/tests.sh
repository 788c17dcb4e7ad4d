# Sourced by ./check, behind progress.sh: sections of tests, and what passed, failed or was not run in them. POSIX sh. Who sources it sets
# $work, a folder for what is thrown away, $jobs, and $not_long, ctest's options for leaving tests out.

passed=0 failed=0 skipped=0
test_log=$work/ctest.log
test_pause=60 # seconds between two words on how far the tests are

section() {
    title=$1
    began=$(date +%s)
}

# result PASSED FAILED SKIPPED: the section's line.
result() {
    passed=$((passed + $1)) failed=$((failed + $2)) skipped=$((skipped + $3))
    line="$1 passed, $2 failed"
    [ "$3" = 0 ] || line="$line, $3 skipped"
    printf '%-58s %s (%d s)\n' "$title:" "$line" $(($(date +%s) - began))
}

# skip WHY: a section that this machine cannot have.
skip() {
    printf 'not run: %s: %s\n' "$title" "$1"
    result 0 0 1
}

# Address-space randomisation beyond what the thread sanitizer knows stops it on newer kernels.
fixed_addresses() {
    if setarch "$(uname -m)" -R true 2>/dev/null; then
        setarch "$(uname -m)" -R "$@"
    else
        "$@"
    fi
}

run_ctest() {
    # shellcheck disable=SC2086 # two words or none
    (cd "$directory" && fixed_addresses ctest --no-tests=error --output-on-failure --timeout 900 -j "$jobs" "$@" $not_long) \
        >"$test_log" 2>&1 </dev/null
}

# A line for each thing that ctest's last run in $directory did not run, `not run: TEST: WHY` or `not run: TEST: CASE: WHY`. A test says
# its part of that itself, in such a line of its output; one that was skipped without a word, or switched off, has a line all the same.
not_run() {
    # Of each test ctest's own log has the name and what it printed.
    awk 'FNR == 1 { file++ }
         file == 1 && /^[0-9]+\/[0-9]+ Test: / { sub(/^[^:]*: /, ""); test = $0 }
         file == 1 && sub(/^not run: /, "") { print "not run: " test ": " $0; said[test] = 1 }
         file == 2 && /\*\*\*(Skipped|Not Run \(Disabled\))/ { sub(/^.*#[0-9]+: /, ""); if (!said[$1]) print "not run: " $1 ": it does not say why" }
        ' "$directory/Testing/Temporary/LastTest.log" "$test_log"
}

# tests DIRECTORY [ctest options...]: runs them and counts. Every failure's output is shown, and what was not run. A test counts once, as
# passed, failed or skipped; what one that passed did not run counts as skipped besides.
tests() {
    directory=$1
    shift
    status=0
    beside $test_pause tell_tests run_ctest "$@" || status=$?
    total=$(sed -nE 's/.* tests failed out of ([0-9]+)$/\1/p' "$test_log")
    bad=$(sed -nE 's/.* ([0-9]+) tests failed out of [0-9]+$/\1/p' "$test_log")
    if [ -z "$total" ]; then # ctest itself failed, or there was nothing to run
        cat "$test_log"
        result 0 1 0
        return 0
    fi
    left_out=$(grep -c '\*\*\*Skipped' "$test_log") || true # ctest's total is without what is switched off
    [ "$status" = 0 ] || [ "$bad" != 0 ] || bad=1
    [ "$bad" = 0 ] || cat "$test_log"
    not_run >"$work/not-run"
    cat "$work/not-run"
    result $((total - bad - left_out)) "$bad" "$(grep -c '' "$work/not-run" || true)"
}
