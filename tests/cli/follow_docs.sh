#!/bin/sh
# Every block of commands in README.md and docs/, in a bare system of this machine's release: each ends with status 0. What a page takes
# for granted, what is shortened because it would take an hour, and what cannot be had here stands below, and the output says it.
# follow_docs.sh PROGRAM [ROOT]; ROOT is a bare system made before, of which a copy is used. Needs root, git, debootstrap and package
# mirrors; follows what is committed.
. "$(dirname -- "$0")/common.sh"
. "$(dirname -- "$0")/bare.sh"
needs_tool debootstrap unshare git
bare_system "${2-}"
git clone -q "$(readlink -f "$here/../..")" "$root/root/lockstep" || exit 1
echo 'APT::Get::Assume-Yes "true";' >"$root/etc/apt/apt.conf.d/yes"
mkdir "$root/srv/blocks"

# The pages' blocks, one a file: README.md-1, docs/hosts.md-1 as hosts.md-1, and so on.
cd "$root/root/lockstep" || exit 1
for page in README.md docs/*.md; do
    awk -v to="$root/srv/blocks/${page#docs/}-" '/^```sh$/ {on = 1; file = to (++n); next} /^```/ {on = 0} on {print >file}' "$page"
done

# Shorter: ResNet-18 on a few images, fuzzing for a moment.
cat >"$work/shorten" <<'END'
/doctor/!s/--model resnet18/& --limit 128 --limit-test 64/
s/-runs=10000000/-runs=20000/
END
# Left out, with the reason.
cat >"$work/without" <<'END'
^\./check	it is the tests, which this is one of
^srun	Slurm: tests/cli/slurm.sh
lenet_torch\.py	a quarter of an hour of PyTorch, whose figures are in the tree
^(py\(\)|sed .* py$)	the book's texts, which are the book's
END

# block NAME: runs it, up to the first command that fails.
block() {
    file=$root/srv/blocks/$1
    [ -e "$file" ] || { wrong "there is no block $1"; return; }
    while IFS='	' read -r pattern reason; do
        grep -E "$pattern" "$file" | sed "s|^|$1: left out ($reason): |"
        sed -i -E "\\,$pattern,d" "$file"
    done <"$work/without"
    sed 's/ *#.*//' "$file" >"$work/as-written"
    sed -i -f "$work/shorten" "$file"
    sed 's/ *#.*//' "$file" | diff "$work/as-written" - | sed -n "s|^> |$1: shortened: |p"
    sed -i 's,^PYTHON ,build/peers/torch/bin/python ,' "$file" # the interpreter that bench/peers/run makes
    began=$(date +%s)
    if there ". /srv/settings; cd lockstep && bash -e /srv/blocks/$1"; then
        printf '%s: followed (%s s)\n' "$1" $(($(date +%s) - began))
    else
        wrong "$1: status $?"
    fi
    rm "$file"
}

# For Python's packages, and for mpirun, which starts nothing as root, and no more ranks than there are cores, unless it is told.
cat >"$root/srv/settings" <<'END'
export PIP_CERT=/etc/ssl/certs/ca-certificates.crt
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
END

# A reader begins with the first two lines of README.md, then wants an MPI and Lockstep's packages.
must 'apt-get update && apt-get install --no-install-recommends ca-certificates'
[ ! -e /etc/ssl/certs/ca-certificates.crt ] || cp /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/"
block README.md-1
block hosts.md-1
must '. /srv/settings; cd lockstep && ./run --epochs 1'
for block in $(cd "$root/srv/blocks" && ls -v README.md-* install.md-*); do
    block "$block"
done
must 'apt-get install ./lockstep/build-deb/lockstep-*.deb'

# Measurements want their programs, and the hosts of hosts.md a list of them.
must 'apt-get install --no-install-recommends libcmocka-dev libdnnl-dev clang libclang-rt-dev python3-venv'
must 'cd lockstep && cmake -S . -B build -DLOCKSTEP_TESTS=ON -DLOCKSTEP_BENCH=ON && cmake --build build -j "$(nproc)"'
must 'cd lockstep && echo "localhost slots=4" >hosts && ln -s /usr/share/datasets/fashion-mnist /data && mkdir -p runs'
if there '. /srv/settings; cd lockstep && bench/peers/run --setup torch && build/peers/torch/bin/pip install -q onnxruntime'; then
    peers=yes
else
    peers=
    part_not_run "what needs packages of pip" "$(tail -n 1 "$work/err")"
fi

# What the pages name in their text: page, command, and where it is shortened what is run.
texts=0
while IFS='	' read -r page command shorter; do
    texts=$((texts + 1))
    grep -qF -- "$command" "$page" || wrong "$page does not name $command"
    [ -z "$shorter" ] || echo "$page: shortened: $shorter"
    echo "${shorter:-$command}" >"$root/srv/blocks/${page#docs/}-text-$texts"
done <<'END'
docs/book.md	build/examples/from_scratch 1
docs/look.md	build/lockstep bench
docs/look.md	build/bench/bench_tracing
docs/performance.md	build/lockstep bench --profile --model lenet
docs/performance.md	taskset -c 0 build/lockstep bench --profile --devices cpu:0	taskset -c 0 build/lockstep bench --profile --devices cpu:0 --model lenet
docs/performance.md	build/bench/bench_kernels --isa avx2 batch_norm
docs/performance.md	build/bench/bench_compare	build/bench/bench_compare --seconds 0.01
docs/performance.md	build/bench/bench_devices resnet18	build/bench/bench_devices --turns 1 lenet
docs/performance.md	bench/peers/run	bench/peers/run --quick --rounds 1 --peers torch --modes channels_last --models lenet
docs/performance.md	bench/peers/startup	bench/peers/startup --rounds 1 --models lenet --modes channels_last
docs/performance.md	bench/networks	bench/networks --networks lstm --training --rounds 1 --seconds 0 --modes eager
docs/performance.md	bench/scaling	bench/scaling --quick --models lenet
docs/reading.md	build/examples/from_scratch 1 2000
docs/reading.md	build/examples/devices
docs/reading.md	build/examples/three_ways
docs/results.md	bench/tiers --rounds 7 --epochs 2	bench/tiers --rounds 1 --epochs 1
docs/scale.md	bench/scale	bench/scale --rounds 1
END
for block in $(cd "$root/srv/blocks" && ls -v); do
    if [ -z "$peers" ] && grep -qE '^PYTHON|^bench/peers|^bench/networks|^bench/sca' "$root/srv/blocks/$block"; then
        echo "$block: left out: it needs packages of pip"
    else
        block "$block"
    fi
done
ends
