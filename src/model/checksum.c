/* Sums that tell whether ranks have the same data and the same numbers: quick, and no proof against malice. */
#include <string.h>
#include <lockstep_data.h>

#include "base/environment.h"
#include "data/data.h"
#include "model/network.h"

/* Each word is mixed in by a multiplication with a large odd number, so that its place counts. */
static uint64_t mix(uint64_t sum, const void *data, size_t bytes)
{
    const unsigned char *at = data;
    for (; bytes > 0;) {
        uint64_t word = 0;
        size_t n = bytes < sizeof word ? bytes : sizeof word;
        memcpy(&word, at, n);
        sum = (sum ^ word) * UINT64_C(0x9e3779b97f4a7c15);
        sum ^= sum >> 29;
        at += n;
        bytes -= n;
    }
    return sum;
}

static uint64_t mix_field(uint64_t sum, const ls_field *field, int64_t rows)
{
    int64_t sizes[1 + LS_MAX_RANK] = {field->shape.rank}; /* and no more of the shape: the rest may hold anything */
    for (int i = 0; i < field->shape.rank; i++)
        sizes[1 + i] = field->shape.dim[i];
    sum = mix(sum, sizes, sizeof sizes);
    return field->values ? mix(sum, field->values, ls_field_bytes(field, rows)) : sum;
}

uint64_t ls_data_checksum(const ls_data *data)
{
    LS_OWN_ENVIRONMENT;
    if (!data)
        return 0;
    const ls_images *of = &data->of;
    const int64_t sizes[] = {data->rows, of->channels, of->height, of->width, of->classes};
    uint64_t sum = mix(of->floats ? 3 : 1, sizes, sizeof sizes);
    sum = of->filling ? sum : mix(sum, of->values, ls_data_bytes(data));
    if (of->labels)
        sum = mix(sum, of->labels, (size_t)data->rows);
    if (of->wide_labels)
        sum = mix(sum, of->wide_labels, (size_t)data->rows * sizeof *of->wide_labels);
    for (int i = 0; i < of->n_more; i++)
        sum = mix_field(sum, &of->more[i], data->rows);
    return of->targets.values ? mix_field(sum, &of->targets, data->rows) : sum;
}

uint64_t ls_module_checksum(ls_module *net)
{
    LS_OWN_ENVIRONMENT;
    ls_network *network = ls_defined_network_of(net, "ls_module_checksum");
    if (!network || ls_network_wait(network) != LS_OK)
        return 0;
    uint64_t sum = 2;
    for (int i = 0; i < network->flat.n_views; i++) {
        const ls_view *view = &network->flat.views[i];
        sum = mix(sum, view->name, strlen(view->name));
        sum = mix(sum, ls_network_values(network, view), view->numbers * sizeof(float));
    }
    return sum;
}
