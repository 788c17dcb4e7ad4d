#!/bin/sh
# The Debian packages in a bare system of this machine's release, made with debootstrap: they install, the program trains, a program
# of one's own compiles, and purging them leaves no file. package.sh PROGRAM [ROOT], in the build folder; ROOT is a bare system made
# before, of which a copy is used. Needs root, debootstrap and a package mirror; builds once more where the build is not for /usr.
. "$(dirname -- "$0")/common.sh"
. "$(dirname -- "$0")/bare.sh"
source=$(readlink -f "$here/../..")
build=$(readlink -f "$(dirname -- "$program")")
needs_tool debootstrap cpack dpkg-shlibdeps file unshare

if ! grep -qx 'CMAKE_INSTALL_PREFIX:PATH=/usr' "$build/CMakeCache.txt"; then
    # Refused in one line, as such a package would look for its plugins elsewhere.
    (cd "$build" && cpack -G DEB -B "$work/refused") >"$work/out" 2>&1 && wrong "a build for another place makes a Debian package"
    grep -q 'configure it with -DCMAKE_INSTALL_PREFIX=/usr' "$work/out" || wrong "cpack does not say what to do"
    build=$work/build
    { cmake -S "$source" -B "$build" -DCMAKE_INSTALL_PREFIX=/usr -DLOCKSTEP_TESTS=OFF -DLOCKSTEP_BENCH=OFF &&
        cmake --build "$build" -j "$(nproc)"; } >"$work/out" 2>&1 || { wrong "the build for /usr"; ends; }
fi
(cd "$build" && cpack -G DEB -B "$work/packages") >"$work/out" 2>&1 || { wrong "cpack"; ends; }

bare_system "${2-}"
mkdir "$root/srv/packages"
cp "$work"/packages/*.deb "$root/srv/packages"

# Every file but the notes that apt and dpkg keep about their own work.
files() {
    (cd "$root" && find . -xdev \( -path ./proc -o -path ./var/log -o -path ./var/cache/apt -o -path ./var/lib/apt -o \
        -path './var/lib/dpkg/*-old' -o -path ./var/cache/ldconfig \) -prune -o -print) | LC_ALL=C sort
}

same_files() { # BEFORE
    files >"$work/now"
    diff "$1" "$work/now" >"$work/out" || wrong "purging the package leaves or takes files"
}

must 'apt-get update'
# The data; and what is no part of Lockstep and stays: apt keeps the certificates, once there, because it can use them itself.
must 'apt-get install -y --no-install-recommends dataset-fashion-mnist ca-certificates'
files >"$work/bare"

must 'apt-get install -y /srv/packages/lockstep_*.deb'
must 'lockstep --version'
prints '^lockstep [0-9.]+$'
must 'lockstep train --epochs 1 --limit 2560 --limit-test 256 --save kept.safetensors'
prints '^test acc: '
prints '^fingerprint: [0-9a-f]{64}$'
tail -n 1 "$work/out" >"$work/fingerprint"
"$program" train --epochs 1 --limit 2560 --limit-test 256 --data "$root/usr/share/datasets/fashion-mnist" --quiet 2>"$work/err" |
    tail -n 1 | cmp -s - "$work/fingerprint" || wrong "the package trains to another fingerprint than $program"
must 'lockstep doctor --quiet --skip cores,memory' # nothing is amiss for want of an MPI
must 'lockstep export --onnx kept.onnx --weights kept.safetensors && test -s kept.onnx'
must 'lockstep fingerprint kept.safetensors && rm kept.safetensors kept.onnx'
must 'apt-get purge -y --auto-remove lockstep'
same_files "$work/bare"

# With a compiler, and an MPI.
must 'apt-get install -y --no-install-recommends gcc libc6-dev pkg-config cmake make openmpi-bin'
files >"$work/tools"
must 'apt-get install -y /srv/packages/lockstep_*.deb /srv/packages/lockstep-openmpi_*.deb'
must 'cc -std=c11 /usr/share/doc/lockstep/examples/memory.c -o one $(pkg-config --cflags --libs lockstep) && ./one 2 400'
prints '^test acc: (0\.9[0-9]|1\.00)'
cat >"$root/root/CMakeLists.txt" <<'LISTS'
cmake_minimum_required(VERSION 3.18)
project(user C)
find_package(lockstep 0.1 REQUIRED)
add_executable(two /usr/share/doc/lockstep/examples/memory.c)
target_link_libraries(two lockstep::lockstep)
LISTS
must 'cmake -B user . && cmake --build user && user/two 2 400'
prints '^test acc: (0\.9[0-9]|1\.00)'
must 'mpirun --allow-run-as-root --oversubscribe -n 2 lockstep train --epochs 1 --limit 2560 --limit-test 256'
prints "$(cat "$work/fingerprint")"
rm -rf "$root/root/CMakeLists.txt" "$root/root/user" "$root/root/one" "$root/root/memory.safetensors" "$root/tmp"/*
must 'apt-get purge -y --auto-remove lockstep lockstep-openmpi'
same_files "$work/tools"
ends
