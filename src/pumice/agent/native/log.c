/* The log of a container, as log_writer.py writes it: `TIME STREAM F LINE`, P for a part of a line that goes on. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "shim.h"

#define LONGEST_PART (16 * 1024)
#define NANOSECONDS 1000000000LL

static void open_file(Log *log) {
    log->size = 0;
    log->file = open(log->path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (log->file < 0) fail(log->path);
}

void log_open(Log *log, const char *path, long long most_bytes, int most_files) {
    memset(log, 0, sizeof *log);
    snprintf(log->path, sizeof log->path, "%s", path);
    log->most_bytes = most_bytes;
    log->most_files = most_files;
    open_file(log);
}

static void rotate(Log *log) {
    char old[PATH_ROOM + 16], older[PATH_ROOM + 16];
    close(log->file);
    snprintf(old, sizeof old, "%s.%d", log->path, log->most_files - 1);
    unlink(old);
    for (int number = log->most_files - 2; number > 0; number--) {
        snprintf(old, sizeof old, "%s.%d", log->path, number);
        snprintf(older, sizeof older, "%s.%d", log->path, number + 1);
        rename(old, older);
    }
    snprintf(old, sizeof old, "%s.1", log->path);
    if (log->most_files > 1) rename(log->path, old);
    else unlink(log->path);
    open_file(log);
}

/* A full disk must not stop the pod; its output is lost. */
static void append(Log *log, Buffer *parts) {
    if (parts->length) {
        if (log->size && log->size + (long long)parts->length > log->most_bytes) rotate(log);
        ssize_t written = write(log->file, parts->content, parts->length);
        if (written > 0) log->size += written;
    }
    parts->length = 0;
}

/* Add a line to those that are written together, as many as a file still takes. No two lines have the same time. */
static void add_part(Log *log, Buffer *parts, int stream, char tag, const char *text, size_t length) {
    struct timespec now;
    struct tm parted;
    char head[64], second[32];
    clock_gettime(CLOCK_REALTIME, &now);
    long long moment = now.tv_sec * NANOSECONDS + now.tv_nsec;
    log->moment = moment > log->moment ? moment : log->moment + 1;
    time_t seconds = log->moment / NANOSECONDS;
    strftime(second, sizeof second, "%Y-%m-%dT%H:%M:%S", gmtime_r(&seconds, &parted));
    int begun = snprintf(head, sizeof head, "%s.%09lldZ %s %c ", second, log->moment % NANOSECONDS,
                         stream ? "stderr" : "stdout", tag);
    if (parts->length && log->size + (long long)(parts->length + begun + length + 1) > log->most_bytes) append(log, parts);
    put(parts, head, begun);
    put(parts, text, length);
    put(parts, "\n", 1);
}

void log_write(Log *log, int stream, const char *content, size_t length) {
    Buffer *begun = &log->begun[stream], parts = {0};
    put(begun, content, length);
    char *line = begun->content, *end = begun->content + begun->length, *next;
    while ((next = memchr(line, '\n', end - line))) {
        while (next - line > LONGEST_PART) {
            add_part(log, &parts, stream, 'P', line, LONGEST_PART);
            line += LONGEST_PART;
        }
        add_part(log, &parts, stream, 'F', line, next - line);
        line = next + 1;
    }
    while (end - line >= LONGEST_PART) {
        add_part(log, &parts, stream, 'P', line, LONGEST_PART);
        line += LONGEST_PART;
    }
    begun->length = end - line;
    memmove(begun->content, line, begun->length);
    append(log, &parts);
    free(parts.content);
}

void log_close(Log *log) {
    for (int stream = 0; stream < 2; stream++) {
        Buffer *begun = &log->begun[stream], parts = {0};
        if (begun->length) {
            add_part(log, &parts, stream, 'P', begun->content, begun->length);
            append(log, &parts);
        }
        free(parts.content);
        free(begun->content);
    }
    close(log->file);
}
