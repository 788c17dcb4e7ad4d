#!/bin/sh
# The live view on the screen of a real terminal emulator, tmux: at 20, 80 and 200 columns with and without colour, through
# resizes, and what Ctrl-C, Ctrl-Z, SIGTERM and a closed pipe leave behind.
. "$(dirname -- "$0")/common.sh"
needs_tool tmux
python3 -c 'import pty; pty.openpty()' 2>/dev/null || none_run "there are no pseudo-terminals"
python3 "$here/make_data.py" "$work/data" 640 64 || exit 1
LOCKSTEP_DATA=$work/data
export LOCKSTEP_DATA

python3 - "$program" "$work" <<'PY' || wrong "the terminal"
import os, re, signal, subprocess, sys, time

program, work = os.path.abspath(sys.argv[1]), sys.argv[2]
short = f"{program} train --epochs 4 --batch 64 --limit-test 10 --devices cpu:0"
endless = f"{program} train --epochs 1000000 --batch 64 --limit-test 10 --devices cpu:0"
slow = f"{program} train --model resnet18 --batch 640 --epochs 1000000 --limit-test 10 --devices cpu:0"
plain = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "COLORTERM", "TMUX", "LANG", "LC_CTYPE", "LC_ALL")}


class Terminal:
    """A shell in a tmux of its own; its prompt is `status#N> ` with the last command's exit status and number."""

    count = 0

    def __init__(self, columns, rows, **environment):
        environment = {"LANG": "C.UTF-8", **environment}
        # tmux itself must take UTF-8 whatever the program inside is told.
        Terminal.count += 1
        self.tmux = ["tmux", "-u", "-S", f"{work}/tmux{Terminal.count}", "-f", "/dev/null"]
        words = " ".join(f"{name}={value}" for name, value in environment.items())
        self.call("new-session", "-d", "-x", str(columns), "-y", str(rows), f"env PS1='$?#0> ' {words} sh")
        self.call("set", "-g", "status", "off")
        self.commands = 0
        self.prompt(0)

    def __enter__(self):
        return self

    def __exit__(self, *failure):
        if failure[0]:
            print(self.screen())
        self.call("kill-server")

    def call(self, *words):
        return subprocess.run(self.tmux + list(words), env={**plain, "LANG": "C.UTF-8"}, check=True, stdout=subprocess.PIPE).stdout.decode()

    def keys(self, *keys):
        self.call("send-keys", *keys)

    def do(self, line):
        self.commands += 1  # no prompt from before is taken for one behind this
        self.keys(f"PS1='$?#{self.commands}> '; clear; {line}", "Enter")

    def screen(self, *options):
        return self.call("capture-pane", "-p", *options)

    def until(self, wanted, *options):
        """The screen once it is as wanted: has a pattern, or passes a function's assertions. What a running program draws may be met
        half drawn, so all that is asked of it must hold in one look, and not in the first."""
        end = time.monotonic() + 600
        while True:
            text = self.screen(*options)
            try:
                if callable(wanted):
                    wanted(text)
                else:
                    assert re.search(wanted, text, re.M), f"no {wanted} in\n{text}"
                return text
            except AssertionError:
                if time.monotonic() > end:
                    raise
            time.sleep(0.05)

    def prompt(self, status):
        return self.until(rf"^{status}#{self.commands}>$")

    def modes(self):
        self.do("stty -g")
        return self.prompt(0).strip().split("\n")[-2]


def at_size(columns, colour, utf8=True):
    environment = {} if colour else {"NO_COLOR": "1"}
    if not utf8:
        environment["LANG"] = "C"
    with Terminal(columns, 40, **environment) as terminal:
        modes = terminal.modes()
        terminal.do(endless)
        text = terminal.until(r"left *$")
        signs = "\u2501\u254d\u2500" if utf8 else "=+-"

        def whole(painted):
            text = re.sub(r"\033\[[0-9;]*m", "", painted)
            assert re.search(r"^(epoch )?\d+(/1000000)?: (.|\n)*\d%", text, re.M), text
            assert len(re.findall(r"\d%$", text, re.M)) == 1, text
            assert all(len(line) <= columns for line in text.split("\n"))
            if columns >= 80:
                for word in ("train loss", "train acc", "test acc", "epoch 0", "step", "loss", "images/s", "left"):
                    assert word in text, (word, text)
            assert bool(re.search("[\u2801-\u28ff]", text)) == (columns >= 80 and utf8), text
            assert bool(re.search(r"\033\[38;5;\d+m", painted)) == colour, painted
            # What the device is at: a label, the part that it computes, and a bar of three signs.
            at = re.search(rf"^ {'cpu.0.' if columns >= 80 else '0'} +(\d+)% ([{signs}]+)$", text, re.M)
            assert at, text
            part, bar = at.groups()
            assert abs(bar.count(signs[0]) - int(part) / 100 * len(bar)) <= 0.51 + 0.005 * len(bar), text
            assert re.fullmatch(f"{signs[0]}*[{signs[1]}]*{signs[2]}*", bar), text
            assert all(len(line) < columns for line in text.split("\n") if "% " in line), text
            if columns >= 80:
                assert re.search(rf"[{signs}] computing  [{signs}] reducing  [{signs}] waiting$", text, re.M), text

        terminal.until(whole, "-e")
        terminal.keys("C-c")
        text = terminal.prompt(130)
        assert not re.search(r"\d%$|left *$", text, re.M), text
        assert ("train loss" in text) == (columns >= 80), text
        assert terminal.modes() == modes


for columns in (20, 80, 200):
    at_size(columns, True)
    at_size(columns, False)
at_size(80, True, utf8=False)

with Terminal(80, 24) as terminal:
    modes = terminal.modes()
    # To the end: the curves stay, the results come below, and the shell's prompt after them.
    terminal.do(short)
    text = terminal.prompt(0)
    assert "%" not in text and "train loss" in text and re.search(r"\n\ntest acc: .*\nfingerprint: .*\nnote: the weights of this run are not kept; (.|\n)*\n0#", text), text

    # Many devices share lines.
    terminal.do(f"{endless} --shard 4 --devices cpu:0-15")
    terminal.until(r"^ cpu\(0-3\) +\d+% \S+ +cpu\(4-7\) +\d+% \S+\n cpu\(8-11\) +\d+% \S+ +cpu\(12-15\) +\d+% \S+$")
    terminal.keys("C-c")
    terminal.prompt(130)

# What a small terminal keeps of an old view comes back when it grows, so that this is the last thing in its window.
with Terminal(80, 24) as terminal:
    # A new size at any time: the view fills it. A terminal that becomes so small that the old view, wrapped, is larger than the
    # screen keeps its upper part in the scrolled lines; up to there nothing of the old one is left.
    terminal.do(endless)
    terminal.until(r"left *$")
    for columns, rows, width, clean in ((79, 24, 78, True), (120, 24, 119, True), (120, 30, 119, True), (110, 30, 109, True),
                                        (50, 20, 49, False), (20, 10, 19, False), (200, 50, 150, False), (80, 8, 79, False)):
        terminal.call("resize-window", "-x", str(columns), "-y", str(rows))
        least = 1 if columns == 20 else width  # beside the epochs there is no room for a bar

        def filled(text):
            assert re.search(rf"^(?=.{{{least},{width}}}$) .*\d+%$", text, re.M), text
            assert not clean or len(re.findall(r"\d%$", text, re.M)) == 1, text

        terminal.until(filled)
    terminal.keys("C-c")
    terminal.prompt(130)

with Terminal(80, 24) as terminal:
    modes = terminal.modes()
    # Suspended, and back.
    terminal.do(endless)
    terminal.until(r"left *$")
    terminal.keys("C-z")
    text = terminal.until(r"^\d+#\d+>$")
    assert not re.search(r"left *$", text, re.M), text
    assert terminal.modes() == modes
    terminal.do("fg")
    terminal.until(r"left *$")
    terminal.keys("C-c")
    terminal.prompt(130)
    assert terminal.modes() == modes

    # In the middle of a long step: the first asks, the second ends at once and leaves a clean line.
    terminal.do(slow)
    terminal.until(r"\d%$")
    terminal.keys("C-c")
    terminal.until(r"Ctrl-C again ends at once|^130#")
    terminal.keys("C-c")
    text = terminal.until(r"^130#")
    assert not re.search(r"\d%$|left *$", text, re.M), text
    terminal.keys("Enter")
    assert terminal.modes() == modes

    # SIGTERM from elsewhere.
    terminal.do(f"sh -c 'echo $$ >{work}/pid; exec {endless}'")
    terminal.until(r"left *$")
    os.kill(int(open(work + "/pid").read()), signal.SIGTERM)
    terminal.prompt(143)
    assert terminal.modes() == modes

    # Results that nobody reads: said below the curves.
    terminal.do(f"{{ {short}; echo status $?; }} | true")
    text = terminal.prompt(0)
    terminal.do(f"{short} >&-")
    terminal.prompt(1)
    terminal.do(f"{{ {short}; echo status $? >&2; }} | true")
    text = terminal.until(r"^status 1$")
    assert re.search(r"^lockstep: standard output: Broken pipe$", text, re.M) and "%" not in text, text
    assert terminal.modes() == modes

    # A terminal that goes away ends the run.
    terminal.do(f"sh -c 'echo $$ >{work}/pid; exec {endless}'")
    terminal.until(r"left *$")
    pid = int(open(work + "/pid").read())


def runs_still(pid):
    try:
        return open(f"/proc/{pid}/stat").read().split(")")[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


while runs_still(pid):
    time.sleep(0.05)
PY
ends
