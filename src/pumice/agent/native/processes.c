/* Processes of this machine, as process_table.py knows them. */
#define _GNU_SOURCE
#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "shim.h"

#define KILL_SECONDS 10.0
#define PAUSE_NANOSECONDS 5000000

static void add(Pids *found, pid_t pid) {
    for (int i = 0; i < found->count; i++)
        if (found->each[i] == pid) return;
    if (found->count == found->room) {
        found->room = found->room ? 2 * found->room : 64;
        found->each = realloc(found->each, found->room * sizeof(pid_t));
        if (!found->each) fail("memory");
    }
    found->each[found->count++] = pid;
}

/* State, parent and start of a process; false: there is none. The name before them may contain anything. */
static bool read_stat(pid_t pid, char *state, pid_t *parent, long long *ticks) {
    char path[64], content[2048];
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) return false;
    ssize_t length = read(file, content, sizeof content - 1);
    close(file);
    if (length <= 0) return false;
    content[length] = 0;
    char *at = strrchr(content, ')');
    return at && sscanf(at + 1, " %c %d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %lld",
                        state, parent, ticks) == 3;
}

long long start_ticks(pid_t pid) {
    char state;
    pid_t parent;
    long long ticks;
    return read_stat(pid, &state, &parent, &ticks) && state != 'Z' && state != 'X' ? ticks : 0;
}

bool has_children(void) {
    siginfo_t found;
    return waitid(P_ALL, 0, &found, WEXITED | WNOHANG | WNOWAIT) == 0;
}

static Pids all_pids(void) {
    Pids found = {0};
    DIR *folder = opendir("/proc");
    if (!folder) fail("/proc");
    for (struct dirent *entry; (entry = readdir(folder));)
        if (isdigit((unsigned char)entry->d_name[0])) add(&found, atoi(entry->d_name));
    closedir(folder);
    return found;
}

void add_descendants(Pids *found) {
    Pids pids = all_pids(), below = {0};
    pid_t *parents = allocate(pids.count * sizeof(pid_t));
    for (int i = 0; i < pids.count; i++) {
        char state;
        long long ticks;
        if (!read_stat(pids.each[i], &state, &parents[i], &ticks) || state == 'Z' || state == 'X') parents[i] = -1;
    }
    add(&below, getpid());
    for (int k = 0; k < below.count; k++)
        for (int i = 0; i < pids.count; i++)
            if (parents[i] == below.each[k]) add(&below, pids.each[i]);
    for (int k = 1; k < below.count; k++) add(found, below.each[k]);
    free(parents);
    free(pids.each);
    free(below.each);
}

static bool has_word(const Buffer *words, const char *word) {
    for (size_t at = 0; at < words->length; at += strlen(words->content + at) + 1)
        if (!strcmp(words->content + at, word)) return true;
    return false;
}

/* Those of the descendants whose environment names the container. */
void add_marked(Pids *found, const char *uid, const char *container) {
    Pids below = {0};
    Buffer pod = {0}, part = {0};
    put_format(&pod, "PUMICE_POD_UID=%s", uid);
    put_format(&part, "PUMICE_CONTAINER=%s", container);
    add_descendants(&below);
    for (int i = 0; i < below.count; i++) {
        char path[64], content[16384];
        Buffer words = {0};
        ssize_t length;
        snprintf(path, sizeof path, "/proc/%d/environ", below.each[i]);
        int file = open(path, O_RDONLY | O_CLOEXEC);
        if (file < 0) continue;
        put(&words, "", 0);
        while ((length = read(file, content, sizeof content)) > 0) put(&words, content, length);
        close(file);
        if (has_word(&words, pod.content) && has_word(&words, part.content) && start_ticks(below.each[i]))
            add(found, below.each[i]);
        free(words.content);
    }
    free(below.each);
    free(pod.content);
    free(part.content);
}

void add_cgroup(Pids *found, const char *folder) {
    char path[PATH_ROOM + 16];
    snprintf(path, sizeof path, "%s/cgroup.procs", folder);
    FILE *file = fopen(path, "re");
    if (!file) return;
    int pid;
    while (fscanf(file, "%d", &pid) == 1)
        if (pid != getpid() && start_ticks(pid)) add(found, pid);
    fclose(file);
}

/* Kill the processes that `find` finds, until it finds none. They are stopped first: what is stopped cannot fork. */
void kill_all(void (*find)(Pids *, void *), void *what, void (*reap)(void *), void *whose) {
    double until = monotonic() + KILL_SECONDS;
    for (;;) {
        Pids found = {0};
        find(&found, what);
        int count = found.count;
        for (int i = 0; i < count; i++) kill(found.each[i], SIGSTOP);
        for (int i = 0; i < count; i++) kill(found.each[i], SIGKILL);
        free(found.each);
        if (!count) return;
        if (reap) reap(whose);
        if (monotonic() > until) return;
        nanosleep(&(struct timespec){0, PAUSE_NANOSECONDS}, NULL);
    }
}
