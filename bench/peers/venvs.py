"""The virtual environments of the benchmarks, build/peers/NAME, one for each peer: their requirements of numpy exclude each
other.

    python3 bench/peers/venvs.py NAME [PYTHON]    prints the interpreter, and makes the environment where it has to; status 77 where
                                                  that cannot be, after saying why

Standard library only.
"""
import os
import shutil
import subprocess
import sys

from measure import ROOT, say

#        name          packages for pip                       what must then import
PEERS = {"torch":      (["torch", "numpy", "safetensors"],    "torch, numpy, safetensors"),
         "jax":        (["jax", "flax", "numpy"],             "jax, flax, optax, numpy"),
         "tensorflow": (["tensorflow-cpu", "numpy"],          "tensorflow, numpy"),
         "mxnet":      (["mxnet==1.9.1", "numpy<1.24"],       "mxnet, numpy")}  # 1.9.1, the last, uses numpy's old names
ALL = {**PEERS, "plots": (["matplotlib"], "matplotlib"), "onnxruntime": (["onnxruntime", "numpy"], "onnxruntime, numpy"),
       "package": (["cffi", "scikit-build-core", "numpy", "pytest", "ninja", "safetensors"], "cffi, scikit_build_core, numpy, pytest, pip"),
       # Compiled for the MPI whose wrapper MPICC names; pip's cache would mix them up.
       **{f"mpi4py-{mpi}": (["--no-cache-dir", "--no-binary", "mpi4py", "mpi4py", "cffi", "numpy"], "mpi4py, cffi, numpy")
          for mpi in ("openmpi", "mpich")},
       "notebooks": (["cffi", "scikit-build-core", "numpy", "ninja", "nbclient", "ipykernel", "matplotlib"],
                     "cffi, scikit_build_core, numpy, nbclient, ipykernel, matplotlib, pip")}


def place(name):
    return os.path.join(ROOT, "build", "peers", name)


def imports(python, name):
    return os.path.exists(python) and subprocess.run([python, "-c", f"import {ALL[name][1]}"],
                                                     capture_output=True).returncode == 0


def interpreter(name, given=None):
    """An interpreter that has the peer: the one given, the virtual environment's, or None after saying why not."""
    if given:
        if imports(given, name):
            return given
        say(f"{given} has not all of {ALL[name][1]}; {name} is left out")
        return None
    venv = place(name)
    python = os.path.join(venv, "bin", "python")
    if imports(python, name):
        return python
    packages = ALL[name][0]
    size = "; several GB" if name == "torch" else ""
    say(f"installing {ALL[name][1]} with pip into build/peers/{name} (once{size}; pip's own settings apply)")
    for what, argv in (("python3 -m venv (package python3-venv)", [sys.executable, "-m", "venv", venv]),
                       ("pip install", [python, "-m", "pip", "install", "--quiet", "--no-compile", *packages])):
        done = subprocess.run(argv, capture_output=True, text=True)
        if done.returncode:
            reason = (done.stderr + done.stdout).strip().splitlines() or ["no message"]
            say(f"{what} failed: {reason[-1]}; {name} is left out (--python {name}=PATH names an interpreter that has it)")
            shutil.rmtree(venv, ignore_errors=True)
            return None
    if imports(python, name):
        return python
    say(f"what pip installed into build/peers/{name} cannot be imported; {name} is left out")
    return None


def main():
    if len(sys.argv) not in (2, 3) or sys.argv[1] not in ALL:
        sys.exit(f"usage: venvs.py {' | '.join(ALL)} [PYTHON]")
    python = interpreter(*sys.argv[1:])
    if not python:
        return 77
    print(python)
    return 0


if __name__ == "__main__":
    sys.exit(main())
