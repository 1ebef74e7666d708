/* Clocks that a test sets, for a process that loads this library first. The file that FALSE_CLOCK names has two numbers: the
   seconds by which the time of day is ahead, and the seconds for which the machine was paused. A pause is one event: the time
   of day and CLOCK_BOOTTIME go on meanwhile, CLOCK_MONOTONIC stands still. It allocates nothing: allocators ask for the time.
 */

#define _GNU_SOURCE
#include <elf.h>
#include <fcntl.h>
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
};

static struct clocks read_clocks(void) {
    struct clocks clocks = {0, 0};
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
        clocks.paused = strtol(rest, NULL, 10);
    }
    return clocks;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    int failed = (int)syscall(SYS_clock_gettime, clock, now);
    if (!failed && (clock == CLOCK_REALTIME || clock == CLOCK_BOOTTIME)) {
        struct clocks clocks = read_clocks();
        now->tv_sec += clocks.paused + (clock == CLOCK_REALTIME ? clocks.ahead : 0);
    }
    return failed;
}

#ifdef __x86_64__
/* Returns a function of the kernel's own library (vDSO). Its symbols stand right before their names. */
static void *function_of_kernel(const char *name) {
    uintptr_t base = getauxval(AT_SYSINFO_EHDR), shift = 0;
    if (!base) {
        return NULL;
    }
    const Elf64_Ehdr *head = (const void *)base;
    const Elf64_Phdr *parts = (const void *)(base + head->e_phoff);
    const Elf64_Dyn *entry = NULL;
    for (int at = 0; at < head->e_phnum; at++) {
        if (parts[at].p_type == PT_LOAD) {
            shift = base + parts[at].p_offset - parts[at].p_vaddr;
        } else if (parts[at].p_type == PT_DYNAMIC) {
            entry = (const void *)(base + parts[at].p_offset);
        }
    }
    const Elf64_Sym *symbol = NULL;
    const char *names = NULL;
    for (; entry && entry->d_tag != DT_NULL; entry++) {
        if (entry->d_tag == DT_SYMTAB) {
            symbol = (const void *)(shift + entry->d_un.d_ptr);
        } else if (entry->d_tag == DT_STRTAB) {
            names = (const void *)(shift + entry->d_un.d_ptr);
        }
    }
    for (; symbol && names && (uintptr_t)(symbol + 1) <= (uintptr_t)names; symbol++) {
        if (!strcmp(names + symbol->st_name, name)) {
            return (void *)(shift + symbol->st_value);
        }
    }
    return NULL;
}

/* Programs that ask the vDSO for the time pass this library by, unless the function there jumps here. */
__attribute__((constructor)) static void replace_in_kernel(void) {
    void *function = getenv("FALSE_PAUSES") ? function_of_kernel("__vdso_clock_gettime") : NULL;
    uintptr_t size = (uintptr_t)sysconf(_SC_PAGESIZE), first = (uintptr_t)function & ~(size - 1);
    uintptr_t last = ((uintptr_t)function + 12) & ~(size - 1);
    if (!function || mprotect((void *)first, last - first + size, PROT_READ | PROT_WRITE | PROT_EXEC)) {
        return;
    }
    /* mov rax, here; jmp rax */
    unsigned char jump[12] = {0x48, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xe0};
    uintptr_t here = (uintptr_t)clock_gettime;
    memcpy(jump + 2, &here, sizeof here);
    memcpy(function, jump, sizeof jump);
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
