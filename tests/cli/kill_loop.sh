#!/bin/sh
# Runs are killed at random moments, most of them inside saves, and go on with other devices and instructions, in one process or over
# ranks where there is an MPI, until they are done: always to the reference's fingerprint and log, and what lies under a final name is
# whole each time. Of ranks one is killed, or all of them with their launcher. A launcher that stays when every rank of its run has ended
# is killed and counted: it keeps no promise of ours, the run goes on as after any kill. kill_loop.sh PROGRAM [KILLS [BN]]: LeNet, or with
# BN, which --bn takes, a ResNet-18 whose shards meet at each BatchNorm.
. "$(dirname -- "$0")/common.sh"
needs 'weights files' fingerprints
python3 "$here/make_data.py" "$work/data" 400 120 || exit 1
LOCKSTEP_DATA=$work/data
export LOCKSTEP_DATA
python3 - "$program" "$work" "${2:-1000}" "${3-}" <<'PY' || wrong "a run that was killed"
import glob, hashlib, json, os, random, shutil, signal, subprocess, sys, time

from run_logs import numbers

program, work, wanted, bn = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
seed = random.randrange(2**32)
random.seed(seed)
folder, log = work + "/kept", work + "/run.jsonl"
small = "--limit 300 --limit-test 100 --batch 64 --shard 32 --epochs 4"
if bn:
    small = f"--model resnet18 --bn {bn} --limit 56 --limit-test 8 --batch 24 --shard 4 --epochs 2"
small = (small + " --lr 0.1 --momentum 0.9 --schedule cosine --quiet").split()


def whole_files():
    """Every checkpoint is whole, but for those damaged here."""
    for path in set(glob.glob(folder + "/checkpoint-*.json")) - damaged:
        text = open(path, "rb").read()
        body, end = text.rsplit(b',\n"sha256": "', 1)
        assert end == hashlib.sha256(body).hexdigest().encode() + b'"}\n', path
        arrays = open(path[:-4] + "safetensors", "rb").read()
        for section in json.loads(text)["sections"]:
            part, arrays = arrays[: section["bytes"]], arrays[section["bytes"] :]
            assert hashlib.sha256(part).hexdigest() == section["sha256"], (path, section["name"])
        assert not arrays, path


def call(*options):
    return [program, "train", *small, *options]


def launchers():
    """How to start ranks under each MPI that this build has a plugin for."""
    found = []
    for mpi, sign, options in (("openmpi", "open-mpi", ["-q", "--oversubscribe"]), ("mpich", "HYDRA", [])):
        path = shutil.which("mpirun." + mpi) or shutil.which("mpirun")
        if path and os.path.exists(f"{os.path.dirname(os.path.realpath(program))}/lockstep-{mpi}.so"):
            if sign in subprocess.run([path, "--version"], capture_output=True, text=True).stdout:
                found.append([path, *options])
    return found


def ranks_living():
    """Ranks of the run that is under way."""
    found = []
    for path in glob.glob("/proc/[0-9]*/cmdline"):
        try:
            words = open(path, "rb").read().split(b"\0")
        except OSError:
            continue
        if words[0] == program.encode() and folder.encode() in words:
            found.append(int(path.split("/")[2]))
    return found


def send(number, processes):
    for process in processes:
        try:
            os.kill(process, number)
        except ProcessLookupError:
            pass


def end_ranks(run, number):
    """One rank, or with a machine all of them."""
    ranks = ranks_living()
    if number == signal.SIGKILL and random.random() < 0.3:
        send(number, [run.pid, *ranks])
    elif ranks:
        send(number, [random.choice(ranks)])
    else:
        send(number, [run.pid])


def output(run):
    """What the run printed once it has ended, and whether its launcher had to be killed: every rank has ended by then."""
    try:
        return *run.communicate(timeout=120), False  # twice the --timeout
    except subprocess.TimeoutExpired:
        assert run.args[0] != program and not ranks_living(), ("hangs", run.args, ranks_living())
        run.kill()
        return *run.communicate(timeout=20), True


# `plain` computes fused multiply-adds in software where it must: the same bits, and a hundred times the wait.
isas = ["auto"] + [isa for isa in ("avx2", "neon") if subprocess.run(call("--steps", "1", "--isa", isa), capture_output=True).returncode == 0]
reference = subprocess.run(call("--log", work + "/whole.jsonl"), capture_output=True, text=True, check=True).stdout.splitlines()[1]
print("seed", seed, reference, flush=True)
os.environ.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
starts = launchers()
print("ranks by", starts or "nothing: one process alone", flush=True)
kills = runs = damages = signals = over_ranks = stuck = 0
while kills < wanted:
    shutil.rmtree(folder, ignore_errors=True)
    if os.path.exists(log):
        os.remove(log)
    runs += 1
    damaged = set()
    while True:
        options = ["--checkpoint", folder, "--log", log, "--resume", "--checkpoint-every", "1", "--devices",
                   random.choice(["cpu:0", "cpu:0-1", "cpu:0-2", "cpu:0-6"]), "--isa", random.choice(isas)]
        ranks = random.choice([0, 0, 2, 3, 5]) if starts else 0
        over_ranks += ranks > 0
        launch = [*random.choice(starts), "-n", str(ranks)] if ranks else []
        run = subprocess.Popen(launch + call(*options, "--timeout", "60"), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace")
        moment = random.random()
        left_to_end = moment >= 0.95
        if moment < 0.7:
            # In the middle of a save: as soon as a temporary file is there. Who makes none for long is not killed: that would hide a hang.
            until = time.monotonic() + random.uniform(0, 2 if ranks else 1)
            while run.poll() is None and not left_to_end and (time.monotonic() < until or not glob.glob(folder + "/*.tmp")):
                left_to_end = time.monotonic() > until + 30
                time.sleep(0.001)
            time.sleep(random.choice([0, 0, random.uniform(0, 0.01)]))
        elif moment < 0.95:
            time.sleep(random.uniform(0, 2 if ranks else 0.6))
        if not left_to_end and run.poll() is None:
            number = signal.SIGKILL if random.random() < 0.9 else random.choice([signal.SIGTERM, signal.SIGUSR1])
            if ranks:
                end_ranks(run, number)
            else:
                run.send_signal(number)
            kills += number == signal.SIGKILL
            signals += number != signal.SIGKILL
        out, err, launcher_stayed = output(run)
        stuck += launcher_stayed
        until = time.monotonic() + 20
        while ranks_living():
            assert time.monotonic() < until, ("left behind", ranks_living(), err)
            time.sleep(0.01)
        assert ranks or run.returncode in (0, -signal.SIGKILL, 128 + signal.SIGTERM, 128 + signal.SIGUSR1, -signal.SIGTERM, -signal.SIGUSR1), (run.returncode, err)
        assert stuck <= 1 + over_ranks // 1000, ("launchers that stay", stuck, over_ranks)
        if run.returncode == 0:
            break
        if os.path.isdir(folder):
            whole_files()
            if random.random() < 0.1 and len(glob.glob(folder + "/*.json")) > 1:  # the newest is damaged on the disk as well
                path = sorted(glob.glob(folder + "/checkpoint-*.json"))[-1][:-4] + random.choice(["json", "safetensors"])
                content = bytearray(open(path, "rb").read())
                content[random.randrange(len(content))] ^= 1 << random.randrange(8)
                open(path, "wb").write(content)
                damages += 1
                damaged.add(path.rsplit(".", 1)[0] + ".json")
    assert out.splitlines()[1] == reference, (seed, out, reference)
    assert numbers(log) == numbers(work + "/whole.jsonl"), seed
    assert not glob.glob(folder + "/*.tmp")
print(f"{kills} kills, {signals} signals, {damages} damaged files, {runs} runs, {over_ranks} times over ranks, {stuck} launchers that stayed without ranks", flush=True)
PY
ends
