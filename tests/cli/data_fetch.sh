#!/bin/sh
# `data fetch` from a server on this machine: wrong content is refused and leaves nothing, a missing server is an error, and what is
# told is on the disk. data_fetch.sh RECORDED: the program with a record of what it does to files (recorded.c).
. "$(dirname -- "$0")/common.sh"
. "$here/recorded.sh"
needs 'data fetch'
mkdir "$work/served" "$work/to"
for name in train-images-idx3 train-labels-idx1 t10k-images-idx3 t10k-labels-idx1; do
    echo '<html>not what you want</html>' >"$work/served/$name-ubyte.gz"
done
python3 - "$work" <<'PY' &
import functools, http.server, sys
handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=sys.argv[1] + "/served")
handler.func.log_message = lambda *arguments: None
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
open(sys.argv[1] + "/port", "w").write("%d\n" % server.server_address[1])
server.serve_forever()
PY
server=$!
trap 'kill $server 2>/dev/null; rm -rf "$work"' EXIT
tries=0
until [ -s "$work/port" ] || [ $tries = 100 ]; do
    sleep 0.05
    tries=$((tries + 1))
done
url=http://127.0.0.1:$(cat "$work/port")

runs 1 data fetch --url "$url" --to "$work/to"
one_line 'data fetch: .*(SHA-256|sum)'
[ -z "$(ls -A "$work/to")" ] || wrong "a refused download left $(ls -A "$work/to")"

system=/usr/share/datasets/fashion-mnist
if [ -f "$system/train-images-idx3-ubyte.gz" ]; then
    cp "$system"/*-ubyte.gz "$work/served"
    runs 0 data fetch --url "$url" --to "$work/to"
    [ "$(ls "$work/to" | wc -l)" = 4 ] || wrong "not four files: $(ls -A "$work/to")"
    cmp -s "$system/t10k-labels-idx1-ubyte.gz" "$work/to/t10k-labels-idx1-ubyte.gz" || wrong "another file than was served"
    runs 0 train --data "$work/to" --limit 64 --limit-test 10 --epochs 1 --quiet
    runs 0 data fetch --url "$url" --to "$work/to" # again, over files that are there
    record "$work"
    runs 0 data fetch --url "$url/" --to "$work/new/folder"
    {
        made new .
        made new/folder new
        for name in train-images-idx3 train-labels-idx1 t10k-images-idx3 t10k-labels-idx1; do
            of_library "new/folder/$name-ubyte.gz" new/folder
        done
    } >"$work/wanted"
    is_recorded
else
    part_not_run "a whole download" "Fashion-MNIST is not in $system"
fi
called='data fetch without a home'
env -u HOME -u XDG_CACHE_HOME "$program" data fetch --url "$url" >"$work/out" 2>"$work/err"
[ $? = 1 ] || wrong "$called: has a folder"
one_line 'data fetch: .*; name one with --to$'
runs 1 data fetch --url "$url/nothing" --to "$work/none"
one_line 'data fetch: '
runs 1 data fetch --url http://127.0.0.1:1 --to "$work/none"
one_line 'data fetch: '
ends
