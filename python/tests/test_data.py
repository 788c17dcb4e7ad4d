"""Data from arrays, batches, data sets; epochs, and what loops that end early leave."""
import tracemalloc

import numpy
import pytest

import lockstep as ls
from conftest import bright_quarters, small_network


def epochs_labels(data):
    return numpy.concatenate([y.numpy() for _, y in data]).astype(int)


def test_arrays(s):
    images, labels = bright_quarters(20)
    data = s.arrays(images[:, 0], labels, batch=8)  # (rows, height, width)
    assert (data.rows, len(data), data.classes) == (20, 3, 4)
    assert data.about() == ls.data.DataInfo(20, 1, 8, 8, 4, False, 4)
    assert "20 images 1x8x8" in data.summary() and "20 rows of 1x8x8, 4 classes, 3 batches" in repr(data)
    floats = s.arrays(images / 255, labels.astype(numpy.float32), batch=8)  # targets
    X, y = next(iter(floats))
    assert numpy.array_equal(X.numpy(), next(iter(data))[0].numpy()) and y.shape == (8,) and floats.classes == 0
    sequences = s.arrays(numpy.zeros((6, 5, 3)), numpy.arange(6) * 100, classes=1000)
    assert sequences.classes == 1000 and next(iter(sequences))[0].shape == (6, 5, 3)
    nothing = s.arrays(numpy.zeros((6, 2)))
    assert next(iter(nothing))[1] is None
    several = s.arrays(numpy.zeros((6, 2)), numpy.arange(6), inputs=[numpy.ones((6, 3))])
    (a, b), y = next(iter(several))
    assert a.shape == (6, 2) and b.numpy().all()
    assert data.count().fewest == 5 and data.checksum() != floats.checksum()
    with pytest.raises(ls.Error) as failure:
        s.arrays(numpy.full((2, 2), numpy.nan))
    assert failure.value.status == "BAD_ARGUMENT"
    with pytest.raises(TypeError):
        s.arrays(images, labels, batches=3)


def test_targets_move_with_their_images(s):
    maps = numpy.arange(1, 33, dtype=numpy.float32).reshape(2, 1, 4, 4)
    data = s.arrays(maps, maps[:, 0], batch=2, flip=True, crop=1, edge_target=-1)
    for _ in range(3):
        for X, y in data:
            assert numpy.array_equal(numpy.where(X.numpy() == 0, -1, X.numpy())[:, 0], y.numpy())


def test_single_numbers_are_rows_of_one(s):
    (a, b), y = next(iter(s.arrays(numpy.arange(5), numpy.arange(5.0), inputs=[numpy.arange(5)], batch=5)))
    assert a.shape == b.shape == (5, 1) and y.shape == (5,)


def test_a_loop_is_an_epoch(s):
    images, labels = bright_quarters(40)
    data = s.arrays(images, labels, batch=16, shuffle=True)
    first, second = epochs_labels(data), epochs_labels(data)
    assert sorted(first) == sorted(labels) and not numpy.array_equal(first, second)
    for _ in data:
        break  # of the third
    fourth = epochs_labels(data)
    assert len(fourth) == 40
    data.seek(0)
    assert numpy.array_equal(epochs_labels(data), first)
    data.seek(3)
    assert numpy.array_equal(epochs_labels(data), fourth)
    data.seek(0, 1)
    assert numpy.array_equal(epochs_labels(data), first[16:])


def test_a_partial_batch_may_be_left_out(s):
    images, labels = bright_quarters(40)
    data = s.arrays(images, labels, batch=16, shuffle=True, drop_last=True)
    assert len(data) == 2 and [len(epochs_labels(data)) for _ in range(2)] == [32, 32]
    net = small_network().initialize("cpu:0", session=s, like=data)
    assert net.evaluate(data).rows == 40 and net.predict(images).shape == (40, 4)
    with pytest.raises(ls.Error, match="data: .* and drop_last leaves"):
        data.hold_out(30)
    with pytest.raises(ls.Error, match="40 images fill no batch of 41"):
        s.arrays(images, labels, batch=41, drop_last=True)
    items = s.dataset(list(zip(images, labels)), classes=4, lazy=True, batch=16, drop_last=True)
    assert len(items) == 2 and len(epochs_labels(items)) == 32


def test_parts_are_held_out(s):
    images, labels = bright_quarters(40)
    data = s.arrays(images, labels)
    held = data.hold_out(10)
    assert (data.rows, held.rows) == (30, 10)
    del data
    s.wait()
    assert len(epochs_labels(held)) == 10


def test_batches_of_any_kind(s):
    images, labels = bright_quarters(40)
    images = images / 255
    cut = [(images[i:i + 16], labels[i:i + 16]) for i in (0, 16, 32)]
    made = []

    def make():
        made.append(1)
        yield from cut

    wanted = epochs_labels(s.arrays(images, labels, batch=16))
    for source in (cut, make):
        data = s.batches(source, classes=4, rows=40)
        assert len(data) == 3 and data.classes == 4
        for _ in range(2):
            assert numpy.array_equal(epochs_labels(data), wanted)
    assert len(made) == 3  # looked at once, and one for each epoch
    data.seek(5, 1)
    assert numpy.array_equal(epochs_labels(data), wanted[16:])
    assert s.batches(cut, classes=4).rows == 40
    targets = s.batches([(images[:4, 0, 0], images[:4, 0])], name="pairs")
    assert next(iter(targets))[1].shape == (4, 8, 8)
    for wrong, match in ((make(), "an iterator gives its batches once"), ([], "there are no batches")):
        with pytest.raises((TypeError, ValueError), match=match):
            s.batches(wrong, classes=4)
    with pytest.raises(TypeError, match="classes is missing"):
        s.batches(cut)


def test_what_a_source_raises_arrives_whole(s):
    images, labels = bright_quarters(32)
    images = images / 255

    class Mine(Exception):
        pass

    wrong = True

    def make():
        yield images[:16], labels[:16]
        if wrong:
            raise Mine("no more")
        yield images[16:], labels[16:]

    data = s.batches(make, classes=4, rows=32)
    with pytest.raises(Mine, match="no more") as failure:
        list(data)
    assert any(entry.name == "make" for entry in failure.traceback)
    wrong = False
    assert len(epochs_labels(data)) == 32  # and the session goes on
    short = s.batches([(images[:16], labels[:16]), (images[:3], labels[:3])], classes=4, rows=32)
    with pytest.raises(ValueError, match=r"batch 1 of epoch 0: X is \(3, 1, 8, 8\), and must be \(16, 1, 8, 8\)"):
        list(short)
    with pytest.raises(ValueError, match="the batches end with number 1 of epoch 0"):
        list(s.batches([(images[:16], labels[:16])], classes=4, rows=32))

    def uses_the_session():
        yield images, labels
        s.zeros(3)
        yield images, labels

    with pytest.raises(ls.Error, match="must not use the session"):
        list(s.batches(uses_the_session, classes=4, rows=64))


class Items:
    """As a torch Dataset."""

    def __init__(self):
        self.images, self.labels = bright_quarters(40)
        self.images = self.images / 255

    def __len__(self):
        return 40

    def __getitem__(self, i):
        return self.images[i], int(self.labels[i])


@pytest.mark.parametrize("lazy", [False, True])
def test_data_sets(s, lazy):
    data = s.dataset(Items(), classes=4, lazy=lazy, batch=16)
    assert numpy.array_equal(epochs_labels(data), Items().labels) and len(data) == 3
    net = small_network().initialize("cpu:0", session=s)
    whole = s.arrays(Items().images, Items().labels)
    net.infer(next(iter(whole))[0])
    assert net.evaluate(data) == net.evaluate(whole)


def test_torch_loader(s):
    torch = pytest.importorskip("torch")
    images, labels = bright_quarters(40)
    items = torch.utils.data.TensorDataset(torch.tensor(images / 255, dtype=torch.float32), torch.tensor(labels))
    data = s.batches(torch.utils.data.DataLoader(items, batch_size=16), classes=4)
    assert data.rows == 40 and numpy.array_equal(epochs_labels(data), labels)
    assert numpy.array_equal(epochs_labels(s.dataset(items, batch=16)), labels)


def peak_of(work):
    """Bytes that Python and NumPy held at once while it ran."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("kind", ["arrays", "batches"])
def test_batches_are_not_copied_in_python(s, kind):
    images = numpy.random.default_rng(0).random((2048, 1, 28, 28), numpy.float32)
    labels = (numpy.arange(2048) % 4).astype(numpy.int32)
    cut = [(images[i:i + 1024], labels[i:i + 1024]) for i in (0, 1024)]  # 3 MB each
    data = s.arrays(images, labels, batch=1024) if kind == "arrays" else s.batches(cut, classes=4)
    net = ls.nn.Sequential(ls.nn.Flatten(), ls.nn.Linear(4)).initialize("cpu:0", session=s)
    ls.fit(net, data, epochs=1, lr=0.1)
    assert peak_of(lambda: ls.fit(net, data, epochs=2, lr=0.1)) < 300_000
    assert peak_of(lambda: net.evaluate(data)) < 300_000
    assert peak_of(lambda: numpy.copy(images[:1024])) > 3_000_000  # which would be seen


def test_pictures_and_names(s, tmp_path):
    with pytest.raises(ls.Error) as failure:
        s.data("folder", directory=tmp_path)
    assert failure.value.status in ("IO", "UNSUPPORTED")
    with pytest.raises(ls.Error):
        s.read_picture(tmp_path / "none.png", 1, 2, 2)
    with pytest.raises(ls.Error):
        s.data("no such data")
    images, labels = bright_quarters(12)
    train = s.arrays(images, numpy.zeros(12, int))
    assert any("class" in line for line in train.doubts(s.arrays(images, labels)))
    assert train.class_name(0) is None and not train.reads(tmp_path / "x")
    def told(line):
        raise KeyError(line)
    (tmp_path / "train" / "a").mkdir(parents=True)
    (tmp_path / "train" / "a" / "x.png").write_bytes(b"no picture")
    (tmp_path / "train" / "a" / "y.png").write_bytes(b"no picture")
    with pytest.raises((KeyError, ls.Error)):
        s.data("folder", directory=tmp_path, told=told)
    for call in (ls.verify, lambda *a: ls.fetch(s, "file:///nowhere", tmp_path)):
        with pytest.raises(ls.Error):
            call(s, tmp_path)
