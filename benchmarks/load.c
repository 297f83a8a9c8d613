// The load generator's hot loops, called through ctypes without the GIL: the broker is measured, not Python.
// Every broker is driven by the same loops; they know frames by their size alone, but where a filter joins them.
#define _GNU_SOURCE
#include <errno.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { DRAIN = 1 << 20, EVENTS = 64, BROKEN = -1 };

// What publisher and receiver know of each other. A unit is what one turn publishes: a frame for each topic.
typedef struct {
    _Atomic int64_t delivered;  // units the slowest subscriber has got
    _Atomic int64_t sent;       // units written
    _Atomic int64_t closed;     // 1 when the publisher has stopped, BROKEN when a link broke
    int64_t began, ended;       // first byte written and last byte received
} progress_t;

typedef struct {
    int64_t fd;
    int64_t got;      // bytes received by these loops
    int64_t before;   // bytes received on this link before
    int64_t window;   // bytes that we let the broker send ahead; 0 if it knows no credit
    int64_t granted;  // what `got` was at the last grant
    int64_t counts;   // count the events of Stentor's frames, since a filter joins frames as it likes
    int64_t events;   // that came
    int64_t have;     // bytes of the current frame's head
    int64_t left;     // bytes of the current frame behind its head
    unsigned char head[40];
} subscriber_t;

static int64_t now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000ll + t.tv_nsec;
}

static void nap(long ns) {
    struct timespec t = {0, ns};
    nanosleep(&t, NULL);
}

static int write_all(int fd, const char *data, int64_t size) {
    while (size > 0) {
        ssize_t n = send(fd, data, size, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return BROKEN;
        data += n;
        size -= n;
    }
    return 0;
}

// Throw away what the broker tells a publisher (replies, credit, pings); on TCP, MSG_TRUNC copies nothing.
static void drain(int fd) { recv(fd, NULL, DRAIN, MSG_DONTWAIT | MSG_TRUNC); }

static uint32_t crc32(const unsigned char *data, int size) {
    static uint32_t table[256];
    if (!table[1])
        for (uint32_t i = 0; i < 256; i++) {
            uint32_t c = i;
            for (int bit = 0; bit < 8; bit++) c = c & 1 ? 0xedb88320u ^ (c >> 1) : c >> 1;
            table[i] = c;
        }
    uint32_t c = ~0u;
    while (size--) c = table[(c ^ *data++) & 255] ^ (c >> 8);
    return ~c;
}

// Stentor's Credit control frame; load.py checks these bytes against stentor.wire.frame before a run.
int credit_frame(unsigned char *out, uint64_t limit) {
    unsigned char *payload = out + 12;
    memcpy(payload, "\x92\xa6" "credit\xcf", 9);
    for (int i = 0; i < 8; i++) payload[9 + i] = limit >> (56 - 8 * i);
    uint32_t length = 12 + 17, checksum = crc32(payload, 17);
    memcpy(out, &length, 4);
    memcpy(out + 4, "\x02\x01\0\0", 4);
    memcpy(out + 8, &checksum, 4);
    return length;
}

static int grant(subscriber_t *s) {
    unsigned char frame[32];
    if (!s->window || s->got - s->granted < s->window / 4) return 0;
    s->granted = s->got;
    int size = credit_frame(frame, s->before + s->got + s->window);
    return write_all(s->fd, (char *)frame, size);
}

// Walk over Stentor's frames as they come, cut anywhere: u32 length, u8 kind (1 is events), u16 count at 32.
static void count_events(subscriber_t *s, const unsigned char *data, int64_t size) {
    while (size > 0) {
        int64_t n = s->left < size ? s->left : size;
        s->left -= n;
        data += n;
        size -= n;
        if (!size) return;
        int64_t wanted = s->have < 5 ? 5 : s->head[4] == 1 ? 34 : 5;
        n = wanted - s->have < size ? wanted - s->have : size;
        memcpy(s->head + s->have, data, n);
        s->have += n;
        data += n;
        size -= n;
        if (s->have < 5 || (s->head[4] == 1 && s->have < 34)) continue;
        uint32_t length;
        memcpy(&length, s->head, 4);
        if (s->head[4] == 1) s->events += s->head[32] | s->head[33] << 8;
        s->left = length - s->have;
        s->have = 0;
    }
}

static int64_t measure(const subscriber_t *s) { return s->counts ? s->events : s->got; }

static void stop(progress_t *p, int failed) {
    int64_t open = 0;
    if (failed) atomic_store(&p->closed, BROKEN);
    else atomic_compare_exchange_strong(&p->closed, &open, 1);
}

// Publish units from a ring of `turns`, as many per send as 64 KiB hold, at most `window` ahead of the slowest subscriber.
void publish(int fd, const char *ring, int64_t unit, int64_t turns, int64_t per_send, int64_t window,
             int64_t duration, progress_t *p) {
    prctl(PR_SET_TIMERSLACK, 1000);
    int64_t sent = 0, at = 0, failed = 0;
    p->began = now();
    while (!failed && now() - p->began < duration && !atomic_load(&p->closed)) {
        int64_t n = window - (sent - atomic_load(&p->delivered));
        if (n <= 0) {
            nap(20000);
            continue;
        }
        if (n > per_send) n = per_send;
        if (n > turns - at) n = turns - at;
        failed = write_all(fd, ring + at * unit, n * unit);
        at = (at + n) % turns;
        atomic_store(&p->sent, sent += n);
        drain(fd);
    }
    stop(p, failed);
}

// Many publishers in turn, one frame per send, at most `window` frames under way.
void publish_each(const int *fds, int count, const char *frames, int64_t size, int64_t window, int64_t duration,
                  progress_t *p) {
    prctl(PR_SET_TIMERSLACK, 1);
    int64_t sent = 0, failed = 0;
    p->began = now();
    while (!failed && now() - p->began < duration && !atomic_load(&p->closed)) {
        if (sent - atomic_load(&p->delivered) >= window) {
            nap(1000);
            continue;
        }
        int i = sent % count;
        failed = write_all(fds[i], frames + i * size, size);
        atomic_store(&p->sent, ++sent);
        if (sent % 64 == 0) drain(fds[sent / 64 % count]);
    }
    stop(p, failed);
}

// One frame every `interval` ns; `sent_at` is when each was handed to the kernel.
void pace(int fd, const char *frame, int64_t size, int64_t count, int64_t interval, int64_t *sent_at, progress_t *p) {
    prctl(PR_SET_TIMERSLACK, 1);
    int64_t due = p->began = now(), failed = 0;
    for (int64_t i = 0; i < count && !failed && !atomic_load(&p->closed); i++) {
        due += interval;
        struct timespec t = {due / 1000000000ll, due % 1000000000ll};
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL);
        sent_at[i] = now();
        failed = write_all(fd, frame, size);
        atomic_store(&p->sent, i + 1);
        drain(fd);
    }
    stop(p, failed);
}

static int64_t slowest(const subscriber_t *subs, int count) {
    int64_t least = measure(&subs[0]);
    for (int i = 1; i < count; i++)
        if (measure(&subs[i]) < least) least = measure(&subs[i]);
    return least;
}

// Count bytes, or events, until all units have come, or nothing has for `patience` ns. `size` is what a unit delivers to
// each subscriber; `arrived_at`, if given, takes the time at which each of the first subscriber's units was whole.
void receive(subscriber_t *subs, int count, int64_t size, int64_t patience, int64_t *arrived_at, int64_t capacity,
             progress_t *p) {
    struct epoll_event event = {.events = EPOLLIN}, events[EVENTS];
    static __thread unsigned char data[DRAIN];
    int poll = epoll_create1(0);
    for (int i = 0; i < count; i++) {
        event.data.u32 = i;
        epoll_ctl(poll, EPOLL_CTL_ADD, subs[i].fd, &event);
    }
    int64_t last = now(), arrived = 0;
    for (;;) {
        int ready = epoll_wait(poll, events, EVENTS, 20);
        int64_t time = now();
        for (int j = 0; j < ready; j++) {
            subscriber_t *s = &subs[events[j].data.u32];
            ssize_t n = s->counts ? recv(s->fd, data, DRAIN, MSG_DONTWAIT)
                                  : recv(s->fd, NULL, DRAIN, MSG_DONTWAIT | MSG_TRUNC);
            if (n < 0 && (errno == EAGAIN || errno == EINTR)) continue;
            if (n > 0) s->got += n;
            if (n > 0 && s->counts) count_events(s, data, n);
            if (n <= 0 || grant(s)) stop(p, 1);
        }
        if (ready > 0) p->ended = last = time;
        int64_t least = slowest(subs, count);
        while (arrived_at && arrived < capacity && least >= (arrived + 1) * size) arrived_at[arrived++] = time;
        atomic_store(&p->delivered, least / size);
        int64_t closed = atomic_load(&p->closed);
        if (closed == BROKEN || (closed && least / size >= atomic_load(&p->sent)) || time - last > patience) break;
    }
    close(poll);
}
