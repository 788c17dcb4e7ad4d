# Sourced after common.sh by tests in a bare system of this machine's release: bare_system makes it at $root, there and must run commands in
# it, prints looks at what they said.
# shellcheck shell=sh
root=$work/root
[ "$(id -u)" = 0 ] || none_run "this is not root"

# bare_system [ROOT [SUITE]]: by debootstrap, of this machine's release or another one; or a copy of one made before; with this machine's way
# to mirrors of packages.
bare_system() {
    if [ -n "${1-}" ]; then
        cp -a "$1" "$root" || exit 1
    else
        # shellcheck disable=SC1091 # the system's
        debootstrap --variant=minbase "${2:-$(. /etc/os-release && echo "$VERSION_CODENAME")}" "$root" >"$work/out" 2>&1 ||
            none_run "debootstrap made no system: $(tail -n 1 "$work/out")"
    fi
    echo "127.0.0.1 localhost $(uname -n)" >"$root/etc/hosts"
    cp /etc/resolv.conf "$root/etc/"
    [ ! -e /etc/pip.conf ] || cp /etc/pip.conf "$root/etc/"
}

# there COMMAND: in the bare system; what it mounts and leaves running goes with it.
there() {
    unshare --mount --pid --fork --kill-child sh -c 'mount -t proc proc "$0/proc" && mount -t sysfs -o ro sys "$0/sys" &&
        { [ -d "$0/dev/shm" ] || mkdir "$0/dev/shm"; } && mount -t tmpfs shm "$0/dev/shm" &&
        exec chroot "$0" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root DEBIAN_FRONTEND=noninteractive TMPDIR=/tmp sh -c "cd && $1"' \
        "$root" "$1" >"$work/out" 2>"$work/err" </dev/null
}

must() { # COMMAND
    there "$1" || wrong "$1: status $?"
}

prints() { # PATTERN
    grep -qE "$1" "$work/out" || wrong "nothing printed matches '$1'"
}
