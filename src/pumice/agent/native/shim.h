/* The shim of plain pods, compiled: what pumice/agent/shim does in Python, for pods that need the least of it.
 *
 * It runs pods of which no container is started again, probed, mounted into or run as another user, and that have no
 * init containers. For all others the server answers '?', and the agent asks the server in Python. Files, words and
 * messages are the same; the tests of the shim run on both.
 */
#ifndef PUMICE_SHIM_H
#define PUMICE_SHIM_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#define PATH_ROOM 4400

/* ---- json.c: reading plans, writing records ---- */

typedef enum { NOTHING, TRUE, FALSE, NUMBER, TEXT, LIST, OBJECT } Kind;

typedef struct Json {
    Kind kind;
    char *key;
    char *text; /* of a TEXT; what is not UTF-8 is the bytes that Python wrote as surrogates */
    double number;
    struct Json *first, *next;
} Json;

typedef struct Buffer {
    char *content;
    size_t length, room;
} Buffer;

Json *json_read(const char *path); /* NULL: there is none, or only half of it */
Json *json_get(const Json *object, const char *key);
const char *json_text(const Json *object, const char *key);
double json_number(const Json *object, const char *key);
int json_count(const Json *list);
void put(Buffer *buffer, const void *content, size_t length);
void put_format(Buffer *buffer, const char *format, ...) __attribute__((format(printf, 2, 3)));
void put_quoted(Buffer *buffer, const char *text);
void write_record(const char *path, const Buffer *content);
void *allocate(size_t size);
extern char log_path[PATH_ROOM]; /* of the shim, which has the file only if it fails; empty in the server */
void fail(const char *what) __attribute__((noreturn)); /* ends this process with a line in its log */

/* ---- processes.c: who is whose child, and how all of a pod are ended ---- */

typedef struct Pids {
    pid_t *each;
    int count, room;
} Pids;

long long start_ticks(pid_t pid); /* 0: there is none, or only its exit code is left */
bool has_children(void);
void add_descendants(Pids *found);
void add_marked(Pids *found, const char *uid, const char *container);
void add_cgroup(Pids *found, const char *folder);
void kill_all(void (*find)(Pids *, void *), void *what, void (*reap)(void *), void *whose);

/* ---- log.c: the log of a container ---- */

typedef struct Log {
    char path[PATH_ROOM];
    long long most_bytes, size, moment;
    int most_files, file;
    Buffer begun[2];
} Log;

void log_open(Log *log, const char *path, long long most_bytes, int most_files);
void log_write(Log *log, int stream, const char *content, size_t length);
void log_close(Log *log);

/* ---- start.c: the process of a container ---- */

pid_t start_process(const Json *plan, int output, int errors, Buffer *trouble);

/* ---- pod.c: the life of a pod ---- */

bool is_plain(const Json *plan);
void run_pod(const char *folder, const Json *plan) __attribute__((noreturn));

double monotonic(void);
void put_now(char room[40]); /* seconds since 1970, as a number of JSON */

#endif
