"""Writes what the package takes from the C headers, while it is built:

    _lockstep.c             the module that calls the library, by cffi
    status.py               the names of ls_status
    functional.py           a Python function for each operation of lockstep_nn.h
    nn/layers.py            a class for each layer of it

usage: python generate INCLUDE_FOLDER OUTPUT_FOLDER

Nothing is listed by hand but how some names are spelt and which arguments may be left out. So an operation that the header gains is an
operation of the package."""
import sys
from pathlib import Path

import binding
import headers
import python

if __name__ == "__main__":
    read = headers.read(Path(sys.argv[1]))
    out = Path(sys.argv[2])
    (out / "nn").mkdir(parents=True, exist_ok=True)
    binding.write(read, out / "_lockstep.c")
    (out / "status.py").write_text(python.status(read))
    (out / "functional.py").write_text(python.functional(read))
    (out / "nn" / "layers.py").write_text(python.layers(read))
