"""typed.py SHELL FILE FOLDER: types commands with tabs into an interactive bash or zsh that knows the completion FILE, and compares
what the program is then called with. FOLDER is empty and becomes the working directory; a stand-in for the program lies there."""

import os
import pty
import select
import sys
import time

# What is typed behind `lockstep `, and the arguments that it becomes.
TYPED = [
    ("tr\t--sch\tcos\t", "train --schedule=cosine"),
    ("train --model res\t", "train --model resnet18"),
    ("train --isa=avx51\t--nest\t", "train --isa=avx512 --nesterov"),
    ("train --init norm\t0.5", "train --init normal:0.5"),
    ("eval --dev\tcp\t", "eval --devices=cpu:0"),
    ("doc\t--skip devices,ca\t", "doctor --skip devices,canary"),
    ("fing\twei\t", "fingerprint weights.safetensors"),
    ("rep\tra\t", "report rare.jsonl"),
    ("dat\tf\t--to fol\t", "data fetch --to folder"),
    ("--vers\t", "--version"),
]
PROMPT = "typed> "
SECONDS = 300  # for one answer, on a machine that is busy


def until(terminal, done, seen):
    """Reads the terminal until done(); what came is added to seen."""
    end = time.monotonic() + SECONDS
    while not done():
        if time.monotonic() > end:
            sys.exit("no answer in %d s; the terminal shows:\n%s" % (SECONDS, "".join(seen)))
        if select.select([terminal], [], [], 0.05)[0]:
            seen.append(os.read(terminal, 4096).decode(errors="replace"))


def main():
    shell, completion, folder = sys.argv[1], os.path.abspath(sys.argv[2]), os.path.abspath(sys.argv[3])
    os.chdir(folder)
    os.makedirs("bin")
    os.makedirs("folder")
    for name in ("weights.safetensors", "rare.jsonl", "called"):
        open(name, "w").close()
    with open("bin/lockstep", "w") as stand_in:
        stand_in.write('#!/bin/sh\n[ "$*" != devices ] || { echo "cpu:0  core 0"; exit; }\n'
                       'printf "%s\\n" "$*" >>"' + folder + '/called"\n')
    os.chmod("bin/lockstep", 0o755)

    child, terminal = pty.fork()
    if child == 0:
        os.environ.update(HOME=folder, TERM="dumb", PATH=folder + "/bin:" + os.environ["PATH"], PS1="$ ")
        quiet = ["--noprofile", "--norc"] if shell == "bash" else ["-f"]
        os.execvp(shell, [shell] + quiet + ["-i"])
    if shell == "bash":
        setup = "source '%s'" % completion
    else:
        setup = "fpath=('%s' $fpath); autoload -Uz compinit; compinit -u -D" % os.path.dirname(completion)
    seen = []
    # The prompt is put together from two words, so that the echo of this line is not taken for it.
    os.write(terminal, ("%s; PS1='typed''> '\r" % setup).encode())
    until(terminal, lambda: PROMPT in "".join(seen), seen)
    wrong = 0
    for keys, expected in TYPED:
        with open("called") as calls:
            before = len(calls.readlines())
        os.write(terminal, ("lockstep " + keys + "\r").encode())
        until(terminal, lambda: len(open("called").readlines()) > before, seen)
        got = open("called").readlines()[-1].strip().rstrip("/")
        if got != expected:
            print("%s: 'lockstep %s' became '%s', not '%s'" % (shell, keys.replace("\t", "<TAB>"), got, expected))
            wrong += 1
    os.write(terminal, b"exit\r")
    os.waitpid(child, 0)
    sys.exit(1 if wrong else 0)


main()
