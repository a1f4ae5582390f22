/* The progress bar, on a terminal that the test plays. */
#include "cli/progress.h"
#include "nib_test.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

static int controller = -1, saved_stderr = -1;

/* From here to terminal_end, stderr is a terminal of 60 columns. */
static bool terminal_begin(void) {
    controller = posix_openpt(O_RDWR | O_NOCTTY);
    if (controller < 0 || grantpt(controller) != 0 || unlockpt(controller) != 0) return false;
    int side = open(ptsname(controller), O_RDWR | O_NOCTTY);
    struct winsize size = {.ws_row = 24, .ws_col = 60};
    if (side < 0 || ioctl(side, TIOCSWINSZ, &size) != 0) return false;
    setenv("TERM", "xterm", 1);
    saved_stderr = dup(STDERR_FILENO);
    dup2(side, STDERR_FILENO);
    close(side);
    return true;
}

/* What was written, and stderr as before. */
static void terminal_end(char text[4096]) {
    fflush(stderr);
    size_t length = 0; /* a terminal delivers when it likes: wait until it stays silent */
    struct pollfd ready = {.fd = controller, .events = POLLIN};
    while (length < 4095 && poll(&ready, 1, 200) == 1) {
        ssize_t more = read(controller, text + length, 4095 - length);
        if (more <= 0) break;
        length += (size_t)more;
    }
    text[length] = '\0';
    dup2(saved_stderr, STDERR_FILENO);
    close(saved_stderr);
    close(controller);
}

static void run(struct nib_call *call, int seconds, const char *label, char text[4096]) {
    struct nib_progress progress;
    text[0] = '\0';
    CU_ASSERT_FATAL(terminal_begin());
    nib_progress_start(&progress, call, "tensors", 200);
    progress.start.tv_sec -= seconds; /* as if that much time had passed */
    progress.drawn = progress.start;
    nib_progress_step(&progress, 50, label);
    nib_progress_step(&progress, 1, "drawn too soon after the other");
    nib_progress_end(&progress);
    terminal_end(text);
}

static void is(const char *text, const char *expected) {
    NIB_CHECKF(strcmp(text, expected) == 0, "got \"%s\"", text);
}

static void it_shows_share_time_left_and_what(void) {
    struct nib_call call = {0};
    char text[4096];
    run(&call, 10, "layer.1", text);
    is(text, "\r\033[Ktensors [######..................]  25%, 30 s left  layer.1\r\033[K");
}

static void long_names_are_cut_at_the_edge(void) {
    struct nib_call call = {0};
    char text[4096];
    run(&call, 1000, "model.layers.15.mlp.down_proj.input", text);
    is(text, "\r\033[Ktensors [######..................]  25%, 50 min 00 s left  \r\033[K");
}

static void short_work_and_quiet_calls_show_nothing(void) {
    struct nib_call call = {0};
    char text[4096];
    run(&call, 0, "layer.1", text);
    CU_ASSERT_STRING_EQUAL(text, "");
    call.common.quiet = true;
    run(&call, 10, "layer.1", text);
    CU_ASSERT_STRING_EQUAL(text, "");
}

NIB_TEST_MAIN("progress", {"it shows share, time left and what", it_shows_share_time_left_and_what},
              {"long names are cut at the edge", long_names_are_cut_at_the_edge},
              {"short work and quiet calls show nothing", short_work_and_quiet_calls_show_nothing})
