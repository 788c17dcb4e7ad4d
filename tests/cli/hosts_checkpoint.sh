#!/bin/sh
# Checkpoints over ranks under one MPI: a run that is stopped, killed or ended early goes on over any other number of ranks, or in one
# process, to the fingerprint and the log of the run without a break. Rank 0 alone has the folder; what it meets there ends all ranks
# in one line, or is noted and the run goes on. --verify and --report over ranks. With `long`, ranks that are late, killed or stopped
# at start, step, save and exit. hosts_checkpoint.sh PROGRAM openmpi|mpich [long]
. "$(dirname -- "$0")/mpi.sh"
needs 'weights files' fingerprints
cat >"$work/ranks.py" <<'PY'
import glob, json, os, re, signal, subprocess, sys, threading, time

import run_logs

program, work, mpi, launcher, heedless = sys.argv[1:6]
files = run_logs.Kept(work)
folder, log, kept = files.folder, files.log, files.options
clean, checkpoints, numbers = files.clean, files.checkpoints, files.numbers
small = "--limit 300 --limit-test 100 --batch 64 --shard 16 --lr 0.1 --momentum 0.9 --quiet".split()  # five steps an epoch


def command(ranks, *options, by=launcher, data=work + "/data"):
    """A run of so many ranks; 0 is one process without a launcher. A list has a rank count and options for each group."""
    one = [program, "train", "--data", data]
    if ranks == 0:
        return one + list(options)
    groups = ranks if isinstance(ranks, list) else [(ranks, [])]
    words = []
    for n, own in groups:
        before = own.pop() if own and isinstance(own[-1], list) else []
        words += ([":"] if words else []) + ["-n", str(n), *before, *one, *options, *own]
    return by.split() + words


def call(ranks, *options, **more):
    got = subprocess.run(command(ranks, *options, **more), capture_output=True, text=True, errors="replace", timeout=600)
    return got.returncode, got.stdout, got.stderr


def ours(err):
    """Lines that the program said, among the launcher's."""
    return [line for line in err.splitlines() if re.match("(lockstep|note): ", line)]


def done(ranks, *options, **more):
    status, out, err = call(ranks, *options, **more)
    assert status == 0, (ranks, options, status, err)
    assert re.fullmatch(r"test acc: .*\nfingerprint: [0-9a-f]{64}\n", out), (out, err)
    return out.splitlines()[1], err


def refused(ranks, pattern, *options, **more):
    status, out, err = call(ranks, *options, **more)
    assert status != 0 and "fingerprint" not in out, (options, status, out, err)
    assert len(ours(err)) == 1 and re.match("lockstep: " + pattern, ours(err)[0]), (options, pattern, err)


def living(data=work + "/data"):
    """This test's processes of the program on these data, {number: rank}."""
    found = {}
    for path in glob.glob("/proc/[0-9]*"):
        try:
            words = open(path + "/cmdline", "rb").read().split(b"\0")
            environment = open(path + "/environ", "rb").read().split(b"\0")
        except OSError:
            continue
        if words[0] == program.encode() and data.encode() in words:
            ranks = [int(word.split(b"=")[1]) for word in environment if re.match(b"(OMPI_COMM_WORLD_RANK|PMI_RANK)=", word)]
            found[int(path[6:])] = ranks[0] if ranks else 0
    return found


def nobody_left(what, *data):
    until = time.monotonic() + 2
    while living(*data) and time.monotonic() < until:
        time.sleep(0.05)
    left = living(*data)
    for process in left:
        os.kill(process, signal.SIGKILL)
    assert not left, (what, "left behind", left)


def steps_logged(log=log):
    try:
        return sum(line.startswith('{"step"') for line in open(log))
    except FileNotFoundError:
        return 0


def started(*words, **more):
    return subprocess.Popen(command(*words, **more), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace")


def under_way(ranks, *options, more_steps=8, **by):
    """A run in the middle of its steps."""
    run = started(ranks, *options, **by)
    until, before = time.monotonic() + 600, steps_logged()
    while steps_logged() < before + more_steps:
        assert run.poll() is None and time.monotonic() < until, run.communicate()
        time.sleep(0.02)
    return run


def patience():
    """A time-out, in seconds, for ranks that have trouble: one that ranks without any do not need to start, either."""
    began = time.monotonic()
    done(3, *small, "--steps", "1", "--epochs", "1")
    return int(2 * (time.monotonic() - began + 1))


def process_of(rank, *data):
    return next(process for process, number in living(*data).items() if number == rank)


class Lonely:
    """A run whose rank 0 is killed, under a launcher that leaves the others alone: they end by themselves, which takes the time-out. It
    has the data under another name, so that others may run meanwhile."""

    def __init__(self, *options):
        self.data, self.limit, log = work + "/lonely", patience(), work + "/lonely.jsonl"
        os.symlink(work + "/data", self.data)
        while True:
            self.run = started(3, *options, "--log", log, "--timeout", str(self.limit), by=heedless, data=self.data)
            while self.run.poll() is None and steps_logged(log) < 8:
                time.sleep(0.02)
            if self.run.poll() is None:
                break
            # The machine is slower than it was when the time-out was measured.
            err = self.run.communicate()[1]
            assert self.limit < 40 and re.search("^lockstep: rank .* no progress since step 0, in the start of MPI", err, re.M), err
            self.limit *= 2
        os.kill(process_of(0, self.data), signal.SIGKILL)
        self.waiting = threading.Thread(target=self.wait, daemon=True)
        self.waiting.start()

    def wait(self):
        began = time.monotonic()
        self.err = self.run.communicate()[1]
        self.took = time.monotonic() - began

    def ends(self):
        self.waiting.join(60)
        assert not self.waiting.is_alive() and self.took < self.limit + 10, (self.limit, living(self.data))
        nobody_left("rank 0 was killed", self.data)
        err = self.err
        # MPICH's own transport ends a rank that reads from one that is gone.
        assert ours(err) or mpi == "mpich", err
        assert all(re.match("lockstep: rank 0 on host [^ ]+: no progress since step [0-9]+, in ", line) for line in ours(err)), err


clean()


def stops(number, to):
    """A signal to a rank, or with None to the launcher, stops all at one step, saved."""
    run = under_way(3, *small, "--epochs", "1000000", *kept, "--resume")
    os.kill(process_of(to) if to is not None else run.pid, number)
    out, err = run.communicate(timeout=600)
    nobody_left(number)
    said = ours(err)
    print(mpi, number.name, "to", "the launcher" if to is None else f"rank {to}", "status", run.returncode, said, flush=True)
    assert len(said) == 1, err
    # MPICH's launcher may forget the statuses of ranks that it has sent a signal to.
    assert run.returncode != 0 or (to is None and mpi == "mpich"), err
    heard = number.name if to is not None else f"({number.name}|SIGTERM)"  # Open MPI's launcher makes a SIGTERM of a SIGINT
    stopped = re.fullmatch(rf"lockstep: {heard}: stopped after step (?P<step>\d+) of \d+; saved in {folder}, --resume goes on from there", said[0])
    assert stopped and (run.returncode == 128 + number or to is None), (run.returncode, err)
    assert json.load(open(checkpoints()[-1]))["position"]["step"] == int(stopped["step"])
    assert [line["step"] for line in numbers() if "step" in line] == list(range(1, int(stopped["step"]) + 1))
PY
part() { # WHAT: the Python on stdin, after ranks.py
    began=$(date +%s)
    cat "$work/ranks.py" - >"$work/part.py"
    python3 "$work/part.py" "$program" "$work" "$mpi" "$launcher" "$heedless" || wrong "$1"
    printf '%s: %s: %s s\n' "$mpi" "$1" $(($(date +%s) - began))
}

if [ "${3-}" = long ]; then
    part 'a network with BatchNorm, from every step' <<'PY'
small = "--model resnet18 --batch 10 --shard 4 --limit 23 --limit-test 5 --epochs 2 --lr 0.1 --momentum 0.9 --quiet".split()
whole, _ = done(0, *small, "--log", work + "/whole.jsonl")
for stops in ([(0, 1), (4, 2), (3, 4), (0, 6)], [(3, 2), (1, 3), (5, 5), (2, 6)]):
    clean()
    for ranks, stop in stops:
        digits, _ = done(ranks, *small, *kept, "--resume", "--steps", str(stop))
    assert digits == whole and numbers() == numbers(work + "/whole.jsonl"), stops
PY
    part 'every signal' <<'PY'
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1):
    for to in (None, 0, 2):
        stops(number, to)
PY
    part 'stuck in what nobody reads' <<'PY'
os.mkfifo(work + "/fifo")
held = os.open(work + "/fifo", os.O_RDWR)  # a reader that does not read
os.write(held, bytes(65536))
status, out, err = call(3, *small, "--log", work + "/fifo", "--timeout", str(patience()))
assert status != 0 and "fingerprint" in out, (status, out, err)
assert re.fullmatch("lockstep: --log: .*/fifo: its reader takes no more; the run goes on without it", ours(err)[0].strip()), err
nobody_left("a log that nobody reads")
PY
    part 'late, killed and stopped at start, step, save and exit' <<'PY'
# A library that sends its process a signal in one of its calls, or with 0 is late there once.
open(work + "/at.c", "w").write(r'''
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
static void here(const char *name)
{
    const char *at = getenv("AT"), *number = at ? strchr(at, ':') : NULL;
    static int late;
    if (!number || strncmp(at, name, strlen(name)) != 0 || at[strlen(name)] != ':')
        return;
    if (atoi(number + 1) > 0)
        raise(atoi(number + 1));
    else if (!late++)
        sleep(1);
}
int MPI_Init_thread(int *argc, char ***argv, int required, int *provided)
{
    int (*next)(int *, char ***, int, int *) = dlsym(RTLD_NEXT, "MPI_Init_thread");
    here("init");
    return next(argc, argv, required, provided);
}
int MPI_Finalize(void)
{
    int (*next)(void) = dlsym(RTLD_NEXT, "MPI_Finalize");
    here("exit");
    return next();
}
int fsync(int fd)
{
    int (*next)(int) = dlsym(RTLD_NEXT, "fsync");
    here("save");
    return next(fd);
}
''')
subprocess.run(["cc", "-shared", "-fPIC", work + "/at.c", "-o", work + "/at.so", "-ldl"], check=True)
limit = patience()
options = [*small, "--epochs", "400", "--steps", "40", *kept, "--resume", "--checkpoint-every", "5", "--timeout", str(limit)]
whole, _ = done(0, *small, "--epochs", "400", "--steps", "40", "--log", work + "/whole.jsonl")
for at, rank in (("init", 0), ("init", 2), ("save", 0), ("exit", 0), ("exit", 2)):
    clean()
    groups = [(1, [["env", f"LD_PRELOAD={work}/at.so", f"AT={at}:0"]] if place == rank else []) for place in range(3)]
    digits, err = done(groups, *options)
    assert digits == whole and not ours(err), ("late", at, rank, err)
# A rank that is stopped in its first save may not have been heard of before, which counts as its start.
phases = {"init": "the start of MPI", "step": "(step|data|save|evaluation|verify)", "save": "(start|step|data|save|evaluation)", "exit": "the end of MPI"}
for by in (launcher, heedless):
    for number in (signal.SIGKILL, signal.SIGSTOP):
        for at in phases:
            for rank in (0, 2):
                if at == "save" and rank > 0:  # rank 0 alone syncs; another is caught while it does
                    continue
                clean()
                if at == "step":
                    run = under_way(3, *options, "--steps", "2000000000", by=by)
                    time.sleep(1)  # until ranks have heard of each other
                    os.kill(process_of(rank), number)
                    began = time.monotonic()
                else:
                    groups = [[1, []], [1, []], [1, []]]
                    groups[rank][1] = [["env", f"LD_PRELOAD={work}/at.so", f"AT={at}:{int(number)}"]]
                    began = time.monotonic()
                    run = started([tuple(group) for group in groups], *options, by=by)
                what = ("heedless" if by == heedless else "heeding", number.name, at, rank)
                others_took = None
                if by == heedless and number == signal.SIGSTOP:
                    # A launcher that leaves ranks alone leaves a stopped one too, and may wait for it; the others must be gone.
                    while run.poll() is None and time.monotonic() < began + 60:
                        if time.monotonic() > began + limit and list(living().values()) == [rank]:
                            others_took = time.monotonic() - began
                            os.kill(process_of(rank), signal.SIGKILL)
                            break
                        time.sleep(0.05)
                try:
                    out, err = run.communicate(timeout=600)
                except subprocess.TimeoutExpired:
                    run.kill()
                    raise AssertionError((what, "hangs", living()))
                took = others_took or time.monotonic() - began
                nobody_left(what)
                said = ours(err)
                print(mpi, *what, f"status {run.returncode}, {took:.1f} s:", said[0] if said else "-", flush=True)
                assert run.returncode != 0 or at == "exit" or by == heedless, (what, err)
                assert took < limit + 10 + (20 if at != "step" else 0), (what, took)
                # Where the launcher looks after its ranks it names one that is killed, and ends the others, mostly before the watchdog.
                looked_after = number == signal.SIGKILL and (by == launcher or mpi == "mpich")  # whose launcher always does, in part
                # MPI's end may come to its end without a rank that is gone; all was done before it.
                ended = number == signal.SIGKILL and at == "exit" and whole in out
                assert said or looked_after or ended, (what, err)
                for line in said:
                    assert re.match("lockstep: rank [0-9]+ (on host [^ ]+|of 3): no progress since step [0-9]+, in ", line), (what, line)
                if said and not looked_after:
                    assert re.search(", in " + phases[at], said[0]), (what, said)
                    assert at == "init" or f"rank {rank} on host " in said[0], (what, said)
                left = 4 if rank == 0 else 0
                there = json.load(open(checkpoints()[-1]))["position"]["step"] if checkpoints() else 0
                end = ["--steps", str(max(40, there + 3))]
                digits, _ = done(left, *options, *end)
                wanted, wanted_log = whole, work + "/whole.jsonl"
                if there > 37:
                    wanted_log = work + "/longer.jsonl"
                    wanted, _ = done(0, *small, "--epochs", "400", *end, "--log", wanted_log)
                assert digits == wanted and numbers() == numbers(wanted_log), what
PY
    ends
fi

part 'on any number of ranks' <<'PY'
run = [*small, "--epochs", "3"]
whole, _ = done(0, *run, "--log", work + "/whole.jsonl")
wanted = numbers(work + "/whole.jsonl")
for ranks, stop in ((0, 4), (4, 7), (3, 10), (0, 15)):
    digits, err = done(ranks, *run, *kept, "--resume", "--steps", str(stop))
    assert not ours(err), err
assert digits == whole and numbers() == wanted
# In one go; a complete run prints its two lines again, saves, and makes the report that was not asked for before.
clean()
first = call(3, *run, *kept, "--checkpoint-every", "4")
assert re.search(r" on 3 x \[cpu\(0\)", first[1]), first
again = call(2, *run, *kept, "--resume", "--save", work + "/w.safetensors")
assert first[:2] == again[:2] and first[0] == 0, (first, again)
assert first[1].splitlines()[1] == whole and numbers() == wanted
assert subprocess.run([program, "fingerprint", work + "/w.safetensors"], capture_output=True, text=True).stdout.strip() in whole
# The newest is damaged, on rank 0's disk: told once, and all go on from the one before.
path = sorted(glob.glob(folder + "/*.safetensors"))[-1]
content = bytearray(open(path, "rb").read())
content[5000] ^= 1
open(path, "wb").write(content)
digits, err = done(3, *run, *kept, "--resume")
assert digits == whole and numbers() == wanted
assert len(ours(err)) == 1 and ours(err)[0].startswith("note: passed over: " + path + ": damaged: "), err
# What cannot be gone on from is refused by all, in one line.
refused(3, "--resume: .*seed was 0 and is 7 now; go on with what was, or say --allow-changed seed$", *run, *kept, "--resume", "--seed", "7")
refused(3, "--checkpoint: .* has checkpoints of an earlier run: --resume goes on from them, --restart trains anew", *run, *kept)
refused(3, "--resume: .*is of step 15 already, and the run would end after 2", *run, *kept, "--resume", "--steps", "2")
open(work + "/file", "w").write("mine")
refused(3, "--checkpoint: .*/file: the directory cannot be made", *run, "--checkpoint", work + "/file")
refused([(2, ["--checkpoint", folder]), (1, [])], "checkpoint differs: none on rank 2 on host ", *run)
PY

part 'a disk that is full for rank 0' <<'PY'
import resource

run = [*small, "--epochs", "1000000", "--steps", "120", "--timeout", "30"]
whole, _ = done(0, *run)
clean()
full = under_way([(1, kept), (2, ["--checkpoint", folder])], *run, "--checkpoint-every", "5")
late = process_of(1)
resource.prlimit(process_of(0), resource.RLIMIT_FSIZE, (100000, 100000))
# A rank that stands still for less than the time-out is waited for.
os.kill(late, signal.SIGSTOP)
time.sleep(0.5)
os.kill(late, signal.SIGCONT)
out, err = full.communicate(timeout=600)
# What is asked for at the end and cannot be had is the run's status.
assert (full.returncode == 1 or mpi == "mpich" and full.returncode) and whole in out, (full.returncode, out, err)
last = ours(err)[-1]
assert re.match(r"lockstep: (rank 0 on host [^ ]+: )?--checkpoint: .*too large; ", last), err
assert all(re.match(r"note: a checkpoint was not written: .*/checkpoint-0000\d\d\.safetensors: .*too large; the ones before it stay", line) for line in ours(err)[:-1]), err
assert 1 <= len(checkpoints()) <= 3 and not glob.glob(folder + "/*.tmp"), os.listdir(folder)
digits, _ = done(4, *run, *kept, "--resume")
assert digits == whole
PY

part 'signals' <<'PY'
endless = [*small, "--epochs", "1000000"]
lonely = Lonely(*endless)
# Open MPI's launcher takes its time before it hands a SIGTERM on; see the long part.
for number, to in ((signal.SIGUSR1, None), (signal.SIGTERM, 2)) if mpi == "openmpi" else ((signal.SIGTERM, None), (signal.SIGUSR1, 2)):
    stops(number, to)
# By the clock of rank 0, at a step that all agree on.
run = under_way(3, *endless, *kept, "--resume", "--checkpoint-every", "1s")
newest = checkpoints()[-1]
while checkpoints()[-1] == newest:
    assert run.poll() is None, run.communicate()
    time.sleep(0.02)
# One rank is killed: the launcher ends the others, and the run goes on with fewer.
os.kill(process_of(1), signal.SIGKILL)
run.communicate(timeout=600)
nobody_left("a rank that was killed")
assert run.returncode != 0
steps = json.load(open(checkpoints()[-1]))["position"]["step"] + 3
digits, _ = done(2, *endless, "--steps", str(steps), *kept, "--resume")
whole, _ = done(0, *endless, "--steps", str(steps), "--log", work + "/whole.jsonl")
assert digits == whole and numbers() == numbers(work + "/whole.jsonl")
lonely.ends()
PY

part '--verify, --report and the devices' <<'PY'
run = [*small, "--epochs", "2"]
whole, _ = done(0, *run)
drawn = "reports: not built in" not in subprocess.run([program, "--version"], capture_output=True, text=True).stdout
report = ["--report", work + "/look"] if drawn else []
digits, err = done([(1, ["--devices", "cpu:0-2"]), (2, ["--devices", "cpu:0"])], *run, "--verify", "1", "--log", log, *report)
assert digits == whole and not ours(err), err
devices = json.loads(open(log).readline())["devices"]
assert devices == "[cpu(0), cpu(1), cpu(2)] + 2 x [cpu(0)]", devices
if drawn:
    page = open(work + "/look/report.html").read()
    assert whole.split()[1] in page
    for words in ("cpu(2)", "rank 1 on host ", "rank 2 on host "):
        assert words in page, words
    assert sorted(os.listdir(work + "/look")) == ["curve.png", "curve.svg", "report.html"]
status, out, err = call([(1, ["--devices", "cpu:0-9"]), (1, ["--devices", "cpu:0"]), (1, ["--devices", "cpu:1"])], *run, "--epochs", "1")
assert status == 0 and " on [cpu(0), ..., cpu(9)] + [cpu(0)] + [cpu(1)]\n" in out, (out, err)
PY
ends
