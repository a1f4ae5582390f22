#include "expect/guard.h"

#include <gsl/gsl_errno.h>
#include <pthread.h>

/* GSL has one handler for the whole process: it is off while any thread is inside. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned inside;
static gsl_error_handler_t *before;

struct nib_guard nib_guard_enter(void) {
    pthread_mutex_lock(&lock);
    if (inside++ == 0) before = gsl_set_error_handler_off();
    pthread_mutex_unlock(&lock);
    return (struct nib_guard){nib_fpenv_enter()};
}

void nib_guard_leave(struct nib_guard guard) {
    nib_fpenv_leave(guard.fpenv);
    pthread_mutex_lock(&lock);
    if (--inside == 0) gsl_set_error_handler(before);
    pthread_mutex_unlock(&lock);
}
