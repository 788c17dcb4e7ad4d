"""Logs, as the tests of interrupted runs compare them."""
import json


def numbers(path):
    """What a log says of the run, without settings and times."""
    lines = open(path).read().split("\n")
    assert lines.pop() == "", "the last line is not whole"
    lines = [json.loads(line) for line in lines]
    assert "lockstep" in lines[0] and all("lockstep" not in line for line in lines[1:])
    return [{k: v for k, v in line.items() if k not in ("sec", "img_per_s")} for line in lines[1:]]
