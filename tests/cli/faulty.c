/* Loaded into the program in front of the C library, by doctor.sh: makes one core a bad one. FAULT=copies: a bit of
 * what is copied there is flipped, where it is long; FAULT=arithmetic: its results are rounded down. CORE is its
 * number. The program's own thread, which is pinned to no core, is not meant. */
#include <dlfcn.h>
#include <fenv.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { LONG = 1 << 20 };

static int is_faulty(const char *fault)
{
    const char *asked = getenv("FAULT"), *core = getenv("CORE");
    return asked && core && strcmp(asked, fault) == 0 && syscall(SYS_gettid) != getpid() &&
           sched_getcpu() == atoi(core);
}

void *memcpy(void *restrict to, const void *restrict from, size_t n)
{
    static void *(*own)(void *, const void *, size_t);
    if (!own)
        *(void **)&own = dlsym(RTLD_NEXT, "memmove");
    own(to, from, n);
    if (n >= LONG && is_faulty("copies"))
        ((unsigned char *)to)[n / 2] ^= 1;
    return to;
}

int fesetenv(const fenv_t *environment)
{
    static int (*own)(const fenv_t *);
    if (!own)
        *(void **)&own = dlsym(RTLD_NEXT, "fesetenv");
    int result = own(environment);
    if (is_faulty("arithmetic"))
        fesetround(FE_DOWNWARD);
    return result;
}
