"""Logs, checkpoints and processes, as the tests of interrupted runs look at them."""
import glob
import json
import os
import shutil
import signal
import time


def numbers(path):
    """What a log says of the run, without settings and times."""
    lines = open(path).read().split("\n")
    assert lines.pop() == "", "the last line is not whole"
    lines = [json.loads(line) for line in lines]
    assert "lockstep" in lines[0] and all("lockstep" not in line for line in lines[1:])
    return [{k: v for k, v in line.items() if k not in ("sec", "img_per_s")} for line in lines[1:]]


class Kept:
    """What a run keeps in a test's folder, and its options for that."""

    def __init__(self, work):
        self.folder, self.log = work + "/kept", work + "/run.jsonl"
        self.options = ["--checkpoint", self.folder, "--log", self.log]

    def clean(self):
        shutil.rmtree(self.folder, ignore_errors=True)
        if os.path.exists(self.log):
            os.remove(self.log)

    def checkpoints(self):
        return sorted(glob.glob(self.folder + "/*.json"))

    def numbers(self, path=None):
        return numbers(path or self.log)


def cpu_seconds(pid):
    """What a process has computed so far, in all of its threads."""
    fields = open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def end_twice(run, seconds):
    """Asks for a run's end once it has taken so many seconds of processor time, and again, more than a second later, until it is over; its
    status. Who waits takes processor time too: on a busy machine a step may not have begun yet, and the first signal ends the run in peace."""
    while cpu_seconds(run.pid) < seconds:
        assert run.poll() is None, run.returncode
        time.sleep(0.05)
    run.send_signal(signal.SIGTERM)
    while run.poll() is None: # the first one may arrive late, and what comes within a second of it is the same request
        time.sleep(1.2)
        run.send_signal(signal.SIGINT)
    return run.returncode
