/* Lists of devices, read and written. */
#include "device/devices.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cores.h"
#include "base/environment.h"
#include "base/quota.h"
#include "base/session.h"
#include "device/cards.h"
#include "device/cpu/select.h"

enum { SHOWN = 8, BEYOND = 1000000 };

static ls_devices none(void)
{
    return (ls_devices){.n = 0};
}

/* A number beyond all devices is `BEYOND`, however long. */
static bool read_number(const char **text, int *number)
{
    if (**text < '0' || **text > '9')
        return false;
    char *end;
    long value = strtol(*text, &end, 10);
    *text = end;
    *number = value < BEYOND ? (int)value : BEYOND;
    return true;
}

static bool same_place(ls_device a, ls_device b)
{
    return a.type == b.type && (a.type == LS_CUDA ? ls_card_number(a) == ls_card_number(b) : a.index == b.index);
}

static ls_status add_device(ls_context *context, ls_devices *devices, ls_device device, const char *list)
{
    const bool part = device.type == LS_CUDA && ls_card_part(device) > 0; /* of the card that was added just now */
    for (int i = 0; i < devices->n && !part; i++)
        if (same_place(devices->at[i], device))
            return ls_raise(context, LS_BAD_ARGUMENT, "devices \"%s\": %s:%d is named twice", list,
                            device.type == LS_CUDA ? "cuda" : "cpu",
                            device.type == LS_CUDA ? ls_card_number(device) : device.index);
    if (devices->n == LS_MAX_DEVICES)
        return ls_raise(context, LS_BAD_ARGUMENT, "devices \"%s\": there are more than %d", list, LS_MAX_DEVICES);
    devices->at[devices->n++] = device;
    return LS_OK;
}

/* One item of a list. */
typedef struct item {
    bool cuda;
    int first, last, parts;
} item;

static ls_status malformed(ls_context *context, const char *list, const char *text)
{
    return ls_raise(context, LS_BAD_ARGUMENT, "devices \"%s\": \"%s\" should be like cpu:0, cpu:0-3 or cuda:0", list,
                    text);
}

/* "cpu:0", "cpu:0-15", "cuda:0x2"; moves *text past it. */
static ls_status read_item(ls_context *context, item *found, const char **text, const char *list)
{
    const char *p = *text;
    *found = (item){.cuda = strncmp(p, "cuda:", 5) == 0 || strncmp(p, "gpu:", 4) == 0, .parts = 1};
    if (!found->cuda && strncmp(p, "cpu:", 4) != 0)
        return malformed(context, list, p);
    p = strchr(p, ':') + 1;
    bool good = read_number(&p, &found->first);
    found->last = found->first;
    if (good && *p == '-') {
        p++;
        good = read_number(&p, &found->last) && found->last >= found->first;
    }
    if (good && found->cuda && *p == 'x') {
        p++;
        good = read_number(&p, &found->parts) && found->parts >= 1;
    }
    if (!good || (*p && *p != ','))
        return malformed(context, list, *text);
    *text = p;
    return LS_OK;
}

/* Cards that this process uses: [first, first + n). The ranks of a host deal them out; where they are too few, ranks
 * share them. */
typedef struct card_share {
    int first, n;
} card_share;

static card_share share_of_cards(const ls_session *session, char *why, size_t size)
{
    const int cards = ls_card_count(why, size), place = session->place, sharers = session->sharers;
    if (cards == 0)
        return (card_share){0, 0};
    if (cards < sharers)
        return (card_share){place % cards, 1};
    const int first = cards * place / sharers;
    return (card_share){first, cards * (place + 1) / sharers - first};
}

static ls_status add_cards(ls_session *session, ls_devices *devices, const item *of, const char *list)
{
    ls_context *context = &session->context;
    char why[256] = "";
    const card_share mine = share_of_cards(session, why, sizeof why);
    const int n = mine.n;
    if (n == 0)
        return ls_raise(context, LS_NO_DEVICE, "devices \"%s\": there is no cuda:%d: %s", list, of->first, why);
    if (of->last >= n)
        return ls_raise(context, LS_NO_DEVICE, "devices \"%s\": there is no cuda:%d; the last is cuda:%d", list,
                        of->last, n - 1);
    if (of->parts > LS_MOST_PARTS)
        return ls_raise(context, LS_NO_DEVICE, "devices \"%s\": a card can be at most %d devices", list, LS_MOST_PARTS);
    for (int card = of->first; card <= of->last; card++)
        for (int part = 0; part < of->parts; part++)
            if (add_device(context, devices, ls_card_device(mine.first + card, part, of->parts), list) != LS_OK)
                return LS_BAD_ARGUMENT;
    return LS_OK;
}

static ls_status add_item(ls_session *session, ls_devices *devices, const char **text, const char *list)
{
    ls_context *context = &session->context;
    item of;
    if (read_item(context, &of, text, list) != LS_OK)
        return LS_BAD_ARGUMENT;
    if (of.cuda)
        return add_cards(session, devices, &of, list);
    if (of.last >= LS_MAX_DEVICES)
        return ls_raise(context, LS_NO_DEVICE, "devices \"%s\": there is no cpu:%d; the last is cpu:%d", list, of.last,
                        LS_MAX_DEVICES - 1);
    for (int i = of.first; i <= of.last; i++)
        if (add_device(context, devices, (ls_device){LS_CPU, (int16_t)i}, list) != LS_OK)
            return LS_BAD_ARGUMENT;
    return LS_OK;
}

ls_devices ls_parse_devices(ls_session *session, const char *list)
{
    LS_OWN_ENVIRONMENT;
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
        if (add_item(session, &devices, &p, list) != LS_OK)
            return none();
        if (!*p)
            return devices;
        p++;
    }
}

/* n of a type. */
static ls_devices devices_of(ls_device_type type, int first, int n)
{
    ls_devices devices = {.n = n < LS_MAX_DEVICES ? n : LS_MAX_DEVICES};
    for (int i = 0; i < devices.n; i++)
        devices.at[i] = (ls_device){(int16_t)type, (int16_t)(first + i)};
    return devices;
}

/* As many as this process's processor time keeps busy. A quota that leaves some idle goes to why[], which is "" else.
 */
static int usable_cores(ls_session *session, char *why, size_t size)
{
    const int cores = ls_core_count();
    const ls_quota quota = ls_quota_read(&session->context, session->root ? session->root : "");
    const int n = ls_quota_cores(&quota, session->sharers, cores);
    *why = 0;
    if (n < cores)
        snprintf(why, size, "a CPU quota of %.3g core%s (%s) keeps %d of %d busy%s",
                 (double)quota.time / (double)quota.period, quota.time == quota.period ? "" : "s", quota.file, n, cores,
                 session->sharers > 1 ? "; this host's ranks share it" : "");
    ls_release(&session->context, quota.file);
    return n;
}

int ls_device_count(ls_session *session, ls_device_type type)
{
    LS_OWN_ENVIRONMENT;
    char why[512] = "";
    if (!session || ls_failed(session) || type == LS_HOST)
        return 0;
    const int n = type == LS_CUDA ? ls_card_count(why, sizeof why) : usable_cores(session, why, sizeof why);
    session->notice = n == 0 || type == LS_CPU ? ls_intern(session, why) : NULL;
    return n < LS_MAX_DEVICES ? n : LS_MAX_DEVICES;
}

ls_devices ls_all_devices(ls_session *session)
{
    LS_OWN_ENVIRONMENT;
    if (!session || ls_failed(session))
        return none();
    char why[512];
    const card_share mine = share_of_cards(session, why, sizeof why);
    if (mine.n > 0)
        return devices_of(LS_CUDA, mine.first, mine.n);
    return devices_of(LS_CPU, 0, usable_cores(session, why, sizeof why));
}

ls_device ls_host(void)
{
    return (ls_device){LS_HOST, 0};
}

/* No number may come to stand for another device: one that a device cannot have becomes -1, which is refused where it
 * is used. */
ls_device ls_cpu(int i)
{
    return (ls_device){LS_CPU, (int16_t)(i >= INT16_MIN && i <= INT16_MAX ? i : -1)};
}

ls_device ls_gpu(int i)
{
    return (ls_device){LS_CUDA, (int16_t)(i >= 0 && i < LS_MOST_CARDS ? i : -1)};
}

const char *ls_notice(const ls_session *session)
{
    return session && session->notice ? session->notice : "";
}

/* The GPUs [first, first + n) of this process, or, where they are not all there, the CPUs of these numbers, which is
 * noted. */
static ls_devices take_or_fall_back(ls_session *session, int first, int n)
{
    char text[128], why[256] = "";
    const card_share mine = session ? share_of_cards(session, why, sizeof why) : (card_share){0, 0};
    const bool there = first + n <= mine.n;
    const int last = first + n - 1;
    if (n == 1)
        snprintf(text, sizeof text, "there is no gpu(%d) here: cpu(%d) in its place", first, first);
    else if (mine.n)
        snprintf(text, sizeof text, "there is no gpu(%d) here: cpu(%d) to cpu(%d) in their place", last, first, last);
    else
        snprintf(text, sizeof text, "there are no GPUs here: cpu(%d) to cpu(%d) in their place", first, last);
    if (session)
        session->notice = there ? NULL : ls_intern(session, text);
    return devices_of(there ? LS_CUDA : LS_CPU, (there ? mine.first : 0) + first, n);
}

ls_device ls_try_gpu(ls_session *session, int i)
{
    LS_OWN_ENVIRONMENT;
    if (i < 0 || i >= LS_MAX_DEVICES) {
        if (session)
            ls_raise(&session->context, LS_BAD_ARGUMENT, "ls_try_gpu: there is no device %d", i);
        return ls_cpu(0);
    }
    return take_or_fall_back(session, i, 1).at[0];
}

ls_devices ls_try_devices(ls_session *session, int n)
{
    LS_OWN_ENVIRONMENT;
    if (n >= 1 && n <= LS_MAX_DEVICES)
        return take_or_fall_back(session, 0, n);
    if (session)
        ls_raise(&session->context, LS_BAD_ARGUMENT, "ls_try_devices: %d devices; 1 to %d are possible", n,
                 LS_MAX_DEVICES);
    return none();
}

ls_devices ls_try_all_gpus(ls_session *session)
{
    LS_OWN_ENVIRONMENT;
    char why[256];
    const int n = session ? share_of_cards(session, why, sizeof why).n : 0;
    return ls_try_devices(session, n ? n : 1);
}

int ls_device_write(char *text, size_t size, ls_device device)
{
    if (device.type == LS_HOST)
        return snprintf(text, size, "the host");
    if (device.type != LS_CUDA)
        return snprintf(text, size, "cpu(%d)", device.index);
    if (ls_card_parts(device) > 1)
        return snprintf(text, size, "gpu(%d.%d)", ls_card_number(device), ls_card_part(device));
    return snprintf(text, size, "gpu(%d)", ls_card_number(device));
}

const char *ls_device_str(ls_session *session, ls_device device)
{
    LS_OWN_ENVIRONMENT;
    char text[32];
    ls_device_write(text, sizeof text, device);
    return session ? ls_intern(session, text) : "";
}

const char *ls_devices_str(ls_session *session, ls_devices devices)
{
    LS_OWN_ENVIRONMENT;
    if (!session || devices.n > LS_MAX_DEVICES)
        return "[]";
    char text[SHOWN * 32 + 8] = "[";
    size_t length = 1;
    bool all = devices.n <= SHOWN;
    for (int i = 0; i < devices.n; i += all || i > 0 ? 1 : devices.n - 1) {
        length += (size_t)snprintf(text + length, sizeof text - length, "%s", i == 0 ? "" : all ? ", " : ", ..., ");
        length += (size_t)ls_device_write(text + length, sizeof text - length, devices.at[i]);
    }
    snprintf(text + length, sizeof text - length, "]");
    return ls_intern(session, text);
}

const char *ls_device_about(ls_session *session, ls_device device)
{
    LS_OWN_ENVIRONMENT;
    if (!session)
        return "";
    char text[256];
    const char *isa = ls_cpu_isa_name(session->options.isa);
    const ls_cards *cards = device.type == LS_CUDA ? ls_cards_load(text, sizeof text) : NULL;
    if ((cards || device.type != LS_CUDA) && ls_check_device(session, device, "ls_device_about") != LS_OK)
        return "";
    if (cards)
        cards->about(ls_card_number(device), text, sizeof text);
    else if (device.type == LS_HOST)
        ls_device_write(text, sizeof text, device);
    else if (device.type == LS_CPU)
        snprintf(text, sizeof text, "core %d, %s kernels", ls_core_number(device.index), isa ? isa : "no");
    return ls_intern(session, text);
}

int ls_device_core(ls_device device)
{
    const bool there = device.type == LS_CPU && device.index >= 0 && device.index < LS_MAX_DEVICES;
    return there ? ls_core_number(device.index) : -1;
}

const char *ls_isa_name(const ls_session *session)
{
    const char *name = session ? ls_cpu_isa_name(session->options.isa) : NULL;
    return name ? name : "";
}

ls_status ls_check_device(ls_session *session, ls_device device, const char *function)
{
    ls_context *context = &session->context;
    if (device.type == LS_HOST || (device.type == LS_CPU && device.index >= 0 && device.index < LS_MAX_DEVICES))
        return LS_OK;
    if (device.type == LS_CPU)
        return ls_raise(context, LS_NO_DEVICE, "%s: there is no cpu(%d); CPU devices go from 0 to %d", function,
                        device.index, LS_MAX_DEVICES - 1);
    if (device.type == LS_CUDA) {
        char why[256] = "";
        if (device.index >= 0 && ls_card_number(device) >= session->cards)
            session->cards = ls_card_count(why, sizeof why);
        if (device.index >= 0 && ls_card_number(device) < session->cards)
            return LS_OK;
        return ls_raise(context, LS_NO_DEVICE, "%s: there is no %s here%s%s", function, ls_device_str(session, device),
                        *why ? ": " : "", why);
    }
    return ls_raise(context, LS_BAD_ARGUMENT, "%s: type %d is no type of device", function, device.type);
}
