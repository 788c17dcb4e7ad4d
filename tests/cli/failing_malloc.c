/* To be preloaded into the program: the allocation with the number in FAIL_AT, from 1, fails, whoever asks; at the end their number
 * is written to the file named in COUNT_TO. For glibc, whose own functions it stands in front of. */
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t bytes);
void *__libc_realloc(void *memory, size_t bytes);
void *__libc_memalign(size_t alignment, size_t bytes);

static atomic_long count;
static long fail_at = -1;

static int fails(void)
{
    long number = atomic_fetch_add(&count, 1) + 1;
    if (fail_at < 0) {
        const char *text = getenv("FAIL_AT");
        fail_at = text ? atol(text) : 0;
    }
    if (number != fail_at)
        return 0;
    errno = ENOMEM;
    return 1;
}

void *malloc(size_t bytes)
{
    return fails() ? NULL : __libc_malloc(bytes);
}

void *calloc(size_t number, size_t bytes)
{
    return fails() ? NULL : __libc_calloc(number, bytes);
}

void *realloc(void *memory, size_t bytes)
{
    return fails() ? NULL : __libc_realloc(memory, bytes);
}

int posix_memalign(void **memory, size_t alignment, size_t bytes)
{
    *memory = fails() ? NULL : __libc_memalign(alignment, bytes);
    return *memory ? 0 : ENOMEM;
}

__attribute__((destructor)) static void tell(void)
{
    const char *path = getenv("COUNT_TO");
    char text[32];
    int length = snprintf(text, sizeof text, "%ld\n", atomic_load(&count));
    int file = path ? open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600) : -1;
    if (file >= 0 && write(file, text, (size_t)length) == length)
        close(file);
}
