#!/bin/sh
# The notebooks of examples/ in a kernel of their own, and the C programs beside them: after each epoch and at the end both tell the same.
# pip builds the package around this build's library, and installs what notebooks need into build/peers where PYTHON has it not.
# notebooks.sh PROGRAM short|long|whole [PYTHON]; whole is the book's ten epochs of ResNet-18 too, some hours.
. "$(dirname -- "$0")/common.sh"
. "$here/python_package.sh"
size=$2
package_python notebooks "${3-}" \
    "no nbclient, ipykernel or matplotlib; cmake -DLOCKSTEP_NOTEBOOKS_PYTHON=PATH names a Python that has them, and cffi, scikit-build-core and numpy"

# notebook NAME EPOCHS IMAGES FINGERPRINTS: so many different ones; IMAGES 0: all.
notebook() {
    name=$1 epochs=$2 images=$3 different=$4 called="$1.ipynb, epochs $2, images $3"
    began=$(date +%s)
    "$python" "$here/run_notebook.py" "$root/examples/$name.ipynb" "$work/$name.ipynb" "epochs=$epochs" "images=$images" \
        >"$work/out" 2>"$work/err" || { wrong "$called"; return; }
    printf '%s: %d s, ' "$called" $(($(date +%s) - began))
    began=$(date +%s)
    set -- "$epochs"
    [ "$images" = 0 ] || set -- "$epochs" "$images"
    "$build/examples/$name" "$@" >"$work/c.out" 2>"$work/c.err" || wrong "$name $*: status $?"
    printf '%s %s: %d s\n' "$name" "$*" $(($(date +%s) - began))
    for file in out c.out c.err; do
        grep -E '^fingerprint: ' "$work/$file" >"$work/$file.bits"
        grep -E '^epoch ' "$work/$file" >"$work/$file.epochs"
    done
    cmp -s "$work/out.bits" "$work/c.out.bits" || wrong "$called: not the fingerprints of $name.c: $(cat "$work/c.out.bits")"
    cmp -s "$work/out.epochs" "$work/c.err.epochs" || wrong "$called: not the epochs of $name.c: $(cat "$work/c.err.epochs")"
    [ "$(wc -l <"$work/out.bits")" = 2 ] || wrong "$called: not two fingerprints"
    [ "$(sort -u "$work/out.bits" | wc -l)" = "$different" ] || wrong "$called: not $different different fingerprints"
    [ "$(wc -l <"$work/out.epochs")" = $((2 * epochs)) ] || wrong "$called: not $epochs epochs twice"
    grep -qx 'pictures: 4' "$work/out" || wrong "$called: not two curves, one of both trainings, and one of images"
    cat "$work/out.bits"
}

# LeNet's two fingerprints differ where parts of a last batch are no whole shards; ResNet-18's where there are several steps, as the
# second training takes larger batches.
if [ "$size" = short ]; then
    python3 "$here/make_data.py" "$work/data" 600 600 || exit 1
    LOCKSTEP_DATA=$work/data
    export LOCKSTEP_DATA
    notebook from_scratch 2 600 2
    notebook concise 1 16 1
else
    notebook from_scratch 10 0 2
    [ "$size" = whole ] && epochs=10 || epochs=1
    notebook concise "$epochs" 0 2
fi
ends
