/* The process from which shims are forked, as fork_server.py: it reads folders of pods from its standard input. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shim.h"

#define LONGEST_MESSAGE 8192
enum { STARTED = '+', FAILED = '-', NOT_PLAIN = '?' };

typedef struct Child {
    pid_t pid;
    char *folder;
    struct Child *next;
} Child;

static char boot[64];
static char *title;
static size_t title_room;

static void answer(int channel, char word, const char *folder) {
    char message[LONGEST_MESSAGE + 1];
    int length = snprintf(message, sizeof message, "%c%s", word, folder);
    if (send(channel, message, length, MSG_NOSIGNAL) < 0) return; /* the agent was killed: the next one finds the shim */
}

static void read_boot(void) {
    int file = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    ssize_t length = file < 0 ? -1 : read(file, boot, sizeof boot - 1);
    if (length <= 0) fail("boot_id");
    boot[strcspn(boot, "\n")] = 0;
    close(file);
}

/* Show this over the command line of the server, as far as there is room; the end is worth more. */
static void set_title(const char *folder) {
    Buffer text = {0};
    put(&text, "pumice-shim", 12);
    put(&text, folder, strlen(folder));
    size_t most = title_room - 1, length = text.length < most ? text.length : most;
    memset(title, 0, title_room);
    memcpy(title, text.content + text.length - length, length);
}

/* Run the pod of a folder in this process, unless another one does or did. */
static void run_shim(int channel, const char *folder) {
    char path[PATH_ROOM];
    setsid();
    if (chdir("/")) fail("/");
    set_title(folder);
    snprintf(log_path, sizeof log_path, "%s/shim.log", folder);
    if (dup2(0, 1) < 0 || dup2(0, 2) < 0) fail("/dev/null");
    snprintf(path, sizeof path, "%s/plan.json", folder);
    Json *plan = json_read(path);
    if (!plan) fail(path);
    if (!is_plain(plan)) {
        answer(channel, NOT_PLAIN, folder);
        _exit(0);
    }
    int lock = open(path, O_RDONLY | O_CLOEXEC); /* the plan, which is written once, and never replaced */
    if (lock < 0) fail(path);
    snprintf(path, sizeof path, "%s/shim.json", folder);
    if (flock(lock, LOCK_EX | LOCK_NB) || json_read(path)) { /* another one runs the pod, or has run it */
        answer(channel, STARTED, folder);
        _exit(0);
    }
    if (prctl(PR_SET_CHILD_SUBREAPER, 1)) fail("prctl");
    Buffer record = {0};
    put_format(&record, "{\"pid\":%d,\"start_ticks\":%lld,\"boot\":\"%s\"}", getpid(), start_ticks(getpid()), boot);
    write_record(path, &record);
    answer(channel, STARTED, folder);
    close(channel);
    run_pod(folder, plan);
}

static void reap(int channel, Child **children) {
    int status;
    for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;)
        for (Child **place = children; *place; place = &(*place)->next)
            if ((*place)->pid == pid) {
                Child *ended = *place;
                *place = ended->next;
                if (status) answer(channel, FAILED, ended->folder); /* if it had answered before, nobody waits */
                free(ended->folder);
                free(ended);
                break;
            }
}

int main(int count, char **words) {
    Child *children = NULL;
    sigset_t heard;
    char folder[LONGEST_MESSAGE + 1];
    title = words[0];
    title_room = words[count - 1] + strlen(words[count - 1]) + 1 - title;
    int channel = fcntl(0, F_DUPFD_CLOEXEC, 3), nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (channel < 0 || nothing < 0 || dup2(nothing, 0) < 0) fail("standard input");
    close(nothing);
    read_boot();
    for (int sign = 1; sign < NSIG; sign++) /* it ends with the agent, not before */
        if (sign == SIGINT || sign == SIGTERM || sign == SIGHUP || sign == SIGPIPE) signal(sign, SIG_IGN);
    signal(SIGCHLD, SIG_DFL);
    sigemptyset(&heard);
    sigaddset(&heard, SIGCHLD);
    sigprocmask(SIG_SETMASK, &heard, NULL);
    int signals = signalfd(-1, &heard, SFD_CLOEXEC | SFD_NONBLOCK);
    if (signals < 0) fail("signalfd");
    for (;;) {
        struct pollfd polled[] = {{channel, POLLIN, 0}, {signals, POLLIN, 0}};
        struct signalfd_siginfo sign;
        if (poll(polled, 2, -1) < 0 && errno != EINTR) fail("poll");
        while (read(signals, &sign, sizeof sign) == sizeof sign) continue;
        reap(channel, &children);
        if (!polled[0].revents) continue;
        ssize_t length = recv(channel, folder, LONGEST_MESSAGE, 0);
        if (length <= 0) return 0;
        folder[length] = 0;
        pid_t pid = fork();
        if (!pid) {
            close(signals);
            run_shim(channel, folder);
        }
        if (pid < 0) {
            answer(channel, FAILED, folder);
            continue;
        }
        Child *child = allocate(sizeof *child);
        *child = (Child){pid, strdup(folder), children};
        children = child;
    }
}
