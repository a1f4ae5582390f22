#include "cli/signals.h"

#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { GUARDS = 32 };

static char guarded[GUARDS][PATH_MAX];
static volatile sig_atomic_t in_use[GUARDS], bar_visible;
static char last_words[2][512]; /* one is whole while the other is written */
static volatile sig_atomic_t current_words;

static void interrupted(int number) {
    for (int i = 0; i < GUARDS; i++)
        if (in_use[i]) unlink(guarded[i]);
    if (bar_visible && write(STDERR_FILENO, "\r\033[K", 4) < 0) { /* nothing left to do about it */
    }
    const char *words = last_words[current_words];
    size_t length = 0;
    while (words[length] != '\0') length++;
    if (length > 0 && write(STDERR_FILENO, words, length) < 0) { /* the same */
    }
    _exit(128 + number);
}

void nib_signals_install(void) {
    struct sigaction action = {.sa_handler = interrupted};
    sigemptyset(&action.sa_mask);
    const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        struct sigaction
            now; /* a program started with SIGINT ignored (nohup, a shell's background) keeps ignoring it */
        if (sigaction(numbers[i], NULL, &now) == 0 && now.sa_handler != SIG_IGN) sigaction(numbers[i], &action, NULL);
    }
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN);
}

void nib_signals_last_words(const char *line) {
    int other = 1 - current_words;
    snprintf(last_words[other], sizeof last_words[other], line[0] == '\0' ? "%s" : "nibble: %.500s\n", line);
    current_words = other;
}

void nib_signals_bar(bool visible) { bar_visible = visible; }

void nib_signals_guard_output(const char *path) {
    char *target = realpath(path, NULL), name[PATH_MAX]; /* the file behind a link is what gets replaced */
    int length = snprintf(name, sizeof name, "%s.%ld.0.part", target == NULL ? path : target, (long)getpid());
    if (length > 0 && length < (int)sizeof name) nib_signals_guard(name);
    free(target);
}

void nib_signals_guard(const char *path) {
    for (int i = 0; i < GUARDS; i++) {
        if (in_use[i]) continue;
        if (snprintf(guarded[i], sizeof guarded[i], "%s", path) < (int)sizeof guarded[i]) in_use[i] = 1;
        return;
    }
}

void nib_signals_guard_figure(const char *prefix) {
    static const char *const endings[] = {"gp", "png", "pdf"};
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        char path[PATH_MAX];
        if (snprintf(path, sizeof path, "%s.%s.part", prefix, endings[i]) < (int)sizeof path) nib_signals_guard(path);
    }
}
