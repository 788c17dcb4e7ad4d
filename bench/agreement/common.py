"""What the agreement scripts share: where things are, and how they run the program. Standard library only."""
import json
import math
import os
import statistics
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
PROGRAM = os.path.join(ROOT, "build", "lockstep")
sys.path.insert(0, os.path.join(ROOT, "bench", "peers"))


def lockstep(program, *arguments):
    """Runs the program and gives its standard output; ends this script with the program's message when it fails."""
    done = subprocess.run([program, *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode:
        reason = done.stderr.strip().splitlines() or ["no message"]
        sys.exit(f"{' '.join(map(str, (program, *arguments)))}\nended with status {done.returncode}: {reason[-1]}")
    return done.stdout


def read_log(path):
    """The records of a run's log (JSON lines)."""
    with open(path) as f:
        return [json.loads(line) for line in f]


def mean_and_error(values):
    """The mean and its standard error (not a number for fewer than two values)."""
    error = statistics.stdev(values) / math.sqrt(len(values)) if len(values) > 1 else math.nan
    return statistics.mean(values), error


def verdict(passed):
    print("agrees" if passed else "DOES NOT AGREE")
    return 0 if passed else 1
