/* A convolution, its relu and the average of windows of 2 x 2, by the operations that it stands for: the map between
 * lies in the scratch, and is known by its signs alone afterwards. */
#include "device/ref/ref.h"

/* `y` is what the pool gives. */
static ls_operand map_between(const ls_op_call *call, const ls_operand *y)
{
    return (ls_operand){call->scratch, y->c, 2 * y->h, 2 * y->w};
}

size_t ls_ref_conv_pool_scratch(const ls_op_call *call)
{
    ls_operand map = map_between(call, call->attributes->op == LS_OP_CONV_POOL ? &call->out[0] : &call->in[1]);
    return ls_ref_size(call, &map) * sizeof(float);
}

/* The same shard by another operation. */
static ls_op_call part_of(const ls_op_call *call, const ls_attributes *attributes)
{
    return (ls_op_call){.attributes = attributes, .samples = call->samples, .groups = call->groups};
}

static ls_attributes pool_of(ls_op op)
{
    return (ls_attributes){.op = op, .kernel = 2, .stride = 2, .fused_relu = op == LS_OP_AVG_POOL_BACKWARD};
}

/* The signs of a channel of one group; the map has all groups' channels one after another. */
static ls_op_signs *signs_of(const ls_operand *signs, const ls_operand *map, size_t plane)
{
    return (ls_op_signs *)(signs->data + plane * ls_op_sign_places(map->h, map->w) * LS_LANES);
}

static void put_signs(const ls_op_call *call, const ls_operand *map)
{
    size_t places = (size_t)map->h * map->w, room = (size_t)2 * LS_LANES * ls_op_sign_places(map->h, map->w);
    for (size_t plane = 0; plane < (size_t)call->groups * map->c; plane++) {
        ls_op_signs *to = signs_of(&call->out[1], map, plane);
        for (size_t place = 0; place < room; place++) {
            unsigned bits = 0;
            for (int lane = 0; lane < LS_LANES && place < places; lane++)
                bits |= (unsigned)(map->data[(plane * places + place) * LS_LANES + lane] > 0) << lane;
            to[place] = (ls_op_signs)bits;
        }
    }
}

void ls_ref_conv_pool(const ls_op_call *call)
{
    ls_attributes conv = *call->attributes, pool = pool_of(LS_OP_AVG_POOL);
    ls_operand map = map_between(call, &call->out[0]);
    conv.op = LS_OP_CONV;
    conv.fused_relu = 1;
    ls_op_call first = part_of(call, &conv), second = part_of(call, &pool);
    for (int k = 0; k < 3; k++)
        first.in[k] = call->in[k];
    first.out[0] = second.in[0] = map;
    second.out[0] = call->out[0];
    ls_ref_each_place(&first);
    ls_ref_each_place(&second);
    if (call->out[1].data)
        put_signs(call, &map);
}

/* A map with these signs, which is all that its gradient depends on. */
static void take_signs(const ls_op_call *call, const ls_operand *map)
{
    size_t places = (size_t)map->h * map->w;
    for (size_t i = 0; i < ls_ref_size(call, map); i++) {
        size_t place = i / LS_LANES;
        map->data[i] = (float)(signs_of(&call->in[2], map, place / places)[place % places] >> i % LS_LANES & 1);
    }
}

void ls_ref_conv_pool_weight(const ls_op_call *call)
{
    ls_attributes pool = pool_of(LS_OP_AVG_POOL_BACKWARD);
    ls_operand map = map_between(call, &call->in[1]);
    take_signs(call, &map);
    ls_op_call slope = part_of(call, &pool), weight = part_of(call, call->attributes), sum = weight;
    slope.in[0] = call->in[1];
    slope.in[1] = slope.out[0] = map; /* its gradient lies where it lay */
    ls_ref_each_place(&slope);
    weight.in[0] = call->in[0];
    weight.in[1] = sum.in[0] = map;
    weight.out[0] = call->out[0];
    sum.out[0] = call->out[1];
    if (weight.out[0].data)
        ls_ref_conv_weight(&weight);
    if (sum.out[0].data)
        ls_ref_channel_sum(&sum);
}
