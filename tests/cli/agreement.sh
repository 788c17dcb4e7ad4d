#!/bin/sh
# Weights and models in other programs: the same logits from PyTorch, both ways, and from onnxruntime; and PyTorch's figures, as recorded, and those of random networks. pip installs them into build/peers
# where PYTHON has them not. agreement.sh PROGRAM torch|onnxruntime TEST_ONNX [PYTHON]
. "$(dirname -- "$0")/common.sh"
root=$(readlink -f "$here/../..")
peer=$2 test_onnx=$3 given=${4-}
needs 'weights files'
python=$(python3 "$root/bench/peers/venvs.py" "$peer" ${given:+"$given"}) ||
    none_run "no $peer; cmake -DLOCKSTEP_AGREEMENT_$(echo "$peer" | tr a-z A-Z)=PATH names a Python that has it"
python3 "$here/make_data.py" "$work/data" 400 200 || exit 1
mkdir "$work/more"
for name in mobilenet unet multilabel lstm transformer siamese autoencoder transfer; do
    "$(dirname -- "$test_onnx")/test_$name" "$work/more" || exit 1
done

fuzz=$(dirname -- "$test_onnx")/fuzz_networks
[ -x "$fuzz" ] || { part_not_run "random networks" "there is no $fuzz" && fuzz=; }

if [ "$peer" = torch ]; then
    for figures in functions convolutions shapes losses sequences recurrent attention freezing averages shared_weights chains networks gan; do
        "$python" "$root/tests/reference/make_$figures.py" --check || exit 1
    done
    [ -z "$fuzz" ] || "$python" "$root/tests/fuzz_networks.py" "$fuzz" --seed 1 --count 200 || exit 1
    "$python" "$root/bench/agreement/networks.py" --lockstep "$program" "$work/more" || exit 1
    set -- "$root/bench/agreement/predict.py"
else
    needs 'ONNX files'
    "$test_onnx" "$work/more" || exit 1
    [ -z "$fuzz" ] || "$python" "$root/tests/fuzz_onnx.py" "$fuzz" --seed 1 --count 200 || exit 1
    set -- "$root/bench/agreement/models.py" --more "$work/more"
fi
"$python" "$@" --lockstep "$program" --data "$work/data" || exit 1
