/* What comes from the host and goes there: images from bytes or floats, rows of floats. */
#include "device/cuda/lanes/numbers.cuh"

namespace
{

/* A lane of one place, so that neighbours write a line; they read images apart. */
typedef struct one_number {
    int group, lane, image; /* among all images; -1: none */
    size_t number;          /* of the image */
} one_number;

__device__ one_number number_of(size_t i, size_t numbers, const ls_cuda_shards *shards)
{
    one_number n;
    n.lane = (int)(i % LS_LANES);
    n.number = i / LS_LANES % numbers;
    n.group = (int)(i / LS_LANES / numbers);
    n.image = n.lane < ls_cuda_lanes_in(shards, n.group) ? ls_cuda_first_image(shards, n.group) + n.lane : -1;
    return n;
}

__device__ float value(const uint8_t *images, size_t i)
{
    return (float)images[i] / 255.0f;
}

__device__ float value(const float *images, size_t i)
{
    return images[i];
}

template <typename N>
__global__ void gather(ls_map x, const N *images, const uint32_t *index, const ls_change *changes, size_t all,
                       ls_cuda_shards shards)
{
    const size_t plane = ls_map_places(x), numbers = x.c * plane;
    LS_EACH_PIECE(i, all)
    {
        const one_number n = number_of(i, numbers, &shards);
        float is = 0;
        if (n.image >= 0) {
            const size_t place = n.number % plane;
            long from = (long)place;
            if (changes)
                from = ls_change_source(&changes[n.image], x.h, x.w, (int)(place / x.w), (int)(place % x.w));
            if (from >= 0)
                is = value(images, index[n.image] * numbers + (n.number - place) + (size_t)from);
        }
        x.data[i] = is;
    }
}

__global__ void from_rows(float *x, const float *rows, size_t numbers, size_t all, ls_cuda_shards shards)
{
    LS_EACH_PIECE(i, all)
    {
        const one_number n = number_of(i, numbers, &shards);
        x[i] = n.image < 0 ? 0 : rows[n.image * numbers + n.number];
    }
}

__global__ void to_rows(float *rows, const float *x, size_t numbers, size_t all, ls_cuda_shards shards)
{
    LS_EACH_PIECE(i, all)
    {
        const one_number n = number_of(i, numbers, &shards);
        if (n.image >= 0)
            rows[n.image * numbers + n.number] = x[i];
    }
}

__global__ void ones(float *out, size_t all, ls_cuda_shards shards)
{
    LS_EACH_PIECE(i, all)
    {
        out[i] = number_of(i, 1, &shards).image < 0 ? 0 : *shards.one;
    }
}

size_t all_of(const ls_map m, const ls_cuda_shards *shards)
{
    return ls_map_pieces(m, shards) * LS_QUAD;
}

} // namespace

void ls_cuda_lanes_images(const ls_op_call *call, const ls_cuda_shards *shards, cudaStream_t stream)
{
    const ls_samples *s = call->samples;
    const ls_map x = ls_map_of(&call->out[0]);
    const size_t n = all_of(x, shards);
    if (s->floats)
        gather<float><<<ls_card_blocks(n), LS_CARD_THREADS, 0, stream>>>(x, (const float *)s->images, s->index,
                                                                         s->changes, n, *shards);
    else
        gather<uint8_t><<<ls_card_blocks(n), LS_CARD_THREADS, 0, stream>>>(x, (const uint8_t *)s->images, s->index,
                                                                           s->changes, n, *shards);
}

void ls_cuda_lanes_from_rows(const ls_operand *x, const float *rows, const ls_cuda_shards *shards, cudaStream_t stream)
{
    const ls_map map = ls_map_of(x);
    const size_t n = all_of(map, shards);
    from_rows<<<ls_card_blocks(n), LS_CARD_THREADS, 0, stream>>>(map.data, rows, map.c * ls_map_places(map), n,
                                                                 *shards);
}

/* The rows stay where they are until the run is finished: on the host, or on the card. What goes wrong here is found
 * with the kernels' failures. */
void ls_cuda_lanes_input(const ls_op_call *call, const ls_cuda_shards *shards, cudaStream_t stream)
{
    const ls_map x = ls_map_of(&call->out[0]);
    const size_t images = (size_t)(shards->shards - 1) * shards->images + shards->last;
    cudaMemcpyAsync(call->scratch, call->samples->rows[call->attributes->input],
                    images * x.c * ls_map_places(x) * sizeof(float), cudaMemcpyDefault, stream);
    ls_cuda_lanes_from_rows(&call->out[0], (const float *)call->scratch, shards, stream);
}

void ls_cuda_lanes_rows(const ls_op_call *call, const ls_cuda_shards *shards, cudaStream_t stream)
{
    const ls_map x = ls_map_of(&call->in[0]);
    const size_t n = all_of(x, shards);
    to_rows<<<ls_card_blocks(n), LS_CARD_THREADS, 0, stream>>>(call->out[0].data, x.data, x.c * ls_map_places(x), n,
                                                               *shards);
}

void ls_cuda_lanes_ones(const ls_op_call *call, const ls_cuda_shards *shards, cudaStream_t stream)
{
    const size_t n = all_of(ls_map_of(&call->out[0]), shards);
    ones<<<ls_card_blocks(n), LS_CARD_THREADS, 0, stream>>>(call->out[0].data, n, *shards);
}
