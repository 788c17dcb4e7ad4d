/* Channels put one after another, and taken apart again. */
#include <string.h>

#include "device/ref/ref.h"

/* Copies `channels` channels of a group. */
static void copy_channels(const ls_operand *from, int from_channel, const ls_operand *to, int to_channel, int group,
                          int channels)
{
    memcpy(ls_ref_at(to, group, to_channel, 0, 0), ls_ref_at(from, group, from_channel, 0, 0),
           (size_t)channels * to->h * to->w * LS_LANES * sizeof(float));
}

void ls_ref_concat(const ls_op_call *call)
{
    for (int group = 0; group < call->groups; group++) {
        int channel = 0;
        for (int k = 0; k < LS_MAX_IN && call->in[k].data; k++) {
            copy_channels(&call->in[k], 0, &call->out[0], channel, group, call->in[k].c);
            channel += call->in[k].c;
        }
    }
}

void ls_ref_slice(const ls_op_call *call)
{
    for (int group = 0; group < call->groups; group++)
        copy_channels(&call->in[0], call->attributes->first, &call->out[0], 0, group, call->out[0].c);
}
