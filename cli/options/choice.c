#include "options/choice.h"

#include <stdio.h>

#include "options/settings.h"

const choice model_choices[] = {{"lenet", 0}, {"resnet18", 0}, {NULL, 0}};
const choice dataset_choices[] = {{"fashion-mnist", 0}, {"mnist", 0},  {"cifar10", 0}, {"cifar100", 0},
                                  {"npy", 0},           {"folder", 0}, {NULL, 0}};
const choice optimizer_choices[] = {{"sgd", LS_SGD}, {"adam", LS_ADAM}, {"adamw", LS_ADAMW}, {NULL, 0}};
const choice schedule_choices[] = {{"constant", LS_CONSTANT},
                                   {"step", LS_STEP_SCHEDULE},
                                   {"cosine", LS_COSINE},
                                   {"linear", LS_LINEAR},
                                   {"exponential", LS_EXPONENTIAL},
                                   {"one-cycle", LS_ONE_CYCLE},
                                   {"warm-restarts", LS_WARM_RESTARTS},
                                   {NULL, 0}};
const choice conv_choices[] = {{"auto", LS_CONV_AUTO}, {"direct", LS_CONV_DIRECT}, {NULL, 0}};
const choice dtype_choices[] = {{"f32", LS_F32}, {"tf32", LS_TF32}, {"bf16", LS_BF16}, {NULL, 0}};
const choice isa_choices[] = {{"auto", LS_ISA_AUTO}, {"avx512", LS_ISA_AVX512}, {"avx2", LS_ISA_AVX2},
                              {"neon", LS_ISA_NEON}, {"plain", LS_ISA_PLAIN},   {NULL, 0}};
const choice last_batch_choices[] = {{"mean", LAST_MEAN}, {"share", LAST_SHARE}, {"drop", LAST_DROP}, {NULL, 0}};
const choice keep_choices[] = {{"last", KEEP_LAST}, {"best", KEEP_BEST}, {NULL, 0}};
const choice bn_choices[] = {{"shard", BN_SHARD}, {"sync", BN_SYNC}, {NULL, 0}};
const choice check_choices[] = {{"devices", 0}, {"cores", 0}, {"memory", 0}, {"canary", 0}, {"copies", 0},
                                {"mpi", 0},     {"data", 0},  {"disk", 0},   {NULL, 0}};

const char *choice_name(const choice *choices, int value)
{
    while (choices->name && choices->value != value)
        choices++;
    return choices->name ? choices->name : "?";
}

const char *choice_or_count(const choice *choices, int64_t value, char *text, size_t size)
{
    while (choices && choices->name && choices->value != value)
        choices++;
    if (choices && choices->name)
        snprintf(text, size, "%s", choices->name);
    else
        snprintf(text, size, "%lld", (long long)value);
    return text;
}
