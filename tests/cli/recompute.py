#!/usr/bin/env python3
"""The fingerprint of a safetensors file by its definition, with the standard library alone: recompute.py FILE."""
import hashlib
import json
import struct
import sys

with open(sys.argv[1], "rb") as file:
    whole = file.read()
(length,) = struct.unpack("<Q", whole[:8])
header = json.loads(whole[8 : 8 + length])
values = whole[8 + length :]
header.pop("__metadata__", None)
digest = hashlib.sha256()
for name in sorted(header, key=lambda text: text.encode()):
    tensor = header[name]
    assert tensor["dtype"] == "F32", (name, tensor["dtype"])
    begin, end = tensor["data_offsets"]
    numbers = 1
    for size in tensor["shape"]:
        numbers *= size
    assert end - begin == 4 * numbers, name
    digest.update(name.encode() + b"\0" + values[begin:end])
print("fingerprint:", digest.hexdigest())
