/* The ranks of a run. Rank 0 hands out points and gathers results; all ranks compute. The program is linked with one of
 * two sets of these functions: alone.c (one rank, no MPI) or mpi.c. All calls come from the thread that opened the
 * team. */
#ifndef NIB_EXPERIMENT_TEAM_H
#define NIB_EXPERIMENT_TEAM_H

#include <nibble/status.h>
#include <stddef.h>

enum nib_message_kind {
    NIB_MESSAGE_HELLO,  /* to rank 0: ready; `point` is its number of threads, the bytes its experiment's identity */
    NIB_MESSAGE_POINT,  /* from rank 0: compute this */
    NIB_MESSAGE_RESULT, /* to rank 0: the bytes are the packed result */
    NIB_MESSAGE_FAILED, /* to rank 0: the bytes are a struct nib_error */
    NIB_MESSAGE_STOP    /* from rank 0: nothing more comes */
};

struct nib_message {
    enum nib_message_kind kind;
    int rank; /* the other side */
    size_t point;
    uint8_t *bytes; /* freed by the receiver */
    size_t size;
};

/* Starts MPI where the program has it and is one rank of several. A program without MPI that was started as one rank of
 * several is NIB_EUNAVAILABLE. */
NIB_CHECK enum nib_status nib_team_open(int *rank, int *ranks, struct nib_error *error);
/* The bytes are copied or sent before it returns. */
NIB_CHECK enum nib_status nib_team_send(const struct nib_message *message, struct nib_error *error);
/* Takes a message that has arrived; *got is false when there is none. Does not wait. */
NIB_CHECK enum nib_status nib_team_receive(struct nib_message *out, bool *got, struct nib_error *error);
/* Ends MPI. After a failure (`good` false) other ranks may never answer: they are ended too. */
void nib_team_close(bool good);
/* Name and version of the MPI library; NULL without one. */
const char *nib_team_library(void);

#endif
