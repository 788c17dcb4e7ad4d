#include "io/safetensors_names.h"

#include <string.h>

const char *ls_saved_name_fault(const char *name)
{
    size_t length = strlen(name);
    if (length == 0)
        return "is empty";
    if (length > LS_SAVED_LONGEST_NAME)
        return "is longer than 512 bytes";
    if (strcmp(name, "__metadata__") == 0)
        return "is reserved";
    if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0 || strpbrk(name, "/\\"))
        return "has path separators";
    for (const unsigned char *at = (const unsigned char *)name; *at; at++)
        if (*at < 0x20 || *at == 0x7f)
            return "has control characters";
    return NULL;
}
