#!/bin/sh
# Slurm itself, in name spaces of its own: a controller and two nodes of this one machine, each with a host name, shared memory and a
# folder for temporary files of its own. Ranks that srun starts do what one process does; one that is killed or stopped is named and ends them all; the
# manual's batch script is put back into the queue by a signal and goes on from its checkpoint. slurm.sh PROGRAM openmpi|mpich
# Needs root and the packages slurm-wlm and munge; what it starts ends with it.
if [ -z "${LOCKSTEP_IN_SLURM_TEST-}" ]; then
    . "$(dirname -- "$0")/common.sh"
    needs_tool slurmctld slurmd srun munged ip
    unshare --fork --pid --mount-proc --uts --net true 2>/dev/null || none_run "no rights for name spaces"
    rm -rf "$work" # the test in there has its own
    LOCKSTEP_IN_SLURM_TEST=1 exec unshare --fork --pid --kill-child --mount-proc --uts --net "$0" "$@"
fi
. "$(dirname -- "$0")/mpi.sh"
. "$(dirname -- "$0")/same.sh"
case $mpi in
openmpi) speaks=pmix ;;
mpich) speaks=pmi2 ;;
esac

# MPIs want a network beside the loopback, daemons want names, and Slurm a mounted folder for control groups, which it has no use for.
must hostname control
must ip link set lo up
must ip link add eth0 type veth peer name port
must ip address add 10.77.0.1/24 dev eth0
must ip link set eth0 up
must ip link set port up
echo '127.0.0.1 localhost
10.77.0.1 control n1 n2' >"$work/hosts"
must mount --bind "$work/hosts" /etc/hosts
must mount -t tmpfs groups /sys/fs/cgroup
for folder in state spool.n1 spool.n2 tmp.n1 tmp.n2 runs; do
    must mkdir "$work/$folder"
done
head -c 1024 /dev/urandom >"$work/munge.key"
chmod 700 "$work" && chmod 600 "$work/munge.key"
echo CgroupPlugin=cgroup/v1 >"$work/cgroup.conf"
SLURM_CONF=$work/slurm.conf
export SLURM_CONF
cat >"$SLURM_CONF" <<END
ClusterName=test
SlurmctldHost=control(10.77.0.1)
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket=$work/munge.socket,cred_expire=5
StateSaveLocation=$work/state
SlurmdSpoolDir=$work/spool.%n
TmpFS=$work/tmp.%n
SlurmctldPidFile=$work/control.pid
SlurmdPidFile=$work/%n.pid
SlurmctldLogFile=$work/control.log
SlurmdLogFile=$work/%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
ReturnToService=2
KillWait=5
NodeName=n[1-2] NodeAddr=10.77.0.1 Port=[17001-17002] CPUs=2 Sockets=1 CoresPerSocket=2
PartitionName=test Nodes=ALL Default=YES State=UP
END
must munged --force --key-file="$work/munge.key" --socket="$work/munge.socket" --pid-file="$work/munged.pid" \
    --log-file="$work/munged.log" --seed-file="$work/munged.seed"
must slurmctld
for node in n1 n2; do
    must unshare --mount --uts sh -c 'mount -t tmpfs shm /dev/shm && hostname "$0" && exec slurmd -N "$0"' "$node"
done
two_idle_nodes() {
    for _ in $(seq 500); do
        [ "$(sinfo -h -o '%T %D')" != 'idle 2' ] || return 0
        sleep 0.2
    done
    cat "$work"/*.log
    return 1
}
must two_idle_nodes
srun --mpi=list 2>&1 | grep -qw "$speaks" || none_run "this Slurm does not speak $speaks"

# Two ranks a node, and one; the log and the weights too are one process's.
launcher="srun --quiet --mpi=$speaks --kill-on-bad-exit=1"
options='--limit 301 --limit-test 100 --batch 150 --shard 12 --epochs 1 --lr 0.3 --momentum 0.9'
# shellcheck disable=SC2086 # options
same 2 4 -- $options
launcher="$launcher -N 2"
# shellcheck disable=SC2086
same 2 -- $options

# Without an MPI each would train alone.
called="srun without --mpi"
srun --quiet -n 2 --mpi=none "$program" train >"$work/out" 2>"$work/err" && wrong "$called: status 0"
grep -q '^lockstep: start: srun started 2 tasks without MPI' "$work/err" || wrong "$called: not said"

# long FILE: waits until it has some lines.
long() {
    for _ in $(seq 900); do
        [ "$(cat "$1" 2>/dev/null | wc -l)" -lt 20 ] || return 0
        sleep 0.1
    done
    wrong "$called: $1 does not grow"
}

# A rank that is killed or stopped: the others are gone within the time-out and ten seconds, and a stopped one is named.
for signal in KILL STOP; do
    begin_ranks faulty -n 4 "$program" train --data "$work/data" --epochs 1000000 --timeout 5 --log "$work/$signal.jsonl"
    long "$work/$signal.jsonl"
    began=$(date +%s)
    kill -"$signal" "$(ours | tail -n 1)"
    end_ranks faulty 1
    took=$(($(date +%s) - began))
    printf '%s: a rank that gets SIG%s: all are gone after %s s\n' "$mpi" "$signal" "$took"
    [ "$took" -le 15 ] || wrong "$called: SIG$signal: took $took s"
    [ "$signal" = KILL ] || grep -qE '^lockstep: rank [0-3] on host n[12]: no progress since step [0-9]+, in ' "$work/err" ||
        wrong "$called: SIG$signal: not named"
    nobody_left
done

# One task needs no plugin, whatever the site has for --mpi.
mkdir "$work/alone" && cp "$program" "$work/alone/lockstep" || exit 1
called="srun of one task"
srun --quiet -n 1 --mpi="$speaks" "$work/alone/lockstep" train --quiet --limit 100 --steps 1 >"$work/out" 2>"$work/err" ||
    wrong "$called: not status 0"

# The manual's script, for this program and these data: a signal has it saved and put back into the queue, and another turn ends it; a
# job that is cancelled has saved too, and stays away.
sed -n '/^## Under Slurm/,/^## /p' "$here/../../docs/reliability.md" | sed -n '/^```sh/,/^```/p' | grep -v '^```' >"$work/manual.sh"
this="$program train --quiet --epochs 300 --data $work/data --save s.safetensors"
sed -e 's/--cpus-per-task=16/--cpus-per-task=2/' -e "s|lockstep train --model resnet18|$this|" "$work/manual.sh" >"$work/job.sh"
grep -q -- '--save s.safetensors' "$work/job.sh" || wrong "the manual's script has no line that trains"
HOME=$work
export HOME
cd "$work/runs" || exit 1
called="the manual's batch script"
runs 0 train --quiet --epochs 300 --devices cpu:0 --save one.safetensors

# turn SIGNAL-OPTIONS...: submits the script, cancels it so once it is under way, and waits until Slurm has no more of it.
turn() {
    rm -rf a a.jsonl s.safetensors job.out
    job=$(sbatch --parsable --output=job.out "$work/job.sh") || wrong "sbatch"
    long a.jsonl
    must scancel "$@" "$job"
    for _ in $(seq 900); do
        [ -n "$(squeue -h)" ] || break
        sleep 0.2
    done
    cp job.out "$work/out"
    [ -z "$(squeue -h)" ] || wrong "$called: not at its end: $(squeue -h)"
}
turn --signal=USR1
grep -q '^lockstep: SIGUSR1: stopped after step .*, --resume goes on from there' job.out || wrong "$called: not stopped by the signal"
cmp -s s.safetensors one.safetensors || wrong "$called: two turns save other weights than one"
scontrol show job "$job" | grep -q 'Restarts=1 ' || wrong "$called: $(scontrol show job "$job" | grep Restarts)"
turn
grep -q '^lockstep: SIGTERM: stopped after step .*, --resume goes on from there' job.out || wrong "$called: scancel has nothing saved"
[ ! -e s.safetensors ] || wrong "$called: went on after scancel"
ends
