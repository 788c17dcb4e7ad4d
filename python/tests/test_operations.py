"""Operations of one's own in NumPy: values, gradients, training, and what they raise."""
import ctypes

import numpy
import pytest

import lockstep as ls
from conftest import CLASSES, bright_quarters, run_python

relu = ls.Operation(lambda x: numpy.maximum(x, 0), lambda inputs, y, dy: [numpy.where(y > 0, dy, 0)], name="my_relu")
scaled = ls.Operation(lambda x, a: x * a[:, None, None], parameters=[1], name="scaled",
                      backward=lambda inputs, y, dy: [dy * inputs[1][:, None, None], (dy * inputs[0]).sum((0, 2, 3))])
halves = ls.Operation(lambda x: x[:, ::2] + x[:, 1::2], lambda inputs, y, dy: [dy.repeat(2, 1)], name="halves",
                      shape=lambda x: (x[0] // 2,))


def test_values_and_slopes(s):
    x = s.randn("x", 5, 2, 3, 3).to(s.cpu(0))
    assert numpy.array_equal(relu(x).numpy(), ls.relu(x).numpy())
    a = s.tensor([2, -1]).to(s.cpu(0)).track()
    ls.sum_each(scaled(x, a)).backward()
    assert numpy.allclose(a.grad.numpy(), x.numpy().sum((0, 2, 3)), rtol=1e-4)
    assert halves(s.arange(2, 4).to(s.cpu(0))).numpy().tolist() == [[1, 5], [9, 13]]
    assert relu.check(s, [(2, 3, 3)]) < 1e-3
    assert scaled.check(s, [(2, 3, 3), (2,)]) < 1e-3
    assert halves.check(s, [(6,)]) < 1e-3
    wrong = ls.Operation(lambda x: x * x, lambda inputs, y, dy: [dy])
    assert wrong.check(s, [(3,)]) > 0.1
    with pytest.raises(ls.Error) as failure:
        ls.Operation(lambda x: x).check(s, [(3,)])
    assert failure.value.status == "UNSUPPORTED"
    with pytest.raises(TypeError, match="needs a tensor"):
        relu()


def test_training_has_the_bits_of_the_librarys_own():
    prints = []
    for function, devices in ((ls.relu, "cpu:0"), (relu, "cpu:0"), (relu, "cpu:0-2")):
        with ls.Session(seed=1, shard=8) as s:
            data = s.arrays(*bright_quarters(64), batch=32, shuffle=True)
            net = ls.nn.Sequential(ls.nn.Conv2d(4, 3), function, ls.nn.Flatten(), ls.nn.Linear(CLASSES))
            ls.fit(net.initialize(s.devices(devices), init="he"), data, data, epochs=2, lr=0.1)
            prints.append(net.fingerprint())
    assert prints[0] == prints[1] == prints[2]


def test_forms_for_others(s, tmp_path):
    never = ctypes.CFUNCTYPE(ctypes.c_bool)(lambda: False)  # no card calls it here
    for function in (never, ctypes.cast(never, ctypes.c_void_p).value, None):
        swish = ls.Operation(lambda x: x / (1 + numpy.exp(-x)), name="swish", onnx="a = Sigmoid (x0); y = Mul (x0, a)", cuda_forward=function)
        assert numpy.allclose(swish(s.full(1, 2, 3).to(s.cpu(0))).numpy(), 0.7310586)
    net = ls.nn.Sequential(ls.nn.Linear(4), swish).initialize("cpu:0", session=s)
    net.infer(numpy.zeros((1, 3)))
    net.export_onnx(tmp_path / "swish.onnx")
    assert b"Sigmoid" in (tmp_path / "swish.onnx").read_bytes()
    unsaid = ls.nn.Sequential(ls.Operation(lambda x: x, name="unsaid")).initialize("cpu:0", session=s)
    unsaid.infer(numpy.zeros((1, 3)))
    with pytest.raises(ls.Error, match="unsaid .* has no operator in ONNX") as failure:
        unsaid.export_onnx(tmp_path / "unsaid.onnx")
    assert failure.value.status == "UNSUPPORTED"
    with pytest.raises(ls.Error, match="line 2 of its onnx"):
        ls.Operation(lambda x: 2 * x, lambda inputs, y, dy: [2 * dy], onnx="a = Add (x0, x0)\ny = Mul (b, b)").check(s, [(3,)])


def test_what_they_raise_arrives(s):
    class Mine(Exception):
        pass

    def raises(*_):
        raise Mine("from within")

    x = s.randn("x", 5, 3).to(s.cpu(0))
    with pytest.raises(Mine, match="from within"):
        ls.Operation(raises)(x).numpy()
    with pytest.raises(Mine):
        ls.Operation(lambda x: x, shape=raises)(x)
    with pytest.raises(ValueError, match=r"my: its result is \(5,\), and must be \(5, 3\)"):
        ls.Operation(lambda x: x[:, 0], name="my")(x).numpy()
    with pytest.raises(ValueError, match="read-only"):
        ls.Operation(lambda x: x.__iadd__(1))(x).numpy()
    with pytest.raises(ls.Error, match="must not use the session"):
        ls.Operation(lambda x: s.zeros(5, 3).numpy())(x).numpy()
    data = s.arrays(numpy.ones((8, 3)), numpy.arange(8) % 3)
    net = ls.nn.Sequential(ls.nn.Linear(3), ls.Operation(lambda x: x, raises)).initialize("cpu:0", session=s, like=data)
    with pytest.raises(Mine):
        ls.fit(net, data, epochs=2, lr=0.1)
    assert numpy.isfinite(net["0.weight"].numpy()).all() and s.zeros(1).item() == 0


def test_python_ends_while_they_are_at_work():
    out, _ = run_python("""
        import time, numpy, lockstep as ls
        slow = ls.Operation(lambda x: (time.sleep(0.05), x)[1], lambda inputs, y, dy: [dy])
        s = ls.Session(shard=8)
        data = s.arrays(numpy.ones((64, 3)), numpy.arange(64) % 3)
        net = ls.nn.Sequential(ls.nn.Linear(3), slow).initialize("cpu:0-1", session=s)
        trainer = ls.Trainer(net, lr=0.1)
        for X, y in data:
            ls.cross_entropy(net(X), y).backward()
            trainer.step()
        print("fine", flush=True)
    """)
    assert out == "fine\n"
