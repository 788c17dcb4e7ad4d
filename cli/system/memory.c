#include "system/memory.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* The number behind `name` in a file of such lines; behind nothing where name is "". `otherwise` where there is
 * none. */
static int64_t number_in(const char *path, const char *name, int64_t otherwise)
{
    char line[256];
    int64_t value = otherwise;
    FILE *file = fopen(path, "re");
    if (!file)
        return otherwise;
    while (fgets(line, sizeof line, file))
        if (strncmp(line, name, strlen(name)) == 0 && sscanf(line + strlen(name), "%" SCNd64, &value) == 1)
            break;
    fclose(file);
    return value;
}

/* What a group of processes and those around it may still take; version 2 has one tree, version 1 one for memory. */
static int64_t left_in_group(const char *root, char *group, const char *most, const char *used)
{
    char path[4600], statistics[4600];
    int64_t left = INT64_MAX;
    for (;;) {
        snprintf(path, sizeof path, "%s%s/%s", root, group, most);
        int64_t limit = number_in(path, "", INT64_MAX);
        snprintf(path, sizeof path, "%s%s/%s", root, group, used);
        snprintf(statistics, sizeof statistics, "%s%s/memory.stat", root, group);
        int64_t taken = number_in(path, "", 0) - number_in(statistics, "inactive_file ", 0); /* which gives way */
        if (limit < INT64_MAX / 4)
            left = smaller(left, limit > taken ? limit - taken : 0);
        char *slash = strrchr(group, '/');
        if (!slash)
            return left;
        *slash = '\0';
    }
}

static int64_t left_in_groups(void)
{
    char line[4200], *group;
    int64_t left = INT64_MAX;
    FILE *file = fopen("/proc/self/cgroup", "re");
    while (file && fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = '\0';
        if (strncmp(line, "0::", 3) == 0)
            left = smaller(left, left_in_group("/sys/fs/cgroup", line + 3, "memory.max", "memory.current"));
        else if ((group = strstr(line, ":memory:")) != NULL)
            left = smaller(left, left_in_group("/sys/fs/cgroup/memory", group + 8, "memory.limit_in_bytes",
                                               "memory.usage_in_bytes"));
    }
    if (file)
        fclose(file);
    return left;
}

static int64_t left_of_addresses(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
        return INT64_MAX;
    int64_t taken = number_in("/proc/self/statm", "", 0) * sysconf(_SC_PAGESIZE);
    return (int64_t)limit.rlim_cur > taken ? (int64_t)limit.rlim_cur - taken : 0;
}

int64_t memory_left(const char **limited_by)
{
    int64_t kibibytes = number_in("/proc/meminfo", "MemAvailable:", INT64_MAX / 1024);
    int64_t machine = 1024 * kibibytes, groups = left_in_groups(), addresses = left_of_addresses();
    int64_t least = smaller(machine, smaller(groups, addresses));
    *limited_by = least == addresses ? "ulimit -v" : least == groups ? "its control group" : "the machine";
    return least;
}

void memory_text(char *text, int size, int64_t bytes)
{
    double mebibytes = (double)bytes / (1 << 20);
    if (mebibytes < 1024)
        snprintf(text, (size_t)size, "%.0f MiB", mebibytes);
    else
        snprintf(text, (size_t)size, "%.1f GiB", mebibytes / 1024);
}
