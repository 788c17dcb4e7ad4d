#!/bin/sh
# Weights know their classes: other names, another order or another number of them are refused by name, where data come in.
. "$(dirname -- "$0")/common.sh"
needs 'weights files' 'PNG files'
python3 "$here/make_sets.py" folder "$work/images" 40 20 || exit 1
small="--dataset folder --devices cpu:0 --quiet"
short="--epochs 1 --batch 20 --shard 10"
W=$work/w.safetensors
# shellcheck disable=SC2086 # options
runs 0 train $small $short --data "$work/images" --save "$W" --checkpoint "$work/kept"
for file in "$W" "$work/kept/checkpoint-000001.safetensors"; do
    python3 - "$file" <<'PY' || wrong "the names of the classes in $file"
import json, struct, sys
raw = open(sys.argv[1], "rb").read()
metadata = json.loads(raw[8 : 8 + struct.unpack("<Q", raw[:8])[0]])["__metadata__"]
assert json.loads(metadata["classes"]) == ["class %d" % i for i in range(10)], metadata
PY
done
# shellcheck disable=SC2086
{
    runs 0 eval $small --data "$work/images" --weights "$W"
    for part in train test; do
        mv "$work/images/$part/class 4" "$work/images/$part/c"
    done
    refusal="--weights: $W: class 0 is 'class 0' in the weights, but 'c' in the data; where they mean the same, say --allow-changed classes"
    runs 1 eval $small --data "$work/images" --weights "$W"
    one_line "$refusal"
    runs 1 predict $small --data "$work/images" --weights "$W" --out "$work/l.npy"
    one_line "$refusal"
    runs 1 train $small $short --data "$work/images" --weights "$W"
    one_line "$refusal"
    runs 0 eval $small --data "$work/images" --weights "$W" --allow-changed classes
    runs 0 train $small $short --data "$work/images" --weights "$W" --allow-changed classes --save "$work/renamed.safetensors"
    runs 0 eval $small --data "$work/images" --weights "$work/renamed.safetensors" # the data's names are in it
    runs 2 train $small --data "$work/images" --allow-changed classes
    one_line '--allow-changed: classes needs --weights or --resume'
    go_on="train $small --epochs 2 --batch 20 --shard 10 --data $work/images --checkpoint $work/kept --resume"
    runs 1 $go_on
    one_line "--resume: .*data was .*, classes was class 0, class 1, .* and is c, class 0, .* now; go on with what was, or say --allow-changed data,classes\$"
    runs 1 $go_on --allow-changed data
    one_line "--resume: .*classes was class 0, class 1, .* and is c, class 0, .* now; go on with what was, or say --allow-changed classes\$"
    runs 0 $go_on --allow-changed data,classes
    runs 2 eval $small --data "$work/images" --weights "$W" --allow-changed lr
    one_line "--allow-changed: 'lr' is not classes"
    for part in train test; do
        rm -r "$work/images/$part/class 9"
    done
    runs 1 eval $small --data "$work/images" --weights "$W" --allow-changed classes
    one_line "--weights: $W: the weights have 10 classes, the data 9: parameter W4 has shape "
}
ends
