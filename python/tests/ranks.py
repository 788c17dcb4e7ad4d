"""What the test of ranks runs under mpirun, and alone: ranks.py WHAT. Each rank prints its lines whole."""
import sys

import numpy

import lockstep as ls

images = numpy.random.default_rng(0).integers(0, 255, (400, 1, 28, 28)).astype(numpy.uint8)
labels = numpy.arange(400) % 10


def world():
    from mpi4py import MPI
    return MPI.COMM_WORLD


def say(*words):
    sys.stdout.write(" ".join(map(str, words)) + "\n")


def train(s, raises=None):
    data = s.arrays(images, labels, batch=96, shuffle=True)
    net = s.model("lenet").initialize("cpu:0", session=s, init="xavier")
    trainer = ls.Trainer(net, lr=0.2, momentum=0.5)
    for n, (X, y) in enumerate(data):
        ls.cross_entropy(net(X), y).backward()
        trainer.step()
        if n == 2 and s.rank == raises:
            raise ValueError("mine")
    return net, data, trainer


def lines(s):
    """What all ranks must get as one process does."""
    net, data, trainer = train(s)
    history = ls.fit(net, data, data, epochs=2, trainer=trainer)
    return [net.fingerprint(), repr(history[-1].loss), history[-1].test, net.predict(data).tobytes()[:64].hex()]


def launched():
    """The same script alone and under mpirun; sessions in turn have the same ranks."""
    with ls.Session(seed=3):
        pass
    s = ls.Session(seed=3)
    told = lines(s)
    if s.rank == 0:
        say(*told)
    sys.stderr.write(f"{s.rank} of {s.ranks}\n")


def communicator():
    """As launched, by mpi4py's world."""
    with ls.Session(seed=3, comm=world()) as s:
        told = lines(s)
        if s.rank == 0:
            say(*told)
        sys.stderr.write(f"{s.rank} of {s.ranks}\n")


def parts():
    """A communicator of some of the processes, twice; a process alone; and the launcher's ranks of an MPI that mpi4py has started."""
    comm = world().Split(world().rank == 2)
    for given in comm, comm, False:
        with ls.Session(seed=3, comm=given) as s:
            say(s.ranks, train(s)[0].fingerprint())
    comm.Free()
    with ls.Session(seed=3) as s:
        say(s.ranks, train(s)[0].fingerprint())


def methods():
    """What ranks alone have."""
    s = ls.Session(seed=3, balance=True)
    hosts, devices = s.rank_hosts(), s.rank_devices("cpu:0")
    assert len(hosts) == len(devices) == s.ranks and hosts[0] and str(devices[-1]) == "[cpu(0)]"
    net, data, trainer = train(s)
    trainer.vote(s.rank + 5)
    for n, (X, y) in enumerate(data):
        ls.cross_entropy(net(X), y).backward()
        trainer.step()
    assert trainer.voted() == s.ranks + 4, trainer.voted()
    assert trainer.transport() == (False, "")
    for _ in range(3):
        for X, y in data:
            ls.cross_entropy(net(X), y).backward()
            trainer.step()
    assert s.ranks == 1 or sum(trainer.balanced()) == 1, trainer.balanced()  # the last batch has 16 images
    s.agree(epochs=3)
    try:
        s.agree(epochs=s.rank)
        assert s.ranks == 1
    except ls.Error as error:
        assert s.ranks > 1 and error.together and error.status == "BAD_ARGUMENT" and "epochs differs: 1 on rank 1" in str(error)
    say("fine")


def together():
    """A failure that all ranks meet."""
    with ls.Session() as s:
        net = ls.nn.Sequential(ls.nn.Linear(4), ls.nn.Power(4)).initialize("cpu:0", session=s, init="xavier")
        data = s.arrays(numpy.full((256, 3), 1e30), numpy.arange(256) % 4, batch=256)
        trainer = ls.Trainer(net, lr=0.1)
        try:
            for X, y in data:
                ls.cross_entropy(net(X), y).backward()
                trainer.step()
            s.wait()
        except ls.Error as error:
            assert error.status == "NOT_FINITE" and error.together == (s.ranks > 1)
            say("fine")


def raises():
    """A rank that an exception ends alone, while the others wait for it."""
    train(ls.Session(seed=3), raises=1)


def raises_within():
    with ls.Session(seed=3) as s:
        train(s, raises=1)


def raises_of_communicator():
    with ls.Session(seed=3, comm=world()) as s:
        train(s, raises=1)


globals()[sys.argv[1]]()
