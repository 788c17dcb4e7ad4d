#include "device/cards.h"

#include <dlfcn.h>
#include <stdio.h>

#include "base/session.h"

/* The vendor's libraries take a while to load: without a driver there is no need to. */
static bool has_driver(void)
{
    void *driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
    if (driver)
        dlclose(driver);
    return driver != NULL;
}

const ls_cards *ls_cards_load(char *why, size_t size)
{
    if (has_driver())
        return ls_cards_plugin(why, size);
    snprintf(why, size, "there is no NVIDIA driver here");
    return NULL;
}

const ls_cards *ls_cards_plugin(char *why, size_t size)
{
    return (const ls_cards *)ls_plugin_table("cuda", LS_CARDS_SIZE, why, size);
}

int ls_card_count(char *why, size_t size)
{
    const ls_cards *cards = ls_cards_load(why, size);
    int n = cards ? cards->count(why, size) : 0;
    return n < LS_MOST_CARDS ? n : LS_MOST_CARDS;
}

ls_device ls_card_device(int card, int part, int parts)
{
    return (ls_device){LS_CUDA, (int16_t)(card + LS_MOST_CARDS * (part + LS_MOST_PARTS * (parts - 1)))};
}

int ls_card_number(ls_device device)
{
    return device.index % LS_MOST_CARDS;
}

int ls_card_part(ls_device device)
{
    return device.index / LS_MOST_CARDS % LS_MOST_PARTS;
}

int ls_card_parts(ls_device device)
{
    return device.index / LS_MOST_CARDS / LS_MOST_PARTS + 1;
}

ls_executor *ls_card_open(ls_context *context, ls_dtype dtype, int card)
{
    static const ls_card_callbacks callbacks = {ls_counted_hold, ls_counted_drop};
    char why[256] = "";
    ls_status status = LS_NO_DEVICE;
    const ls_cards *cards = ls_cards_load(why, sizeof why);
    ls_executor *executor = cards ? cards->open(card, dtype, &callbacks, &status, why, sizeof why) : NULL;
    if (executor)
        executor->context = context;
    else
        ls_raise(context, status, "cuda:%d: %s", card, why);
    return executor;
}
