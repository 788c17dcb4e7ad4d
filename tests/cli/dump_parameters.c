/* Trains LeNet for a few steps and writes its parameters to stdout as the fingerprint takes them: in byte order of
 * their names, each as name, a zero byte, and its values as little-endian float32. Its SHA-256 is the fingerprint, also
 * where the library is built without a hash. usage: dump_parameters DATA LIMIT BATCH SHARD STEPS DEVICES */
#include <lockstep.h>
#include <lockstep_nn.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int by_name(const void *a, const void *b)
{
    return strcmp(((const ls_parameter_info *)a)->name, ((const ls_parameter_info *)b)->name);
}

static bool write_values(ls_module *net, const ls_parameter_info *info)
{
    float *values = malloc((size_t)info->numbers * sizeof *values);
    bool good = values && ls_module_read_parameter(net, info->name, values, info->numbers) == LS_OK &&
                fwrite(info->name, 1, strlen(info->name) + 1, stdout) == strlen(info->name) + 1;
    for (int64_t i = 0; good && i < info->numbers; i++) {
        uint32_t bits;
        memcpy(&bits, &values[i], sizeof bits);
        unsigned char bytes[4] = {bits & 255, bits >> 8 & 255, bits >> 16 & 255, bits >> 24};
        good = fwrite(bytes, 1, 4, stdout) == 4;
    }
    free(values);
    return good;
}

static bool write_parameters(ls_module *net)
{
    int count = ls_module_parameter_count(net);
    ls_parameter_info *infos = calloc((size_t)(count > 0 ? count : 1), sizeof *infos);
    bool good = infos && count > 0;
    for (int i = 0; good && i < count; i++)
        good = ls_module_parameter_at(net, i, &infos[i]) == LS_OK;
    if (good)
        qsort(infos, (size_t)count, sizeof *infos, by_name);
    for (int i = 0; good && i < count; i++)
        good = write_values(net, &infos[i]);
    free(infos);
    return good && fflush(stdout) == 0;
}

int main(int argc, char **argv)
{
    if (argc != 7) {
        fprintf(stderr, "usage: dump_parameters DATA LIMIT BATCH SHARD STEPS DEVICES\n");
        return 2;
    }
    ls_session *session = ls_open(&(ls_options){.shard = atoi(argv[4])});
    ls_loader loader = {.directory = argv[1], .limit = atoi(argv[2]), .batch = atoi(argv[3]), .shuffle = true};
    ls_data *data = ls_data_fashion_mnist(session, LS_TRAIN, &loader);
    ls_module *net = ls_model(session, "lenet");
    ls_module_initialize(net, ls_parse_devices(session, argv[6]), &(ls_init){.like = data});
    ls_trainer *trainer = ls_trainer_new(net, LS_SGD, &(ls_optim){.lr = 0.2});
    ls_batch batch;
    for (int step = 0; step < atoi(argv[5]) && ls_data_next(data, &batch); step++) {
        ls_backward(ls_cross_entropy(ls_module_forward(net, batch.X), batch.y));
        ls_trainer_step(trainer);
    }
    ls_wait(session);
    bool good = !ls_failed(session) && write_parameters(net);
    if (!good)
        fprintf(stderr, "dump_parameters: %s\n", ls_message(session));
    ls_close(session);
    return good ? 0 : 1;
}
