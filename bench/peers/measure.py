"""What the benchmarks' drivers share: running a program on some cores, Lockstep's command line and its speed, the machine's name.

Standard library only.
"""
import concurrent.futures
import json
import os
import platform
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
PROGRAM = os.path.join(ROOT, "build", "lockstep")
PATIENCE = 900  # seconds until a program counts as stuck
MODES = ("eager", "channels_last", "compile", "compile_channels_last")  # of PyTorch
BF16 = ("channels_last", "compile_channels_last")  # the fastest of them under bf16 autocast


def say(text):
    print(text, file=sys.stderr, flush=True)


class Failed(Exception):
    pass


def reason(text):
    """The line that says why a program ended: the last that names a Python exception, behind which torch gives advice, or the last."""
    lines = text.strip().splitlines() or ["no message"]
    return next((line for line in reversed(lines) if re.match(r"[\w.]*(Error|Exception)\b", line)), lines[-1])


def run(argv, cores=None, env=None):
    """Runs a program on the first `cores` cores, or on a slice of them; gives its standard output and its peak memory in MiB."""
    def limit():
        some = cores if isinstance(cores, slice) else slice(cores)
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[some])

    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        try:
            # A session of its own, so that a stuck program goes with the processes that it started.
            child = subprocess.Popen(argv, stdout=out, stderr=err, stdin=subprocess.DEVNULL, start_new_session=True,
                                     env={**os.environ, **(env or {})}, preexec_fn=limit if cores else None)
        except OSError as e:
            raise Failed(f"{argv[0]}: {e.strerror}") from e
        stuck = []
        clock = threading.Timer(PATIENCE, lambda: (stuck.append(True), os.killpg(child.pid, signal.SIGKILL)))
        clock.start()
        try:
            _, status, used = os.wait4(child.pid, 0)
        except BaseException:
            os.killpg(child.pid, signal.SIGTERM)
            raise
        finally:
            clock.cancel()
        child.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        err.seek(0)
        if child.returncode:
            why = f"did not end in {PATIENCE} s" if stuck else f"ended with status {child.returncode}: {reason(err.read())}"
            raise Failed(f"{os.path.basename(argv[0])} {why}")
        return out.read(), used.ru_maxrss / 1024


def run_peer(argv, cores, env):
    """Runs a peer's script; gives the record that it prints as its last line, and its peak memory in MiB."""
    try:
        out, peak = run(argv, cores, env)
    except BaseException:
        # A compiler that was interrupted leaves half a library, which the next run would take for a whole one.
        if any(word.startswith("compile") for word in argv):
            shutil.rmtree(env["TORCHINDUCTOR_CACHE_DIR"], ignore_errors=True)
        raise
    try:
        return json.loads(out.strip().splitlines()[-1]), peak
    except (IndexError, ValueError) as e:
        raise Failed(f"{os.path.basename(argv[1])}: the last line is no JSON") from e


def environment(cores, isa=None):
    """What the peers' libraries read: the number of threads, and with isa "avx2" the widest instructions of each; with "no-amx"
    bf16 has products of vectors, where this machine has those of tiles too."""
    # Inductor finds generated code in its cache by the graph, not by the instruction set that the code is for: code made
    # under a cap overruns its buffers without it. So each cap has a cache of its own.
    env = {"OMP_NUM_THREADS": str(cores),
           "TORCHINDUCTOR_CACHE_DIR": os.path.join(ROOT, "build", "peers", f"inductor-{isa or 'auto'}")}
    if isa == "avx2":
        env.update(ONEDNN_MAX_CPU_ISA="AVX2", DNNL_MAX_CPU_ISA="AVX2",  # oneDNN of PyTorch and TensorFlow; of MXNet
                   ATEN_CPU_CAPABILITY="avx2", MKL_ENABLE_INSTRUCTIONS="AVX2", OPENBLAS_CORETYPE="Haswell",
                   XLA_FLAGS="--xla_cpu_max_isa=AVX2")
    if isa == "no-amx":
        env.update(ONEDNN_MAX_CPU_ISA="AVX512_CORE_BF16")
    return env


def device_list(n):
    return "cpu:0" if n == 1 else f"cpu:0-{n - 1}"


def lockstep_argv(a, command, devices, shard=None):
    """`lockstep command` with what the driver's options `a` say of instruction set, convolutions, shard and data."""
    argv = [a.lockstep, command, "--devices", device_list(devices), "--quiet"]
    for name, value in (("isa", a.isa), ("conv", a.conv), ("shard", shard or a.shard), ("data", a.data)):
        if value:
            argv += ["--" + name, str(value)]
    return argv


def lockstep_training(a, model, devices, batch, steps, shard=None, cores=None):
    """Whole training steps: the median images per second of the epochs after the first, and the peak memory in MiB."""
    with tempfile.TemporaryDirectory() as scratch:
        log = os.path.join(scratch, "run.jsonl")
        _, peak = run(lockstep_argv(a, "train", devices, shard) +
                      ["--model", model, "--batch", str(batch), "--limit", str(batch * steps), "--epochs", str(1 + a.epochs),
                       "--limit-test", "1", "--log", log], cores)
        with open(log) as f:
            epochs = [r["img_per_s"] for r in map(json.loads, f) if "epoch" in r and "img_per_s" in r]
    return statistics.median(epochs[1:]), peak


def lockstep_trainings(a, model, n, batch, steps):
    """`n` trainings at once that know nothing of each other, each on a core of its own: the sum of their images per second, and
    the largest peak memory. No program that runs on the `n` cores together can be expected to do more."""
    def one(i):
        return lockstep_training(a, model, 1, batch, steps, cores=slice(i, i + 1))
    with concurrent.futures.ThreadPoolExecutor(n) as threads:
        figures = list(threads.map(one, range(n)))
    return sum(speed for speed, _ in figures), max(peak for _, peak in figures)


def cpu_line(name):
    """What /proc/cpuinfo has under a name, of the first core; None where it has nothing."""
    try:
        with open("/proc/cpuinfo") as f:
            for line in f:
                if line.startswith(name):
                    return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return None


def cpu_name():
    return cpu_line("model name") or platform.machine()


def has_avx512():
    return "avx512f" in (cpu_line("flags") or "").split()


def has_amx():
    return "amx_bf16" in (cpu_line("flags") or "").split()


def add_library_options(p):
    p.add_argument("--cores", type=int, help="for every contender; default: all of the process's affinity mask")
    p.add_argument("--isa", choices=("avx2",), help="cap every side to AVX2")
    p.add_argument("--conv", choices=("auto", "direct"), help="Lockstep's convolutions")
    p.add_argument("--shard", type=int, help="Lockstep's images to a shard")
    p.add_argument("--lockstep", default=PROGRAM)


def add_lockstep_options(p):
    add_library_options(p)
    p.add_argument("--data")


def check_cores(p, a):
    here = len(os.sched_getaffinity(0))
    a.cores = a.cores or here
    if not 1 <= a.cores <= here:
        p.error(f"--cores must be 1 to {here} here")


def warn_if_busy(script):
    """Gives the load, after a word about it when something else runs."""
    load = os.getloadavg()[0]
    if load > 0.5:
        say(f"{script}: the machine is busy (load {load:.1f}); take the figures with care")
    return round(load, 2)
