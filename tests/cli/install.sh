#!/bin/sh
# What `cmake --install` puts in place is all that a program needs: the examples build against it in C11 and C++17, by pkg-config
# and by find_package, without a warning, and run. install.sh PROGRAM, in the build folder.
. "$(dirname -- "$0")/common.sh"
root=$here/../..
build=$(dirname -- "$program")
prefix=$work/installed
needs_tool cmake pkg-config
cmake --install "$build" --prefix "$prefix" >"$work/out" 2>&1 || wrong "cmake --install"
python3 "$here/make_data.py" "$work/data" 400 100 || exit 1
LOCKSTEP_DATA=$work/data
PKG_CONFIG_PATH=$(dirname -- "$(find "$prefix" -name lockstep.pc)")
LD_LIBRARY_PATH=$(dirname -- "$PKG_CONFIG_PATH")
export LOCKSTEP_DATA PKG_CONFIG_PATH LD_LIBRARY_PATH
strict='-Wall -Wextra -Wpedantic -Werror'

# A user's own flags are those that are compiled with.
cmake -S "$root" -B "$work/flags" -DCMAKE_C_FLAGS_RELEASE="-O1 -DOWN_FLAGS" -DLOCKSTEP_CUDA=OFF -DLOCKSTEP_TESTS=OFF -DLOCKSTEP_BENCH=OFF \
    >"$work/out" 2>"$work/err" || wrong "cmake with flags of one's own"
grep -q -- '-O1 -DOWN_FLAGS' "$work/flags/compile_commands.json" || wrong "CMAKE_C_FLAGS_RELEASE is not used"
! grep -q -- '-O3' "$work/flags/compile_commands.json" || wrong "CMAKE_C_FLAGS_RELEASE is not all that is used"

# The soname is a link beside the library, and nothing is exported but what the headers declare.
soname=$(find "$LD_LIBRARY_PATH" -name 'liblockstep.so.[0-9]' -type l)
[ -e "$soname" ] || wrong "no versioned soname in $(ls "$LD_LIBRARY_PATH")"
if has_tool "the soname" readelf; then
    readelf -d "$soname" | grep -qF "Library soname: [${soname##*/}]" || wrong "the soname is not ${soname##*/}"
fi
if has_tool "what is exported" nm; then
    nm -D --defined-only "$soname" | awk '{print $3}' | sort >"$work/exported"
    grep -ohE '[ *]ls_[a-z0-9_]+\(' $(ls "$prefix"/include/lockstep*.h | grep -v _mpi) | tr -d ' *(' | sort -u >"$work/declared"
    [ -z "$(comm -23 "$work/exported" "$work/declared")" ] || wrong "exported: $(comm -23 "$work/exported" "$work/declared")"
    [ "$(wc -l <"$work/exported")" -gt 100 ] || wrong "only $(wc -l <"$work/exported") functions are exported"
fi

# The program stands alone, finds its plugins from where it is, and has its pages beside it.
env -u LD_LIBRARY_PATH "$prefix/bin/lockstep" --version >"$work/out" 2>"$work/err" || wrong "the installed program does not run"
"$prefix/bin/lockstep" doctor --skip devices,cores,memory,canary,copies,data,disk >"$work/out" 2>"$work/err" ||
    wrong "the installed program does not load its plugins"
for plugin in "$build"/lockstep-*.so; do
    [ ! -e "$plugin" ] || [ -s "$LD_LIBRARY_PATH/lockstep/${plugin##*/}" ] || wrong "no ${plugin##*/} in $LD_LIBRARY_PATH/lockstep"
done
for name in man/man1/lockstep.1 bash-completion/completions/lockstep doc/lockstep/copyright doc/lockstep/README.md \
    doc/lockstep/docs/install.md doc/lockstep/examples/memory.c; do
    [ -s "$prefix/share/$name" ] || wrong "no share/$name"
done
[ -n "$(find "$prefix/share/zsh" -name _lockstep -size +0)" ] || wrong "no completion for zsh"

prints() { # PATTERN: what the last program printed
    grep -qE "$1" "$work/out" || wrong "$called does not print '$1'"
}

try() { # COMMAND...: ends with status 0
    called=$*
    "$@" >"$work/out" 2>"$work/err" || wrong "$called: status $?"
}

run_both() { # FOLDER
    try "$1/memory" 2 400 "$work/memory.safetensors"
    prints '^test acc: (0\.9[0-9]|1\.00)'
    [ -s "$work/memory.safetensors" ] || wrong "$called saved nothing"
    try "$program" fingerprint "$work/memory.safetensors"
    cat "$work/out" >>"$work/fingerprints"
    rm -f "$work/memory.safetensors"
    [ ! -x "$1/own_operation" ] || {
        try "$1/own_operation" 2 400
        prints '^bend: backward against finite differences: [0-9.]+e-0[4-9]$'
        prints '^test acc: '
    }
}

# shellcheck disable=SC2086,SC2046 # lists of options
for compiler in gcc clang; do
    has_tool "programs of $compiler" $compiler || continue
    mkdir "$work/$compiler"
    for name in memory own_operation; do
        try $compiler -std=c11 -O2 $strict "$root/examples/$name.c" -o "$work/$compiler/$name" \
            $(pkg-config --cflags --libs lockstep) -lm
    done
    run_both "$work/$compiler"
    try $compiler -std=c11 -O2 $strict "$root/examples/memory.c" -o "$work/$compiler/memory" -Wl,-Bstatic \
        $(pkg-config --cflags --libs-only-L --libs-only-l lockstep) -Wl,-Bdynamic \
        $(pkg-config --static --libs lockstep | sed 's/-llockstep//')
    ! readelf -d "$work/$compiler/memory" | grep -q liblockstep || wrong "$called: still needs the shared library"
    run_both "$work/$compiler"
done
# shellcheck disable=SC2086,SC2046
if has_tool "a program in C++" g++; then
    mkdir "$work/c++"
    try g++ -std=c++17 -O2 $strict "$here/memory.cpp" -o "$work/c++/memory" $(pkg-config --cflags --libs lockstep)
    run_both "$work/c++"
fi

mkdir "$work/project"
cat >"$work/project/CMakeLists.txt" <<'LISTS'
cmake_minimum_required(VERSION 3.18)
project(user C)
set(CMAKE_C_STANDARD 11)
set(CMAKE_C_EXTENSIONS OFF)
find_package(lockstep 0.1 REQUIRED COMPONENTS ${COMPONENTS})
add_compile_options(-Wall -Wextra -Wpedantic -Werror)
foreach(name memory own_operation)
  add_executable(${name} ${EXAMPLES}/${name}.c)
  target_link_libraries(${name} ${LIBRARY} m)
endforeach()
LISTS
unset LD_LIBRARY_PATH
for compiler in gcc clang; do
    command -v $compiler >/dev/null 2>&1 || continue
    for library in lockstep static; do
        components=
        [ $library = lockstep ] || components=static
        folder=$work/$compiler-$library
        try cmake -S "$work/project" -B "$folder" -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_C_COMPILER=$compiler \
            -DEXAMPLES="$root/examples" -DLIBRARY=lockstep::$library -DCOMPONENTS=$components
        try cmake --build "$folder"
        run_both "$folder"
    done
done
[ "$(sort -u "$work/fingerprints" | wc -l)" = 1 ] || wrong "other compilers, other bits: $(cat "$work/fingerprints")"
ends
