#!/bin/sh
# What ./run and ./check do with a tree that was set up before: nothing, until the machine's packages or the tree change.
# setup.sh PROGRAM, which is not run.
. "$(dirname -- "$0")/common.sh"
tools=$here/../../tools
root=$work/tree
mkdir -p "$root/build" "$root/cmake" "$work/bin"
touch "$root/CMakeLists.txt" "$root/cmake/optional.cmake"
printf 'CMAKE_HOME_DIRECTORY:INTERNAL=%s\n' "$root" >"$root/build/CMakeCache.txt"
printf '#!/bin/sh\ncat %s\n' "$work/packages" >"$work/bin/dpkg-query"
printf '#!/bin/sh\n' >"$work/bin/cmake"
chmod +x "$work/bin/dpkg-query" "$work/bin/cmake"
echo 'gcc 12 installed' >"$work/packages"
PATH=$work/bin:$PATH
. "$tools/setup.sh"
. "$tools/progress.sh"
install_packages() {
    printf '%s|%s\n' "$1" "$2" >>"$work/installed"
    [ ! -e "$work/brings" ] || cat "$work/brings" >>"$work/packages"
}

sets_up() { # WHEN: set_up has something to do
    set_up run gcc libpng-dev || wrong "nothing is set up $1"
    set_up_done
}
leaves() { # WHEN: nothing
    ! set_up run gcc libpng-dev || wrong "set up again $1"
}

echo 'libpng-dev 1.6 installed' >"$work/brings"
sets_up "in a new tree"
rm "$work/brings"
[ "$(cat "$work/installed")" = 'gcc|libpng-dev' ] || wrong "asked for $(cat "$work/installed")"
leaves "after what it installed itself"
echo 'libopenmpi-dev 4.1 installed' >>"$work/packages"
sets_up "after somebody installed a package"
leaves "the second time"
echo '# changed' >>"$root/CMakeLists.txt"
sets_up "after the tree changed"
leaves "the third time"
rm "$root/build/CMakeCache.txt"
set_up run gcc libpng-dev || wrong "nothing is set up without a configuration"

# A command that is over at once has whoever tells of it end too, also where the script catches what ends that one.
cat >"$work/quick.sh" <<END
. $tools/progress.sh
trap 'exit 3' TERM
for again in \$(seq 300); do
    beside 1 true true
done
END
timeout 600 sh "$work/quick.sh" || wrong "beside a quick command: status $?"

# A build says how far it is, as make and as Ninja name it, before it ends; its status and, where it fails, its output are kept.
cat >"$work/bin/cmake" <<END
#!/bin/sh
printf '[ 42%%] Building C object a.o\n[ 43%%] Linking\n'
for wait in \$(seq 600); do
    grep -q 'building build/: 43 %' $work/said && break
    sleep 0.1
done
printf '[7/9] Building C object b.o\n'
for wait in \$(seq 600); do
    grep -q 'building build/: 7/9' $work/said && break
    sleep 0.1
done
exit \$(cat $work/status)
END
build_pause=0.05
for status in 0 1; do
    echo $status >"$work/status"
    : >"$work/said"
    got=0
    build "$root/build" some 2>>"$work/said" || got=$?
    [ $got = $status ] || wrong "a build that ends with $status: $got"
    [ "$(grep -c '^lockstep set-up: building build/: 43 %$' "$work/said")" = 1 ] || wrong "not one line for 43 %: $(cat "$work/said")"
    [ "$(grep -c '^lockstep set-up: building build/: 7/9$' "$work/said")" = 1 ] || wrong "not one line for 7/9: $(cat "$work/said")"
    [ "$(grep -c 'Linking' "$work/said")" = $status ] || wrong "the output of a build that ends with $status: $(cat "$work/said")"
done

# So do tests: how many are done, in which section.
title='gcc, all tests' began=$(date +%s) test_log=$work/ctest.log
printf '      Start  1: a\n 1/12 Test  #1: a ....   Passed    0.01 sec\n 2/12 Test #10: b ....***Failed\n' >"$test_log"
: >"$work/said"
waits() {
    for wait in $(seq 600); do
        [ ! -s "$work/said" ] || return 7
        sleep 0.1
    done
}
got=0
beside 0.05 tell_tests waits 2>>"$work/said" || got=$?
[ $got = 7 ] || wrong "what runs beside changes the status: $got"
grep -q '^gcc, all tests: 2 of 12 tests done ([0-9]* s)$' "$work/said" || wrong "not how many tests are done: $(cat "$work/said")"

# What is not run is named and counted, and is nowhere passed: a whole test, with a reason or without, a case of one that passed, one that
# is switched off. A failure's output is shown.
cat >"$work/CTestTestfile.cmake" <<END
foreach(name passes fails skipped silent partly off)
  add_test(\${name} "$work/\${name}")
  set_tests_properties(\${name} PROPERTIES SKIP_RETURN_CODE 77)
endforeach()
set_tests_properties(off PROPERTIES DISABLED TRUE)
END
printf '#!/bin/sh\necho seen\n' >"$work/passes"
printf '#!/bin/sh\necho unseen: 2; exit 1\n' >"$work/fails"
printf '#!/bin/sh\necho "not run: there is no card"; exit 77\n' >"$work/skipped"
printf '#!/bin/sh\nexit 77\n' >"$work/silent"
printf '#!/bin/sh\nprintf "[ RUN ] one\\nnot run: one: no python3\\n[ RUN ] two\\nnot run: two: root may all\\n"\n' >"$work/partly"
cp "$work/passes" "$work/off"
chmod +x "$work/passes" "$work/fails" "$work/skipped" "$work/silent" "$work/partly" "$work/off"
not_long='' jobs=2
. "$tools/tests.sh"
section 'some tests'
tests "$work" >"$work/told"
skip 'no qemu' >>"$work/told"
cat >"$work/expected" <<'END'
not run: off: it does not say why
not run: partly: one: no python3
not run: partly: two: root may all
not run: silent: it does not say why
not run: skipped: there is no card
not run: some tests: no qemu
some tests: 0 passed, 0 failed, 1 skipped
some tests: 2 passed, 1 failed, 5 skipped
END
sed -nE 's/ +([0-9]+ passed.*) \([0-9]+ s\)$/ \1/; /^(not run|some tests): /p' "$work/told" | LC_ALL=C sort | cmp -s - "$work/expected" ||
    wrong "told of what is not run: $(cat "$work/told")"
grep -q '^unseen: 2$' "$work/told" || wrong "a failure's output is not shown"
[ "$passed $failed $skipped" = '2 1 6' ] || wrong "counted: $passed passed, $failed failed, $skipped skipped"

# An MPI that comes after the other one, in a tree that was configured in between, is found.
PATH=${PATH#"$work/bin:"}
cmake=$(command -v cmake) || none_run "there is no cmake"
mkdir -p "$work/mpi" "$work/wrappers"
cat >"$work/mpi/CMakeLists.txt" <<END
cmake_minimum_required(VERSION 3.18)
project(mpi LANGUAGES NONE)
set(CMAKE_FIND_USE_CMAKE_SYSTEM_PATH OFF)
add_library(lockstep_objects STATIC empty.c)
set(CMAKE_INSTALL_FULL_BINDIR /usr/bin)
set(CMAKE_INSTALL_FULL_LIBDIR /usr/lib)
include($here/../../cmake/mpi.cmake)
END
found() { # MPI: what the configuration says; it cannot be generated, as it has no compiler
    PATH=$work/wrappers "$cmake" -S "$work/mpi" -B "$work/mpi/build" -G "Unix Makefiles" -DCMAKE_MAKE_PROGRAM=/bin/true \
        -DCMAKE_INSTALL_LIBDIR=lib >"$work/out" 2>"$work/err"
    grep -q "Lockstep: $1 found" "$work/out"
}
printf '#!/bin/sh\n[ "$1" = --showme:version ] || echo "-L/nowhere -lmpi"\n' >"$work/wrappers/mpicc.openmpi"
chmod +x "$work/wrappers/mpicc.openmpi"
ln -s mpicc.openmpi "$work/wrappers/mpicc"
found openmpi || wrong "Open MPI is not found"
! found mpich || wrong "Open MPI's wrapper is taken for MPICH's"
printf '#!/bin/sh\n[ "$1" = -compile-info ] || [ "$1" = -link-info ] || exit 1\necho "gcc -L/nowhere -lmpich"\n' >"$work/wrappers/mpicc.mpich"
chmod +x "$work/wrappers/mpicc.mpich"
found mpich || wrong "MPICH is not found where it was installed after a configuration"
found openmpi || wrong "Open MPI is not found beside MPICH"
ends
