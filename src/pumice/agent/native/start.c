/* Starts the process of a container: in its cgroups, its folder and a session of its own, as process_start.py does.
 *
 * The child reports the step that failed through a pipe that closes when the program is executed.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shim.h"

static void give_up_saying(int said, const char *command, const char *why) {
    Buffer text = {0};
    put_format(&text, "exec: \"%s\": %s", command, why);
    if (write(said, text.content, text.length) < 0) _exit(126);
    _exit(127);
}

static void give_up(int said, const char *command, const char *path) {
    Buffer text = {0};
    if (errno == ENOEXEC) give_up_saying(said, command, "not a program; a script begins with a line such as #!/bin/sh");
    put_format(&text, "exec: \"%s\": [Errno %d] %s", command, errno, strerror(errno));
    if (path) put_format(&text, ": '%s'", path);
    if (write(said, text.content, text.length) < 0) _exit(126);
    _exit(127);
}

/* Execute the program at its path, or the first of this name in the PATH of its environment. */
static void execute(int said, char **command, char **environment, const char *searched) {
    const char *name = command[0];
    if (strchr(name, '/')) {
        execve(name, command, environment);
        if (errno == ENOENT) give_up_saying(said, name, "executable file not found in $PATH");
        give_up(said, name, name);
    }
    int kept = 0;
    Buffer place = {0}, failed = {0};
    for (const char *at = searched;; at++) {
        size_t length = strcspn(at, ":");
        place.length = 0;
        put(&place, at, length);
        put_format(&place, "%s%s", length ? "/" : "", name);
        execve(place.content, command, environment);
        if (errno != ENOENT && errno != ENOTDIR && !kept) {
            kept = errno;
            put(&failed, place.content, place.length);
        }
        at += length;
        if (!*at) break;
    }
    if (!kept) give_up_saying(said, name, "executable file not found in $PATH");
    errno = kept;
    give_up(said, name, failed.content);
}

static void become(const Json *plan, int output, int errors, pid_t parent, int said) {
    Json *words = json_get(plan, "command"), *variables = json_get(plan, "environment");
    char **command = allocate((json_count(words) + 1) * sizeof(char *));
    char **environment = allocate((json_count(variables) + 1) * sizeof(char *));
    const char *searched = "/bin:/usr/bin";
    int count = 0;
    for (Json *each = words->first; each; each = each->next) command[count++] = each->text;
    count = 0;
    for (Json *each = variables->first; each; each = each->next) {
        Buffer text = {0};
        put_format(&text, "%s=%s", each->key, each->text);
        environment[count++] = text.content;
        if (!strcmp(each->key, "PATH")) searched = each->text;
    }
    setsid();
    for (Json *each = json_get(plan, "joined")->first; each; each = each->next) {
        int file = open(each->text, O_WRONLY | O_CLOEXEC);
        if (file < 0) give_up(said, command[0], each->text);
        if (write(file, "0", 1) != 1) give_up(said, command[0], NULL);
        close(file);
    }
    rlim_t most = json_number(plan, "data_limit");
    if (most && setrlimit(RLIMIT_DATA, &(struct rlimit){most, most})) give_up(said, command[0], NULL);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) give_up_saying(said, command[0], "the shim has ended");
    if (chdir(json_text(plan, "folder"))) give_up(said, command[0], json_text(plan, "folder"));
    int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (nothing < 0 || dup2(nothing, 0) < 0 || dup2(output, 1) < 0 || dup2(errors, 2) < 0)
        give_up(said, command[0], NULL);
    for (int sign = 1; sign < NSIG; sign++) signal(sign, SIG_DFL); /* also what the agent's parent ignored */
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    execute(said, command, environment, searched);
}

pid_t start_process(const Json *plan, int output, int errors, Buffer *trouble) {
    int report[2];
    pid_t parent = getpid();
    if (pipe2(report, O_CLOEXEC)) fail("pipe");
    pid_t pid = fork();
    if (pid < 0) {
        put_format(trouble, "[Errno %d] %s", errno, strerror(errno));
        close(report[0]);
        close(report[1]);
        return 0;
    }
    if (!pid) {
        close(report[0]);
        become(plan, output, errors, parent, report[1]);
        _exit(127);
    }
    close(report[1]);
    char part[4096];
    ssize_t length;
    while ((length = read(report[0], part, sizeof part)) > 0 || (length < 0 && errno == EINTR))
        if (length > 0) put(trouble, part, length);
    close(report[0]);
    if (!trouble->length) return pid;
    waitpid(pid, NULL, 0);
    return 0;
}
