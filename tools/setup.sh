# Sourced by ./run and ./check: finds missing packages, installs them, configures and builds. POSIX sh.
# The caller has set `root`, the top of the tree. Everything said here goes to stderr: stdout belongs to the caller's program.

say() {
    printf 'lockstep set-up: %s\n' "$*" >&2
}

fail() {
    say "$*"
    exit 1
}

# A closed stdin would hand descriptor 0 to the next file that anything opens.
{ true <&0; } 2>/dev/null || exec </dev/null

# What cannot be done without, and what adds a feature where the distribution has it.
build_packages='gcc make cmake libc6-dev pkg-config zlib1g-dev libjansson-dev libssl-dev'
build_extras='libcurl4-openssl-dev libpng-dev libjpeg-dev libcairo2-dev protobuf-c-compiler libprotobuf-c-dev ca-certificates dataset-fashion-mnist'
check_packages='clang g++ libcmocka-dev python3'
check_extras='libclang-rt-dev clang-format-14 codespell libsimde-dev locales doxygen python3-venv tmux iproute2 zsh mandoc groff-base debootstrap dpkg-dev file libdnnl-dev openmpi-bin libopenmpi-dev mpich libmpich-dev qemu-user-static gcc-aarch64-linux-gnu libc6-dev-arm64-cross'

jobs=$(nproc 2>/dev/null || echo 2)
build_pause=3 # seconds between two words on how far a build is

default_compiler() {
    if [ -n "${CC:-}" ]; then
        printf '%s\n' "$CC"
    elif command -v gcc >/dev/null 2>&1; then
        echo gcc
    else
        echo cc
    fi
}

# missing_packages NAME...: those that are not installed.
missing_packages() {
    for name in "$@"; do
        case $(dpkg-query -W -f='${db:Status-Status}\n' "$name" 2>/dev/null) in
        installed*) ;;
        *) printf '%s ' "$name" ;;
        esac
    done
}

# How to become root: nothing as root, sudo where there is one (asking only where somebody can answer).
root_command() {
    if [ "$(id -u)" = 0 ]; then
        echo env
    elif ! command -v sudo >/dev/null 2>&1; then
        return 1
    elif { true </dev/tty; } 2>/dev/null; then
        echo 'sudo env'
    elif sudo -n true 2>/dev/null; then
        echo 'sudo -n env'
    else
        return 1
    fi
}

# install_packages REQUIRED EXTRAS: two lists in one string each. Without the means to install, missing required packages end
# the script with their list; extras are then only named.
install_packages() {
    if ! command -v dpkg-query >/dev/null 2>&1 || ! command -v apt-get >/dev/null 2>&1; then
        command -v cc >/dev/null 2>&1 && command -v cmake >/dev/null 2>&1 && command -v make >/dev/null 2>&1 && return 0
        fail "this is no Debian or Ubuntu. Install by hand what these packages hold there: $1 $2"
    fi
    # shellcheck disable=SC2086 # lists of words
    required=$(missing_packages $1)
    # shellcheck disable=SC2086
    extras=$(missing_packages $2)
    [ -n "$required$extras" ] || return 0
    if ! as_root=$(root_command); then
        if [ -n "$required" ]; then
            fail "needs these packages, and neither root nor sudo is at hand to install them: ${required% }${extras:+ ${extras% }}"
        fi
        say "goes on without these packages, as neither root nor sudo is at hand to install them: ${extras% }"
        return 0
    fi
    say "packages to install: $required$extras"
    [ "$as_root" = env ] || say "they are installed with 'sudo apt-get update' and 'sudo apt-get install'"
    apt_get() {
        # shellcheck disable=SC2086 # a command and its words
        $as_root DEBIAN_FRONTEND=noninteractive apt-get -q -o Dpkg::Use-Pty=0 -o DPkg::Lock::Timeout=300 "$@" </dev/null >&2
    }
    apt_get update || say "'apt-get update' failed; trying with the lists at hand"
    there=
    for name in $extras; do
        if apt-cache show "$name" >/dev/null 2>&1; then
            there="$there$name "
        else
            say "this distribution has no package $name; going on without it"
        fi
    done
    # shellcheck disable=SC2086
    if [ -n "$required$there" ] && ! apt_get install -y --no-install-recommends $required$there; then
        # One extra that cannot be had must not stop the rest.
        [ -z "$required" ] || apt_get install -y --no-install-recommends $required ||
            fail "apt-get could not install: $required"
        for name in $there; do
            apt_get install -y --no-install-recommends "$name" || say "could not install $name; going on without it"
        done
    fi
}

# configured DIRECTORY: whether CMake has been here. A tree that was moved or copied carries the old place in its cache.
configured() {
    [ -f "$1/CMakeCache.txt" ] || return 1
    grep -qxF "CMAKE_HOME_DIRECTORY:INTERNAL=$root" "$1/CMakeCache.txt" && return 0
    rm -rf "$1/CMakeCache.txt" "$1/CMakeFiles"
    return 1
}

# configure DIRECTORY [cmake option...]: quiet but for the parts found; the whole output when it fails.
configure() {
    directory=$1
    shift
    mkdir -p "$directory"
    configured "$directory" || true
    if ! cmake -S "$root" -B "$directory" -DCMAKE_BUILD_TYPE=Release "$@" >"$directory/configure.log" 2>&1 </dev/null; then
        cat "$directory/configure.log" >&2
        return 1
    fi
}

run_build() {
    cmake --build "$1" ${2:+--target "$2"} --parallel "$jobs" >"$build_log" 2>&1 </dev/null
}

# build DIRECTORY [target]: says how far it is; the whole output when it fails. progress.sh is sourced too.
build() {
    build_log=$1/build.log build_place=${1#"$root/"}/ build_status=0
    beside "$build_pause" tell_build run_build "$@" || build_status=1
    end_build
    [ $build_status = 0 ] || cat "$build_log" >&2
    return $build_status
}

# Names the state of the machine that a set-up made: when it is unchanged there is nothing to do. A package that somebody installs
# meanwhile, an MPI for example, is a change: it may be a part that CMake finds now.
setup_key() {
    printf '%s\n' "$root" "$@"
    cksum "$root/CMakeLists.txt" "$root"/cmake/*.cmake
    # shellcheck disable=SC2016 # dpkg's own fields
    dpkg-query -W -f '${binary:Package} ${Version} ${db:Status-Status}\n' 2>/dev/null | cksum
}

# set_up NAME REQUIRED EXTRAS: installs unless the stamp of this NAME says that it was done.
# Returns 1 where the stamp was good, so that the caller may skip its configuring too.
set_up() {
    stamp=$root/build/.$1-setup wanted=$2 extras_wanted=$3
    if [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$(setup_key "$2" "$3")" ] && command -v cmake >/dev/null 2>&1 &&
        configured "$root/build"; then
        return 1
    fi
    install_packages "$2" "$3"
    return 0
}

# Only after everything went well: a set-up that was cut short is done again.
set_up_done() {
    setup_key "$wanted" "$extras_wanted" >"$stamp"
}

# Two calls at once must not build in one directory at a time; the second waits. Released with descriptor 9.
lock_build() {
    mkdir -p "$root/build" || fail "cannot write to $root"
    exec 9>"$root/build/.lock"
    if command -v flock >/dev/null 2>&1; then
        flock -n 9 || { say "waiting for another build"; flock 9; }
    fi
}

unlock_build() {
    exec 9>&-
}
