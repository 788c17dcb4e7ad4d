"""Ends of all kinds: of Python, of sessions, of threads and processes, by Ctrl-C."""
import pickle
import threading

import numpy
import pytest

import lockstep as ls
from conftest import bright_quarters, run_python, small_network

BEGIN = """
import gc, os, signal, sys, threading, time
import numpy
import lockstep as ls
images = numpy.random.default_rng(0).integers(0, 255, (256, 1, 16, 16)).astype(numpy.uint8)
labels = numpy.arange(256) % 4
def make(s):
    net = ls.nn.Sequential(ls.nn.Conv2d(32, 3), ls.nn.ReLU(), ls.nn.Flatten(), ls.nn.Linear(4))
    net.initialize("cpu:0-1", session=s, init="xavier")
    return s.arrays(images, labels, batch=64, shuffle=True), net
def steps(data, net, trainer, n):
    for X, y in data:
        ls.cross_entropy(net(X), y).backward()
        trainer.step()
        n -= 1
        if not n:
            break
"""


def run(program, **keywords):
    import textwrap
    return run_python(BEGIN + textwrap.dedent(program), **keywords)


@pytest.mark.parametrize("end", ["", "sys.exit(0)", "del s", "del s, data, net, trainer; gc.collect()", "s.close()",
                                 "s.__class__.kept = (s, data, net, trainer)",
                                 "threading.Thread(target=lambda: (time.sleep(0.1), net(X))).start()"])
def test_python_ends_with_work_in_flight(end):
    out, err = run(f"""
        s = ls.Session()
        data, net = make(s)
        trainer = ls.Trainer(net, lr=0.1)
        X, y = next(iter(data))
        steps(data, net, trainer, 2)
        print("fine", flush=True)
        {end}
    """)
    assert out == "fine\n" and not err


def test_daemon_threads_may_be_at_work():
    out, err = run("""
        s = ls.Session()
        data, net = make(s)
        trainer = ls.Trainer(net, lr=0.1)
        def work():
            while True:
                steps(data, net, trainer, 100)
        threading.Thread(target=work, daemon=True).start()
        time.sleep(0.5)
        print("fine", flush=True)
    """)
    assert out == "fine\n"


def test_an_exception_leaves_the_session_in_order():
    out, err = run("""
        with ls.Session() as s:
            data, net = make(s)
            steps(data, net, ls.Trainer(net, lr=0.1), 3)
            raise ValueError("mine")
    """, status=1)
    assert err.strip().endswith("ValueError: mine")


def test_ctrl_c_stops_between_two_steps():
    out, _ = run("""
        s = ls.Session()
        data, net = make(s)
        threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
        try:
            ls.fit(net, data, epochs=10**9, lr=0.01)
        except KeyboardInterrupt:
            print("stopped")
        print(numpy.isfinite(net["0.weight"].numpy()).all(), net.evaluate(data).rows)
        print(len(ls.fit(net, data, epochs=1, lr=0.01)))
    """)
    assert out.split() == ["stopped", "True", "256", "1"]


def test_ctrl_c_in_functions_of_ones_own():
    out, _ = run("""
        s = ls.Session()
        class Slow(ls.Module):
            def forward(self, x):
                os.kill(os.getpid(), signal.SIGINT)
                time.sleep(5)
                return x
        def batches():
            yield images / 255, labels
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(5)
        for work in (lambda: Slow().initialize("cpu:0", session=s)(images), lambda: list(s.batches(batches, rows=512, classes=4))):
            try:
                work()
            except KeyboardInterrupt:
                print("stopped")
        print(s.zeros(1).item())
    """)
    assert out.split() == ["stopped", "stopped", "0.0"]


def test_a_child_of_fork_has_sessions_of_its_own():
    out, _ = run("""
        s = ls.Session()
        data, net = make(s)
        trainer = ls.Trainer(net, lr=0.1)
        steps(data, net, trainer, 2)
        x = s.zeros(3)
        pid = os.fork()
        if not pid:
            for use in (x.numpy, trainer.step, net.fingerprint, lambda: s.zeros(2)):
                try:
                    use()
                    os._exit(1)
                except ls.Error as error:
                    if error.status != "BAD_ARGUMENT" or "belongs to the process" not in str(error):
                        os._exit(2)
            del x, trainer
            s.close()
            with ls.Session() as mine:
                data, net = make(mine)
                steps(data, net, ls.Trainer(net, lr=0.1), 2)
                print(net.accuracy(data) >= 0, flush=True)
            sys.exit(7)
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
        steps(data, net, trainer, 2)
        print(len(net.fingerprint()))
    """)
    assert out.split() == ["True", "7", "64"]  # and since 3.12 Python warns of threads


def test_fork_while_another_thread_is_at_work():
    out, _ = run("""
        s = ls.Session()
        data, net = make(s)
        trainer = ls.Trainer(net, lr=0.1)
        going = True
        def work():
            while going:
                steps(data, net, trainer, 4)
        thread = threading.Thread(target=work)
        thread.start()
        for _ in range(5):
            time.sleep(0.05)
            pid = os.fork()
            if not pid:
                try:
                    s.wait()
                except ls.Error:
                    os._exit(3)
                os._exit(0)
            assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 3
        going = False
        thread.join()
        print("fine")
    """)
    assert out == "fine\n"


def test_threads_share_a_session(s):
    wrong, data = [], s.arrays(*bright_quarters(64), batch=16)
    net = small_network().initialize("cpu:0-1", session=s, init="he", like=data)
    wanted = net.predict(data)

    def work(i):
        for _ in range(20):
            x = s.full(i, 3, 4)
            if not (x.numpy() == i).all() or not numpy.array_equal(net.infer(bright_quarters(64)[0][:8] / 255).numpy(), wanted[:8]):
                wrong.append(i)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for _ in range(5):
        assert sum(len(y) for _, y in data) == 64
    for thread in threads:
        thread.join()
    assert not wrong


def test_an_inference_may_be_interrupted(s):
    data = s.arrays(*bright_quarters(64), batch=16)
    net = small_network().initialize("cpu:0-1", session=s, init="he", like=data)
    wanted = net.predict(data)
    s.interrupt()
    with pytest.raises(ls.Error) as error:
        net.predict(data)
    assert error.value.status == "INTERRUPTED"
    assert numpy.array_equal(net.predict(data), wanted)


def test_sessions_are_independent():
    prints = [None] * 3

    def work(i):
        with ls.Session(seed=5) as s:
            data = s.arrays(*bright_quarters(64), batch=32, shuffle=True)
            net = small_network().initialize("cpu:0", session=s, init="he")
            ls.fit(net, data, epochs=2, lr=0.1)
            prints[i] = net.fingerprint()

    threads = [threading.Thread(target=work, args=(i,)) for i in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert prints[0] and prints[0] == prints[1] == prints[2]


def test_sessions_and_tensors_leave_nothing():
    out, _ = run("""
        def whole():
            with ls.Session() as s:
                data, net = make(s)
                steps(data, net, ls.Trainer(net, lr=0.1), 2)
                x = s.from_dlpack(numpy.ones(1000, numpy.float32))
        def alone():
            ls.Session().zeros(1000).numpy()
        s = ls.Session()
        def tensors():
            x = s.tensor(images[:1])
            (x.to(s.cpu(0)) + x.to(s.cpu(0))).numpy()
            numpy.from_dlpack(x)
            s.from_dlpack(numpy.ones(1000, numpy.float32))
        def has():
            gc.collect()
            with open("/proc/self/statm") as file:
                return int(file.read().split()[1]) * 4096, len(os.listdir("/proc/self/task")), len(os.listdir("/proc/self/fd"))
        for what, times in (alone, 1000), (tensors, 3000), (whole, 30):
            for _ in range(times // 3):
                what()
            before = has()
            for _ in range(times):
                what()
            after = has()
            print(what.__name__, after[0] - before[0] < 4e6, after[1:] == before[1:])
    """, timeout=300)
    assert out.split() == ["alone", "True", "True", "tensors", "True", "True", "whole", "True", "True"]


@pytest.mark.parametrize("kind", ["data", "trainer", "checkpoints", "device"])
def test_what_is_of_a_session_is_not_pickled(s, tmp_path, kind):
    data = s.arrays(*bright_quarters(16), batch=16)
    net = small_network().initialize("cpu:0", session=s, like=data)
    trainer = ls.Trainer(net, lr=0.1)
    checkpoints = ls.Checkpoints(trainer, data, tmp_path)
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps({"data": data, "trainer": trainer, "checkpoints": checkpoints, "device": s.cpu(0)}[kind])


def test_errors_are_pickled(s):
    with pytest.raises(ls.Error) as failure:
        s.devices("cpu:zero")
    again = pickle.loads(pickle.dumps(failure.value))
    assert (again.status, str(again), again.together) == ("BAD_ARGUMENT", str(failure.value), False)
