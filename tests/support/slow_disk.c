/* A disk that is slow, for a process that loads this library first: each fsync takes as many milliseconds longer as the
   file that SLOW_DISK names says.
 */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
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

static int call(const char *name, int file) {
    int (*next)(int);
    *(void **)(&next) = dlsym(RTLD_NEXT, name);
    wait_for_disk();
    return next(file);
}

int fsync(int file) { return call("fsync", file); }

int fdatasync(int file) { return call("fdatasync", file); }
