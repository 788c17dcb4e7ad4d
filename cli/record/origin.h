/* Where a run comes from, for those who look at it later. */
#pragma once

typedef struct origin {
    char date[32]; /* when it began: "2026-01-31T09:15:00+0100" */
    char host[72]; /* its name; "" where the system has none */
    char *command; /* as a shell takes it; NULL without memory */
} origin;

/* argv[0] is the command's name, "train". Before the options are read, which sorts argv. */
void origin_take(origin *o, int argc, char *const argv[]);
void origin_free(origin *o);
