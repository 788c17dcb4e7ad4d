"""What the tests share: a session that is closed, small data, programs that run in a Python of their own."""
import pathlib
import subprocess
import sys
import textwrap

import numpy
import pytest

import lockstep as ls

ROOT = pathlib.Path(__file__).resolve().parents[2]
CLASSES, SIDE = 4, 8


@pytest.fixture
def s():
    with ls.Session(seed=1, shard=16) as session:
        yield session


def bright_quarters(rows, seed=0):
    """Noise, and a bright quarter that says the class: (images as bytes, labels)."""
    numbers = numpy.random.default_rng(seed)
    labels = numpy.arange(rows) % CLASSES
    images = numbers.integers(0, 120, (rows, 1, SIDE, SIDE)).astype(numpy.uint8)
    half = SIDE // 2
    for image, label in zip(images, labels):
        image[0, label // 2 * half:, label % 2 * half:][:half, :half] += 120
    return images, labels


def small_network():
    return ls.nn.Sequential(ls.nn.Conv2d(8, kernel=3, padding=1), ls.nn.BatchNorm(), ls.nn.ReLU(), ls.nn.MaxPool2d(kernel=2),
                            ls.nn.Flatten(), ls.nn.Linear(CLASSES))


def run_python(program, *args, status=0, timeout=600):
    """In a Python of its own: (stdout, stderr)."""
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program), *args], capture_output=True, text=True, timeout=timeout,
                          check=False, cwd=ROOT / "docs")  # not where the package's sources are
    assert done.returncode == status, f"status {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout, done.stderr
