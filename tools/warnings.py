#!/usr/bin/env python3
"""Has a build's compiler look at the sources that the build has not compiled, as errors where it warns of them: a tree for a few tests
then need not compile all others. warnings.py BUILD JOBS, where BUILD has compile_commands.json. Standard library only."""
import concurrent.futures
import json
import os
import shlex
import subprocess
import sys


def words_of(entry):
    """The compiler's words without what it would write, and that."""
    words = shlex.split(entry["command"])
    at = words.index("-o")
    return (*words[:at], *words[at + 2:]), os.path.join(entry["directory"], words[at + 1])


def told(words, entry):
    """What the compiler says of a source; empty where it has nothing to say."""
    run = subprocess.run([*words, "-fsyntax-only"], cwd=entry["directory"], capture_output=True, text=True)
    return run.stderr or (f"{entry['file']}: status {run.returncode}\n" if run.returncode else "")


def main():
    build, jobs = sys.argv[1:]
    left = {}  # a source that two libraries have with equal options is looked at once
    with open(os.path.join(build, "compile_commands.json"), encoding="utf-8") as file:
        for entry in json.load(file):
            words, made = words_of(entry)
            if not os.path.exists(made):
                left[words] = entry
    with concurrent.futures.ThreadPoolExecutor(int(jobs)) as pool:
        said = "".join(pool.map(told, left.keys(), left.values()))
    print(f"{len(left)} sources looked at")
    print(said, end="")
    return 1 if said else 0


if __name__ == "__main__":
    sys.exit(main())
