/* Lists of devices, read and written. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cores.h"
#include "base/session.h"
#include "device/cpu/select.h"

enum { SHOWN = 8 };

static ls_devices none(void)
{
    return (ls_devices){.n = 0};
}

static bool read_number(const char **text, int *number)
{
    if (**text < '0' || **text > '9')
        return false;
    char *end;
    errno = 0;
    long value = strtol(*text, &end, 10);
    if (errno || value > 1000000)
        return false;
    *text = end;
    *number = (int)value;
    return true;
}

static ls_status add_device(ls_context *context, ls_devices *devices, ls_device device, const char *list)
{
    for (int i = 0; i < devices->n; i++)
        if (devices->at[i].type == device.type && devices->at[i].index == device.index)
            return ls_raise(context, LS_BAD_ARGUMENT, "devices \"%s\": cpu:%d is named twice", list, device.index);
    devices->at[devices->n++] = device;
    return LS_OK;
}

/* One item, "cpu:0" or "cpu:0-15"; moves *text past it. */
static ls_status read_item(ls_context *context, ls_devices *devices, const char **text, const char *list)
{
    const char *p = *text;
    bool cuda = strncmp(p, "cuda:", 5) == 0 || strncmp(p, "gpu:", 4) == 0;
    if (!cuda && strncmp(p, "cpu:", 4) != 0)
        return ls_raise(context, LS_BAD_ARGUMENT, "devices \"%s\": \"%s\" should be like cpu:0, cpu:0-3 or cuda:0",
                        list, p);
    p = strchr(p, ':') + 1;
    int first = 0, last = 0;
    bool good = read_number(&p, &first);
    last = first;
    if (good && *p == '-') {
        p++;
        good = read_number(&p, &last) && last >= first;
    }
    if (good && cuda && *p == 'x') {
        int parts = 0;
        p++;
        good = read_number(&p, &parts) && parts >= 1;
    }
    if (!good || (*p && *p != ','))
        return ls_raise(context, LS_BAD_ARGUMENT, "devices \"%s\": \"%s\" should be like cpu:0, cpu:0-3 or cuda:0",
                        list, *text);
    if (cuda)
        return ls_raise(context, LS_NO_DEVICE,
                        "devices \"%s\": there is no cuda:%d; this library was built for CPUs alone", list, first);
    if (last >= LS_MAX_DEVICES)
        return ls_raise(context, LS_NO_DEVICE, "devices \"%s\": there is no cpu:%d; the last is cpu:%d", list, last,
                        LS_MAX_DEVICES - 1);
    *text = p;
    for (int i = first; i <= last; i++)
        if (add_device(context, devices, (ls_device){LS_CPU, (int16_t)i}, list) != LS_OK)
            return LS_BAD_ARGUMENT;
    return LS_OK;
}

ls_devices ls_parse_devices(ls_session *session, const char *list)
{
    ls_devices devices = none();
    if (!session || ls_failed(session))
        return devices;
    ls_context *context = &session->context;
    if (!list || !*list) {
        ls_raise(context, LS_BAD_ARGUMENT, "ls_parse_devices: the list is empty");
        return devices;
    }
    const char *p = list;
    for (;;) {
        if (read_item(context, &devices, &p, list) != LS_OK)
            return none();
        if (!*p)
            return devices;
        p++;
    }
}

ls_devices ls_all_devices(ls_session *session)
{
    ls_devices devices = none();
    if (!session || ls_failed(session))
        return devices;
    int cores = ls_core_count();
    devices.n = cores < LS_MAX_DEVICES ? cores : LS_MAX_DEVICES;
    for (int i = 0; i < devices.n; i++)
        devices.at[i] = (ls_device){LS_CPU, (int16_t)i};
    return devices;
}

ls_device ls_host(void)
{
    return (ls_device){LS_HOST, 0};
}

ls_device ls_cpu(int i)
{
    return (ls_device){LS_CPU, (int16_t)i};
}

ls_device ls_gpu(int i)
{
    return (ls_device){LS_CUDA, (int16_t)i};
}

const char *ls_notice(const ls_session *session)
{
    return session && session->notice ? session->notice : "";
}

/* CPUs from `first` on, in place of GPUs that are not there, which is noted. */
static ls_devices fall_back(ls_session *session, int first, int n)
{
    ls_devices devices = {.n = n};
    for (int i = 0; i < n; i++)
        devices.at[i] = ls_cpu(first + i);
    char text[96];
    if (n > 1)
        snprintf(text, sizeof text, "there are no GPUs here: cpu(%d) to cpu(%d) in their place", first, first + n - 1);
    else
        snprintf(text, sizeof text, "there is no gpu(%d) here: cpu(%d) in its place", first, first);
    if (session)
        session->notice = ls_intern(session, text);
    return devices;
}

ls_device ls_try_gpu(ls_session *session, int i)
{
    if (i < 0 || i >= LS_MAX_DEVICES) {
        if (session)
            ls_raise(&session->context, LS_BAD_ARGUMENT, "ls_try_gpu: there is no device %d", i);
        return ls_cpu(0);
    }
    return fall_back(session, i, 1).at[0];
}

ls_devices ls_try_devices(ls_session *session, int n)
{
    if (n >= 1 && n <= LS_MAX_DEVICES)
        return fall_back(session, 0, n);
    if (session)
        ls_raise(&session->context, LS_BAD_ARGUMENT, "ls_try_devices: %d devices; 1 to %d are possible", n,
                 LS_MAX_DEVICES);
    return none();
}

ls_devices ls_try_all_gpus(ls_session *session)
{
    return ls_try_devices(session, 1);
}

const char *ls_device_str(ls_session *session, ls_device device)
{
    char text[32] = "the host";
    if (device.type != LS_HOST)
        snprintf(text, sizeof text, "%s(%d)", device.type == LS_CUDA ? "gpu" : "cpu", device.index);
    return session ? ls_intern(session, text) : "";
}

const char *ls_devices_str(ls_session *session, ls_devices devices)
{
    if (!session)
        return "[]";
    char text[SHOWN * 16 + 8] = "[";
    size_t length = 1;
    bool all = devices.n <= SHOWN;
    for (int i = 0; i < devices.n; i += all || i > 0 ? 1 : devices.n - 1)
        length += (size_t)snprintf(text + length, sizeof text - length, "%s%s(%d)",
                                   i == 0 ? ""
                                   : all  ? ", "
                                          : ", ..., ",
                                   devices.at[i].type == LS_CUDA ? "gpu" : "cpu", devices.at[i].index);
    snprintf(text + length, sizeof text - length, "]");
    return ls_intern(session, text);
}

const char *ls_device_about(ls_session *session, ls_device device)
{
    if (!session)
        return "";
    char text[128];
    const char *isa = ls_cpu_isa_name(session->options.isa);
    snprintf(text, sizeof text, "core %d, %s kernels", ls_core_number(device.index), isa ? isa : "no");
    return ls_intern(session, text);
}

int ls_device_core(ls_device device)
{
    return device.type == LS_CPU && device.index >= 0 ? ls_core_number(device.index) : -1;
}

const char *ls_isa_name(const ls_session *session)
{
    const char *name = session ? ls_cpu_isa_name(session->options.isa) : NULL;
    return name ? name : "";
}
