#!/bin/sh
# Four networks as hosts: name spaces with an Ethernet device each, on a switch in a fifth. mpirun starts ranks in them through an
# agent in ssh's place. What they print, log and save is what one process does; also over one link that is late by 20 ms each
# way, or loses one packet in fifty. networks.sh PROGRAM openmpi|mpich plain|delay|loss
. "$(dirname -- "$0")/mpi.sh"
. "$(dirname -- "$0")/same.sh"
link=$3
relay=$build/tests/cli/relay
net=ls$$

needs_tool ip
ip netns add "${net}s" 2>"$work/err" || none_run "no rights for network name spaces: $(cat "$work/err")"
[ "$link" = plain ] || [ -c /dev/net/tun ] || none_run "there is no /dev/net/tun"

# Only what runs in these name spaces, and they themselves.
tear_down() {
    [ -z "${relaying-}" ] || kill "$relaying" 2>/dev/null
    for space in s 1 2 3 4; do
        # shellcheck disable=SC2046 # a list of numbers
        kill -KILL $(ip netns pids "$net$space" 2>/dev/null) 2>/dev/null
        ip netns del "$net$space" 2>/dev/null
    done
    rm -rf "$work"
}
trap tear_down EXIT

must ip -n "${net}s" link add switch type bridge
must ip -n "${net}s" link set switch up
for host in 1 2 3 4; do
    must ip netns add "$net$host"
    if [ "$host" = 3 ] && [ "$link" != plain ]; then
        case $link in
        delay) set -- 20 0 ;;
        loss) set -- 0 20 ;;
        esac
        "$relay" "${net}3" eth0 "${net}s" port3 "$@" >"$work/relay.out" 2>"$work/relay.err" &
        relaying=$!
        for _ in $(seq 600); do
            [ ! -s "$work/relay.out" ] || break
            sleep 0.1
        done
        [ -s "$work/relay.out" ] || none_run "no device of one's own: $(cat "$work/relay.err")"
    else
        must ip link add eth0 netns "$net$host" type veth peer name "port$host" netns "${net}s"
    fi
    must ip -n "${net}s" link set "port$host" master switch up
    must ip -n "$net$host" link set lo up
    must ip -n "$net$host" link set eth0 up
    must ip -n "$net$host" address add "10.77.0.$host/24" dev eth0
done
# The link is what it says: a connection that is refused has been there and back.
there_and_back='import socket, time
for _ in range(3):
    began = time.time()
    socket.socket().connect_ex(("10.77.0.3", 9))
print(round(1000 * (time.time() - began)))'
must ip netns exec "${net}1" python3 -c "$there_and_back"
took=$(cat "$work/out")
[ "$link" = plain ] || printf 'there and back: %s ms\n' "$took"
[ "$link" != delay ] || [ "$took" -ge 40 ] || wrong "there and back takes $took ms, not 40"

# A host has a name of its own too.
cat >"$work/inside" <<END
#!/bin/sh
host=\$1
shift
exec ip netns exec "$net\$host" unshare --uts sh -c 'hostname "\$0" && exec "\$@"' "network\$host" "\$@"
END
cat >"$work/agent" <<END
#!/bin/sh
while [ "\${1#-}" != "\$1" ]; do shift; done
address=\$1
shift
exec "$work/inside" "\${address##*.}" sh -c "\$*"
END
chmod +x "$work/inside" "$work/agent"

# UCX, under some builds of MPICH, sees that these hosts are one machine and would send through its memory.
UCX_TLS=tcp,self UCX_NET_DEVICES=eth0
export UCX_TLS UCX_NET_DEVICES

# MPICH 4.0.2 over UCX and TCP may wait for itself in MPI_Finalize, after all is done: one rank for the others to answer, these in a
# barrier in which they do not. The time-out names it.
timeout=30
if [ "$mpi" = mpich ]; then
    timeout=10
    tolerated=' of [48]: no progress since step [0-9]+, in the end of MPI: a rank does not come$'
fi

# on RANKS-A-HOST: what follows is started on four hosts.
plain=$launcher
on() {
    hosts=
    for host in 1 2 3 4; do
        hosts="$hosts,10.77.0.$host:$1"
    done
    case $mpi in
    openmpi)
        launcher="$work/inside 1 $plain --mca plm_rsh_agent $work/agent --mca oob_tcp_if_include eth0"
        launcher="$launcher --mca btl self,vader,tcp --mca btl_tcp_if_include eth0 --host ${hosts#,}" ;;
    mpich)
        launcher="$work/inside 1 $plain -launcher ssh -launcher-exec $work/agent -iface eth0 -hosts ${hosts#,}" ;;
    esac
}

# Each a host of its own; in groups; and in groups whose ranks are not next to each other.
on 1
same 4 -- --limit 301 --limit-test 100 --batch 150 --shard 12 --epochs 1 --lr 0.3 --momentum 0.9 --timeout $timeout
on 2
same 8 -- --limit 301 --limit-test 100 --batch 150 --shard 12 --epochs 1 --lr 0.3 --momentum 0.9 --timeout $timeout
case $mpi in
openmpi) launcher="$launcher --map-by node" ;;
mpich) launcher="$launcher -ppn 1" ;;
esac
same 8 -- --limit 301 --limit-test 100 --batch 150 --shard 12 --epochs 1 --lr 0.3 --momentum 0.9 --timeout $timeout
[ "$link" != plain ] || same 8 -- --model resnet18 --batch 26 --shard 4 --limit 41 --limit-test 20 --epochs 1 --momentum 0.9 \
    --timeout $((3 * timeout))

# The hosts have the names that messages tell.
ranks 1 -n 7 "$program" train --quiet --limit 100 --steps 1 : -n 1 "$program" train --quiet --limit 100 --steps 1 --batch 99
says 'batch differs: 99 on rank 7 on host network4, 256 on rank 0$'

# It went over the network: the third host got the other hosts' sums of its pieces and the weights, 0.3 MB a step and more.
got=$(ip netns exec "${net}3" cat /sys/class/net/eth0/statistics/rx_bytes)
printf 'the third host received %s bytes\n' "$got"
[ "$got" -ge 5000000 ] || wrong "the ranks found another way: the third host received $got bytes"
if [ "$link" != plain ]; then
    kill "$relaying"
    wait "$relaying"
    relaying=
    tail -n 1 "$work/relay.out"
    [ "$link" != loss ] || grep -qE ' [1-9][0-9]* of them lost' "$work/relay.out" || wrong "no frame was lost"
fi
ends
