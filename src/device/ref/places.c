#include "device/ref/ref.h"

const float ls_ref_zeros[LS_LANES];

void ls_ref_each_place(const ls_op_call *call, const ls_operand *t, ls_ref_place *kernel)
{
    for (int group = 0; group < call->groups; group++) {
        for (int channel = 0; channel < t->c; channel++) {
            for (int row = 0; row < t->h; row++) {
                for (int column = 0; column < t->w; column++) {
                    kernel(call, group, channel, row, column);
                }
            }
        }
    }
}
