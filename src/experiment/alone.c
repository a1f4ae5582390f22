/* A team of one, for a program without MPI. */
#include "experiment/team.h"

#include "base/error.h"
#include <stdlib.h>

enum nib_status nib_team_open(int *rank, int *ranks, struct nib_error *error) {
    /* Set by mpirun of Open MPI and of MPICH, and by srun. A batch script of Slurm itself has SLURM_NTASKS but no step
     * of several tasks. */
    static const char *const variables[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"};
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++) {
        const char *value = getenv(variables[i]);
        if (value != NULL && atoi(value) > 1)
            return nib_fail(error, NIB_EUNAVAILABLE,
                            "started as one of %d ranks, but this program has no MPI; use nibble-mpi (built with "
                            "-DNIBBLE_MPI=ON), or --shard",
                            atoi(value));
    }
    *rank = 0;
    *ranks = 1;
    return NIB_OK;
}

enum nib_status nib_team_send(const struct nib_message *message, struct nib_error *error) {
    return nib_fail(error, NIB_EUNAVAILABLE, "there is no rank %d", message->rank);
}

enum nib_status nib_team_receive(struct nib_message *out, bool *got, struct nib_error *error) {
    (void)out;
    (void)error;
    *got = false;
    return NIB_OK;
}

void nib_team_close(bool good) { (void)good; }
const char *nib_team_library(void) { return NULL; }
