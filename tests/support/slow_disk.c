/* A disk that is slow, or whose syncs are counted, for a process that loads this library first: each fsync takes as
   many milliseconds longer as the file that SLOW_DISK names says, and the file that COUNTED_SYNCS names gets a line for
   each, with the path of what was synced.
 */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static void wait_for_disk(void) {
    const char *name = getenv("SLOW_DISK");
    char text[32] = {0};
    int file = name ? open(name, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0) {
        return;
    }
    ssize_t length = read(file, text, sizeof text - 1);
    close(file);
    long millis = length > 0 ? strtol(text, NULL, 10) : 0;
    struct timespec pause = {millis / 1000, millis % 1000 * 1000000};
    nanosleep(&pause, NULL);
}

static void count_sync(int synced) {
    const char *name = getenv("COUNTED_SYNCS");
    char link[64], path[4096];
    int file = name ? open(name, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600) : -1;
    if (file < 0) {
        return;
    }
    snprintf(link, sizeof link, "/proc/self/fd/%d", synced);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length > 0) {
        path[length] = '\n';
        /* One write, so that no two lines mix. */
        if (write(file, path, (size_t)length + 1) < 0) {
            abort();
        }
    }
    close(file);
}

static int call(const char *name, int file) {
    int (*next)(int);
    *(void **)(&next) = dlsym(RTLD_NEXT, name);
    count_sync(file);
    wait_for_disk();
    return next(file);
}

int fsync(int file) { return call("fsync", file); }

int fdatasync(int file) { return call("fdatasync", file); }
