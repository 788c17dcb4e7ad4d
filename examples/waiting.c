/* When to wait: after each batch, after each epoch, or not before the end. The same bits each time; what it costs is
 * printed. waiting [EPOCHS [IMAGES]] */
#include "arguments.h"
#include <lockstep.h>
#include <lockstep_nn.h>
#include <stdio.h>
#include <string.h>

enum { PER_BATCH, PER_EPOCH, AT_THE_END, WAYS };
static const char *const name[WAYS] = {"per batch", "per epoch", "not at all"};

static void train(ls_session *s, int how, int epochs, int images, char fingerprint[65])
{
    ls_data *data = ls_data_fashion_mnist(s, LS_TRAIN, &(ls_loader){.batch = 128, .shuffle = true, .limit = images});
    ls_module *net = ls_lenet(s);
    ls_module_initialize(net, ls_try_devices(s, 2), &(ls_init){.kind = LS_XAVIER, .like = data});
    ls_trainer *trainer = ls_trainer_new(net, LS_SGD, &(ls_optim){.lr = 0.1});
    ls_timer calls = {0}, whole = {0};
    ls_timer_start(&whole);
    for (int epoch = 0; epoch < epochs; epoch++) {
        for (ls_batch b; ls_data_next(data, &b);) {
            ls_timer_start(&calls);
            ls_backward(ls_cross_entropy(ls_module_forward(net, b.X), b.y));
            ls_trainer_step(trainer); /* returns before the step is done; at most two are in flight */
            ls_timer_stop(&calls);
            if (how == PER_BATCH)
                ls_wait(s);
        }
        if (how == PER_EPOCH)
            ls_wait(s);
    }
    ls_module_fingerprint(net, fingerprint); /* waits: it returns numbers */
    ls_timer_stop(&whole);
    printf("waiting %-10s %8.0f images/s, %4.0f%% of the time in the calls, fingerprint %.16s\n", name[how],
           (double)epochs * (double)ls_data_rows(data) / whole.total, 100 * calls.total / whole.total, fingerprint);
}

int main(int argc, char **argv)
{
    int epochs = 2, images = 10000;
    read_arguments(argc, argv, "When to wait: EPOCHS (2) over the first IMAGES (10000). It prints, and writes no file.",
                   (argument[]){{"EPOCHS", .count = &epochs}, {"IMAGES", .count = &images}}, 2);
    ls_session *s = ls_open(NULL);
    char fingerprint[WAYS][65] = {{0}}, first[65];
    train(s, PER_EPOCH, 1, images, first); /* warms up */
    puts("(that was to warm up)");
    for (int how = 0; how < WAYS; how++)
        train(s, how, epochs, images, fingerprint[how]);
    bool equal = strcmp(fingerprint[0], fingerprint[1]) == 0 && strcmp(fingerprint[0], fingerprint[2]) == 0;
    puts(equal ? "the fingerprints are equal" : "the fingerprints DIFFER");
    if (ls_failed(s))
        fprintf(stderr, "waiting: %s\n", ls_message(s));
    return ls_close(s) == LS_OK && equal ? 0 : 1;
}
