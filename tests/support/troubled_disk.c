/* A disk in trouble, for a process that loads this library first: the file that TROUBLED_DISK names has a folder and
   the number of an error. Below that folder nothing is changed then: each call that would change something fails so. A
   full disk (ENOSPC) takes nothing new, but removes and renames.
 */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define NEXT(type, name, ...)                                                                                          \
    type (*next)(__VA_ARGS__);                                                                                         \
    *(void **)(&next) = dlsym(RTLD_NEXT, name)

/* Returns the error of a path below the folder in trouble, or 0. */
static int trouble_of(const char *path) {
    const char *name = getenv("TROUBLED_DISK");
    char text[4096] = {0};
    int file = name ? (int)syscall(SYS_openat, AT_FDCWD, name, O_RDONLY | O_CLOEXEC, 0) : -1;
    if (file < 0) {
        return 0;
    }
    ssize_t length = syscall(SYS_read, file, text, sizeof text - 1);
    syscall(SYS_close, file);
    char *number = length > 0 ? strchr(text, '\n') : NULL;
    if (!number) {
        return 0;
    }
    *number++ = 0;
    size_t prefix = strlen(text);
    int is_below = strncmp(path, text, prefix) == 0 && (path[prefix] == 0 || path[prefix] == '/');
    return is_below ? atoi(number) : 0;
}

static int trouble_at(int folder, const char *path) {
    char whole[8192], link[64];
    if (path[0] == '/') {
        return trouble_of(path);
    }
    if (folder == AT_FDCWD) {
        if (!getcwd(whole, 4096)) {
            return 0;
        }
    } else {
        snprintf(link, sizeof link, "/proc/self/fd/%d", folder);
        ssize_t length = readlink(link, whole, 4095);
        if (length < 0) {
            return 0;
        }
        whole[length] = 0;
    }
    strcat(whole, "/");
    strncat(whole, path, 4000);
    return trouble_of(whole);
}

static int trouble_in(int file) {
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length <= 0) {
        return 0;
    }
    path[length] = 0;
    return trouble_of(path);
}

static int fails(int error) {
    if (error) {
        errno = error;
    }
    return error;
}

static int opening(int folder, const char *path, int flags) {
    if (!(flags & (O_WRONLY | O_RDWR | O_CREAT))) {
        return 0;
    }
    int error = trouble_at(folder, path);
    int is_new = (flags & O_CREAT) && faccessat(folder, path, F_OK, 0) != 0;
    return error == ENOSPC && !is_new ? 0 : error;
}

static int opened(int folder, const char *path, int flags, va_list more) {
    mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(more, mode_t) : 0;
    if (fails(opening(folder, path, flags))) {
        return -1;
    }
    return (int)syscall(SYS_openat, folder, path, flags, mode);
}

#define OPEN(name)                                                                                                     \
    int name(const char *path, int flags, ...) {                                                                       \
        va_list more;                                                                                                  \
        va_start(more, flags);                                                                                         \
        int file = opened(AT_FDCWD, path, flags, more);                                                                \
        va_end(more);                                                                                                  \
        return file;                                                                                                   \
    }
#define OPENAT(name)                                                                                                   \
    int name(int folder, const char *path, int flags, ...) {                                                           \
        va_list more;                                                                                                  \
        va_start(more, flags);                                                                                         \
        int file = opened(folder, path, flags, more);                                                                  \
        va_end(more);                                                                                                  \
        return file;                                                                                                   \
    }

OPEN(open)
OPEN(open64)
OPENAT(openat)
OPENAT(openat64)

ssize_t write(int file, const void *bytes, size_t count) {
    return fails(trouble_in(file)) ? -1 : syscall(SYS_write, file, bytes, count);
}

ssize_t writev(int file, const struct iovec *parts, int count) {
    return fails(trouble_in(file)) ? -1 : syscall(SYS_writev, file, parts, count);
}

ssize_t pwrite(int file, const void *bytes, size_t count, off_t offset) {
    return fails(trouble_in(file)) ? -1 : syscall(SYS_pwrite64, file, bytes, count, offset);
}

ssize_t pwrite64(int file, const void *bytes, size_t count, off64_t offset) {
    return fails(trouble_in(file)) ? -1 : syscall(SYS_pwrite64, file, bytes, count, offset);
}

int ftruncate(int file, off_t length) {
    return fails(trouble_in(file)) ? -1 : (int)syscall(SYS_ftruncate, file, length);
}

int ftruncate64(int file, off64_t length) {
    return fails(trouble_in(file)) ? -1 : (int)syscall(SYS_ftruncate, file, length);
}

static int syncs(const char *name, int file) {
    NEXT(int, name, int);
    int error = trouble_in(file);
    return fails(error == ENOSPC || error == EROFS ? 0 : error) ? -1 : next(file);
}

int fsync(int file) { return syncs("fsync", file); }

int fdatasync(int file) { return syncs("fdatasync", file); }

int mkdir(const char *path, mode_t mode) {
    NEXT(int, "mkdir", const char *, mode_t);
    return fails(faccessat(AT_FDCWD, path, F_OK, 0) == 0 ? 0 : trouble_at(AT_FDCWD, path)) ? -1 : next(path, mode);
}

int linkat(int from, const char *old, int to, const char *new, int flags) {
    NEXT(int, "linkat", int, const char *, int, const char *, int);
    return fails(trouble_at(to, new)) ? -1 : next(from, old, to, new, flags);
}

/* A full disk does this. */
static int frees(int error) { return error == ENOSPC ? 0 : error; }

int rename(const char *old, const char *new) {
    NEXT(int, "rename", const char *, const char *);
    return fails(frees(trouble_at(AT_FDCWD, new))) ? -1 : next(old, new);
}

int unlink(const char *path) {
    NEXT(int, "unlink", const char *);
    return fails(frees(trouble_at(AT_FDCWD, path))) ? -1 : next(path);
}

int unlinkat(int folder, const char *path, int flags) {
    NEXT(int, "unlinkat", int, const char *, int);
    return fails(frees(trouble_at(folder, path))) ? -1 : next(folder, path, flags);
}

int rmdir(const char *path) {
    NEXT(int, "rmdir", const char *);
    return fails(frees(trouble_at(AT_FDCWD, path))) ? -1 : next(path);
}
