/* The program's options and the lists of devices: what is taken lies in its range, the rest is refused. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "options/options.h"
#include "text/say.h"
#include "base/session.h"
#include "fuzz.h"

enum { MOST = 4096, WORDS = 64 };

static const int commands[] = {COMMAND_TRAIN, COMMAND_EVAL,  COMMAND_PREDICT, COMMAND_FETCH,
                               COMMAND_PLAIN, COMMAND_BENCH, COMMAND_REPORT};

static void look_at(int command, const settings *c)
{
    static char texts[128][64];
    ls_setting list[128];
    must(c->batch >= 1 && c->batch <= INT32_MAX && c->shard >= 0 && c->shard <= INT32_MAX); /* 0: the device's */
    must(c->epochs >= 1 && c->epochs <= INT32_MAX && c->steps >= 0 && c->limit >= 0 && c->limit_test >= 0);
    must(c->warmup >= 0 && c->timeout >= 0 && c->timeout <= 1000000 && c->verify >= 0 && c->every_steps >= 0);
    must(isfinite(c->lr) && (c->lr >= 0 || c->lr == -1) && c->momentum >= 0 && c->momentum <= 3.5e38);
    const double usual[] = {c->beta1, c->beta2, c->eps, c->weight_decay};
    for (size_t i = 0; i < sizeof usual / sizeof *usual; i++)
        must(usual[i] == -1 || (usual[i] >= 0 && usual[i] <= 3.5e38));
    must(c->init.scale > 0 && c->init.scale <= 3.5e38);
    must(c->every_seconds >= 0 && c->every_seconds <= 3600.0 * INT32_MAX);
    must(c->n_allow_changed <= MOST_ALLOWED && !c->allow_changed[c->n_allow_changed]);
    int n = options_list(command, c, list, texts, 128);
    for (int i = 0; i < n; i++)
        must(!list[i].value || strlen(list[i].value) < MOST);
}

static void read_devices(const char *text)
{
    ls_session session = {.owned = NULL};
    fuzz_begin(&session.context, 1 << 20);
    ls_devices devices = ls_parse_devices(&session, text);
    ls_status status = ls_status_of(&session);
    must((devices.n > 0) == (status == LS_OK) && devices.n <= LS_MAX_DEVICES);
    must(status == LS_OK || status == LS_BAD_ARGUMENT || status == LS_NO_DEVICE);
    for (int i = 0; i < devices.n; i++) {
        must(devices.at[i].type == LS_CPU && devices.at[i].index >= 0 && devices.at[i].index < LS_MAX_DEVICES);
        for (int k = 0; k < i; k++)
            must(devices.at[k].index != devices.at[i].index);
    }
    must(strlen(ls_devices_str(&session, devices)) >= 2);
    ls_release_kept(&session);
    ls_names_free(&session.context, &session.names);
    session.context.status = LS_OK; /* whose message quotes the list */
    *session.context.message = 0;
    fuzz_end(&session.context);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static bool begun;
    char text[MOST + 1], *words[WORDS + 2] = {"lockstep"};
    int n = 1, first, status = 0;
    settings chosen;
    if (size < 1 || size > MOST)
        return 0;
    if (!begun)
        must(freopen("/dev/null", "w", stdout) != NULL); /* --help */
    begun = true;
    say_at_once(false);
    memcpy(text, data + 1, size - 1);
    text[size - 1] = 0;
    if (data[0] % 8 == 7) {
        read_devices(text);
        return 0;
    }
    for (char *word = strtok(text, "\n"); word && n <= WORDS; word = strtok(NULL, "\n"))
        words[n++] = word;
    int command = commands[data[0] % 8], operands = read_options(command, n, words, &chosen, &first, &status);
    must(operands >= -1 && operands < n);
    must(operands >= 0 ? status == 0 && first == n - operands
                       : status == STATUS_DONE || status == STATUS_FAILED || status == STATUS_USAGE);
    if (operands >= 0)
        look_at(command, &chosen);
    return 0;
}
