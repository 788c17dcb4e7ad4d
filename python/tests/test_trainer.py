"""Training: loops, one line, optimizers, averages, checkpoints, and the program's fingerprint."""
import gc
import subprocess

import numpy
import pytest

import lockstep as ls
from conftest import bright_quarters, run_python, small_network


@pytest.fixture
def data(s):
    return s.arrays(*bright_quarters(96), batch=32, shuffle=True)


def trained(s, data, devices, epochs=3, **optim):
    net = small_network().initialize(s.devices(devices), init="he")
    trainer = ls.Trainer(net, **({"lr": 0.1, "momentum": 0.9} | optim))
    for _ in range(epochs):
        for X, y in data:
            ls.cross_entropy(net(X), y).backward()
            trainer.step()
    return net, trainer


def test_the_books_loop_learns_with_equal_bits_on_any_devices():
    prints = []
    for devices in ("cpu:0", "cpu:0-2"):
        with ls.Session(seed=1, shard=8) as s:
            data = s.arrays(*bright_quarters(96), batch=32, shuffle=True)
            net, _ = trained(s, data, devices)
            prints.append(net.fingerprint())
            assert net.accuracy(data) > 0.9
    assert prints[0] == prints[1]


def test_a_loop_over_arrays_has_the_bits_of_one_over_tensors():
    images, labels = bright_quarters(96)
    prints = []
    for kind in (lambda s, a: a, lambda s, a: s.tensor(a / numpy.float32(255) if a.ndim == 4 else a)):
        with ls.Session(seed=1, shard=8) as s:
            net = small_network().initialize(s.devices("cpu:0-1"), init="he")
            trainer = ls.Trainer(net, lr=0.1)
            for epoch in range(2):
                order = numpy.random.default_rng(epoch).permutation(len(images))
                for i in range(0, len(images), 32):
                    take = order[i:i + 32]
                    ls.cross_entropy(net(kind(s, images[take])), kind(s, labels[take])).backward()
                    trainer.step()
            s.wait()
            prints.append((net.fingerprint(), sum(report.loss * report.rows for report in trainer.reports())))
            assert numpy.array_equal(net.infer(images).numpy(), net.predict(images))
    assert prints[0] == prints[1]


def test_what_is_given_in_place_of_a_network_or_of_data_is_told(s, data):
    net = small_network().initialize("cpu:0", session=s, like=data)
    with pytest.raises(TypeError, match="net is list, and must be the network; net.freeze leaves parameters out"):
        ls.Trainer(net.parameters(), lr=0.1)
    images, labels = bright_quarters(8)
    for call in (net.evaluate, net.accuracy, lambda X: net.measure(X, ls.cross_entropy), ls.Trainer(net, lr=0.1).check_batches):
        with pytest.raises(TypeError, match=r"data is ndarray, and must be a lockstep.Data; session.arrays\(X, y\) makes one"):
            call(images)
    with pytest.raises(AttributeError, match="a Trainer has no 'zero_grad'; a step leaves no gradient behind"):
        ls.Trainer(net, lr=0.1).zero_grad()
    with pytest.raises(AttributeError, match=r"Sequential has no 'eval'; net.infer\(X\) computes in inference mode"):
        net.eval()
    with pytest.raises(AttributeError, match="Sequential has no 'evil'$"):
        net.evil()
    with pytest.raises(AttributeError, match="lockstep.nn has no 'BatchNorm2d'; BatchNorm"):
        ls.nn.BatchNorm2d(3)


def test_what_cannot_be_computed_can_be_shown():
    images, labels = bright_quarters(32)
    with ls.Session(shard=8, batch_norm=-1) as s:
        net = small_network().initialize("cpu:0", session=s, init="he")
        loss = ls.cross_entropy(net(images), labels)
        assert repr(loss).startswith("<lockstep.Tensor (32,), not read: ") and "Session's batch_norm" in repr(loss)
        loss.backward()
        ls.Trainer(net, lr=0.1).step()
        s.wait()


def test_fit(s, data):
    net = small_network().initialize("cpu:0", session=s, init="he")
    seen = []
    history = ls.fit(net, data, s.arrays(*bright_quarters(40, seed=1)), epochs=3, lr=0.1, momentum=0.9, schedule="cosine", each=seen.append)
    assert history == seen and [epoch.epoch for epoch in history] == [0, 1, 2]
    assert history[-1].loss < history[0].loss and history[-1].test.accuracy > 0.9 and history[-1].accuracy > 0.8
    assert str(history[0]).startswith("epoch 1: loss ")
    with pytest.raises(TypeError, match="lr are the trainer's"):
        ls.fit(net, data, epochs=1, trainer=ls.Trainer(net, lr=0.1), lr=0.2)
    assert len(ls.fit(net, data, epochs=5, lr=0.01, each=lambda epoch: True)) == 1
    targets = s.arrays(numpy.random.default_rng(0).normal(size=(32, 3)), numpy.ones((32, 2)))
    line = ls.nn.Linear(2).initialize("cpu:0", session=s)
    history = ls.fit(line, targets, targets, epochs=20, lr=0.3, loss=ls.mse)
    assert history[-1].test.loss < 0.2 * history[0].test.loss


def test_fit_shows_a_bar(s, data, capsys):
    pytest.importorskip("tqdm")
    net = small_network().initialize("cpu:0", session=s, init="he")
    ls.fit(net, data, epochs=1, lr=0.1, progress=True)
    assert "epoch 1: loss" in capsys.readouterr().err


def test_the_same_fingerprint_as_the_programs():
    from lockstep._command import program
    args = ["train", "--epochs", "1", "--init", "xavier", "--limit", "2560"]
    try:
        with ls.Session() as s:
            train = s.data("fashion-mnist", "train", shuffle=True, limit=2560)
            net = s.model("lenet").initialize("cpu:0", init="xavier")
            ls.fit(net, train, epochs=1, lr=0.2)
            mine = net.fingerprint()
    except ls.Error as error:
        pytest.skip(f"no Fashion-MNIST: {error}")
    told = subprocess.run([program(), *args], capture_output=True, text=True, timeout=600, check=True).stdout
    assert f"fingerprint: {mine}" in told


def test_optimizers_and_options(s, data):
    for optimizer, options in (("adam", {}), ("adamw", {"weight_decay": 0.1, "clip_norm": 1.0}), ("sgd", {"nesterov": True})):
        data.seek(0)
        momentum = 0.9 if optimizer == "sgd" else 0.0
        net, trainer = trained(s, data, "cpu:0", epochs=1, optimizer=optimizer, momentum=momentum, lr=0.01, **options)
        s.wait()
        reports = list(trainer.reports())
        assert [report.step for report in reports] == [1, 2, 3] and (reports[0].norm > 0) == ("clip_norm" in options)
        assert not list(trainer.reports())
    assert trainer.device_times(0).shards > 0 and trainer.memory_needed(data) > 1000
    with pytest.raises(ValueError, match="'sgd', 'adam', 'adamw'"):
        ls.Trainer(net, "lion", lr=1)
    assert trainer.lr == 0.01
    with pytest.raises(ls.Error):
        ls.Trainer(net, lr=-1)


def test_profiles(s, data):
    net, trainer = trained(s, data, "cpu:0-1", epochs=1)
    with trainer.profile(spans=100) as profile:
        for X, y in data:
            ls.cross_entropy(net(X), y).backward()
            trainer.step()
    rows, total = profile.rows(), profile.total()
    assert total.steps == 3 and total.images == 96 and total.cores == 2
    assert "batch_norm" in {row.operation for row in rows}
    assert {row.direction for row in rows} == {"forward", "backward_data", "backward_weight"} and rows[0].layer == "0"
    assert profile.device(0).shards + profile.device(1).shards == 6
    assert {"shard", "operation"} <= {span.kind for span in profile.spans()}
    with trainer.profile(), pytest.raises(ls.Error, match="being measured already"):
        trainer.profile()
    trainer.close()
    with pytest.raises(ReferenceError, match="went with its trainer"):
        profile.rows()
    assert min(s.measure_speed("cpu:0")) >= 0


def test_rates_and_groups(s, data):
    net = small_network().initialize("cpu:0", session=s, like=data)
    trainer = ls.Trainer(net, lr=0.5, schedule="linear", end_factor=0.5, total=4)
    trainer.set_group("0.*", lr=0.0001)
    trainer.set_group("*", decay=False, vectors=True)
    trainer.check_batches(data)
    before, rates = net["0.weight"].numpy(), []
    for X, y in data:
        rates.append(trainer.lr)
        ls.cross_entropy(net(X), y).backward()
        trainer.step()
    assert rates == [0.5, 0.4375, 0.375]
    trainer.lr = 0.25
    assert trainer.lr == 0.25 * 0.625
    assert numpy.abs(net["0.weight"].numpy() - before).max() < 1e-3


def test_a_schedule_may_begin_behind_the_warmup(s, data):
    net = small_network().initialize("cpu:0", session=s, like=data)
    rates = []
    trainer = ls.Trainer(net, lr=0.5, schedule="linear", total=6, warmup=2, after_warmup=True)
    for _ in range(2):
        for X, y in data:
            rates.append(trainer.lr)
            ls.cross_entropy(net(X), y).backward()
            trainer.step()
    assert rates == [0.25, 0.5, 0.5, 0.375, 0.25, 0.125] and trainer.lr == 0


def test_lost_reports_are_told(s):
    data = s.arrays(numpy.zeros((2, 1)), [0, 1], batch=2)
    net = ls.nn.Linear(2).initialize("cpu:0", session=s)
    trainer = ls.Trainer(net, lr=0.1)
    for _ in range(1030):
        for X, y in data:
            ls.cross_entropy(net(X), y).backward()
            trainer.step()
    s.wait()
    with pytest.warns(UserWarning, match="6 reports of steps were lost"):
        assert len(list(trainer.reports())) == 1024
    assert trainer.lost == 6 and not list(trainer.reports())


def test_a_further_phase(s, data):
    net = small_network().initialize("cpu:0", session=s, like=data)
    trainer = ls.Trainer(net, lr=0.5, momentum=0.9)
    trainer.set_options(lr=0.25, schedule="cosine", total=10)
    assert trainer.lr == 0.25
    with pytest.raises(ls.Error, match="a momentum can neither begin nor end"):
        trainer.set_options(momentum=0)
    with pytest.raises(TypeError, match="no option 'rate'"):
        trainer.set_options(rate=1)
    trainer.set_options(weight_decay=0.1)
    assert trainer.lr == 0.25


def test_recomputed_parts(s, data):
    prints = []
    for again in False, True:
        net = small_network()
        for part in net:
            part.recompute(again)
        net.initialize("cpu:0", session=s, init="he", like=data)
        trainer = ls.Trainer(net, lr=0.1)
        data.seek(0, 0)
        for X, y in data:
            ls.cross_entropy(net(X), y).backward()
            trainer.step()
        prints.append(net.fingerprint())
        trainer.close()
    assert prints[0] == prints[1]


def test_two_networks_in_a_chain(s, data):
    first = ls.nn.Sequential(ls.nn.Flatten(), ls.nn.Linear(8)).initialize("cpu:0", session=s, init="he")
    second = ls.nn.Sequential(ls.nn.ReLU(), ls.nn.Linear(4)).initialize("cpu:0", session=s, init="he")
    X, y = next(iter(data))
    ls.cross_entropy(second(first(X)), y).backward(keep=[second])
    before = first.checksum(), second.checksum()
    ls.Trainer(second, lr=0.1).step()
    s.wait()
    assert first.checksum() == before[0] and second.checksum() != before[1]
    with pytest.raises(ls.Error):
        ls.Trainer(first, lr=0.1).step()


def test_averages_and_memory_of_values(s, data):
    net = small_network().initialize("cpu:0", session=s, init="he", like=data)
    trainer = ls.Trainer(net, lr=0.1, ema=0.5)
    trainer.remember()
    remembered = net.checksum()
    for X, y in data:
        ls.cross_entropy(net(X), y).backward()
        trainer.verify()
        trainer.step()
    own = net.checksum()
    with trainer.averaged() as averaged:
        assert averaged is net and net.checksum() != own
    assert net.checksum() == own
    trainer.recall()
    assert net.checksum() == remembered
    with pytest.raises(ls.Error) as failure:
        trainer.step()
    assert failure.value.status == "STALE"


def test_averages_of_statistics(s, data):
    means = {}
    for buffers in False, True:
        net, trainer = trained(s, data, "cpu:0", ema=0.5, ema_buffers=buffers, epochs=1)
        own = net["1.running_mean"].numpy()
        with trainer.averaged():
            means[buffers] = net["1.running_mean"].numpy()
        assert numpy.array_equal(net["1.running_mean"].numpy(), own)
        assert numpy.array_equal(means[buffers], own) != buffers
        data.seek(0)


def test_messages_speak_of_python(s, data, tmp_path):
    net, trainer = trained(s, data, "cpu:0", epochs=1, ema=0.5)
    kept = ls.Checkpoints(trainer, data, tmp_path)
    with trainer.averaged(), pytest.raises(ls.Error, match="checkpoints.save: .* leave the `with trainer.averaged\\(\\)` first"):
        kept.save()
    with pytest.raises(ls.Error, match="^trainer.set_group: groups are set before the first step, and before Checkpoints"):
        trainer.set_group("*", lr=2)
    with pytest.raises(ls.Error, match="^trainer.step: there is no fresh gradient; call backward on"):
        trainer.step()
    from lockstep._words import in_python
    assert in_python("ls_nn_batch_norm_with: ls_cross_entropy_with") == "nn.BatchNorm: cross_entropy"
    for c, python in (("ls_options.batch_norm to be 0", "Session's batch_norm to be 0"), ("say by ls_loss.ignore", "say by ignore"),
                      ("ls_module_parameter_count: or set init.shape or init.like",
                       "net.parameters: or set initialize's shape or initialize's like"),
                      ("as ls_optim.lr is 0", "as Trainer's lr is 0"), ("set ls_loader.directory", "set directory"),
                      ("ls_loader: 3 images, and ls_loader.drop_last", "data: 3 images, and drop_last")):
        assert in_python(c) == python


def test_what_is_not_finite(s):
    x = numpy.full((16, 3), 1e30)
    x[:8] = 1
    net = ls.nn.Sequential(ls.nn.Linear(4), ls.nn.Power(4)).initialize("cpu:0", session=s, init="xavier")
    data = s.arrays(x, numpy.arange(16) % 4, batch=8)
    trainer = ls.Trainer(net, lr=0.01)
    with pytest.raises(ls.Error) as failure:
        for X, y in data:
            ls.cross_entropy(net(X), y).backward()
            trainer.step()
        s.wait()
    assert failure.value.status == "NOT_FINITE"
    assert trainer.step_back() == 0 and numpy.isfinite(net["0.weight"].numpy()).all()


def test_a_new_trainer_ends_the_one_before(s, data):
    net = small_network().initialize("cpu:0", session=s, like=data)
    first = ls.Trainer(net, lr=0.1)
    second = ls.Trainer(net, "adam", lr=0.01)
    with pytest.raises(ReferenceError, match="the trainer has ended"):
        first.step()
    del second
    gc.collect()
    third = ls.Trainer(net, lr=0.1)
    third.close()
    third.close()
    ls.fit(net, data, epochs=1, lr=0.1)
    ls.fit(net, data, epochs=1, lr=0.1)


def run(folder, epochs, stop_after=None):
    with ls.Session(seed=1, shard=16) as s:
        data = s.arrays(*bright_quarters(96), batch=32, shuffle=True)
        net = small_network().initialize("cpu:0", session=s, init="he", like=data)
        trainer = ls.Trainer(net, "adam", lr=0.01)
        lines = []
        with ls.Checkpoints(trainer, data, folder, settings={"my": "run"}, told=lines.append) as kept:
            found = kept.load() if kept.found else None
            note = kept.note("why") if found else None
            epoch = found.epoch + (found.batch == len(data)) if found else 0
            steps = found.step if found else 0
            while epoch < epochs:
                for X, y in data:
                    ls.cross_entropy(net(X), y).backward()
                    trainer.step()
                    steps += 1
                    if steps == stop_after:
                        kept.save({"why": "stopped"})
                        kept.wait()
                        return None, None
                epoch += 1
            return net.fingerprint(), note


def test_checkpoints_go_on_with_the_same_bits(tmp_path):
    if "not" in ls.features().split("fingerprints:")[1].splitlines()[0]:
        pytest.skip("built without fingerprints")
    whole, _ = run(tmp_path / "whole", 3)
    run(tmp_path / "parts", 3, stop_after=4)  # in the midst of the second epoch
    again, note = run(tmp_path / "parts", 3)
    assert again == whole and note == "stopped"
    with ls.Session(seed=1, shard=16) as s:
        data = s.arrays(*bright_quarters(96), batch=32)
        net = small_network().initialize("cpu:0", session=s, init="he", like=data)
        trainer = ls.Trainer(net, "adam", lr=0.02)
        kept = ls.Checkpoints(trainer, data, tmp_path / "parts", allow_changed=["shuffle"])
        with pytest.raises(ls.Error) as failure:
            kept.load()
        assert failure.value.status == "CHANGED" and "lr" in kept.differing()
        assert str(failure.value).endswith("Checkpoints(..., allow_changed=['lr', 'my']) loads it all the same")
        with pytest.raises(ls.Error) as failure:
            ls.Checkpoints(trainer, data, tmp_path / "parts")
        assert failure.value.status in ("BUSY", "BAD_ARGUMENT")
        trainer.close()
        with pytest.raises(ReferenceError, match="closed"):
            kept.save()


def test_a_new_run_does_not_mix_its_checkpoints_with_anothers(tmp_path):
    run(tmp_path / "kept", 1, stop_after=2)
    with ls.Session(seed=1, shard=16) as s:
        data = s.arrays(*bright_quarters(96), batch=32)
        net = small_network().initialize("cpu:0", session=s, like=data)
        trainer = ls.Trainer(net, lr=0.02)
        with ls.Checkpoints(trainer, data, tmp_path / "kept") as kept:
            assert kept.found
            with pytest.raises(FileExistsError, match="restart=True"):
                kept.save()
        before = len(list((tmp_path / "kept").glob("*.json")))
        with ls.Checkpoints(trainer, data, tmp_path / "kept", restart=True) as kept:
            kept.save()
        assert len(list((tmp_path / "kept").glob("*.json"))) == before + 1
        with ls.Checkpoints(trainer, data, tmp_path / "mistyped") as kept:
            assert kept.load() is None
        assert not (tmp_path / "mistyped").exists()


def test_the_command():
    from lockstep._command import program
    out = subprocess.run([program(), "--version"], capture_output=True, text=True, check=True).stdout
    assert out.startswith(f"lockstep {ls.__version__}")
    out, _ = run_python("import sys; from lockstep._command import main; sys.argv = ['lockstep', '--version']; main()")
    assert out.startswith("lockstep ")
