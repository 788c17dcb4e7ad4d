/* Networks over sequences have the same bits, whoever computes them. */
#ifndef TEST_SEQUENCE_BITS_H
#define TEST_SEQUENCE_BITS_H

#include "support.h"
#include "training.h"

#include <string.h>

enum { SEQUENCES = 40, SEQUENCE_CLASSES = 4, LONGEST_SEQUENCE = 512 };

typedef ls_module *sequence_network(ls_session *s);

/* The fingerprint after some steps. */
static inline void train_sequences(sequence_network *make, int tokens, int features, int devices, ls_isa isa,
                                   char digits[65])
{
    static uint8_t images[SEQUENCES * LONGEST_SEQUENCE], labels[SEQUENCES];
    const size_t numbers = (size_t)tokens * (size_t)features;
    assert_true(numbers <= LONGEST_SEQUENCE);
    test_make_images(images, SEQUENCES * numbers, labels, SEQUENCES, SEQUENCE_CLASSES);
    ls_session *s = ls_open(&(ls_options){.shard = 10, .isa = isa, .seed = 5});
    ls_data *data = ls_data_from_memory(s, images, labels, SEQUENCES, 1, tokens, features, SEQUENCE_CLASSES,
                                        &(ls_loader){.batch = SEQUENCES / 2 + 3});
    ls_module *net = make(s);
    ls_module_initialize(net, test_cpus(devices), &(ls_init){.scale = 0.3, .like = data});
    ls_trainer *trainer = ls_trainer_new(net, LS_SGD, &(ls_optim){.lr = 0.1});
    ls_batch batch;
    for (int i = 0; i < 3; i++) {
        if (!test_next(data, &batch))
            fail_msg("%s", ls_message(s));
        test_step(net, trainer, &batch);
    }
    if (ls_module_fingerprint(net, digits) != LS_OK)
        fail_msg("%s", ls_message(s));
    assert_int_equal(ls_close(s), LS_OK);
}

/* Images of one channel are `tokens` rows of so many features; there are SEQUENCE_CLASSES classes. */
static inline void assert_sequence_bits(sequence_network *make, int tokens, int features)
{
    static const struct {
        int devices;
        ls_isa isa;
    } runs[] = {{1, LS_ISA_REFERENCE}, {1, LS_ISA_PLAIN}, {2, LS_ISA_AVX2}, {3, LS_ISA_AUTO}};
    char first[65] = "", digits[65];
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
        train_sequences(make, tokens, features, runs[i].devices, runs[i].isa, digits);
        memcpy(first, *first ? first : digits, sizeof first);
        assert_string_equal(digits, first);
    }
}

#endif
