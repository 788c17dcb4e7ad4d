#include "options/names.h"
#include "text/say.h"

#include <stdio.h>
#include <string.h>

int names_split(const char *option, const char *text, name_list *names)
{
    int n = 0;
    char *rest = NULL;
    if ((size_t)snprintf(names->text, sizeof names->text, "%s", text ? text : "") >= sizeof names->text)
        return wrong_usage(option, "its value is longer than %zu letters", sizeof names->text - 1);
    for (char *name = strtok_r(names->text, ",", &rest); name; name = strtok_r(NULL, ",", &rest)) {
        if (n == MOST_NAMES)
            return wrong_usage(option, "has more than %d names", MOST_NAMES);
        names->list[n++] = name;
    }
    names->list[n] = NULL;
    return 0;
}
