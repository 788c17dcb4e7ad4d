"""Ranks: several processes that train one network together, started by mpirun or srun, or of a communicator of mpi4py."""
import atexit
import os
import sys

from ._lockstep import ffi, lib

_VENDORS = {"Open MPI": "openmpi", "MPICH": "mpich"}


class _Started:
    """The ranks that this process's launcher has started: one cluster, of all sessions in turn, that ends with the process."""
    cluster = None
    forked = False  # this process is no rank: its parent is


def _of_comm(comm):
    """C's cluster of a communicator of mpi4py's."""
    mpi = sys.modules.get("mpi4py.MPI")
    if mpi is None or not isinstance(comm, mpi.Comm):
        raise TypeError(f"comm is {type(comm).__name__}, and must be a communicator of mpi4py, None or False")
    vendor = mpi.get_vendor()[0]
    pointer = ffi.cast("void *", mpi._addressof(comm))
    return lib.ls_cluster_of_comm(_VENDORS.get(vendor, vendor).encode(), pointer)


def _had(cluster):
    if cluster == ffi.NULL:
        raise MemoryError("no memory for ranks")
    return cluster


def cluster_of(comm):
    """(C's cluster, whether it ends with its session) of Session's comm; (NULL, False) of a process alone."""
    if comm is False or comm is None and _Started.forked:
        return ffi.NULL, False
    if comm is not None:
        return _had(_of_comm(comm)), True
    if _Started.cluster is None:
        _Started.cluster = _had(lib.ls_cluster_start())
        if lib.ls_cluster_status(_Started.cluster) != lib.LS_OK:  # told by each session that asks
            failed, _Started.cluster = _Started.cluster, None
            return failed, True
    return _Started.cluster, False


def end_with_python(sessions):
    """At Python's end the ranks part when all have come there. A rank that an exception has ended does not wait for the others, who wait for
    it: it leaves at once, and its launcher ends them. sessions: those that are open."""
    @atexit.register
    def end():
        if _Started.forked:
            return
        if getattr(sys, "last_value", None) is not None:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(1)
        for session in list(sessions):
            session._close()
        cluster, _Started.cluster = _Started.cluster, None
        if cluster is not None:
            lib.ls_cluster_end(cluster)


def _after_fork():
    _Started.forked, _Started.cluster = True, None


os.register_at_fork(after_in_child=_after_fork)
