"""Networks: descriptions, forwards, parameters, files."""
import copy
import pickle

import numpy
import pytest

import lockstep as ls
from conftest import CLASSES, bright_quarters, run_python, small_network


class Residual(ls.Module):
    def __init__(self, channels):
        self.conv = ls.nn.Conv2d(channels, 3, padding=1)
        self.norms = [ls.nn.BatchNorm(), ls.nn.BatchNorm()]

    def forward(self, x):
        return ls.relu(self.norms[1](self.conv(self.norms[0](x))) + x)


@pytest.fixture
def data(s):
    return s.arrays(*bright_quarters(64), batch=32)


def test_descriptions_need_no_session():
    net = ls.nn.Sequential(ls.nn.Conv2d(4, 3), Residual(4), ls.relu, ls.nn.LeakyReLU(0.1))
    assert repr(net).splitlines() == ["Sequential(", "  (0): Conv2d(4, 3)", "  (1): Residual(", "    (conv): Conv2d(4, 3, padding=1)",
                                      "    (norms): ModuleList(", "      (0): BatchNorm()", "      (1): BatchNorm()", "    )", "  )",
                                      "  (2): Function(relu)", "  (3): LeakyReLU(0.1)", ")"]
    assert repr(ls.nn.Conv2d(4, 3, bias=False)) == "Conv2d(4, 3, bias=False)"
    assert [path for path, _ in net.modules()][2:4] == ["1", "1.conv"]
    for use in (lambda: net(numpy.zeros((1, 1, 4, 4))), net.state_dict, net.fingerprint):
        with pytest.raises(ls.Error, match="no session yet; initialize gives it to one") as failure:
            use()
        assert failure.value.status == "NOT_INITIALIZED"
    with pytest.raises(TypeError, match="initialize needs a session"):
        net.initialize()
    for copied in (copy.deepcopy(net), pickle.loads(pickle.dumps(net))):
        assert repr(copied) == repr(net) and copied[0] is not net[0] and copied[1].conv is copied[1].children()["conv"]
    with pytest.raises(TypeError, match="3 is no module"):
        ls.nn.Sequential(3)


def test_parts_have_pytorchs_names(s, data):
    net = ls.nn.Sequential({"stem": ls.nn.Conv2d(4, 3, padding=1, bias=False), "block": Residual(4)})
    net.append(ls.nn.Flatten()).append(ls.nn.Linear(CLASSES), "out")
    net.initialize(s.devices("cpu:0"), init="he", like=data)
    assert [(p.name, p.shape) for p in net.parameters() if p.trainable] == [
        ("stem.weight", (4, 1, 3, 3)), ("block.norms.0.weight", (4,)), ("block.norms.0.bias", (4,)), ("block.conv.weight", (4, 4, 3, 3)),
        ("block.conv.bias", (4,)), ("block.norms.1.weight", (4,)), ("block.norms.1.bias", (4,)),
        ("out.weight", (4, 256)), ("out.bias", (4,))]
    assert "block.norms.1.running_var" in net.state_dict() and "out.weight" in net.summary()
    assert net["out.weight"].shape == (4, 256) and net["block"].conv is net["block"].children()["conv"] is net[1].conv
    assert net.images_shape == (-1, 1, 8, 8)
    with pytest.raises(ls.Error) as failure:
        net["no.weight"]
    assert failure.value.status == "BAD_ARGUMENT"


def test_initial_values(s, data):
    net = small_network().initialize("cpu:0", session=s, init="normal:0.5", like=data)
    assert 0.3 < net["5.weight"].numpy().std() < 0.7
    before = net.checksum()
    with pytest.raises(ls.Error, match="has values already"):
        net.initialize("cpu:0")
    assert net.checksum() == before
    net.initialize("cpu:0", init="xavier", force=True, like=data)
    assert net.checksum() != before and repr(net.devices) == "[cpu(0)]"
    with pytest.raises(ValueError, match="'normal', 'xavier', 'he'"):
        net.initialize("cpu:0", init="zeros")
    told = small_network().initialize("cpu:0", init="xavier", session=s, shape=(2, 1, 8, 8))
    assert told.fingerprint() == net.fingerprint()
    with pytest.raises(ls.Error, match="like and shape"):
        small_network().initialize("cpu:0", session=s, shape=(2, 1, 8, 8), like=data)
    late = small_network().initialize("cpu:0", session=s)
    with pytest.raises(ls.Error) as failure:
        late["0.weight"]
    assert failure.value.status == "SHAPE_UNKNOWN"
    assert late.infer(numpy.zeros((2, 1, 8, 8))).shape == (2, CLASSES)
    assert late["0.weight"].shape == (8, 1, 3, 3)


def test_forward_equals_numpy(s):
    class Dense(ls.Module):
        def forward(self, x):
            return ls.tanh(ls.linear(x, self.parameter("weight", 5, x.shape[1]), self.parameter("bias", 5)))

    net = Dense().initialize("cpu:0", session=s, init="xavier")
    x = numpy.random.default_rng(0).normal(size=(7, 3)).astype(numpy.float32)
    y = net.infer(x).numpy()
    state = net.state_dict()
    assert numpy.allclose(y, numpy.tanh(x @ state["weight"].T + state["bias"]), atol=1e-5)
    assert numpy.array_equal(net.predict(x), y)


def test_several_inputs_and_parts_with_more(s):
    class Both(ls.Module):
        def __init__(self):
            self.left, self.right = ls.nn.Linear(4), ls.nn.Linear(4)

        def forward(self, a, b, scale=1.0):
            return self.left(a) + ls.scale(self.right(b), scale)

    class Outer(ls.Module):
        def __init__(self):
            self.both = Both()

        def forward(self, a, b):
            return self.both(a, b, scale=2.0)

    for net, scale in ((Both(), 1), (Outer(), 2)):
        net.initialize("cpu:0", session=s, init="xavier")
        a, b = numpy.ones((5, 2), numpy.float32), numpy.ones((5, 3), numpy.float32)
        y, state = net.infer(a, b).numpy(), net.state_dict()
        w = {name.replace("both.", ""): value for name, value in state.items()}
        assert numpy.allclose(y, a @ w["left.weight"].T + scale * b @ w["right.weight"].T, atol=1e-5)
        data = s.arrays(a, numpy.arange(5) % 4, inputs=[b])
        (X, y_) = next(iter(data))
        assert numpy.array_equal(net.infer(X).numpy(), y)
        assert net.evaluate(data).rows == 5


def test_recurrent_lengths(s):
    class Tagger(ls.Module):
        def __init__(self):
            self.lstm = ls.nn.LSTM(3)

        def forward(self, x, lengths):
            return ls.last_token(self.lstm(x, lengths), lengths)

    net = Tagger().initialize("cpu:0", session=s, init="xavier")
    x = numpy.random.default_rng(0).normal(size=(2, 5, 4))
    changed = x.copy()
    changed[0, 3:] = 9  # behind its length
    lengths = numpy.array([3, 5])  # or [[3], [5]]
    assert numpy.array_equal(net.infer(x, lengths).numpy(), net.infer(changed, lengths[:, None]).numpy())
    with pytest.raises(TypeError, match="recurrent layers and attention lengths"):
        class Wrong(Tagger):
            def forward(self, x, lengths):
                return self.lstm(x, lengths, 3)
        Wrong().initialize("cpu:0", session=s).infer(x, lengths)


def test_attention_lengths(s):
    class Encoder(ls.Module):
        def __init__(self):
            self.attention = ls.nn.Attention(2)

        def forward(self, x, lengths):
            return ls.last_token(self.attention(x, lengths=lengths), lengths)

    net = Encoder().initialize("cpu:0", session=s, init="xavier")
    x = numpy.random.default_rng(0).normal(size=(2, 5, 4))
    changed = x.copy()
    changed[0, 3:] = 9  # behind its length
    lengths = numpy.array([3, 5])  # or [[3], [5]]
    assert numpy.array_equal(net.infer(x, lengths).numpy(), net.infer(changed, lengths[:, None]).numpy())


def test_shared_parts_have_one_set_of_parameters(s):
    shared = ls.nn.Linear(6)
    net = ls.nn.Sequential(shared, ls.nn.ReLU(), shared).initialize("cpu:0", session=s)
    net.infer(numpy.zeros((1, 6)))
    assert [p.name for p in net.parameters()] == ["0.weight", "0.bias"]


def test_what_a_forward_raises_arrives_whole(s):
    class Mine(Exception):
        pass

    class Inner(ls.Module):
        def forward(self, x):
            raise Mine(x.shape)

    class Outer(ls.Module):
        def __init__(self):
            self.inner = Inner()

        def forward(self, x):
            return self.inner(x)

    net = ls.nn.Sequential(Outer()).initialize("cpu:0", session=s)
    with pytest.raises(Mine) as failure:
        net(numpy.zeros((2, 3)))
    assert failure.value.args == ((-1, 3),) and sum(entry.name == "forward" for entry in failure.traceback) == 2
    assert s.zeros(1).item() == 0

    class Returns(ls.Module):
        def __init__(self, what):
            self.what = what

        def forward(self, x):
            return self.what(self, x)

    for what, kind, match in ((lambda m, x: 3, TypeError, "has returned int, and must return a tensor"),
                              (lambda m, x: ls.nn.Linear(3)(x), ls.Error, "no session yet"),
                              (lambda m, x: x.numpy(), ls.Error, "called in a module's forward, which has no values"),
                              (lambda m, x: ls.relu(x).kept, AttributeError, "kept")):
        with pytest.raises(kind, match=match):
            Returns(what).initialize("cpu:0", session=s).infer(numpy.zeros((2, 3)))


def test_a_forwards_tensors_are_its_own(s):
    class Keeps(ls.Module):
        def forward(self, x):
            object.__setattr__(self, "kept", ls.relu(x))
            return self.kept

    net = Keeps().initialize("cpu:0", session=s)
    net.infer(numpy.zeros((2, 3)))
    with pytest.raises(ReferenceError, match="was one of a module's forward"):
        ls.relu(net.kept)
    assert "forward" in repr(net.kept)


def test_state(s, data, tmp_path):
    net, other = (small_network().initialize("cpu:0", session=s, init=init, like=data) for init in ("he", "xavier"))
    state = net.state_dict()
    other.load_state_dict(state | {"1.num_batches_tracked": 5})
    assert other.fingerprint() == net.fingerprint() and len(net.fingerprint()) == 64
    assert all(numpy.array_equal(value, other.state_dict()[name]) for name, value in state.items())
    before = other.checksum()
    for wrong, status, match in (({}, "BAD_ARGUMENT", "missing: 0.weight"), (state | {"x": 1}, "BAD_ARGUMENT", "not in the network: x"),
                                 (state | {"0.bias": numpy.zeros(3)}, "BAD_SHAPE", r"0.bias is \(3,\), and must be \(8,\)")):
        with pytest.raises(ls.Error, match=match) as failure:
            other.load_state_dict(wrong)
        assert failure.value.status == status and other.checksum() == before
    other.load_state_dict({"0.bias": numpy.ones(8)}, strict=False)
    assert other["0.bias"].numpy().all()
    path = tmp_path / "net.safetensors"
    net.check_save(path)
    net.save(path)
    assert s.file_fingerprint(path) == net.fingerprint() and s.file_model(path) == ""
    assert other.load(path).startswith("read 8 of 8 parameters")
    assert other.fingerprint() == net.fingerprint()
    report = other.load(path, skip=["5.*"], partial=True)
    assert "kept, skipped: 5.weight, 5.bias" in report
    with pytest.raises(ls.Error) as failure:
        other.load(tmp_path / "none")
    assert failure.value.status == "IO"
    net.name_classes(["a", "b", "c", "d"])
    assert net.class_name(1) == "b"
    net.name_classes(None)
    assert net.class_name(1) is None
    if "ONNX files: not" not in ls.features():
        net.export_onnx(tmp_path / "net.onnx")
        assert (tmp_path / "net.onnx").stat().st_size > 100


def test_files_are_read_by_others(s, data, tmp_path):
    safetensors = pytest.importorskip("safetensors.numpy")
    net = small_network().initialize("cpu:0", session=s, like=data)
    net.save(tmp_path / "net.safetensors")
    loaded, state = safetensors.load_file(tmp_path / "net.safetensors"), net.state_dict()
    assert loaded.keys() == state.keys() and all(numpy.array_equal(loaded[name], state[name]) for name in state)


def test_evaluation(s, data):
    net = small_network().initialize("cpu:0-1", session=s, init="he", like=data)
    images, labels = bright_quarters(64)
    logits = net.predict(data)
    assert logits.shape == (64, CLASSES)
    assert numpy.array_equal(net.predict(images), logits)
    metrics = net.evaluate(data)
    assert metrics.correct == (logits.argmax(1) == labels).sum() and metrics.rows == 64
    assert metrics.accuracy == net.accuracy(data)
    assert net.evaluate(data, ls.cross_entropy) == metrics
    smooth = net.evaluate(data, lambda outputs, y: ls.cross_entropy(outputs, y, smoothing=0.5))
    assert smooth.loss != metrics.loss
    assert numpy.allclose(net.measure(data, lambda outputs, y: ls.slice(outputs, 1, 0, 2), 2), logits[:, :2].mean(0), atol=1e-5)
    features = net.predict(s.arrays(images / 255))
    assert numpy.allclose(features, logits, atol=1e-6)
    with pytest.raises(ZeroDivisionError):
        net.evaluate(data, lambda outputs, y: 1 / 0)
    assert net.evaluate(data) == metrics and net.next_failure() is None


def test_frozen_parts(s, data):
    net = small_network().initialize("cpu:0", session=s, like=data).freeze("0.*")
    assert [p.name for p in net.parameters() if p.frozen] == ["0.weight", "0.bias"]
    net.freeze("0.*", False)
    assert not [p for p in net.parameters() if p.frozen]


def test_modules_belong_to_their_session_until_it_ends(s):
    net = small_network()
    for seed in range(3):
        with ls.Session(seed=seed) as session:
            net.initialize("cpu:0", session=session)
            assert net.infer(numpy.zeros((1, 1, 8, 8))).shape == (1, CLASSES)
            with pytest.raises(ls.Error, match="belongs to another session"):
                net.initialize("cpu:0", session=s)
            with pytest.raises(ls.Error, match="0 is replaced after"):
                net._add("0", ls.nn.ReLU())
            with pytest.raises(TypeError, match="state_dict can"):
                pickle.dumps(net)
        with pytest.raises(ls.Error, match="went with its session"):
            net.fingerprint()
    assert repr(copy.deepcopy(net)) == repr(net)
    model = s.model("lenet", classes=7)
    assert model.session is s and repr(model) == "Model('lenet')"
    with pytest.raises(ls.Error):
        s.model("alexnet")


def test_values_go_with_their_network(s):
    def resident():
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * 4096

    x = numpy.ones((1, 1000), numpy.float32)
    for i in range(60):
        net = ls.nn.Sequential(ls.nn.Linear(500)).initialize("cpu:0", session=s)
        trainer = ls.Trainer(net, lr=0.1)
        net.infer(x).numpy()
        if i == 20:
            before = resident()
    assert resident() - before < 50e6, "each of 40 networks had 4 MB"
    kept, derived = net.infer(x), ls.relu(net.infer(x))
    del net, trainer
    assert kept.numpy().shape == (1, 500)  # it holds the network
    del kept
    with pytest.raises(ls.Error) as failure:
        derived.numpy()
    assert failure.value.status == "STALE"
    assert ls.nn.Sequential(ls.nn.Linear(2)).initialize("cpu:0", session=s).infer(x)[0].numpy().shape == (2,)


def test_layers_take_their_options():
    out, _ = run_python("""
        import inspect
        import lockstep as ls
        for name in ls.nn.layers.__all__:
            layer = getattr(ls.nn, name)
            asked = {p.name: 1 for p in inspect.signature(layer).parameters.values() if p.default is p.empty}
            if name == "Dropout":
                asked = {"rate": 0.5}
            with ls.Session() as s:
                net = ls.nn.Sequential(layer(**asked), ls.nn.Scale(1)).initialize("cpu:0", session=s)
                shape = (2, 4) if name in ("Softmax", "Linear") else (2, 3, 4) if name in ("LSTM", "GRU", "Attention") else (2, 1, 4, 4)
                x = s.zeros(2, 3) if name == "Embedding" else s.randn("x", *shape)
                net.infer(x).numpy() if name != "Log" else net.infer(x)
        print("all")
    """)
    assert out == "all\n"


def test_pools_are_called_as_elsewhere(s):
    x = s.arange(1, 1, 6, 6).to(s.cpu(0))
    net = ls.nn.Sequential(ls.nn.MaxPool2d(2), ls.nn.AvgPool2d(3, 1, padding=1)).initialize("cpu:0", session=s)
    assert repr(ls.nn.MaxPool2d(3, stride=2)) == "MaxPool2d(3, stride=2)"
    assert numpy.array_equal(net.infer(x).numpy(), ls.avg_pool2d(ls.max_pool2d(x, 2), 3, 1, 1).numpy())
    assert numpy.array_equal(ls.max_pool2d(x, kernel=2).numpy(), [[[[7, 9, 11], [19, 21, 23], [31, 33, 35]]]])


def test_numbers_in_a_forward(s, tmp_path):
    class Halfway(ls.Module):
        def __init__(self):
            self.fc = ls.nn.Linear(4)

        def forward(self, x):
            return (1 - self.fc(x) / 2) + 0.5

    x = numpy.arange(6, dtype="f").reshape(2, 3)
    net = Halfway().initialize("cpu:0-1", session=s, init="xavier")
    inner = x @ net.state_dict()["fc.weight"].T if net.infer(x) else None
    assert numpy.allclose(net.infer(x).numpy(), 1.5 - inner / 2, atol=1e-6)
    ls.mse(net(s.tensor(x)), s.zeros(2, 4)).backward()
    ls.Trainer(net, lr=0.1).step()
    net.export_onnx(tmp_path / "halfway.onnx")


@pytest.mark.parametrize("wrong", [lambda: ls.nn.Conv2d(3, 16, 3), lambda: ls.nn.BatchNorm(64), lambda: ls.nn.Conv2d(8, 3, in_channels=3)])
def test_input_sizes_are_not_given(wrong):
    with pytest.raises(TypeError, match="input sizes are not given here, the first images tell them"):
        wrong()


def test_a_message_of_a_layer_shows_its_signature():
    with pytest.raises(TypeError, match=r"^Dropout: missing a required argument: 'rate'\. It is Dropout\(rate: float\)$"):
        ls.nn.Dropout()
    with pytest.raises(TypeError, match=r"input sizes .* It is Conv2d\(channels: int, kernel: int, \*, stride"):
        ls.nn.Conv2d(16, 3, 1, 1)
