/* A resolver whose name servers drop packets, for a process that loads this library first: each lookup of a name that
   ends in
   `.slow` takes half a minute, and finds nothing.
 */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <netdb.h>
#include <string.h>
#include <unistd.h>

int getaddrinfo(const char *name, const char *service, const struct addrinfo *hints, struct addrinfo **found) {
    int (*next)(const char *, const char *, const struct addrinfo *, struct addrinfo **);
    *(void **)(&next) = dlsym(RTLD_NEXT, "getaddrinfo");
    size_t length = name ? strlen(name) : 0;
    if (length > 5 && strcmp(name + length - 5, ".slow") == 0) {
        sleep(30);
        return EAI_AGAIN;
    }
    return next(name, service, hints, found);
}
