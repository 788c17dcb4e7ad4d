#!/usr/bin/env python3
"""Writes the corpora's first inputs, one for each thing that a parser tells apart: make_corpus.py FOLDER"""
import base64, gzip, hashlib, json, os, struct, sys, zlib

top = sys.argv[1]


def put(target, name, content):
    os.makedirs(os.path.join(top, target), exist_ok=True)
    with open(os.path.join(top, target, name), "wb") as file:
        file.write(content)


# ---- idx: kind and way, where to cut, content
images = struct.pack(">4I", 0x803, 3, 2, 2) + bytes(range(12))
labels = struct.pack(">2I", 0x801, 5) + bytes([0, 9, 3, 255, 10])
for kind, good in enumerate((images, labels)):
    noun = ("images", "labels")[kind]
    put("idx", noun, bytes([kind, 0]) + good)
    put("idx", noun + "-packed", bytes([kind | 2, 100]) + good)
    put("idx", noun + "-gzip", bytes([kind | 4, 0]) + gzip.compress(good, mtime=0))
    put("idx", noun + "-swapped", bytes([1 - kind, 0]) + good)
    put("idx", noun + "-long", bytes([kind, 0]) + good + b"x")
    put("idx", noun + "-short", bytes([kind, 0]) + good[:-1])
put("idx", "members", bytes([4, 0]) + gzip.compress(images[:7], mtime=0) + gzip.compress(b"", mtime=0) + gzip.compress(images[7:], mtime=0))
put("idx", "bomb", bytes([4, 0]) + gzip.compress(struct.pack(">4I", 0x803, 3, 2, 2) + bytes(100000), mtime=0))
put("idx", "terabytes", bytes([0, 0]) + struct.pack(">4I", 0x803, 4294967, 1024, 818) + bytes(64))
put("idx", "terabytes-packed", bytes([2, 128]) + struct.pack(">4I", 0x803, 4294967, 1024, 818) + bytes(64))
put("idx", "wraps", bytes([0, 0]) + struct.pack(">4I", 0x803, 1, 65536, 65536))
put("idx", "little-endian", bytes([0, 0]) + struct.pack("<4I", 0x803, 3, 2, 2) + bytes(12))
put("idx", "page", bytes([4, 0]) + b"<html>")
put("idx", "wrong-sum", bytes([4, 0]) + gzip.compress(images, mtime=0)[:-8] + bytes(8))
put("idx", "empty", bytes([0, 0]))

# ---- cifar: the set, how many records, the first bytes
put("cifar", "ten", bytes([0, 3, 0, 9, 5]))
put("cifar", "ten-label", bytes([0, 3, 0, 10, 5]))
put("cifar", "hundred", bytes([1, 3, 4, 19]))
put("cifar", "hundred-coarse", bytes([1, 2, 20]))
put("cifar", "short", bytes([0, 0]) + bytes(3072))
put("cifar", "other", bytes([0, 0]) + bytes(3074))
put("cifar", "one", bytes([0, 0]) + bytes(3073))
put("cifar", "empty", bytes([1, 0]))

# ---- npy: how many labels, the array


def array_file(header, body=b"", version=1):
    length = struct.pack("<H" if version == 1 else "<I", len(header))
    return b"\x93NUMPY" + bytes([version, 0]) + length + header.encode() + body


def header_of(descr, shape, fortran="False"):
    return "{'descr': '%s', 'fortran_order': %s, 'shape': %s, }" % (descr, fortran, shape)


put("npy", "bytes", b"\2" + array_file(header_of("|u1", "(2, 3, 2, 2)") + " " * 20 + "\n", bytes(24)))
put("npy", "floats", b"\3" + array_file(header_of("<f4", "(3, 1, 2)"), struct.pack("<6f", *range(6)), 2))
put("npy", "nan", b"\1" + array_file(header_of("<f4", "(1, 1, 1)"), struct.pack("<f", float("nan"))))
put("npy", "double-quotes", b"\1" + array_file('{"shape":(1L,1L,1L),"descr":"<u1","fortran_order":False}', b"x", 3))
put("npy", "fortran", b"\1" + array_file(header_of("|u1", "(1, 1, 1)", "True"), b"x"))
put("npy", "wraps", b"\1" + array_file(header_of("|u1", "(4294967296, 4294967296, 1)")))
put("npy", "terabytes", b"\1" + array_file(header_of("<f4", "(1, 1048576, 1048576)")))
put("npy", "structured", b"\1" + array_file("{'descr': [('a', '|u1')], 'fortran_order': False, 'shape': (1, 1, 1)}", b"x"))
put("npy", "long", b"\2" + array_file(header_of("|u1", "(2, 1, 1)"), b"xyz"))
put("npy", "short", b"\2" + array_file(header_of("|u1", "(2, 1, 1)"), b"x"))
put("npy", "torn", b"\2" + array_file(header_of("|u1", "(2, 1, 1)"), b"xy")[:30])
put("npy", "long-header", b"\1\x93NUMPY\2\0\xff\xff\xff\xff{}")
put("npy", "empty", b"\0")

# ---- picture: planes, the file


def chunk(name, body):
    return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))


def png(width, height, depth, colour, rows, interlace=0, before=b""):
    header = struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, interlace)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + before + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


put("picture", "grey", b"\0" + png(2, 2, 8, 0, bytes([0, 1, 2, 1, 3, 4])))
put("picture", "grey-as-three", b"\1" + png(2, 2, 8, 0, bytes([0, 1, 2, 2, 3, 4])))
put("picture", "colour", b"\1" + png(1, 2, 8, 2, bytes([4, 1, 2, 3, 3, 4, 5, 6])))
put("picture", "deep", b"\1" + png(1, 1, 16, 2, bytes([0, 1, 2, 3, 4, 5, 6])))
put("picture", "bits", b"\0" + png(9, 1, 1, 0, bytes([0, 0xAA, 0x80])))
put("picture", "palette", b"\1" + png(2, 1, 8, 3, bytes([0, 0, 1]), before=chunk(b"PLTE", bytes(range(6)))))
put("picture", "transparent", b"\1" + png(2, 1, 8, 3, bytes([0, 0, 1]), before=chunk(b"PLTE", bytes(range(6))) + chunk(b"tRNS", b"\x80")))
put("picture", "alpha", b"\0" + png(1, 1, 8, 4, bytes([0, 7, 255])))
put("picture", "interlaced", b"\0" + png(2, 2, 8, 0, bytes([0, 1, 0, 2, 0, 3, 4]), 1))
put("picture", "profile", b"\0" + png(1, 1, 8, 0, b"\0\1", before=chunk(b"iCCP", b"x\0\0" + zlib.compress(bytes(200)))))
put("picture", "huge", b"\0" + png(1 << 20, 2, 8, 0, b"\0\1"))
put("picture", "cut", b"\0" + png(2, 2, 8, 0, bytes([0, 1, 2, 1, 3, 4]))[:50])
# Written by libjpeg: 8 x 8 or a little more, without a JFIF header.
JPEGS = {
    "jpeg-grey": (
        "/9j/2wBDABQODxIPDRQSEBIXFRQYHjIhHhwcHj0sLiQySUBMS0dARkVQWnNiUFVtVkVGZIhlbXd7gYKBTmCNl4x9lnN+gXz/wAALCAAIAAgBAREA/8QAFAABAAAAAAAAAA"
        "AAAAAAAAAABP/EABgQAAIDAAAAAAAAAAAAAAAAAAAEBSIx/9oACAEBAAA/AAJxWVP/2Q=="
    ),
    "jpeg-colour": (
        "/9j/2wBDABQODxIPDRQSEBIXFRQYHjIhHhwcHj0sLiQySUBMS0dARkVQWnNiUFVtVkVGZIhlbXd7gYKBTmCNl4x9lnN+gXz/2wBDARUXFx4aHjshITt8U0ZTfHx8fHx8fH"
        "x8fHx8fHx8fHx8fHx8fHx8fHx8fHx8fHx8fHx8fHx8fHx8fHx8fHx8fHz/wAARCAAJAAkDASIAAhEBAxEB/8QAFQABAQAAAAAAAAAAAAAAAAAABAH/xAAiEAAABQMEAwAA"
        "AAAAAAAAAAAAAQIFEgMEERUxNVN0k7L/xAAUAQEAAAAAAAAAAAAAAAAAAAAA/8QAGREBAAIDAAAAAAAAAAAAAAAAAQACESEx/9oADAMBAAIRAxEAPwC2NOm1t6rqoiUCKK"
        "c4ko9iA9beO1HqSHvfEWvkF8qAQNrBbHJ//9k="
    ),
    "jpeg-progressive": (
        "/9j/2wBDABQODxIPDRQSEBIXFRQYHjIhHhwcHj0sLiQySUBMS0dARkVQWnNiUFVtVkVGZIhlbXd7gYKBTmCNl4x9lnN+gXz/2wBDARUXFx4aHjshITt8U0ZTfHx8fHx8fH"
        "x8fHx8fHx8fHx8fHx8fHx8fHx8fHx8fHx8fHx8fHx8fHx8fHx8fHx8fHz/wgARCAAIAAgDASIAAhEBAxEB/8QAFAABAAAAAAAAAAAAAAAAAAAAAP/EABQBAQAAAAAAAAAA"
        "AAAAAAAAAAD/2gAMAwEAAhADEAAAAQP/xAAWEAEBAQAAAAAAAAAAAAAAAAABAwL/2gAIAQEAAQUCwEp//8QAFBEBAAAAAAAAAAAAAAAAAAAAAP/aAAgBAwEBPwF//8QAFR"
        "EBAQAAAAAAAAAAAAAAAAAAABH/2gAIAQIBAT8Bj//EABYQAAMAAAAAAAAAAAAAAAAAAAABEv/aAAgBAQAGPwKmf//EABgQAQEAAwAAAAAAAAAAAAAAAAERADFR/9oACAEB"
        "AAE/IWBWaOuf/9oADAMBAAIAAwAAABDz/8QAFhEBAQEAAAAAAAAAAAAAAAAAAQAh/9oACAEDAQE/EHAv/8QAFhEBAQEAAAAAAAAAAAAAAAAAAQAx/9oACAECAQE/EEO3/8"
        "QAGBAAAwEBAAAAAAAAAAAAAAAAAREhADH/2gAIAQEAAT8QgBRRM4N//9k="
    ),
    "jpeg-inks": (
        "/9j/7gAOQWRvYmUAZAAAAAAA/9sAQwAUDg8SDw0UEhASFxUUGB4yIR4cHB49LC4kMklATEtHQEZFUFpzYlBVbVZFRmSIZW13e4GCgU5gjZeMfZZzfoF8/8AAFAgACAAIBE"
        "MRAE0RAFkRAEsRAP/EABUAAQEAAAAAAAAAAAAAAAAAAAID/8QAKBAAAQMCBQEJAAAAAAAAAAAAAQIDEQQhAAUjMUFREhMUIiVCcYGC/9oADgRDAE0AWQBLAAA/AA16ZlOm"
        "ezUP6bcG46q3mw56kYmps0WTBtuA5UnuhcSEx5jHNrfrBWnwOUpYQNWqlsW2T7jt0IH3PGBUIVSZYzStghdUSCocIESN+ZA+Jx//2Q=="
    ),
    "jpeg-restarts": (
        "/9j/2wBDABQODxIPDRQSEBIXFRQYHjIhHhwcHj0sLiQySUBMS0dARkVQWnNiUFVtVkVGZIhlbXd7gYKBTmCNl4x9lnN+gXz/wAALCAAQABABAREA/8QAFAABAAAAAAAAAA"
        "AAAAAAAAAABP/EACIQAAAFBAIDAQAAAAAAAAAAAAECBAURAAMhMRIiQUNRkf/dAAQAAf/aAAgBAQAAPwACNq11r//Qcjatda//0Uq3dC2nNZtkFSoIMGITBSjjAm/dTkIG"
        "K//SAoVODr1UXONofVbDiTxv7kJzNf/Z"
    ),
}
for name, text in JPEGS.items():
    put("picture", name, b"\1" + base64.b64decode(text))
put("picture", "gif", b"\0GIF89a")

# ---- safetensors: 1 for a file as it is, 0 for a header to be given its length and, behind a zero byte, values


def weights(header, values=b"", raw=False):
    text = (header if isinstance(header, str) else json.dumps(header, separators=(",", ":"))).encode()
    return b"\x01" + struct.pack("<Q", len(text)) + text + values if raw else b"\x00" + text + b"\x00" + values


def array(begin, end, shape, dtype="F32"):
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


two = {"__metadata__": {"model": "lenet"}, "W1": array(0, 16, [2, 2]), "b1": array(16, 20, [])}
put("safetensors", "two", weights(two, bytes(20)))
put("safetensors", "raw", weights(two, bytes(20), raw=True))
put("safetensors", "types", weights({t: array(8 * i, 8 * i + 8, [8 // n], t) for i, (t, n) in enumerate((("I64", 8), ("BF16", 2), ("U8", 1)))}, bytes(24)))
put("safetensors", "empty-array", weights({"e": array(0, 0, [0, 3]), "x": array(0, 4, [1])}, bytes(4)))
put("safetensors", "overlap", weights({"x": array(0, 4, [1]), "y": array(0, 4, [1])}, bytes(4)))
put("safetensors", "hole", weights({"x": array(0, 4, [1]), "y": array(8, 12, [1])}, bytes(12)))
put("safetensors", "wraps", weights({"x": array(0, 0, [1 << 32, 1 << 32])}))
put("safetensors", "wraps-in-bytes", weights({"x": array(0, 4, [(1 << 62) + 1])}, bytes(4)))
put("safetensors", "beyond", weights({"x": array(0, 1 << 62, [1 << 60])}, bytes(4)))
put("safetensors", "nan", weights({"x": array(0, 4, [1])}, struct.pack("<f", float("nan"))))
put("safetensors", "ninth-dimension", weights({"x": array(0, 4, [1] * 9)}, bytes(4)))
put("safetensors", "separator", weights({"../x": array(0, 4, [1])}, bytes(4)))
put("safetensors", "twice", weights('{"x":%s,"x":%s}' % ((json.dumps(array(0, 4, [1])),) * 2), bytes(4)))
put("safetensors", "deep", weights('{"x":' + "[" * 300))
put("safetensors", "metadata", weights({"__metadata__": {"a": 1}}))
put("safetensors", "escapes", weights('{"\\u0000":1,"\\ud800":{"dtype":"F32"}}'))
put("safetensors", "long-header", b"\x01" + struct.pack("<Q", 1 << 63) + b"{}")
put("safetensors", "no-header", b"\x01" + bytes(8))

# ---- manifest: even for one to be given its sum, 1 for a file as it is, 3 for a lock's entry
body = json.dumps(
    {
        "lockstep checkpoint": 1,
        "position": {"step": 6, "epoch": 1, "batch": 1},
        "settings": {"lr": "0.1", "seed": "0"},
        "notes": {"sum": "7", "empty": ""},
        "sections": [{"name": n, "bytes": 3, "sha256": "ab" * 32} for n in ("header", "weights", "statistics", "velocity")],
    },
    indent=1,
)[:-2].encode()
put("manifest", "whole", b"\x00" + body)
put("manifest", "raw", b"\x01" + body + b',\n"sha256": "' + hashlib.sha256(body).hexdigest().encode() + b'"}\n')
put("manifest", "wrong-sum", b"\x01" + body + b',\n"sha256": "' + b"0" * 64 + b'"}\n')
for name, old, new in (
    ("format", b"checkpoint\": 1", b"checkpoint\": 2"),
    ("huge", b'"step": 6', b'"step": 9223372036854775807'),
    ("negative", b'"batch": 1', b'"batch": -1'),
    ("real", b'"epoch": 1', b'"epoch": 1.0'),
    ("twice", b'"step": 6', b'"step": 6, "step": 6'),
    ("no-string", b'"7"', b"7"),
    ("short-sum", b"ab" * 32, b"ab"),
    ("no-list", b'"sections": [', b'"sections": {"a":['),
    ("own-sum", b'"notes"', b'"sha256"'),
):
    put("manifest", name, b"\x00" + body.replace(old, new))
put("manifest", "lock", b"\x03host a\nprocess 1\nstart 2\nboot b\njob 12\nsince 2026-01-01T00:00:00Z\n")
put("manifest", "lock-torn", b"\x03host a\nprocess ")

# ---- options: the command, then words one a line; 7 for a list of devices
for name, command, words in (
    ("numbers", 0, "--batch 64 --shard=16 --epochs 2 --seed 18446744073709551615 --lr 1e-3 --momentum .9 --warmup 0"),
    ("choices", 0, "--model resnet18 --schedule cosine --optimizer sgd --conv direct --isa plain --dtype f32 --init normal:0.5"),
    ("times", 0, "--checkpoint d --checkpoint-every 2147483647h --resume --allow-changed lr,weight-decay,limit --allow-changed x"),
    ("garbage", 0, "--batch 5x --lr 0x1 --init normal:nan"),
    ("abbreviated", 0, "--bat 5 --e 3 -x -h --quiet=1 -- a b"),
    ("seconds", 0, "--checkpoint-every 90s --timeout 1000000 --nesterov --no-shuffle --verify 3 --limit-test 9223372036854775807"),
    ("eval", 1, "--weights w --devices cpu:0 --limit-test 5"),
    ("predict", 2, "--weights w --out o.npy operand"),
    ("fetch", 3, "--url http://x/ --to d"),
    ("fingerprint", 4, "file"),
    ("bench", 5, "--profile --json j --steps 1000000"),
    ("report", 6, "a.jsonl b.jsonl --out o"),
    ("help", 0, "--help"),
    ("bf16", 0, "--dtype bf16"),
):
    put("options", name, bytes([command]) + "\n".join(words.split()).encode())
for name, text in (("list", "cpu:0,cpu:3-7,cpu:255"), ("twice", "cpu:1,cpu:0-3"), ("cards", "cuda:0x2"), ("many", "gpu:0-99999999999"), ("torn", "cpu:1-")):
    put("options", "devices-" + name, b"\x07" + text.encode())

# ---- log: step and epochs of the checkpoint, then the lines
first = '{"lockstep":"0.1.0","model":"lenet","batch":128,"images":300,"lr":0.3,"nesterov":false,"weights":null}\n'
steps = "".join('{"step":%d,"loss":%r}\n' % (k, 2.3 / k) for k in range(1, 7))
epoch = '{"epoch":1,"train_loss":1.5,"train_acc":0.5,"test_acc":0.625,"sec":0.25,"img_per_s":1200.5}\n'
put("log", "whole", b"\x46" + (first + steps + epoch).encode())
put("log", "torn", b"\x46" + (first + steps)[:-4].encode())
put("log", "no-settings", b"\x00" + steps.encode())
put("log", "no-json", b"\x00" + (first + "what\n").encode())
put("log", "far", b"\x00" + (first + '{"step":9223372036854775807,"loss":1e308}\n{"step":1e300,"loss":1e308}\n').encode())
put("log", "epochs", b"\x00" + (first + '{"epoch":1e99,"sec":1e308,"test_acc":-1e308,"img_per_s":1e308}\n' * 3).encode())
put("log", "tiny", b"\x00" + (first + '{"step":1,"loss":1e-320}\n{"epoch":-1,"sec":5e-324,"test_acc":null}\n').encode())
put("log", "markup", b"\x00" + '{"lockstep":"1","<script>":"<script>\\u0000","a_b":0.5}\n'.encode())
put("log", "no-batches", b"\x00" + (first.replace("300", '"inf"').replace("128", '"1e-300"') + steps + epoch).encode())
