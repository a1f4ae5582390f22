/* A team of MPI ranks. Messages are small: a head of three numbers, then the bytes. */
#include "experiment/team.h"

#include "base/error.h"
#include "base/memory.h"
#include <limits.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TAG = 4, HEAD = 16 };

static int own_rank, rank_count;

enum nib_status nib_team_open(int *rank, int *ranks, struct nib_error *error) {
    int provided;
    /* Only this thread talks to MPI; the others compute. */
    if (MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &provided) != MPI_SUCCESS || provided < MPI_THREAD_FUNNELED)
        return nib_fail(error, NIB_EUNAVAILABLE, "MPI cannot be started with threads");
    MPI_Comm_rank(MPI_COMM_WORLD, &own_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &rank_count);
    *rank = own_rank;
    *ranks = rank_count;
    return NIB_OK;
}

static enum nib_status fail(int code, struct nib_error *error) {
    char text[MPI_MAX_ERROR_STRING] = "";
    int length;
    MPI_Error_string(code, text, &length);
    return nib_fail(error, NIB_EIO, "MPI: %s", text);
}

enum nib_status nib_team_send(const struct nib_message *message, struct nib_error *error) {
    if (message->size > INT_MAX - HEAD)
        return nib_fail(error, NIB_EINVAL, "the result of a point is larger than 2 GiB");
    uint8_t *packet = nib_alloc_raw(HEAD + message->size, 1, "a message", error);
    if (packet == NULL) return NIB_ENOMEM;
    uint64_t head[2] = {(uint64_t)message->kind, (uint64_t)message->point};
    memcpy(packet, head, HEAD);
    if (message->size > 0) memcpy(packet + HEAD, message->bytes, message->size);
    int code = MPI_Send(packet, (int)(HEAD + message->size), MPI_BYTE, message->rank, TAG, MPI_COMM_WORLD);
    free(packet);
    return code == MPI_SUCCESS ? NIB_OK : fail(code, error);
}

enum nib_status nib_team_receive(struct nib_message *out, bool *got, struct nib_error *error) {
    MPI_Status about;
    int there = 0, size = 0;
    *got = false;
    int code = MPI_Iprobe(MPI_ANY_SOURCE, TAG, MPI_COMM_WORLD, &there, &about);
    if (code != MPI_SUCCESS) return fail(code, error);
    if (!there) return NIB_OK;
    MPI_Get_count(&about, MPI_BYTE, &size);
    uint8_t *packet = nib_alloc_raw((size_t)size, 1, "a message", error);
    if (packet == NULL) return NIB_ENOMEM;
    code = MPI_Recv(packet, size, MPI_BYTE, about.MPI_SOURCE, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (code != MPI_SUCCESS || size < HEAD) {
        free(packet);
        return code != MPI_SUCCESS ? fail(code, error) : nib_fail(error, NIB_EIO, "MPI: a message without a head");
    }
    uint64_t head[2];
    memcpy(head, packet, HEAD);
    memmove(packet, packet + HEAD, (size_t)size - HEAD);
    *out = (struct nib_message){(enum nib_message_kind)head[0], about.MPI_SOURCE, (size_t)head[1], packet,
                                (size_t)size - HEAD};
    *got = true;
    return NIB_OK;
}

void nib_team_close(bool good) {
    if (!good && rank_count > 1) {
        fflush(NULL);
        MPI_Abort(MPI_COMM_WORLD, 3);
    }
    MPI_Finalize();
}

const char *nib_team_library(void) {
    static char text[MPI_MAX_LIBRARY_VERSION_STRING];
    int length;
    MPI_Get_library_version(text, &length);
    text[strcspn(text, ",\n")] = '\0';
    return text;
}
