#!/bin/sh
# Results that cannot be written are an error; a run that is stopped leaves cleanly.
# shellcheck disable=SC2086 # lists of options
. "$(dirname -- "$0")/common.sh"
python3 "$here/make_data.py" "$work/data" 640 64 || exit 1
LOCKSTEP_DATA=$work/data
export LOCKSTEP_DATA
small="--limit 64 --limit-test 32 --epochs 1 --quiet"

fails() { # WHAT: the last run's status was 1, with one line
    [ "$got" = 1 ] || wrong "$1: status $got, not 1"
    called=$1
    : >"$work/out"
    one_line "$2"
}

"$program" train $small >&- 2>"$work/err"
got=$?
fails 'closed stdout' 'standard output: '
"$program" --version >&- 2>"$work/err"
got=$?
fails '--version on closed stdout' 'standard output: '
if [ -w /dev/full ]; then
    "$program" train $small >/dev/full 2>"$work/err"
    got=$?
    fails 'full disk' 'standard output: '
    "$program" train $small --log /dev/full >"$work/out" 2>"$work/err"
    got=$?
    fails 'full disk under --log' '--log: /dev/full: '
fi
"$program" train $small --log "$work/nowhere/x" >"$work/out" 2>"$work/err"
got=$?
fails 'no folder for --log' '--log: '
"$program" train $small >"$work/out" 2>&- </dev/null || wrong "a closed stderr ends the run"
"$program" train $small >"$work/out" 2>"$work/err" <&- || wrong "a closed stdin ends the run"
[ "$(wc -l <"$work/out")" = 2 ] || wrong "with stdin closed: not two lines"

python3 - "$program" "$work" <<'PY' || wrong "signals"
import json, os, re, signal, subprocess, sys, time

program, work = sys.argv[1:]
endless = [program, "train", "--epochs", "1000000", "--limit-test", "10", "--devices", "cpu:0"]

for number in (signal.SIGINT, signal.SIGTERM):
    log, save = work + "/stop.jsonl", work + "/stop.safetensors"
    if os.path.exists(log):
        os.remove(log)
    run = subprocess.Popen(endless + ["--log", log, "--save", save, "--quiet"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    while not os.path.exists(log) or open(log).read().count("\n") < 3:
        assert run.poll() is None, run.communicate()
        time.sleep(0.02)
    run.send_signal(number)
    out, err = run.communicate(timeout=60)
    assert run.returncode == 128 + number, (run.returncode, err)
    assert out == b"" and re.fullmatch(rb"lockstep: SIG(INT|TERM): stopped after step \d+ of \d+; nothing was saved\n", err), (out, err)
    assert not os.path.exists(save)
    text = open(log).read()
    assert text.endswith("\n")
    for line in text.splitlines():
        json.loads(line)
PY
ends
