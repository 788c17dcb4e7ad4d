#!/bin/sh
# The progress bar fits its terminal, whatever its width.
. "$(dirname -- "$0")/common.sh"
python3 "$here/make_data.py" "$work/data" 640 64 || exit 1
LOCKSTEP_DATA=$work/data
export LOCKSTEP_DATA
python3 -c 'import pty; pty.openpty()' 2>/dev/null || exit 77 # skipped: this machine has no pseudo-terminals

python3 - "$program" <<'PY' || wrong "the bar"
import fcntl, os, pty, re, signal, struct, subprocess, sys, termios, time

endless = [sys.argv[1], "train", "--epochs", "1000000", "--limit-test", "10", "--devices", "cpu:0"]

for columns in (20, 40, 100):
    main, side = pty.openpty()
    fcntl.ioctl(side, termios.TIOCSWINSZ, struct.pack("4H", 24, columns, 0, 0))
    run = subprocess.Popen(endless, stdout=subprocess.DEVNULL, stderr=side, env={**os.environ, "TERM": "xterm"})
    os.close(side)
    seen, end = b"", time.time() + 1.5
    while time.time() < end:
        seen += os.read(main, 65536)
    run.send_signal(signal.SIGTERM)
    try:
        while chunk := os.read(main, 65536):
            seen += chunk
    except OSError:
        pass
    assert run.wait(timeout=60) == 128 + signal.SIGTERM
    os.close(main)
    bars = re.findall(rb"\r([^\r\n\033]+)\033\[K", seen)
    assert bars, seen[:500]
    assert all(len(bar) < columns for bar in bars), (columns, max(bars, key=len))
    assert b"%" in bars[0]
    if columns == 100:
        assert all(word in bars[-1] for word in (b"epoch", b"ETA", b"loss", b"images/s", b"[")), bars[-1]
PY
ends
