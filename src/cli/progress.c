#include "cli/progress.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "cli/signals.h"

static double seconds_since(struct timespec then) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)(now.tv_sec - then.tv_sec) + (double)(now.tv_nsec - then.tv_nsec) * 1e-9;
}

void nib_progress_start(struct nib_progress *progress, const struct nib_call *call, const char *what, size_t total) {
    const char *term = getenv("TERM");
    *progress = (struct nib_progress){.what = what, .total = total};
    progress->active = !call->common.quiet && total > 0 && isatty(STDERR_FILENO) &&
                       (term == NULL || strcmp(term, "dumb") != 0);
    clock_gettime(CLOCK_MONOTONIC, &progress->start);
    progress->drawn = progress->start;
}

static int terminal_columns(void) {
    struct winsize size;
    if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col < 20) return 80;
    return size.ws_col;
}

static void draw(struct nib_progress *progress, double elapsed, const char *label) {
    enum { BAR = 24 };
    double share = (double)progress->done / (double)progress->total;
    if (share > 1) share = 1;
    int filled = (int)(share * BAR);
    char bar[BAR + 1], left[64] = "", line[512];
    for (int i = 0; i < BAR; i++) bar[i] = i < filled ? '#' : '.';
    bar[BAR] = '\0';
    if (share > 0.01) {
        long rest = (long)(elapsed / share * (1 - share) + 0.5);
        if (rest < 60)
            snprintf(left, sizeof left, ", %ld s left", rest);
        else
            snprintf(left, sizeof left, ", %ld min %02ld s left", rest / 60, rest % 60);
    }
    int length = snprintf(line, sizeof line, "%s [%s] %3.0f%%%s  %s", progress->what, bar, share * 100, left,
                          label == NULL ? "" : label);
    int room = terminal_columns() - 1;
    if (length > room) length = room;
    fprintf(stderr, "\r\033[K%.*s", length, line);
    fflush(stderr);
}

void nib_progress_step(struct nib_progress *progress, size_t amount, const char *label) {
    progress->done += amount;
    if (!progress->active) return;
    double elapsed = seconds_since(progress->start);
    if (elapsed < 1 || (progress->visible && seconds_since(progress->drawn) < 0.1)) return;
    draw(progress, elapsed, label);
    progress->visible = true;
    nib_signals_bar(true);
    clock_gettime(CLOCK_MONOTONIC, &progress->drawn);
}

void nib_progress_end(struct nib_progress *progress) {
    if (progress->visible) fputs("\r\033[K", stderr);
    nib_signals_bar(false);
    progress->active = progress->visible = false;
}
