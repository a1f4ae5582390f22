/* Preloaded into a program that a test kills while it writes a file: STRIKE says where.
 *   half      with half of a block of 4 KiB or more in PATH.part
 *   written   when all of it is there
 *   rename    before PATH.part gets its name
 *   named     when it has it */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool strikes(const char *where) {
    const char *wanted = getenv("STRIKE");
    return wanted != NULL && strcmp(wanted, where) == 0;
}

static bool is_part(const char *path) {
    size_t length = strlen(path);
    return length > 5 && strcmp(path + length - 5, ".part") == 0;
}

static bool writes_part(int file) {
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0) return false;
    path[length] = '\0';
    return is_part(path);
}

ssize_t write(int file, const void *bytes, size_t size) {
    ssize_t (*real)(int, const void *, size_t) = (ssize_t(*)(int, const void *, size_t))dlsym(RTLD_NEXT, "write");
    if (size < 4096 || !writes_part(file)) return real(file, bytes, size);
    if (strikes("half")) {
        if (real(file, bytes, size / 2) >= 0) raise(SIGKILL);
    }
    ssize_t wrote = real(file, bytes, size);
    if (strikes("written")) raise(SIGKILL);
    return wrote;
}

int rename(const char *from, const char *to) {
    int (*real)(const char *, const char *) = (int (*)(const char *, const char *))dlsym(RTLD_NEXT, "rename");
    if (!is_part(from)) return real(from, to);
    if (strikes("rename")) raise(SIGKILL);
    int failed = real(from, to);
    if (strikes("named")) raise(SIGKILL);
    return failed;
}
