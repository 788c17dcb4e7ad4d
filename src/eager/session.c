/* Opening and closing. */
#include <stdio.h>
#include <string.h>
#include <lockstep_data.h>
#include <lockstep_lifetime.h>

#include "base/environment.h"
#include "base/session.h"
#include "cluster/cluster.h"
#include "data/data.h"
#include "device/cpu/select.h"
#include "exec/stream.h"
#include "model/network.h"

enum { DEFAULT_SHARD = 64, MAX_SHARD = 1 << 20 };
static const double usual_patience = 10; /* seconds */

static ls_status check_options(ls_session *session)
{
    ls_context *context = &session->context;
    ls_options *o = &session->options;
    if (o->allocator && (!o->allocator->allocate || !o->allocator->release))
        return ls_raise(context, LS_BAD_ARGUMENT, "ls_open: an allocator needs both functions, allocate and release");
    if (o->shard == 0)
        o->shard = DEFAULT_SHARD;
    if (o->shard < 1 || o->shard > MAX_SHARD)
        return ls_raise(context, LS_BAD_ARGUMENT, "ls_open: shard is %d; it must be from 1 to %d", o->shard, MAX_SHARD);
    if (o->batch_norm < -2 || (o->batch_norm > 0 && o->batch_norm % o->shard != 0))
        return ls_raise(context, LS_BAD_ARGUMENT,
                        "ls_open: batch_norm is %d; it must be a multiple of the shard's %d images, 0 for statistics "
                        "of each shard, -1 for those of a batch, or -2 for those of all a step's batches",
                        o->batch_norm, o->shard);
    if ((int)o->conv < LS_CONV_AUTO || (int)o->conv > LS_CONV_DIRECT)
        return ls_raise(context, LS_BAD_ARGUMENT, "ls_open: there is no such algorithm for convolutions");
    if ((int)o->dtype < LS_F32 || (int)o->dtype > LS_BF16)
        return ls_raise(context, LS_BAD_ARGUMENT, "ls_open: there is no such dtype");
    if ((int)o->isa < LS_ISA_AUTO || (int)o->isa > LS_ISA_REFERENCE)
        return ls_raise(context, LS_BAD_ARGUMENT, "ls_open: there is no such instruction set");
    if (o->in_flight < 0)
        return ls_raise(context, LS_BAD_ARGUMENT, "ls_open: in_flight is %d; it must be at least 0", o->in_flight);
    if (session->trial.host_ranks < 0)
        return ls_raise(context, LS_BAD_ARGUMENT, "ls_open: host_ranks is %d; it must be at least 0",
                        session->trial.host_ranks);
    if (o->cluster && ls_cluster_status(o->cluster) != LS_OK)
        return ls_raise(context, ls_cluster_status(o->cluster), "%s", ls_cluster_message(o->cluster));
#if defined __x86_64__ /* what is capped at more than the machine has is as wide as the machine */
    if (o->isa == LS_ISA_AVX512 && !ls_cpu_backend(o->isa))
        o->isa = LS_ISA_AVX2;
    if (o->isa == LS_ISA_AVX2 && !ls_cpu_backend(o->isa))
        o->isa = LS_ISA_PLAIN;
#endif
    if (!ls_cpu_backend(o->isa))
        return ls_raise(context, LS_NO_DEVICE,
                        "ls_open: this machine or this build does not have the instruction set asked for");
    return LS_OK;
}

/* Among the ranks of this host, which share its cards. */
static void find_place(ls_session *session)
{
    const ls_cluster *cluster = session->options.cluster;
    session->sharers = 1;
    for (int r = 0; cluster && r < cluster->ranks; r++)
        if (r != cluster->rank && ls_cluster_same_host(cluster, r, cluster->rank)) {
            session->place += r < cluster->rank;
            session->sharers++;
        }
}

ls_session *ls_open(const ls_options *options)
{
    LS_OWN_ENVIRONMENT;
    ls_context context;
    if (ls_context_init(&context, options ? options->allocator : NULL) != LS_OK)
        return NULL;
    ls_session *session = ls_alloc(&context, 1, sizeof *session, "a session");
    ls_context_destroy(&context);
    if (!session)
        return NULL;
    if (ls_context_init(&session->context, options ? options->allocator : NULL) != LS_OK) {
        ls_release(&session->context, session);
        return NULL;
    }
    pthread_mutex_init(&session->feeds_lock, NULL);
    if (options)
        session->options = *options;
    if (options && options->trial)
        session->trial = *options->trial;
    session->options.trial = &session->trial;
    session->patience = usual_patience;
    if (check_options(session) == LS_OK)
        find_place(session);
    return session;
}

ls_status ls_close(ls_session *session)
{
    LS_OWN_ENVIRONMENT;
    if (!session)
        return LS_OUT_OF_MEMORY;
    if (ls_context_is_parents(&session->context))
        return ls_status_of(session);
    ls_wait(session);
    ls_release_owned(session, NULL); /* networks stop their workers, and let go of what they hold */
    ls_streams_free(session);
    ls_programs_free(session, NULL);
    ls_feeds_free(session);
    if (session->trace)
        ls_trace_free(session->trace);
    ls_release(&session->context, session->trace);
    ls_tensors_free(session);
    ls_turns_free(session);
    ls_release_kept(session);
    ls_names_free(&session->context, &session->names);
    pthread_mutex_destroy(&session->feeds_lock);
    ls_status status = ls_status_of(session);
    ls_context context = session->context; /* its allocator outlives the memory it stands in */
    ls_context_destroy(&session->context);
    ls_release(&context, session);
    return status;
}

int ls_enter(ls_session *session)
{
    LS_OWN_ENVIRONMENT;
    return !session || ls_failed(session) ? -1 : ls_scope_open(session, NULL);
}

void ls_leave(ls_session *session, int scope)
{
    LS_OWN_ENVIRONMENT;
    if (!session || scope == -1 || ls_context_is_parents(&session->context))
        return;
    ls_wait(session);
    const ls_tensors *tensors = session->tensors;
    if (!tensors || scope < 1 || scope >= tensors->depth || tensors->scopes[scope].batch)
        ls_raise(&session->context, LS_BAD_ARGUMENT, "ls_leave: there is no scope %d; it was left already", scope);
    else
        ls_scope_close(session, scope);
}

ls_status ls_end(void *object)
{
    LS_OWN_ENVIRONMENT;
    ls_session *session = ls_session_of(object);
    if (!session || ls_context_is_parents(&session->context))
        return LS_BAD_ARGUMENT;
    ls_wait(session);
    if (!ls_end_owned(session, object))
        return ls_raise(&session->context, LS_BAD_ARGUMENT,
                        "ls_end: this is no data set, trainer, profile or folder of checkpoints of the session, or a "
                        "trainer whose profile or checkpoints are still there");
    return ls_status_of(session);
}

/* All work in hand comes to its end first: what follows a failure of its own is dropped, what came before one of the
 * caller's is done. */
bool ls_catch(ls_session *session, ls_status status)
{
    LS_OWN_ENVIRONMENT;
    if (!session || status == LS_OK || ls_status_of(session) != status || ls_context_is_parents(&session->context))
        return false;
    ls_wait(session);
    atomic_store(&session->broken, false);
    atomic_store(&session->together, false);
    ls_context_clear(&session->context);
    return true;
}
