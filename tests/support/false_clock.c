/* Clocks that a test sets, for a process that loads this library first. The
   file that FALSE_CLOCK names has three numbers: the seconds by which the time
   of day is ahead, the seconds for which the machine was paused, and the
   seconds by which all clocks are ahead. A pause is one event: the time of day
   and CLOCK_BOOTTIME go on meanwhile, CLOCK_MONOTONIC stands still. It
   allocates nothing: allocators ask for the time. The kernel knows nothing of
   it: what a thread that sleeps tells it of CLOCK_MONOTONIC is put right.
 */

#define _GNU_SOURCE
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

struct clocks {
    long ahead;
    long paused;
    long all_ahead;
};

static struct clocks read_clocks(void) {
    struct clocks clocks = {0, 0, 0};
    const char *name = getenv("FALSE_CLOCK");
    char text[64] = {0};
    int file = name ? open(name, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0) {
        return clocks;
    }
    ssize_t length = read(file, text, sizeof text - 1);
    close(file);
    if (length > 0) {
        char *rest = text;
        clocks.ahead = strtol(text, &rest, 10);
        clocks.paused = strtol(rest, &rest, 10);
        clocks.all_ahead = strtol(rest, NULL, 10);
    }
    return clocks;
}

#ifdef __x86_64__
static long ask_kernel(long number, long a, long b, long c, long d, long e, long f) {
    long answer;
    register long fourth __asm__("r10") = d;
    register long fifth __asm__("r8") = e;
    register long sixth __asm__("r9") = f;
    __asm__ volatile("syscall"
                     : "=a"(answer)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(fourth), "r"(fifth), "r"(sixth)
                     : "rcx", "r11", "memory");
    return answer;
}

/* Only a wait for a bit set names the moment at which it ends. */
static int ends_at_moment(long number, long operation) {
    int is_monotonic = !(operation & FUTEX_CLOCK_REALTIME);
    return number == SYS_futex && is_monotonic && (operation & FUTEX_CMD_MASK) == FUTEX_WAIT_BITSET;
}

long syscall(long number, ...) {
    va_list rest;
    va_start(rest, number);
    long a = va_arg(rest, long), b = va_arg(rest, long), c = va_arg(rest, long);
    long d = va_arg(rest, long), e = va_arg(rest, long), f = va_arg(rest, long);
    va_end(rest);
    struct timespec until;
    if (d && ends_at_moment(number, b)) {
        until = *(const struct timespec *)d;
        until.tv_sec -= read_clocks().all_ahead;
        until.tv_sec = until.tv_sec < 0 ? 0 : until.tv_sec;
        d = (long)&until;
    }
    long answer = ask_kernel(number, a, b, c, d, e, f);
    if (answer < 0 && answer > -4096) {
        errno = (int)-answer;
        return -1;
    }
    return answer;
}
#endif

int clock_gettime(clockid_t clock, struct timespec *now) {
    int failed = (int)syscall(SYS_clock_gettime, clock, now);
    if (!failed && (clock == CLOCK_REALTIME || clock == CLOCK_BOOTTIME || clock == CLOCK_MONOTONIC)) {
        struct clocks clocks = read_clocks();
        now->tv_sec += clocks.all_ahead + (clock == CLOCK_MONOTONIC ? 0 : clocks.paused);
        now->tv_sec += clock == CLOCK_REALTIME ? clocks.ahead : 0;
    }
    return failed;
}

#ifdef __x86_64__
/* The kernel's own library (vDSO), which programs ask for the time without this
 * one. */
struct vdso {
    uintptr_t base;
    size_t size;
    const Elf64_Sym *symbols;
    const char *names;
};

static struct vdso find_vdso(void) {
    struct vdso found = {getauxval(AT_SYSINFO_EHDR), 0, NULL, NULL};
    const Elf64_Ehdr *head = (const void *)found.base;
    const Elf64_Dyn *entry = NULL;
    uintptr_t shift = 0;
    for (int at = 0; head && at < head->e_phnum; at++) {
        const Elf64_Phdr *part = (const Elf64_Phdr *)(found.base + head->e_phoff) + at;
        if (part->p_type == PT_LOAD) {
            shift = found.base + part->p_offset - part->p_vaddr;
            found.size = part->p_offset + part->p_memsz;
        } else if (part->p_type == PT_DYNAMIC) {
            entry = (const void *)(found.base + part->p_offset);
        }
    }
    for (; entry && entry->d_tag != DT_NULL; entry++) {
        if (entry->d_tag == DT_SYMTAB) {
            found.symbols = (const void *)(shift + entry->d_un.d_ptr);
        } else if (entry->d_tag == DT_STRTAB) {
            found.names = (const void *)(shift + entry->d_un.d_ptr);
        }
    }
    return found;
}

/* Puts a copy of the vDSO in its place, whose function jumps to the one here:
 * its own pages cannot be written. */
__attribute__((constructor)) static void replace_in_vdso(void) {
    struct vdso vdso = find_vdso();
    if (!getenv("FALSE_PAUSES") || !vdso.symbols || !vdso.names) {
        return;
    }
    size_t page = (size_t)sysconf(_SC_PAGESIZE), size = (vdso.size + page - 1) & ~(page - 1);
    int all = PROT_READ | PROT_WRITE | PROT_EXEC;
    unsigned char *copy = mmap(NULL, size, all, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (copy == MAP_FAILED) {
        return;
    }
    memcpy(copy, (const void *)vdso.base, size);
    /* The symbols stand right before their names. */
    for (const Elf64_Sym *one = vdso.symbols; (uintptr_t)(one + 1) <= (uintptr_t)vdso.names; one++) {
        if (strcmp(vdso.names + one->st_name, "__vdso_clock_gettime") == 0) {
            /* mov rax, here; jmp rax */
            unsigned char jump[12] = {0x48, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xe0};
            uintptr_t here = (uintptr_t)clock_gettime;
            memcpy(jump + 2, &here, sizeof here);
            memcpy(copy + one->st_value, jump, sizeof jump);
        }
    }
    mremap(copy, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, (void *)vdso.base);
}
#endif

int gettimeofday(struct timeval *now, void *zone) {
    (void)zone;
    struct timespec exact;
    clock_gettime(CLOCK_REALTIME, &exact);
    now->tv_sec = exact.tv_sec;
    now->tv_usec = exact.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *now) {
    struct timespec exact;
    clock_gettime(CLOCK_REALTIME, &exact);
    if (now) {
        *now = exact.tv_sec;
    }
    return exact.tv_sec;
}
