"""What `fuzz_networks --torch FOLDER` writes. Standard library only."""
import json
import os
import struct
import subprocess
import tempfile


class Written:
    """A network: `about`, and its arrays by kind and name: {"value": {"m3.weight": (shape, bytes of float32)}}."""

    def __init__(self, folder, number):
        self.number, self.model = number, os.path.join(folder, f"{number}.onnx")
        with open(os.path.join(folder, f"{number}.json")) as f:
            self.about = json.load(f)
        with open(os.path.join(folder, f"{number}.safetensors"), "rb") as f:
            whole = f.read()
        length, = struct.unpack("<Q", whole[:8])
        self.arrays = {"value": {}, "gradient": {}, "input": {}, "y": {}, "output": {}}
        for name, about in json.loads(whole[8:8 + length]).items():
            if name != "__metadata__":
                first, last = (8 + length + offset for offset in about["data_offsets"])
                kind, _, rest = name.partition(":")
                self.arrays[kind][rest] = about["shape"], whole[first:last]

    def __str__(self):
        return f"network {self.number} of seed {self.about['seed']}"


def networks(program, settings):
    """Those that the program writes with these settings, one after another."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([program, "--torch", folder] + settings, check=True, stdout=subprocess.DEVNULL)
        for number in sorted(int(name[:-5]) for name in os.listdir(folder) if name.endswith(".json")):
            yield Written(folder, number)
