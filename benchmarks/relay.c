// The ceiling: one thread that copies a publisher's bytes to every subscriber and looks at none of them.
// relay PORT: publishers connect to PORT, subscribers to PORT + 1, where a "+" tells them that they are in.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { MOST = 256, READY = 64, CHUNK = 1 << 18 };

static int subscribers[MOST], count, epoll;

static void watch(int fd) {
    struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
    epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event);
}

static int listener(int port) {
    int fd = socket(AF_INET, SOCK_STREAM, 0), yes = 1;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (bind(fd, (struct sockaddr *)&address, sizeof address) || listen(fd, MOST)) {
        perror("relay");
        exit(1);
    }
    watch(fd);
    return fd;
}

static int accepted(int fd) {
    int link = accept(fd, NULL, NULL), yes = 1;
    setsockopt(link, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    watch(link);
    return link;
}

static void forget(int fd) {
    for (int i = 0; i < count; i++)
        if (subscribers[i] == fd) subscribers[i--] = subscribers[--count];
    close(fd);
}

static void relay(const char *data, ssize_t size) {
    for (int i = 0; i < count; i++)
        for (ssize_t done = 0; done < size;) {
            ssize_t n = send(subscribers[i], data + done, size - done, MSG_NOSIGNAL);
            if (n < 0) break;
            done += n;
        }
}

int main(int arguments, char **argument) {
    static char buffer[CHUNK];
    if (arguments != 2) return 2;
    epoll = epoll_create1(0);
    int publishers = listener(atoi(argument[1])), subscribing = listener(atoi(argument[1]) + 1);
    for (;;) {
        struct epoll_event ready[READY];
        int n = epoll_wait(epoll, ready, READY, -1);
        for (int j = 0; j < n; j++) {
            int fd = ready[j].data.fd;
            if (fd == publishers) accepted(fd);
            else if (fd == subscribing) {
                int link = accepted(fd);
                if (count < MOST && send(link, "+", 1, MSG_NOSIGNAL) == 1) subscribers[count++] = link;
            } else {
                ssize_t size = recv(fd, buffer, sizeof buffer, 0);
                if (size > 0) relay(buffer, size);
                else forget(fd);
            }
        }
    }
}
