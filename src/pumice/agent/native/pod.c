/* The life of a plain pod: its containers run together until all have ended; as pod_shim.py and container.py. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "shim.h"

#define START_ERROR 128
#define READ_BYTES (64 * 1024)
#define RING_SECONDS 0.01
#define AGAIN_SECONDS 0.1
#define FOREVER INFINITY

typedef struct Container {
    const Json *plan;
    const char *state, *reason;
    Buffer message;
    bool has_run;
    pid_t pid; /* 0: it does not run */
    pid_t first;
    int exit_code;
    long long ticks, oom_kills;
    char started[40], finished[40];
    double kill_at; /* 0: no such end is set */
    int pipes[2];
    Log log;
} Container;

typedef struct Pod {
    const char *folder;
    const Json *plan;
    Container *containers;
    int count, signals;
    bool stopping, changed, finished;
    const char *phase, *reason, *message;
    char started[40];
    double began, ring_at, deadline;
} Pod;

double monotonic(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec + now.tv_nsec / 1e9;
}

void put_now(char room[40]) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    snprintf(room, 40, "%lld.%09ld", (long long)now.tv_sec, now.tv_nsec);
}

static bool is_empty(const Json *object, const char *key) {
    const Json *found = json_get(object, key);
    return !found || found->kind == NOTHING || (found->kind == TEXT ? !*found->text : !found->first);
}

bool is_plain(const Json *plan) {
    if (strcmp(json_text(plan, "restart_policy"), "Never")) return false;
    for (const Json *each = json_get(plan, "containers")->first; each; each = each->next)
        if (json_get(each, "init")->kind != FALSE || !is_empty(each, "mounts") || !is_empty(each, "probes") ||
            !is_empty(each, "output") || !is_empty(each, "identity"))
            return false;
    return true;
}

/* ---- what is written down ---- */

static void save(Pod *pod) {
    Buffer record = {0};
    char path[PATH_ROOM];
    put_format(&record, "{\"phase\":\"%s\",\"reason\":\"%s\",\"message\":\"%s\",\"started\":%s,\"finished\":%s,\"containers\":[",
               pod->phase, pod->reason, pod->message, pod->started, pod->finished ? "true" : "false");
    for (Container *each = pod->containers; each < pod->containers + pod->count; each++) {
        bool waits = !strcmp(each->state, "waiting");
        put_format(&record, "%s{\"name\":", each > pod->containers ? "," : "");
        put_quoted(&record, json_text(each->plan, "name"));
        put_format(&record, ",\"init\":false,\"state\":\"%s\",\"reason\":\"%s\",\"message\":\"\",\"restarts\":0,\"ready\":%s,"
                   "\"last\":null,\"run\":", each->state, waits ? "PodInitializing" : "", each->pid ? "true" : "false");
        if (each->has_run) {
            put_format(&record, "{\"pid\":%d,\"start_ticks\":%lld,\"started\":%s,\"finished\":%s,\"exit_code\":%d,"
                       "\"reason\":\"%s\",\"message\":", each->first, each->ticks, each->started, each->finished,
                       each->exit_code, each->reason);
            put_quoted(&record, each->message.content ? each->message.content : "");
            put(&record, "}}", 2);
        } else {
            put(&record, "null}", 5);
        }
    }
    put(&record, "]}", 2);
    snprintf(path, sizeof path, "%s/state.json", pod->folder);
    write_record(path, &record);
    free(record.content);
    pod->changed = false;
}

/* Tell the agent that the state is new, through its folder, because paths of sockets are short. */
static void ring(Pod *pod) {
    const char *path = json_text(pod->plan, "notify"), *uid = json_text(pod->plan, "uid"), *base = strrchr(path, '/');
    struct sockaddr_un place = {.sun_family = AF_UNIX};
    char above[PATH_ROOM];
    if (pod->changed) save(pod);
    pod->ring_at = FOREVER;
    if (!base) return;
    snprintf(above, sizeof above, "%.*s", base == path ? 1 : (int)(base - path), path);
    int folder = open(above, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0) return;
    int bell = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int length = snprintf(place.sun_path, sizeof place.sun_path, "/proc/self/fd/%d%s", folder, base);
    if (bell >= 0 && length < (int)sizeof place.sun_path &&
        sendto(bell, uid, strlen(uid), 0, (struct sockaddr *)&place, sizeof place) < 0 && errno == EAGAIN)
        pod->ring_at = monotonic() + AGAIN_SECONDS; /* many shims speak at once */
    if (bell >= 0) close(bell);
    close(folder);
}

/* ---- containers ---- */

static long long oom_kills(const Container *container) {
    const char *path = json_text(container->plan, "oom_counter");
    char name[64];
    long long count, found = 0;
    FILE *file = *path ? fopen(path, "re") : NULL;
    if (!file) return 0;
    while (fscanf(file, "%63s %lld", name, &count) == 2)
        if (!strcmp(name, "oom_kill")) found = count;
    fclose(file);
    return found;
}

static void start(Pod *pod, Container *container) {
    const char *name = json_text(container->plan, "name");
    char path[PATH_ROOM];
    int ends[2][2];
    snprintf(path, sizeof path, "%s/logs", pod->folder);
    mkdir(path, 0700);
    snprintf(path, sizeof path, "%s/logs/%s", pod->folder, name);
    if (mkdir(path, 0700) && errno != EEXIST) fail(path);
    snprintf(path, sizeof path, "%s/logs/%s/0.log", pod->folder, name);
    log_open(&container->log, path, json_number(pod->plan, "log_bytes"), json_number(pod->plan, "log_files"));
    container->oom_kills = oom_kills(container);
    if (pipe2(ends[0], O_CLOEXEC) || pipe2(ends[1], O_CLOEXEC)) fail("pipe");
    Buffer trouble = {0};
    pid_t pid = start_process(container->plan, ends[0][1], ends[1][1], &trouble);
    for (int stream = 0; stream < 2; stream++) {
        close(ends[stream][1]);
        container->pipes[stream] = ends[stream][0];
        fcntl(ends[stream][0], F_SETFL, O_NONBLOCK);
    }
    container->has_run = pod->changed = true;
    put_now(container->started);
    if (!pid) {
        for (int stream = 0; stream < 2; stream++) {
            close(container->pipes[stream]);
            container->pipes[stream] = -1;
        }
        log_close(&container->log);
        strcpy(container->finished, container->started);
        container->exit_code = START_ERROR;
        container->state = "terminated";
        container->reason = "StartError";
        put_format(&container->message, "failed to start container: %s", trouble.content);
        return;
    }
    container->pid = container->first = pid;
    container->ticks = start_ticks(pid);
    container->state = "running";
}

/* Take a part of what is in a pipe; how many bytes. 0: there are none now, or it has ended. */
static ssize_t read_output(Container *container, int stream) {
    static char content[READ_BYTES];
    ssize_t length;
    while ((length = read(container->pipes[stream], content, sizeof content)) < 0)
        if (errno != EINTR) return 0;
    if (length) {
        log_write(&container->log, stream, content, length);
        return length;
    }
    close(container->pipes[stream]);
    container->pipes[stream] = -1;
    return 0;
}

typedef struct Place {
    Pod *pod;
    Container *container;
} Place;

static void find_leftovers(Pids *found, void *what) {
    Place *place = what;
    const Json *joined = json_get(place->container->plan, "joined")->first;
    if (joined) {
        char folder[PATH_ROOM];
        snprintf(folder, sizeof folder, "%.*s", (int)(strrchr(joined->text, '/') - joined->text), joined->text);
        add_cgroup(found, folder);
    } else if (has_children()) {
        add_marked(found, json_text(place->pod->plan, "uid"), json_text(place->container->plan, "name"));
    }
}

/* Kill what the container has started and left behind. */
static void end_leftovers(Pod *pod, Container *container) {
    kill_all(find_leftovers, &(Place){pod, container}, NULL, NULL);
}

static void note_exit(Pod *pod, Container *container, int status) {
    int code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    end_leftovers(pod, container);
    for (int stream = 0; stream < 2; stream++) {
        /* No process of the container is there to write more, but others may be: what is beyond the size of the pipe
         * was written after their end. */
        ssize_t left = container->pipes[stream] >= 0 ? fcntl(container->pipes[stream], F_GETPIPE_SZ) : 0, taken;
        while (left > 0 && (taken = read_output(container, stream))) left -= taken;
        if (container->pipes[stream] >= 0) close(container->pipes[stream]);
        container->pipes[stream] = -1;
    }
    log_close(&container->log);
    bool killed = oom_kills(container) > container->oom_kills;
    put_now(container->finished);
    container->exit_code = code;
    container->reason = killed && code ? "OOMKilled" : code ? "Error" : "Completed";
    container->state = "terminated";
    container->pid = 0;
    container->kill_at = 0;
    pod->changed = true;
}

/* Take the ends of processes: of containers, and of orphans. */
static void reap(void *whose) {
    Pod *pod = whose;
    int status;
    for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;)
        for (Container *each = pod->containers; each < pod->containers + pod->count; each++)
            if (each->pid == pid) {
                note_exit(pod, each, status);
                break;
            }
}

/* ---- steps ---- */

static void stop(Pod *pod, double grace) {
    double due = monotonic() + grace;
    pod->stopping = pod->changed = true;
    for (Container *each = pod->containers; each < pod->containers + pod->count; each++) {
        if (!each->pid) continue;
        if (!each->kill_at) kill(-each->pid, SIGTERM);
        each->kill_at = each->kill_at ? fmin(each->kill_at, due) : due;
    }
}

/* Begin to end the pod if the agent has asked for it; a later request may only be more urgent. */
static void read_stop(Pod *pod) {
    char path[PATH_ROOM];
    snprintf(path, sizeof path, "%s/stop.json", pod->folder);
    Json *asked = json_read(path);
    if (asked) stop(pod, json_number(asked, "grace"));
}

static void find_left(Pids *found, void *what) {
    Pod *pod = what;
    if (has_children()) add_descendants(found);
    for (const Json *each = json_get(pod->plan, "cgroups")->first; each; each = each->next) add_cgroup(found, each->text);
}

static void advance(Pod *pod) {
    double now = monotonic();
    bool over = true, good;
    if (pod->deadline > 0 && !pod->stopping && now - pod->began >= pod->deadline) {
        pod->reason = "DeadlineExceeded";
        pod->message = "Pod was active on the node longer than the specified deadline";
        stop(pod, json_number(pod->plan, "grace"));
    }
    for (Container *each = pod->containers; each < pod->containers + pod->count; each++)
        if (each->kill_at && now >= each->kill_at && each->pid) {
            kill(-each->pid, SIGKILL);
            end_leftovers(pod, each);
            reap(pod);
        }
    for (Container *each = pod->containers; !pod->stopping && each < pod->containers + pod->count; each++)
        if (!each->has_run) start(pod, each);
    if (!pod->stopping && !strcmp(pod->phase, "Pending")) {
        pod->phase = "Running";
        pod->changed = true;
    }
    for (Container *each = pod->containers; each < pod->containers + pod->count; each++)
        over &= !each->pid && (each->has_run || pod->stopping);
    if (!over) return;
    kill_all(find_left, pod, reap, pod);
    reap(pod);
    good = !*pod->reason;
    for (Container *each = pod->containers; each < pod->containers + pod->count; each++)
        good &= each->has_run && !each->exit_code;
    pod->phase = good ? "Succeeded" : "Failed";
    pod->finished = pod->changed = true;
}

static void remove_cgroups(const Json *folders) {
    static const long pauses[] = {0, 10, 50, 0}; /* the kernel may still be busy with processes that have just ended */
    for (const Json *each = folders->first; each; each = each->next)
        for (int i = 0; i < 4 && rmdir(each->text) && errno != ENOENT; i++)
            nanosleep(&(struct timespec){0, pauses[i] * 1000000}, NULL);
}

static void end(Pod *pod) {
    char path[PATH_ROOM];
    ring(pod);
    snprintf(path, sizeof path, "%s/state.json", pod->folder);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0 || fsync(file)) fail(path);
    remove_cgroups(json_get(pod->plan, "cgroups"));
    _exit(0);
}

/* Wait for output, signals, or what is due next. */
static void wait_for_more(Pod *pod) {
    struct pollfd *polled = allocate((1 + 2 * pod->count) * sizeof *polled);
    Container *whose = pod->containers;
    double due = pod->ring_at, left;
    int number = 0;
    polled[number++] = (struct pollfd){pod->signals, POLLIN, 0};
    for (int i = 0; i < 2 * pod->count; i++) polled[number++] = (struct pollfd){whose[i / 2].pipes[i % 2], POLLIN, 0};
    for (int i = 0; i < pod->count; i++)
        if (whose[i].kill_at) due = fmin(due, whose[i].kill_at);
    if (pod->deadline > 0 && !pod->stopping) due = fmin(due, pod->began + pod->deadline);
    left = fmin(1e6, fmax(0, ceil(1000 * (due - monotonic()))));
    if (poll(polled, number, due == FOREVER ? -1 : (int)left) > 0) {
        for (int i = 0; i < 2 * pod->count; i++)
            if (polled[i + 1].revents) read_output(&whose[i / 2], i % 2);
        struct signalfd_siginfo heard;
        while (polled[0].revents && read(pod->signals, &heard, sizeof heard) == sizeof heard)
            if (heard.ssi_signo == SIGTERM) read_stop(pod);
    }
    free(polled);
}

void run_pod(const char *folder, const Json *plan) {
    Pod pod = {.folder = folder, .plan = plan, .phase = "Pending", .reason = "", .message = ""};
    sigset_t heard;
    pod.count = json_count(json_get(plan, "containers"));
    pod.containers = allocate(pod.count * sizeof(Container));
    Container *next = pod.containers;
    for (const Json *each = json_get(plan, "containers")->first; each; each = each->next, next++)
        *next = (Container){.plan = each, .state = "waiting", .reason = "", .finished = "0.0", .pipes = {-1, -1}};
    pod.began = monotonic();
    pod.ring_at = FOREVER;
    pod.deadline = json_number(plan, "deadline");
    pod.changed = true;
    put_now(pod.started);
    sigemptyset(&heard);
    sigaddset(&heard, SIGCHLD);
    sigaddset(&heard, SIGTERM);
    sigprocmask(SIG_SETMASK, &heard, NULL);
    pod.signals = signalfd(-1, &heard, SFD_CLOEXEC | SFD_NONBLOCK);
    if (pod.signals < 0) fail("signalfd");
    for (int sign = 1; sign < NSIG; sign++)
        if (sign == SIGTERM) signal(sign, SIG_DFL);
        else if (sign == SIGINT || sign == SIGHUP || sign == SIGPIPE || sign == SIGXFSZ) signal(sign, SIG_IGN);
    read_stop(&pod);
    for (;;) {
        advance(&pod);
        if (pod.changed) pod.ring_at = fmin(pod.ring_at, monotonic() + RING_SECONDS);
        if (pod.finished) end(&pod);
        if (monotonic() >= pod.ring_at) ring(&pod);
        wait_for_more(&pod);
        reap(&pod);
    }
}
