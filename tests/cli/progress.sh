#!/bin/sh
# The live view fits its terminal, whatever its width and height, draws in ASCII where there is no UTF-8, sets no mode of the
# terminal, and is not there where stderr is none or a dumb one.
. "$(dirname -- "$0")/common.sh"
python3 "$here/make_data.py" "$work/data" 640 256 || exit 1
LOCKSTEP_DATA=$work/data
export LOCKSTEP_DATA
python3 -c 'import pty; pty.openpty()' 2>/dev/null || none_run "there are no pseudo-terminals"

python3 - "$program" "$work" <<'PY' || wrong "the view"
import fcntl, os, pty, re, signal, struct, subprocess, sys, termios, threading, time
from recompute import log_lines, told
from run_logs import end_twice

ended = [sys.argv[1], "train", "--epochs", "3", "--limit-test", "10", "--devices", "cpu:0", "--batch", "64"]
endless = [sys.argv[1], "train", "--epochs", "1000000", "--limit-test", "10", "--devices", "cpu:0", "--batch", "64"]
plain = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "COLORTERM", "LANG", "LC_CTYPE", "LC_ALL")}


def seen_by(command, columns, rows, until=None, **environment):
    """What a terminal of this size gets; `until` is waited for before the run is told to stop."""
    main, side = pty.openpty()
    fcntl.ioctl(side, termios.TIOCSWINSZ, struct.pack("4H", rows, columns, 0, 0))
    before = termios.tcgetattr(side)
    run = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=side, env={**plain, "TERM": "xterm-256color", **environment})
    seen = b""
    while until and not re.search(until, seen):
        seen += os.read(main, 65536)
    if until:
        run.send_signal(signal.SIGTERM)
    after = termios.tcgetattr(side)
    os.close(side)
    try:
        while chunk := os.read(main, 65536):
            seen += chunk
    except OSError:
        pass
    assert run.wait(timeout=600) == (128 + signal.SIGTERM if until else 0), seen[-500:]
    os.close(main)
    assert before == after
    return seen.decode("utf-8")


frame = re.compile(r"\033\[\?2026h\r(.*?)\033\[J(\r?)(?:\033\[(\d+)A)?\033\[\?2026l", re.S)
utf8, colourless, ascii = {"LANG": "C.UTF-8"}, {"LANG": "en_US.utf8", "NO_COLOR": "1"}, {"LANG": "C"}
sizes = [(20, 24), (80, 24), (200, 50)]
trials = [(size, environment) for size in sizes for environment in (utf8, colourless, ascii)]
trials += [(size, utf8) for size in ((39, 24), (60, 24), (100, 8), (100, 4), (100, 3), (100, 2), (400, 100), (3, 24), (1, 1))]
for (columns, rows), environment in trials:
    text = seen_by(endless, columns, rows, rb"\D3(/1000000)?: ", **environment)
    frames = frame.findall(text)
    if rows < 2 or columns < 2:
        assert not frames, frames
    elif columns >= 20:
        assert frames, text[:500]
    for body, back, up in frames:
        lines = re.sub(r"\033\[[0-9;]*[mK]", "", body).replace("\r", "").split("\n")
        assert all(len(line) < columns for line in lines), (columns, max(lines, key=len))
        assert len(lines) <= rows and (not back or int(up or 0) == len(lines) - 1), (rows, lines)
        assert ("\033[38;5" in body) <= ("NO_COLOR" not in environment)
        assert body.isascii() or environment["LANG"] != "C", body
    if columns >= 20 and rows >= 2:
        during = [body for body, back, up in frames if back]
        assert all("%" in body for body in during), during[-1]
        curves = rows >= 16 and columns >= 40
        words = ["epoch", "step", "loss", "images/s", "left"] if columns >= 80 and rows >= 3 else []
        words += ["train loss", "train acc", "test acc"] if curves and columns >= 80 else []
        for word in words:
            assert any(word in body for body in during), (columns, rows, word, during[-1])
        assert any(re.search("[\u2801-\u28ff]", body) for body in during) == (curves and environment["LANG"] != "C")
        # The last frame is the curves alone, and the cursor stays below it; then comes the message.
        last = [body for body, back, up in frames if not back]
        assert len(last) == curves and not any("%" in body for body in last), last
    assert re.search(r"(\033\[J|2026l|^|\n)lockstep: SIGTERM: stopped after step \d+ of \d+; nothing was saved\r\n$", text), text[-200:]
    assert not re.search(r"\033\[\?(?!2026)", text), "a mode of the terminal is set"

text = seen_by(ended, 80, 24, LANG="C.UTF-8")
assert len(re.findall(r"(?:^|J)epoch [123]/3: loss [0-9.]+, train acc [0-9.]+, test acc [0-9.]+\r$", text, re.M)) == 3, text
# The test is a part of the run: behind the last step it is not at its end, but for the moment when the last shard is done.
log = sys.argv[2] + "/tested.jsonl"
tested = [sys.argv[1], "train", "--model", "resnet18", "--epochs", "1", "--limit", "8", "--batch", "8", "--limit-test", "256", "--shard", "4",
          "--devices", "cpu:0", "--log", log]
text = seen_by(tested, 80, 24, LANG="C")
frames = [re.sub(r"\033\[[0-9;]*[mK]", "", body) for body in re.findall(r"epoch 1/1 .*?\033\[J", text, re.S)]
told_in = [body for body in frames if re.search(r"step \S*1 of 1\b", body)]
# A step counts when it is done: its loss is beside it.
assert told_in and all(re.search(r"loss +[0-9.]+", body) for body in told_in), told_in
shares = [int(share) for body in told_in for share in re.findall(r"(\d+)%\s", body)]
assert shares and min(shares) < 60, (shares, text[-3000:])
# A test image counts as a third of a training image: with the one step behind it the test of 64 shards is 32/35 of the run.
assert set(shares) <= {int(100 * (3 + k / 2) / 35) for k in range(65)}, shares
# The speed is that of the steps alone, and of all their images, which are of two shards.
(epoch,) = log_lines(log)[1]
speeds = [speed for body in told_in for speed in re.findall(r"([\d,]+) images/s.* testing", body)]
assert speeds, text[-3000:]
for speed in speeds:
    told(speed, epoch["img_per_s"], "images/s")
# What suspends a run or ends it at once finds its screen cleared, as often as it comes, and it goes on as before. The process is of a group of
# its own, as a shell has it: one that has nobody to wake it is not stopped.
def on_a_terminal(command, work):
    """Runs it, and work(run, seen, wait_for) beside; what was seen on the terminal until it ended."""
    main, side = pty.openpty()
    fcntl.ioctl(side, termios.TIOCSWINSZ, struct.pack("4H", 24, 80, 0, 0))
    run = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=side, env={**plain, "TERM": "xterm-256color", "LANG": "C"}, preexec_fn=os.setpgrp)
    os.close(side)
    seen = bytearray()

    def listen():
        try:
            while chunk := os.read(main, 65536):
                seen.extend(chunk)
        except OSError:
            pass

    def wait_for(what):
        end = time.monotonic() + 600
        while not what():
            assert run.poll() is None and time.monotonic() < end, bytes(seen[-300:])
            time.sleep(0.01)

    listener = threading.Thread(target=listen)
    listener.start()
    try:
        work(run, seen, wait_for)
    finally:
        run.kill()
        run.wait()
        listener.join()
        os.close(main)
    return bytes(seen)


def suspended(attempt):
    """Whether the screen was cleared each of three times."""
    cleared = []

    def work(run, seen, wait_for):
        for turn in range(3):
            before = len(seen)
            wait_for(lambda: b"\033[?2026l" in seen[before:])
            run.send_signal(signal.SIGTSTP)
            wait_for(lambda: open(f"/proc/{run.pid}/stat").read().rpartition(")")[2].split()[0] == "T")
            before = 0
            while before < len(seen): # what it wrote arrives after it
                before = len(seen)
                time.sleep(0.05)
            cleared.append(seen.endswith(b"\r\033[J"))
            run.send_signal(signal.SIGCONT)

    on_a_terminal(endless, work)
    return cleared


def ended_at_once(attempt):
    """Whether it was, by a second signal, in the middle of a step, which the plain instruction set makes long."""
    def work(run, seen, wait_for):
        wait_for(lambda: b"\033[?2026l" in seen)
        statuses.append(end_twice(run, 2 << attempt))

    statuses = []
    seen = on_a_terminal([*endless, "--model", "resnet18", "--isa", "plain", "--limit", "64"], work)
    return [statuses == [128 + signal.SIGINT] and seen.endswith(b"\r\033[J") and b"stopped after" not in seen]


# A frame may come in between, seldom.
for way in suspended, ended_at_once:
    assert any(all(way(attempt)) for attempt in range(4)), f"the screen is not cleared: {way.__name__}"
for environment, command in (({"TERM": "dumb"}, ended), ({"TERM": ""}, ended), ({}, ended + ["--quiet"])):
    text = seen_by(command, 80, 24, **environment)
    assert "\033" not in text and text.count("\r\n") == text.count("\r"), text
    assert (text == "") == ("--quiet" in command), text
PY
ends
