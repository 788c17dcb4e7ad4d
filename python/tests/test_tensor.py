"""Numbers in and out, rows, devices, gradients, and how long tensors live."""
import copy
import gc
import weakref

import numpy
import pytest

import lockstep as ls
from conftest import bright_quarters


def test_numbers_go_in_and_come_out(s):
    values = numpy.arange(24, dtype=numpy.float32).reshape(2, 3, 4)
    x = s.tensor(values)
    assert x.shape == (2, 3, 4) and x.ndim == 3 and len(x) == 2
    assert numpy.array_equal(x.numpy(), values) and x.numpy().dtype == numpy.float32
    assert numpy.array_equal(numpy.asarray(x), values)
    assert numpy.array_equal(s.tensor(values.T).numpy(), values.T)  # not in C order
    assert numpy.array_equal(s.tensor(values.astype(numpy.float64)).numpy(), values)
    assert numpy.array_equal(s.tensor([[1, 2], [3, 4]]).numpy(), [[1, 2], [3, 4]])
    assert s.tensor(7).item() == 7 and float(s.tensor(7)) == 7
    values[0] = -1  # it was copied
    assert x.numpy()[0, 0, 1] == 1
    assert numpy.array_equal(s.arange(2, 2, first=3).numpy(), [[3, 4], [5, 6]])
    assert numpy.array_equal(s.full(2, (3,)).numpy(), [2, 2, 2]) and not s.zeros(2).numpy().any()
    assert repr(s.arange(2, 2)) == "[[0, 1],\n [2, 3]] on the host"
    with pytest.raises(ValueError, match="at most 4 sizes, not 5"):
        s.zeros(1, 1, 1, 1, 1)


def test_draws_go_by_seed_and_key():
    with ls.Session(seed=3) as one, ls.Session(seed=3) as same, ls.Session(seed=4) as other:
        drawn = [session.randn("w", 3, 5, scale=0.1).numpy() for session in (one, same, other)]
        assert numpy.array_equal(drawn[0], drawn[1]) and not numpy.array_equal(drawn[0], drawn[2])
        u = one.uniform("u", 100).numpy()
        assert 0 <= u.min() and u.max() < 1


def test_other_libraries_arrays(s):
    torch = pytest.importorskip("torch")
    values = torch.arange(6, dtype=torch.float32).reshape(2, 3).requires_grad_()
    x = s.tensor(values)
    assert torch.equal(torch.from_dlpack(x), values.detach())
    mine = s.from_dlpack(values)  # and back, all in one memory
    there = torch.from_dlpack(mine)
    assert there.data_ptr() == values.data_ptr() == address(mine)
    there[1, 2] = 7
    assert mine.numpy()[1, 2] == 7 and values[1, 2] == 7
    del values, there
    gc.collect()
    assert mine.numpy()[1, 2] == 7
    assert torch.equal(torch.from_dlpack(s.arange(2).to(s.cpu(0))), torch.arange(2.0))  # from elsewhere a copy
    for other in (torch.zeros(2, 3).T, torch.zeros(2, dtype=torch.float64), torch.zeros(2).numpy()[::-1]):
        assert numpy.array_equal(s.from_dlpack(other).numpy(), other)


def address(x):
    return numpy.from_dlpack(x).__array_interface__["data"][0]


def test_numbers_beside_tensors(s):
    for values in (numpy.array([3, -7, 0.3], "f"), numpy.array([[3, -7], [0.3, 1e-3]], "f")):
        x = s.tensor(values).to(s.cpu(0))
        for of in (lambda x: x + 0.1, lambda x: 0.1 + x, lambda x: x - 3, lambda x: 1 - x, lambda x: x * 0.1, lambda x: 3 * x, lambda x: x / 3,
                   lambda x: 2 / x, lambda x: x + numpy.float32(0.1), lambda x: numpy.float32(0.1) - x, lambda x: x - numpy.int64(7)):
            assert numpy.array_equal(of(x).numpy(), of(values).astype("f"))
    y = s.tensor([2, 4]).to(s.cpu(0)).track()
    (1 - 3 / y).backward()
    assert numpy.allclose(y.grad.numpy(), [3 / 4, 3 / 16])
    with pytest.raises(TypeError, match="unsupported operand"):
        y + "1"


class Lent:
    """Another library's array: nothing but DLPack."""

    def __init__(self, values):
        self.values = values

    def __dlpack__(self, **keywords):
        return self.values.__dlpack__(**keywords)

    def __dlpack_device__(self):
        return self.values.__dlpack_device__()


@pytest.mark.parametrize("kind", [lambda values: values, Lent])
@pytest.mark.parametrize("device", ["host", "cpu:0"])
def test_arrays_beside_tensors(s, kind, device):
    values, labels = numpy.array([[3, -7, 0.3], [0.5, 2, 1e-3]], "f"), numpy.array([2, 0], numpy.int64)
    place = s.host() if device == "host" else s.devices(device)[0]
    x, y = s.tensor(values).to(place), s.tensor(labels).to(place)
    assert ls.cross_entropy(x, kind(labels)).device == place
    assert numpy.array_equal(ls.cross_entropy(x, kind(labels)).numpy(), ls.cross_entropy(x, y).numpy())
    square = numpy.array([[1, 2, 3], [4, 5, 6], [7, 8, 9]], "f")
    for of in (lambda x, a: x + a, lambda x, a: a + x, lambda x, a: x - a, lambda x, a: a - x, lambda x, a: x * a, lambda x, a: a * x,
               lambda x, a: x / a, lambda x, a: a / x):
        assert numpy.array_equal(of(x, kind(values + 1)).numpy(), of(x, s.tensor(values + 1).to(place)).numpy())
    if device != "host":  # matrices are multiplied on devices
        assert numpy.array_equal((x @ kind(square)).numpy(), values @ square)
        assert numpy.array_equal((kind(square) @ s.tensor(square).to(place)).numpy(), square @ square)
    assert numpy.array_equal(ls.concat([x, kind(values)]).numpy(), ls.concat([x, x.clone()]).numpy())
    weights = s.tensor(values).to(place).track()
    (weights * kind(values)).backward(kind(numpy.ones_like(values)))
    assert numpy.array_equal(weights.grad.numpy(), values)
    assert numpy.array_equal(s.zeros(2, 3).to(place).assign(kind(values)).add_to(kind(values)).numpy(), 2 * values)
    for wrong in ((lambda: x + kind(numpy.zeros((2, 5), "f"))), (lambda: ls.mse(x, kind(numpy.zeros((3, 3), "f"))))):
        with pytest.raises(ls.Error) as failure:
            wrong().numpy()
        assert failure.value.status == "BAD_SHAPE"


def test_methods_that_others_tensors_have_are_functions_here(s):
    x = s.zeros(2, 3)
    with pytest.raises(AttributeError, match=r"'mean'; functions of tensors are lockstep's own, such as mean, mean_each, mean_over$"):
        x.mean(1)
    with pytest.raises(AttributeError, match=r"such as flatten$"):
        x.flatten()
    with pytest.raises(AttributeError, match=r"'view'; .* help\(lockstep\) lists them$"):
        x.view(6)
    assert not hasattr(x, "__cuda_array_interface__")


def test_dlpack(s):
    x = s.arange(2, 3)
    assert numpy.array_equal(numpy.from_dlpack(x), [[0, 1, 2], [3, 4, 5]])
    assert address(x) == address(x) and address(x[1]) == address(x) + 12
    assert numpy.from_dlpack(s.full(3)).shape == ()
    values = numpy.arange(4, dtype=numpy.float32)
    y = s.from_dlpack(values)
    y.assign(s.full(9, 4))
    s.wait()
    assert (values == 9).all()
    fixed = numpy.frombuffer(bytes(8), numpy.float32)  # which may not be written
    s.from_dlpack(fixed).assign(s.full(1, 2))
    assert not fixed.any()


def test_memory_of_others_is_let_go_of():
    with ls.Session() as s:
        values = numpy.ones(1000, numpy.float32)
        seen = weakref.ref(values)
        x = s.from_dlpack(values)
        y = x.to(s.cpu(0)) + x.to(s.cpu(0))
        del values, x
        assert seen() is not None or y.numpy().sum() == 2000
        assert (y.numpy() == 2).all()
        s.wait()
        assert seen() is None
        values = numpy.ones(1000, numpy.float32)
        seen = weakref.ref(values)
        kept = s.from_dlpack(values)
        del values
    assert seen() is None  # with the session
    with pytest.raises(ReferenceError, match="closed"):
        kept.numpy()


def test_memory_that_others_have_outlives_the_session():
    with ls.Session() as s:
        x = s.arange(100000)
        there = numpy.from_dlpack(x)
        alive = s._close
    assert s.closed and alive.alive
    with pytest.raises(ls.Error, match="closed"):
        s.zeros(1)
    with pytest.raises(ReferenceError, match="closed"):
        x.numpy()
    del s, x
    gc.collect()
    assert there[99999] == 99999
    del there
    gc.collect()
    assert not alive.alive


def test_rows_and_devices(s):
    x = s.arange(5, 2)
    assert numpy.array_equal(x[1].numpy(), [2, 3]) and numpy.array_equal(x[-1].numpy(), [8, 9])
    assert [row.numpy()[0] for row in x] == [0, 2, 4, 6, 8]
    with pytest.raises(IndexError, match="row 5 of 5"):
        x[5]
    with pytest.raises(TypeError, match="lockstep.slice"):
        x[1:2]
    devices = s.devices("cpu:0,cpu:1")
    assert repr(devices) == "[cpu(0), cpu(1)]" and repr(devices[1]) == "cpu(1)" and devices[0] == s.cpu(0)
    parts = x.scatter(devices)
    assert [part.shape for part in parts] == [(3, 2), (2, 2)] and repr(parts[1].device) == "cpu(1)"
    assert numpy.array_equal(s.gather(parts).numpy(), x.numpy())
    assert x.to(s.host()).numpy()[4, 1] == 9
    y = x.clone(s.cpu(0))
    y.assign(parts and s.zeros(5, 2)).add_to(x.to(s.cpu(0)))
    assert numpy.array_equal(y.numpy(), x.numpy())
    assert x.device.type == "host" and devices[1].type == "cpu" and devices[1].index == 1
    assert s.cpu(0).about() and s.cpu(0).core >= 0
    assert s.device_count("cpu") >= 1 and s.bytes_moved > 0


def test_errors_are_exceptions_and_the_session_goes_on(s):
    with pytest.raises(ls.Error, match="should be like cpu:0, cpu:0-3 or cuda:0") as failure:
        s.devices("cpu:zero")
    assert failure.value.status is ls.Status.BAD_ARGUMENT
    with pytest.raises(ls.Error) as failure:
        s.devices("cpu:255,cuda:77")
    assert failure.value.status == "NO_DEVICE"
    with pytest.raises(ls.Error) as failure:
        ls.matmul(s.zeros(2, 3).to(s.cpu(0)), s.zeros(4, 5).to(s.cpu(0)))
    assert failure.value.status == "BAD_SHAPE" and "(2, 3)" in str(failure.value)
    with pytest.raises(TypeError, match="x is ndarray, and no lockstep.Tensor beside it tells the session; session.tensor"):
        ls.relu(numpy.zeros(3))
    with pytest.raises(TypeError, match="y is list, and must be a lockstep.Tensor or an array; session.tensor"):
        ls.cross_entropy(s.zeros(2, 3), [0, 1])
    with pytest.raises(ls.Error):
        ls.Session(shard=-1)
    assert s.zeros(2).numpy().shape == (2,)


def test_arithmetic_is_the_librarys(s):
    a, b = s.arange(2, 3, first=1).to(s.cpu(0)), s.full(2, 2, 3).to(s.cpu(0))
    A, B = a.numpy(), b.numpy()
    for made, wanted in ((a + b, A + B), (a - b, A - B), (a * b, A * B), (a / b, A / B), (a * 3, A * 3), (3 * a, A * 3), (-a, -A),
                         (a ** 2, A ** 2), (abs(-a), A), (ls.clamp(a, 2, 4), A.clip(2, 4)), (ls.sum_each(a), A.sum(1)),
                         (ls.slice(a, 1, 0, 2), A[:, :2]), (ls.concat_along([a, b], 1), numpy.concatenate([A, B], 1))):
        assert numpy.allclose(made.numpy(), wanted)
    assert numpy.allclose((a @ s.arange(3, 2).to(s.cpu(0))).numpy(), A @ s.arange(3, 2).numpy())
    with ls.Session() as other, pytest.raises(ValueError, match="two sessions"):
        ls.add(a, other.zeros(2, 3))


def test_gradients(s):
    w = s.randn("w", 3, 2).to(s.cpu(0)).track()
    x = s.arange(4, 3).to(s.cpu(0))
    ls.sum_each(ls.matmul(x, w) ** 2).backward()
    X, W = x.numpy(), w.numpy()
    assert numpy.allclose(w.grad.numpy(), 2 * X.T @ (X @ W), rtol=1e-4)
    s.sgd_step([w], lr=0.1, rows=4)
    assert numpy.allclose(w.numpy(), W - 0.1 / 4 * 2 * X.T @ (X @ W), rtol=1e-4)
    with pytest.raises(ls.Error) as failure:
        s.sgd_step([w], lr=0.1, rows=4)
    assert failure.value.status == "STALE"
    y = ls.matmul(x, w)
    y.backward(s.full(1, 4, 2).to(s.cpu(0)))
    assert numpy.allclose(w.grad.numpy(), X.T @ numpy.ones((4, 2)))
    w.clear_grad()


def test_losses(s):
    logits, y = s.randn("l", 6, 3).to(s.cpu(0)), s.tensor([0, 1, 2, 0, 1, 2]).to(s.cpu(0))
    L, Y = logits.numpy().astype(float), y.numpy().astype(int)
    logs = L - numpy.log(numpy.exp(L).sum(1, keepdims=True))
    assert numpy.allclose(ls.cross_entropy(logits, y).numpy(), -logs[range(6), Y], atol=1e-5)
    smooth = -(0.9 * logs[range(6), Y] + 0.1 * logs.mean(1))
    assert numpy.allclose(ls.cross_entropy(logits, y, smoothing=0.1).numpy(), smooth, atol=1e-5)
    ignored = ls.cross_entropy(logits, y, ignore=0).numpy()
    assert not ignored[::3].any() and ignored[1] > 0
    weighed = ls.cross_entropy(logits, y, class_weights=[1, 2, 0]).numpy()
    assert numpy.allclose(weighed, -logs[range(6), Y] * numpy.array([1, 2, 0])[Y], atol=1e-5)
    assert numpy.allclose(ls.huber(logits, s.zeros(6, 3).to(s.cpu(0)), delta=10).numpy(), (L ** 2).mean(1) / 2, atol=1e-5)


def test_tensors_outlive_their_batch_and_go_with_their_last_name(s):
    images, labels = bright_quarters(40)
    data = s.arrays(images, labels, batch=16)
    kept = list(data)
    assert numpy.array_equal(numpy.concatenate([X.numpy() for X, _ in kept]), images.astype(numpy.float32) / 255)
    assert numpy.array_equal(numpy.concatenate([y.numpy() for _, y in kept]), labels)
    y = x = s.arange(3)
    for _ in range(50):
        y = y.to(s.host())  # the same one, of which each name holds it
    del x
    gc.collect()
    s.wait()
    assert y.numpy()[2] == 2


def test_memory_does_not_grow_with_a_loop(s):
    def resident():
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * 4096

    for i in range(400):
        assert len(s.zeros(1000, 1000)) == 1000
        if i == 100:
            before = resident()
    assert resident() - before < 100e6, "each of 300 tensors was 4 MB"


def test_what_has_ended_says_so(s):
    with ls.Session() as other:
        x = other.zeros(2)
        device = other.cpu(0)
    with pytest.raises(ReferenceError, match="closed"):
        x.numpy()
    with pytest.raises(ls.Error, match="closed"):
        other.zeros(2)
    with pytest.raises(ls.Error, match="closed"):
        repr(device)
    assert "closed" in repr(x) and "closed" in repr(other) and other.closed
    other.close()
    for thing in (s, s.zeros(1)):
        with pytest.raises(TypeError, match="pickled"):
            copy.deepcopy(thing)
