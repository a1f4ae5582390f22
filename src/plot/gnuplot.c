#include "plot/gnuplot.h"

#include "base/error.h"
#include "base/path.h"
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

/* Runs gnuplot on the script; its complaints end in `said`, cut to one line. */
static enum nib_status run_gnuplot(const char *script, const char *format, const char *part, char said[200],
                                   struct nib_error *error) {
    char settings[4400];
    int n = snprintf(settings, sizeof settings, "format='%s'; out='", format);
    for (const char *c = part; *c != '\0' && n < (int)sizeof settings - 4; c++) {
        if (*c == '\'') settings[n++] = '\'';
        settings[n++] = *c;
    }
    snprintf(settings + n, sizeof settings - (size_t)n, "'");
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return nib_fail(error, NIB_EIO, "gnuplot: %s", strerror(errno));
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
    posix_spawn_file_actions_adddup2(&actions, ends[1], 2);
    char name[] = "gnuplot", option[] = "-e", *file = strdup(script);
    char *const arguments[] = {name, option, settings, file, NULL};
    pid_t child = -1;
    int failed = file == NULL ? ENOMEM : posix_spawnp(&child, name, &actions, NULL, arguments, environ);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    free(file);
    size_t length = 0;
    said[0] = '\0';
    if (failed == 0) {
        char buffer[256];
        ssize_t got;
        while ((got = read(ends[0], buffer, sizeof buffer)) > 0)
            for (ssize_t i = 0; i < got && length < 199; i++) said[length++] = buffer[i] == '\n' ? ' ' : buffer[i];
        said[length] = '\0';
    }
    close(ends[0]);
    if (failed != 0)
        return nib_fail(error, NIB_EUNAVAILABLE, "gnuplot cannot be started (%s); the figure's script is %s",
                        strerror(failed), script);
    int state = 0;
    while (waitpid(child, &state, 0) < 0)
        if (errno != EINTR) return nib_fail(error, NIB_EIO, "gnuplot: %s", strerror(errno));
    if (WIFEXITED(state) && WEXITSTATUS(state) == 127)
        return nib_fail(error, NIB_EUNAVAILABLE, "gnuplot cannot be started; the figure's script is %s", script);
    if (!WIFEXITED(state) || WEXITSTATUS(state) != 0)
        return nib_fail(error, NIB_EIO, "gnuplot failed on %s: %s", script, said);
    return NIB_OK;
}

/* Whether a file of this format has its end. gnuplot does not say when a disk is full. */
static bool is_whole(const char *path, const char *format) {
    const char *end = strcmp(format, "png") == 0   ? "IEND\xae\x42\x60\x82"
                      : strcmp(format, "pdf") == 0 ? "%%EOF"
                                                   : "</svg>";
    char tail[64];
    FILE *stream = fopen(path, "rb");
    if (stream == NULL) return false;
    size_t got = fseek(stream, -(long)sizeof tail, SEEK_END) == 0 ? fread(tail, 1, sizeof tail, stream) : 0;
    fclose(stream);
    while (got > 0 && (tail[got - 1] == '\n' || tail[got - 1] == '\r')) got--;
    return got >= strlen(end) && memcmp(tail + got - strlen(end), end, strlen(end)) == 0;
}

/* Why nothing more can be written there; 0 when it can. */
static int reason_at(const char *path) {
    char block[65536] = {0};
    int file = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666), why = 0;
    if (file < 0) return errno;
    for (size_t done = 0; done < sizeof block && why == 0;) { /* the last blocks may still take a part */
        ssize_t wrote = write(file, block, sizeof block - done);
        if (wrote <= 0) why = errno;
        if (wrote > 0) done += (size_t)wrote;
    }
    if (close(file) != 0 && why == 0) why = errno;
    return why;
}

enum nib_status nib_gnuplot_draw(const char *script, const char *format, const char *path, struct nib_error *error) {
    char part[4200], said[200];
    enum nib_status status = nib_path_check_target(path, error);
    if (status != NIB_OK) return status;
    snprintf(part, sizeof part, "%s.part", path);
    status = run_gnuplot(script, format, part, said, error);
    if (status == NIB_OK && !is_whole(part, format)) {
        int why = reason_at(part);
        if (why != 0)
            status = nib_fail_at(error, NIB_EIO, path, 0, "cannot be written: %s", strerror(why));
        else
            status = nib_fail_at(error, NIB_EIO, path, 0, "gnuplot did not finish it: %s", said);
    }
    if (status == NIB_OK && rename(part, path) != 0)
        status = nib_fail_at(error, NIB_EIO, path, 0, "cannot be written: %s", strerror(errno));
    if (status != NIB_OK) unlink(part);
    return status;
}
