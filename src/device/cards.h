/* NVIDIA's cards: a plugin, lockstep-cuda, that is loaded when somebody asks for one, so that the library runs where
 * there is no driver and none of NVIDIA's libraries. This is all that library and plugin know of each other. */
#pragma once

#include "base/plugin.h"
#include "device/executor.h"

/* What the plugin needs of the library. */
typedef struct ls_card_callbacks {
    void (*hold)(struct ls_counted *counted);
    void (*drop)(struct ls_counted *counted);
} ls_card_callbacks;

typedef struct ls_cards {
    ls_plugin plugin; /* first */
    /* How many cards there are; with 0 also why. */
    int (*count)(char *why, size_t size);
    /* One line: name, memory, compute capability, which others it reaches directly. */
    void (*about)(int card, char *text, size_t size);
    /* The kernels of a dtype: a table that needs no card. */
    const ls_backend *(*backend)(ls_dtype dtype);
    /* NULL after a failure, with its status and why. */
    ls_executor *(*open)(int card, ls_dtype dtype, const ls_card_callbacks *callbacks, ls_status *status, char *why,
                         size_t size);
    /* Versions of what it stands on, in a line. */
    void (*versions)(char *text, size_t size);
} ls_cards;
enum {
    LS_CARDS_SIZE = sizeof(ls_cards) + sizeof(ls_executor) + sizeof(ls_executor_type)
}; /* of all that library and plugin share */

/* NULL where there is no driver or the plugin cannot be had, with why. */
const ls_cards *ls_cards_load(char *why, size_t size);
const ls_cards *ls_cards_plugin(char *why, size_t size); /* the plugin whether there is a driver or not */

/* How many cards this process may use: none where there is no plugin, no driver or no card, and then why. */
int ls_card_count(char *why, size_t size);

/* A device's card, and which of how many logical devices it is on it. */
enum { LS_MOST_CARDS = 64, LS_MOST_PARTS = 16 };
ls_device ls_card_device(int card, int part, int parts);
int ls_card_number(ls_device device);
int ls_card_part(ls_device device);
int ls_card_parts(ls_device device); /* 1: the whole card */

ls_executor *ls_card_open(ls_context *context, ls_dtype dtype, int card);
