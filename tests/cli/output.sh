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
    out, err = run.communicate(timeout=600)
    assert run.returncode == 128 + number, (run.returncode, err)
    assert out == b"" and re.fullmatch(rb"lockstep: SIG(INT|TERM): stopped after step \d+ of \d+; the weights of step \d+ are in " + save.encode() + rb"\n", err), (out, err)
    step = int(re.search(rb"the weights of step (\d+)", err)[1])
    assert step == int(re.search(rb"after step (\d+)", err)[1])
    text = open(log).read()
    assert text.endswith("\n")
    for line in text.splitlines():
        json.loads(line)
    # The weights are those of that step, as a run that ends with it has them.
    whole = subprocess.run(endless + ["--steps", str(step), "--quiet"], capture_output=True, text=True).stdout.split()[-1]
    kept = subprocess.run([program, "fingerprint", save], capture_output=True, text=True).stdout.split()[-1]
    assert whole == kept, (step, whole, kept)
    os.remove(save)
PY

# What is observed costs nothing of what is learned: the run goes on, says it once, and ends with its results and status 1.
steps="--limit 300 --limit-test 32 --batch 64 --shard 32 --epochs 2 --devices cpu:0 --quiet"
runs 0 train $steps --save "$work/whole"
cp "$work/out" "$work/whole.out"
keeps() { # PATTERN FINGERPRINTED: status 1, the results, the line, and weights that have the printed fingerprint.
    [ "$(tail -n 1 "$work/out")" = "$(tail -n 1 "$work/whole.out")" ] || wrong "$called: not the results"
    [ "$(wc -l <"$work/err")" = 1 ] || wrong "$called: not one line on stderr"
    grep -qE "^lockstep: $1" "$work/err" || wrong "$called: its line does not match '$1'"
    [ -z "${2-}" ] || [ "$("$program" fingerprint "$2")" = "$(tail -n 1 "$work/out")" ] || wrong "$called: other weights"
    rm -f "${2-}"
}
if [ -w /dev/full ]; then
    runs 1 train $steps --log /dev/full --save "$work/w"
    keeps '--log: /dev/full: No space left on device; the run goes on without it$' "$work/w"
fi
# A process that the system gave a small stack, which a report's fonts alone would use up.
for time in 1 2 3; do
    called="train --save --report with a stack of 64 KiB"
    (ulimit -s 64 && exec "$program" train $steps --save "$work/w$time" --report "$work/small") >"$work/out" 2>"$work/err"
    got=$?
    [ "$got" = 0 ] || wrong "$called: status $got: $(cat "$work/err")"
    [ "$(tail -n 1 "$work/out")" = "$(tail -n 1 "$work/whole.out")" ] || wrong "$called: not the results"
    cmp -s "$work/w$time" "$work/whole" || wrong "$called: other weights"
done
(ulimit -s 64 && exec "$program" train $steps --epochs 1000000 --save "$work/stopped" --log "$work/stopped.jsonl") >"$work/out" 2>"$work/err" &
until grep -q '"step":3,' "$work/stopped.jsonl" 2>/dev/null || ! kill -0 $! 2>/dev/null; do
    sleep 0.1
done
kill -TERM $!
wait $!
got=$?
[ "$got" = 143 ] || wrong "a small stack: status $got, not 143"
grep -q '^lockstep: SIGTERM: stopped after step .*; the weights of step .* are in .*/stopped$' "$work/err" || wrong "a small stack: SIGTERM is not heard"

# What was written all the same is said, and what was not is not said to be; so is that no weights are kept.
loud="--limit 64 --limit-test 32 --batch 64 --epochs 1 --devices cpu:0"
says() { # STATUS LINES ARGUMENTS...: what was written, of a run with this status
    wanted=$1 lines=$2
    shift 2
    # shellcheck disable=SC2086 # options
    "$program" train $loud "$@" >"${stdout:-$work/out}" 2>"$work/err"
    got=$? called="lockstep train $*"
    [ "$got" = "$wanted" ] || wrong "$called: status $got, not $wanted"
    grep -E '^wrote |^note: the weights of this run are not kept' "$work/err" | sed 's/: .*//' >"$work/said"
    printf %b "$lines" | cmp -s - "$work/said" || wrong "$called: does not say what was written: $(cat "$work/said")"
}
if [ -w /dev/full ]; then
    says 1 "wrote $work/s\\n" --log /dev/full --save "$work/s"
    says 1 'note\n' --log /dev/full
    stdout=/dev/full
    says 1 "wrote $work/s\\nwrote $work/l\\n" --save "$work/s" --log "$work/l"
    "$program" bench --batch 24 --shard 8 --steps 2 --model lenet --devices cpu:0 --json "$work/b.json" >/dev/full 2>"$work/err"
    grep -qx "wrote $work/b.json: the figures" "$work/err" || wrong "bench with a full stdout does not say what was written"
    stdout=
fi
# A limit on the size of files is a failed write like any other, whoever set it, and leaves nothing.
limited() { # BLOCKS STATUS ARGUMENTS...
    blocks=$1 expected=$2
    shift 2
    called="lockstep $* with files of $blocks blocks"
    (ulimit -f "$blocks" && exec "$program" "$@") >"$work/out" 2>"$work/err"
    got=$?
    [ "$got" = "$expected" ] || wrong "$called: status $got, not $expected"
    [ -z "$(find "$work" -name '*.tmp*' -o -name '.*.[0-9]*')" ] || wrong "$called: something is left"
}
limited 4 1 train $steps --epochs 10 --log "$work/long.jsonl"
grep -q '^lockstep: --log: .*/long.jsonl: File too large; the run goes on without it$' "$work/err" || wrong "$called: is not told"
[ "$(wc -l <"$work/out")" = 2 ] || wrong "$called: does not go on"
tail -n 1 "$work/long.jsonl" | grep -q '}$' || wrong "$called: leaves a part of a line"
limited 8 1 train $steps --save "$work/large"
one_line '--save: .*/large: cannot be written: File too large; make room there, or name another place$'
XDG_CACHE_HOME=$work/cache
export XDG_CACHE_HOME
limited 1200 1 train $steps --checkpoint "$work/kept" --momentum 0.9 --save "$work/w"
grep -q "^lockstep: --checkpoint: .*: File too large; the weights of step 10 are in $work/w\$" "$work/err" || wrong "$called: is not told"
[ -z "$(find "$work/kept" -type f)" ] || wrong "$called: something is left in the folder"

# Disks that are full. A small one is mounted for it, which takes root.
mkdir "$work/disk" "$work/temporary"
if ! mount -t tmpfs -o size=1m none "$work/disk" 2>/dev/null; then
    part_not_run "full disks" "no file system can be mounted here"
    ends
fi
trap 'umount "$work/disk"; rm -rf "$work"' EXIT
fill() {
    dd if=/dev/zero of="$work/disk/fill" bs=4k count="$1" 2>/dev/null
}
cp "$work/w" "$work/single" && cp "$work/w" "$work/other"
mount --bind "$work/other" "$work/single" || wrong "a file cannot be mounted"
runs 1 train $steps --save "$work/single"
umount "$work/single"
one_line "--save: $work/single: this is mounted by itself, and cannot be replaced; mount its folder\$"
cmp -s "$work/w" "$work/other" || wrong "$called: the file is not as it was"
fill 240
runs 1 train $steps --save "$work/disk/w"
one_line '--save: .*/disk/w: cannot be written: No space left on device; make room there'
runs 1 train $steps --checkpoint "$work/disk/kept"
place=$(sed -n 's/.* are in //p' "$work/err")
case $place in "$work"/cache/lockstep/lenet-step-10-*) ;; *) wrong "$called: the weights are not in the cache" ;; esac
keeps '--checkpoint: .*/checkpoint-000001.safetensors: cannot be written: No space left on device; the weights of step 10 are in ' "$place"
[ -z "$(find "$work/disk/kept" -type f)" ] || wrong "$called: something is left in the folder"
if has "a report on a full disk" reports; then
    runs 1 train $steps --report "$work/disk/look" --save "$work/w"
    keeps '--report: .*/disk/look/[a-z.]*: No space left on device$' "$work/w"
    rm -r "$work/disk/look"
    says 1 "wrote $work/l\\n"'note\n' --report "$work/disk/look" --log "$work/l"
    rm -r "$work/disk/look"
fi
fill 300 # no room for a line
runs 1 train $steps --trace "$work/disk/t.json" --save "$work/w"
keeps '--trace: .*/t.json: No space left on device$' "$work/w"
says 1 "wrote $work/s\\n" --trace "$work/disk/t.json" --save "$work/s"
[ "$(find "$work/disk" -type f)" = "$work/disk/fill" ] || wrong "$called: something is left"
# Full only when the run is under way: the results come, and the weights have another place, the next one where that is full too.
cat >"$work/under_way.py" <<'PY'
import os, re, signal, subprocess, sys, time

program, work, how = sys.argv[1:4]
log, save, fill = work + "/under_way.jsonl", work + "/disk/w", work + "/disk/fill"
for path in (fill, log):
    os.path.exists(path) and os.remove(path)
stopped = how != "complete"
places = {"complete": (work + "/cache", work + "/none", work + "/cache/lockstep"), "stopped": (work + "/disk/cache", work + "/temporary", work + "/temporary"),
          "nowhere": (work + "/disk/cache", work + "/disk", "/tmp"), "empty": (work + "/disk/cache", "", "/tmp"),
          "unset": (work + "/disk/cache", None, "/tmp")}
cache, temporary, wanted = places[how]
words = [program, "train", *"--limit 64 --limit-test 10 --batch 64 --quiet --devices cpu:0".split(), "--epochs", "1000000" if stopped else "150", "--log", log, "--save", save]
stopped or words.remove("--quiet")
environment = {**os.environ, "XDG_CACHE_HOME": cache, "TMPDIR": temporary}
environment = {name: value for name, value in environment.items() if value is not None}
run = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
while not os.path.exists(log) or open(log).read().count("\n") < 3:
    assert run.poll() is None, run.communicate()
    time.sleep(0.02)
run.send_signal(signal.SIGSTOP)
with open(fill, "wb", buffering=0) as file:
    try:
        while True:
            file.write(bytes(4096))
    except OSError:
        pass
run.send_signal(signal.SIGCONT)
if stopped:
    run.send_signal(signal.SIGTERM)
out, err = run.communicate(timeout=600)
place = re.search(r"; the weights of step (\d+) are in (.*)\n", err)
assert place and place[2].startswith(wanted + "/lenet-step-" + place[1]), (run.returncode, out, err)
kept = subprocess.run([program, "fingerprint", place[2]], capture_output=True, text=True).stdout
os.remove(place[2])
reason = f"--save: {save}: cannot be written: No space left on device; the weights"
if stopped:
    assert run.returncode == 143 and out == "" and f"lockstep: SIGTERM: stopped after step {place[1]} of 1000000; {reason}" in err, (run.returncode, out, err)
else:
    assert run.returncode == 1 and out.splitlines()[1] + "\n" == kept and place[1] == "150" and "\nlockstep: " + reason in err, (run.returncode, out, err)
    assert place[0] + f"wrote {log}: the log\n" in err and err.endswith(": the log\n"), err[-999:] # and no more is said
assert [name for _, _, names in os.walk(work + "/disk") for name in names] == ["fill"]
PY
for how in complete stopped nowhere empty unset; do # the last two: of $TMPDIR
    python3 "$work/under_way.py" "$program" "$work" $how || wrong "a disk that is full when the run is $how"
done
ends
