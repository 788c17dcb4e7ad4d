"""Runs a notebook in a kernel of this Python, with other settings: run_notebook.py NOTEBOOK TO NAME=VALUE...

The settings stand in a cell behind the one that is tagged `parameters`, where papermill puts them too. What the cells print goes to stdout;
the notebook as it was run is written to TO. Status 1, after saying why: the notebook is none, holds results, has no such cell, a cell fails,
or a picture shows nothing."""
import base64
import io
import os
import sys
import tempfile

import matplotlib.image
import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
from traitlets.config import Config


def given(notebook, settings):
    """Puts the settings behind those of the notebook."""
    tagged = [i for i, cell in enumerate(notebook.cells) if "parameters" in cell.metadata.get("tags", [])]
    if len(tagged) != 1:
        sys.exit(f"{len(tagged)} cells are tagged `parameters`, not one")
    own = notebook.cells[tagged[0]].source
    for setting in settings:
        if not any(line.startswith(setting.split("=")[0] + " = ") for line in own.splitlines()):
            sys.exit(f"the notebook has no setting as {setting}")
    notebook.cells.insert(tagged[0] + 1, nbformat.v4.new_code_cell("\n".join(settings)))


def executed(notebook, folder):
    """Runs all cells. The kernel is reached by sockets of the file system, which no other program can take away."""
    kernel = Config(KernelManager={"transport": "ipc", "ip": os.path.join(folder, "kernel")})
    try:
        NotebookClient(notebook, timeout=None, kernel_name="python3", resources={"metadata": {"path": folder}}, config=kernel).execute()
    except CellExecutionError as error:
        sys.exit(str(error))


def results(notebook):
    for cell in notebook.cells:
        yield from cell.get("outputs", [])


def pictures(notebook):
    """How many there are; each must show something."""
    count = 0
    for result in results(notebook):
        png = result.get("data", {}).get("image/png")
        if png is not None:
            count += 1
            pixels = matplotlib.image.imread(io.BytesIO(base64.b64decode(png)), format="png")
            if min(pixels.shape[:2]) < 100 or pixels[..., :3].std() < 0.01:
                sys.exit(f"picture {count} of {pixels.shape} shows nothing")
    return count


def main():
    path, to, *settings = sys.argv[1:]
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    if any(cell.get("outputs") or cell.get("execution_count") for cell in notebook.cells):
        sys.exit("the notebook holds results; clear them before it is committed")
    given(notebook, settings)
    with tempfile.TemporaryDirectory(prefix="nb") as folder:
        for name in ("JUPYTER_DATA_DIR", "JUPYTER_CONFIG_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR", "MPLCONFIGDIR"):
            os.environ[name] = folder  # nothing of the user's settings
        for name in ("JUPYTER_PATH", "MPLBACKEND"):
            os.environ.pop(name, None)
        executed(notebook, folder)
    nbformat.write(notebook, to)
    for result in results(notebook):
        if result.output_type == "stream" and result.name == "stdout":
            print(result.text, end="")
    print(f"pictures: {pictures(notebook)}")


if __name__ == "__main__":
    main()
