/* A link between two network name spaces that is slow or loses packets: the kernel's own means for that (netem) are not
 * in every kernel.
 *     relay SPACE DEVICE SPACE DEVICE DELAY_MS LOST_OF_1000
 * makes an Ethernet device in each name space and carries frames between them, each DELAY_MS late, some of them never;
 * which ones is drawn from a fixed seed. Prints a line once the devices are there, and at SIGTERM what it has
 * carried. */
#include <errno.h>
#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

enum { FRAME = 2048, FRAMES = 8192, NEVER = 1000000 };

/* Frames on their way to one end, in order; what comes while it is full is lost, as on other links. */
typedef struct queue {
    struct frame {
        double due;
        size_t bytes;
        char data[FRAME];
    } frames[FRAMES];
    unsigned first, end;
} queue;

static volatile sig_atomic_t ending;
static long carried, dropped;

static void on_signal(int number)
{
    ending = number;
}

static int fail(const char *what)
{
    fprintf(stderr, "relay: %s: %s\n", what, strerror(errno));
    exit(1);
}

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e3 + (double)time.tv_nsec * 1e-6;
}

static int device_in(const char *space, const char *name)
{
    char path[256];
    struct ifreq request = {.ifr_flags = IFF_TAP | IFF_NO_PI};
    snprintf(path, sizeof path, "/run/netns/%s", space);
    int there = open(path, O_RDONLY | O_CLOEXEC);
    if (there < 0 || setns(there, CLONE_NEWNET) != 0)
        fail(path);
    close(there);
    int device = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
    snprintf(request.ifr_name, sizeof request.ifr_name, "%s", name);
    if (device < 0 || ioctl(device, TUNSETIFF, &request) != 0)
        fail("/dev/net/tun");
    return device;
}

static int lost(int of_1000)
{
    static uint64_t x = 88172645463325252u; /* Marsaglia's xorshift64 */
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    return (int)(x % 1000) < of_1000;
}

static void take(int device, queue *q, double delay, int of_1000)
{
    for (;;) {
        struct frame *f = &q->frames[q->end % FRAMES];
        char nowhere[FRAME];
        int full = q->end - q->first == FRAMES;
        ssize_t bytes = read(device, full ? nowhere : f->data, FRAME);
        if (bytes <= 0)
            return;
        carried++;
        if (full || lost(of_1000)) {
            dropped++;
            continue;
        }
        f->bytes = (size_t)bytes;
        f->due = now() + delay;
        q->end++;
    }
}

/* Returns the milliseconds until the next frame is due, NEVER where there is none. */
static double give(int device, queue *q)
{
    while (q->first != q->end) {
        const struct frame *f = &q->frames[q->first % FRAMES];
        double wait = f->due - now();
        if (wait > 0)
            return wait;
        if (write(device, f->data, f->bytes) < 0 && errno == EAGAIN)
            return 1;
        q->first++;
    }
    return NEVER;
}

int main(int argc, char **argv)
{
    static queue queues[2]; /* to the other end of each */
    if (argc != 7) {
        fprintf(stderr, "usage: relay SPACE DEVICE SPACE DEVICE DELAY_MS LOST_OF_1000\n");
        return 2;
    }
    struct pollfd ends[2] = {{.fd = device_in(argv[1], argv[2]), .events = POLLIN},
                             {.fd = device_in(argv[3], argv[4]), .events = POLLIN}};
    double delay = atof(argv[5]);
    int of_1000 = atoi(argv[6]);
    signal(SIGTERM, on_signal);
    puts("the devices are there");
    fflush(stdout);
    while (!ending) {
        const double first = give(ends[1].fd, &queues[0]), second = give(ends[0].fd, &queues[1]);
        const long long wait = (long long)(1e6 * (first < second ? first : second));
        ppoll(ends, 2, &(struct timespec){(time_t)(wait / 1000000000), (long)(wait % 1000000000)}, NULL);
        for (int i = 0; i < 2; i++)
            take(ends[i].fd, &queues[i], delay, of_1000);
    }
    printf("%ld frames, %ld of them lost\n", carried, dropped);
    return 0;
}
