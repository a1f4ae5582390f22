#include "cli/signals.h"

#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { GUARDS = 8 };

static char guarded[GUARDS][PATH_MAX];
static volatile sig_atomic_t in_use[GUARDS];

static void interrupted(int number) {
    for (int i = 0; i < GUARDS; i++)
        if (in_use[i]) unlink(guarded[i]);
    _exit(128 + number);
}

void nib_signals_install(void) {
    struct sigaction action = {.sa_handler = interrupted};
    sigemptyset(&action.sa_mask);
    const int numbers[] = {SIGINT, SIGTERM};
    for (int i = 0; i < 2; i++) {
        struct sigaction now; /* a program started with SIGINT ignored (nohup, a shell's background) keeps ignoring it */
        if (sigaction(numbers[i], NULL, &now) == 0 && now.sa_handler != SIG_IGN) sigaction(numbers[i], &action, NULL);
    }
    signal(SIGPIPE, SIG_IGN);
}

void nib_signals_guard(const char *path) {
    for (int i = 0; i < GUARDS; i++) {
        if (in_use[i]) continue;
        if (snprintf(guarded[i], sizeof guarded[i], "%s", path) < (int)sizeof guarded[i]) in_use[i] = 1;
        return;
    }
}

void nib_signals_release(const char *path) {
    for (int i = 0; i < GUARDS; i++)
        if (in_use[i] && strcmp(guarded[i], path) == 0) in_use[i] = 0;
}
