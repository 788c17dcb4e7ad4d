#!/bin/sh
# Data sets as people have them: the same bits on any devices with augmentation on, the same numbers whatever file they come from, and
# one line for what cannot be read.
. "$(dirname -- "$0")/common.sh"
for name in cifar10 cifar100 npy npy-floats folder; do
    python3 "$here/make_sets.py" $name "$work/$name" 120 40 || exit 1
done
sets='cifar10 cifar100 npy npy-floats'
if has folders 'PNG files'; then sets="$sets folder"; fi

small="--epochs 2 --batch 48 --shard 16 --lr 0.1 --init xavier --quiet"
augmented="--flip --crop 4 --erase 0.5"

trains() { # FILE OPTIONS...: the fingerprint goes to the file
    file=$1
    shift
    # shellcheck disable=SC2086 # options
    runs 0 train $small "$@"
    tail -n 1 "$work/out" >"$work/$file"
}

for name in $sets; do
    data="--dataset ${name%-floats} --data $work/$name"
    # shellcheck disable=SC2086
    for devices in cpu:0 cpu:0-1 cpu:0-2; do
        trains "$name.$devices" $data $augmented --devices $devices
        cmp "$work/$name.cpu:0" "$work/$name.$devices" || wrong "$name: another fingerprint on $devices"
    done
    # shellcheck disable=SC2086
    trains "$name.plain" $data --devices cpu:0
    cmp -s "$work/$name.cpu:0" "$work/$name.plain" && wrong "$name: augmentation changes nothing"
done
cmp "$work/cifar10.cpu:0" "$work/npy.cpu:0" || wrong "the same images from CIFAR's files and from arrays: other fingerprints"
for extra in --flip '--crop 2' '--erase 1'; do
    # shellcheck disable=SC2086
    trains extra --dataset cifar10 --data "$work/cifar10" $extra
    cmp -s "$work/cifar10.plain" "$work/extra" && wrong "$extra changes nothing"
done
for devices in cpu:0 cpu:0-2; do
    # shellcheck disable=SC2086
    trains "resnet18.$devices" --model resnet18 --dataset cifar10 --data "$work/cifar10" --limit 32 --limit-test 8 --epochs 1 $augmented --devices $devices
done
cmp "$work/resnet18.cpu:0" "$work/resnet18.cpu:0-2" || wrong "ResNet-18 on CIFAR-10: another fingerprint on three devices"

# A run learns what the blocks say, and its first line says what it trains on.
runs 0 train --dataset cifar10 --data "$work/cifar10" --epochs 12 --batch 20 --shard 10 --lr 0.1 --init xavier --flip --save "$work/w.safetensors"
grep -q 'cifar10, 120 images, .* shuffled, flip, conv' "$work/err" || wrong "the first line lacks data set or augmentation"
grep -q '^data: 120 images 3x32x32, values 0 to 1, 10 classes (airplane ... truck), 12 each$' "$work/err" || wrong "no line of the data"
sed -n 's/^test acc: \(0\.[6-9].*\|1\.00\),.*/learned/p' "$work/out" | grep -q learned || wrong "nothing is learned"
runs 0 eval --dataset cifar10 --data "$work/cifar10" --weights "$work/w.safetensors"
grep -q '^data: 40 images 3x32x32, .* 10 classes (airplane ... truck), 4 each$' "$work/err" || wrong "eval has no line of the data"

# What looks like a mistake is noted, before it makes the network fail.
mkdir "$work/turned"
cp "$work/npy"/y_*.npy "$work/turned"
for part in train test; do
    sed '1s/3, 32, 32/32, 32, 3/' "$work/npy/X_$part.npy" >"$work/turned/X_$part.npy"
done
runs 1 train --dataset npy --data "$work/turned"
grep -q '^note: images of 32 channels, 32 high and 3 wide: does the array lie as (N, H, W, C)?' "$work/err" || wrong "no note of the array's order"
runs 1 doctor --dataset npy --data "$work/turned" --skip cores,canary,copies
grep -q '^note: images of 32 channels' "$work/err" || wrong "doctor notes nothing of the array's order"
runs 0 train --dataset npy --data "$work/npy" --epochs 1 --limit 1
grep -q '^note: all images are of one class (0).* more of them than the limit' "$work/err" || wrong "no note of a single class"

# As many logits as classes; weights of another number of classes are refused.
trains hundred --dataset cifar100 --data "$work/cifar100" --save "$work/hundred.safetensors"
runs 0 predict --dataset cifar100 --data "$work/cifar100" --weights "$work/hundred.safetensors" --out "$work/logits.npy"
grep -aq "'shape': (40, 100)" "$work/logits.npy" || wrong "predict's file is not 40 x 100"
if has "export of a hundred classes" 'ONNX files'; then
    runs 0 export --onnx "$work/hundred.onnx" --weights "$work/hundred.safetensors"
fi
runs 1 eval --dataset cifar100 --data "$work/cifar100" --weights "$work/w.safetensors"
one_line '--weights: .*the weights have 10 classes, the data 100: parameter W4 has shape \(128, 10\), the network needs \(128, 100\)'

# A run goes on with the same bits, and only as it was; the same images may come from other files.
kept="--checkpoint $work/kept"
cifar="--dataset cifar10 --data $work/cifar10"
# shellcheck disable=SC2086
{
    runs 0 train $small $cifar $augmented $kept --steps 3 --devices cpu:0-1
    runs 1 train $small $cifar --crop 4 --erase 0.5 $kept --resume
    one_line '--resume: .*settings: flip was yes and is not set now'
    runs 1 train $small $cifar $augmented --crop 3 --erase 0.25 $kept --resume
    one_line '--resume: .*settings: crop was 4 and is 3 now, erase was 0.5 and is 0.25 now'
    runs 1 train $small --dataset npy --data "$work/npy-floats" $augmented $kept --resume
    one_line '--resume: .*settings: data was 120 images [0-9a-f]+ and is 120 images'
    runs 2 train $small $cifar $augmented $kept --resume --allow-changed colour
    trains resumed --dataset npy --data "$work/npy" $augmented $kept --resume --devices cpu:0-2
}
cmp "$work/cifar10.cpu:0" "$work/resumed" || wrong "a run that went on has another fingerprint"

# One line for each fault.
refused() { # PATTERN OPTIONS...
    pattern=$1
    shift
    # shellcheck disable=SC2086
    runs 1 train $small "$@"
    one_line "$pattern"
}
unset LOCKSTEP_DATA
refused 'data: cifar10: its folder is not named; set --data or \$LOCKSTEP_DATA$' --dataset cifar10
refused 'data: CIFAR-10 is not in .*cifar100: there is no data_batch_1.bin' --dataset cifar10 --data "$work/cifar100"
refused "data: .*npy/train: is no folder" --dataset folder --data "$work/npy"
refused 'data: .*X_train.npy: is not there' --dataset npy --data "$work/cifar10"
refused 'data: a crop of 32 pixels; images of 32 x 32 take 0 \(none\) to 31' --dataset cifar10 --data "$work/cifar10" --crop 32
mkdir "$work/mixed"
cp "$work/npy"/*_train.npy "$work/npy-floats"/*_test.npy "$work/mixed"
refused 'data: the training images are bytes, but the test images float32' --dataset npy --data "$work/mixed"
mkdir "$work/cut"
cp "$work/cifar10"/* "$work/cut"
printf x >>"$work/cut/data_batch_3.bin"
refused 'data: .*data_batch_3.bin: its [0-9]+ bytes are no whole number' --dataset cifar10 --data "$work/cut"
if built_with 'PNG files'; then
    first=$(find "$work/folder/train" -name '*.png' | sort | sed -n 7p)
    cp "$first" "$work/whole.png"
    head -c 700 "$work/whole.png" >"$first"
    refused "data: $first: cannot be decoded: " --dataset folder --data "$work/folder"
    second=$(find "$work/folder/train" -name '*.png' | sort | sed -n 9p)
    cp "$second" "$work/second.png"
    echo '<html>' >"$second"
    # shellcheck disable=SC2086
    runs 1 train $small --dataset folder --data "$work/folder"
    [ "$(wc -l <"$work/err")" = 3 ] || wrong "two images with faults are not told in three lines"
    head -n 1 "$work/err" | grep -q "^$first: cannot be decoded: " || wrong "the first image is not told"
    sed -n 2p "$work/err" | grep -q "^$second: neither a PNG nor a JPEG file .* a web page" || wrong "the second image is not told"
    tail -n 1 "$work/err" | grep -q '^lockstep: data: .*/train: 2 faults in its files, the first of them: ' || wrong "no count of faults"
    cp "$work/second.png" "$second"
    cp "$work/whole.png" "$first"
    mv "$work/folder/test" "$work/folder/val"
    runs 0 doctor --dataset folder --data "$work/folder" --skip cores,canary,copies
    grep -q 'data  *folder: 120 images 3x32x32, values 0 to 1, 10 classes (class 0 ... class 9), 12 each; 40 test images$' "$work/out" ||
        wrong "doctor's line"
fi
for usage in '--dataset imagenet' '--crop -1' '--crop x' '--erase 1.5' '--erase -1' '--erase nan'; do
    # shellcheck disable=SC2086
    runs 2 train $usage
    one_line "${usage%% *}: "
done

# A report has the classes' names and the images' colours; of a hundred classes the mistakes.
if has "reports of data sets" reports; then
    trains looked --dataset cifar10 --data "$work/cifar10" --report "$work/look"
    grep -q '<h1>LeNet on CIFAR-10</h1>' "$work/look/report.html" || wrong "the report's title"
    grep -q '<p>All 40 test images: a row for what they are' "$work/look/report.html" || wrong "the report does not say how many images were tested"
    grep -q '>Trained on 120 images, tested on 40 images\.' "$work/look/report.html" || wrong "the report does not say what was trained on"
    grep -q '<th>airplane</th>' "$work/look/report.html" || wrong "the report lacks the classes' names"
    python3 "$here/make_sets.py" cifar100 "$work/many" 120 150 || exit 1 # more than one image of some classes
    trains looked --dataset cifar100 --data "$work/many" --report "$work/look-hundred" --save "$work/hundred.safetensors"
    runs 0 predict --dataset cifar100 --data "$work/many" --weights "$work/hundred.safetensors" --out "$work/hundred.npy" --quiet
    python3 - "$work" <<'PY' || wrong "the report of a hundred classes"
import re, sys
from recompute import logits
work = sys.argv[1]
page = open(work + "/look-hundred/report.html", encoding="utf-8").read()
raw = open(work + "/many/test.bin", "rb").read()
rows = logits(work + "/hundred.npy")
classes, shown = (re.findall(r"<tr><td>([^<]*)</td>(?:<td>([^<]*)</td>)?<td class=\"n\">(\d+)</td>", page[page.index(f'id="{table}"') :].split("</table>")[0])
                  for table in ("classes", "mistakes"))
names = [name for name, _, _ in classes]
assert len(names) == 100 and len(rows) == 150, (names, len(rows))
mistakes = {}
for i, row in enumerate(rows):
    label, guess = raw[3074 * i + 1], row.index(max(row))
    if label != guess:
        mistakes[label, guess] = mistakes.get((label, guess), 0) + 1
# The most frequent first, equal ones by their classes.
wanted = [(names[a], names[b], str(n)) for (a, b), n in sorted(mistakes.items(), key=lambda item: (-item[1], item[0]))]
assert len(wanted) > 40 and len({n for *_, n in wanted}) > 1 and shown == wanted[:40], (shown, wanted)
PY
    python3 - "$work" <<'PY' || wrong "the report's pictures"
import base64, re, struct, sys, zlib
work = sys.argv[1]
page = open(work + "/look/report.html", encoding="utf-8").read()
raw = open(work + "/cifar10/test_batch.bin", "rb").read()
found = re.findall(r'alt="test image (\d+): [^"]*" src="data:image/png;base64,([^"]*)"', page)
assert found
for number, text in found:
    data = base64.b64decode(text)
    width, height, depth, colour = struct.unpack(">IIBB", data[16:26])
    assert (width, height, depth, colour) == (32, 32, 8, 2), (width, height, depth, colour)
    at, packed = 8, b""
    while at < len(data):
        (size,) = struct.unpack(">I", data[at : at + 4])
        packed += data[at + 8 : at + 8 + size] if data[at + 4 : at + 8] == b"IDAT" else b""
        at += 12 + size
    flat, before, pixels = zlib.decompress(packed), bytes(96), b""
    for y in range(32):
        kind, row = flat[97 * y], bytearray(flat[97 * y + 1 : 97 * y + 97])
        for i in range(96):
            a, b, c = (row[i - 3] if i >= 3 else 0), before[i], (before[i - 3] if i >= 3 else 0)
            p = a + b - c
            paeth = min((abs(p - a), 0, a), (abs(p - b), 1, b), (abs(p - c), 2, c))[2]
            row[i] = (row[i] + (0, a, b, (a + b) // 2, paeth)[kind]) & 255
        before, pixels = bytes(row), pixels + bytes(row)
    record = raw[3073 * int(number) + 1 : 3073 * (int(number) + 1)]
    wanted = bytes(record[1024 * k + i] for i in range(1024) for k in range(3))
    assert pixels == wanted, number
PY
fi
ends
