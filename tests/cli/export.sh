#!/bin/sh
# `lockstep export`: what it writes, what it takes the shape of the images from, and what it refuses. export.sh PROGRAM
. "$(dirname -- "$0")/common.sh"
needs 'weights files'
python3 "$here/make_data.py" "$work/data" 120 40 || exit 1
LOCKSTEP_DATA=$work/data
export LOCKSTEP_DATA

usage() { # PATTERN ARGUMENTS...
    pattern=$1
    shift
    runs 2 export "$@"
    one_line "$pattern"
}

usage '--onnx: is needed' --weights w
usage '--weights: is needed' --onnx m
usage '--onnx: ' --onnx '' --weights w
usage '--devices: ' --onnx m --weights w --devices cpu:0
for sizes in '' 1 28x28 1x28x28x1 0x28x28 1x28x-1 x1x28x28 1x28x28x 1xx28x28 1x28xa 99999999999x1x1; do
    usage '--input: ' --onnx m --weights w --input "$sizes"
done

runs 0 train --epochs 1 --save "$work/w.safetensors"
if ! has "what is exported" 'ONNX files'; then
    runs 1 export --onnx "$work/m.onnx" --weights "$work/w.safetensors"
    one_line '--onnx: .*built without protobuf-c'
    ends
fi
runs 0 export --onnx "$work/m.onnx" --weights "$work/w.safetensors"
grep -qx "lenet as an ONNX model in $work/m.onnx" "$work/err" || wrong "$called: does not say what it did"
runs 0 export --onnx "$work/again.onnx" --weights "$work/w.safetensors" --model lenet --input 1x28x28 --quiet
[ ! -s "$work/err" ] || wrong "$called: --quiet is not quiet"
cmp -s "$work/m.onnx" "$work/again.onnx" || wrong "$called: another model than the file's own shape gives"

# A file of another program says neither model nor shape.
python3 - "$work/w.safetensors" "$work/plain.safetensors" <<'PY' || exit 1
import json, struct, sys
whole = open(sys.argv[1], "rb").read()
length, = struct.unpack("<Q", whole[:8])
header = json.loads(whole[8:8 + length])
assert header.pop("__metadata__")["images"] == "1x28x28"
text = json.dumps(header).encode()
open(sys.argv[2], "wb").write(struct.pack("<Q", len(text)) + text + whole[8 + length:])
PY
usage '--weights: .*does not name its model' --onnx "$work/m.onnx" --weights "$work/plain.safetensors"
runs 0 export --onnx "$work/plain.onnx" --weights "$work/plain.safetensors" --model lenet
cmp -s "$work/m.onnx" "$work/plain.onnx" || wrong "$called: another model than that of the file with its metadata"
runs 1 export --onnx "$work/none.onnx" --weights "$work/plain.safetensors" --model lenet --input 3x32x32
one_line '--weights: '
runs 1 export --onnx "$work/none.onnx" --weights "$work/plain.safetensors" --model resnet18
one_line '--weights: .*parameter 0.weight is missing'
runs 1 export --onnx "$work/nowhere/m.onnx" --weights "$work/w.safetensors"
one_line "--onnx: $work/nowhere: No such file or directory"
runs 1 export --onnx "$work/m.onnx" --weights "$work/nothing"
one_line '--weights: .*nothing'
[ "$(find "$work" -name '*none*' -o -name '*.tmp')" = "" ] || wrong "a failure left a file"
cmp -s "$work/m.onnx" "$work/again.onnx" || wrong "a failure changed the model that was there"
ends
