#include "record/origin.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static void put_word(FILE *to, const char *word)
{
    static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-+=./:,@%";
    if (*word && word[strspn(word, plain)] == '\0') {
        fputs(word, to);
        return;
    }
    putc('\'', to);
    for (; *word; word++)
        if (*word == '\'')
            fputs("'\\''", to);
        else
            putc(*word, to);
    putc('\'', to);
}

void origin_take(origin *o, int argc, char *const argv[])
{
    const time_t now = time(NULL);
    struct tm local;
    size_t size;
    *o = (origin){.command = NULL};
    if (localtime_r(&now, &local))
        strftime(o->date, sizeof o->date, "%Y-%m-%dT%H:%M:%S%z", &local);
    if (gethostname(o->host, sizeof o->host) != 0)
        *o->host = '\0';
    o->host[sizeof o->host - 1] = '\0'; /* a longer one is cut */
    FILE *to = open_memstream(&o->command, &size);
    if (!to)
        return;
    fputs("lockstep", to);
    for (int i = 0; i < argc; i++) {
        putc(' ', to);
        put_word(to, argv[i]);
    }
    fclose(to);
}

void origin_free(origin *o)
{
    free(o->command);
}
