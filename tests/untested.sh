#!/bin/sh
# Fails where a public function is called by no test. Prints each as NAME.
set -eu
cd "$(dirname -- "$0")/.."
untested=0
for name in $(sed -nE '/^typedef|^template/d; s/^[a-z].*[ *](ls_[a-z0-9_]+)\(.*/\1/p' include/lockstep.h include/lockstep_profile.h | sort -u); do
    grep -qrE --include='*.[ch]' "(^|[^a-z0-9_])$name\(" tests || {
        echo "$name"
        untested=$((untested + 1))
    }
done
[ "$untested" = 0 ] || { echo "untested: $untested public functions without a test" && exit 1; }
echo "untested: every public function is called by a test"
