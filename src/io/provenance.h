/* Where a result comes from. Filled in by a command while it runs; written into every result file. */
#ifndef NIB_IO_PROVENANCE_H
#define NIB_IO_PROVENANCE_H

#include <nibble/table.h>
#include <nibble/tensor.h>

struct nib_provenance;

/* Starts with what is known without being told: version, commit, time, CPU, libraries, the environment variables that
 * steer the computation. */
enum nib_status nib_provenance_new(struct nib_provenance **out, struct nib_error *error);
void nib_provenance_free(struct nib_provenance *provenance);

/* The setters remember a failure (out of memory) until nib_provenance_write. Strings are copied. */
void nib_provenance_set_command(struct nib_provenance *provenance, int argc, char *const *argv);
void nib_provenance_set_parallel(struct nib_provenance *provenance, int threads, int ranks);
void nib_provenance_set_isa(struct nib_provenance *provenance, const char *isa);
void nib_provenance_add_seed(struct nib_provenance *provenance, const char *name, uint64_t value);
void nib_provenance_add_library(struct nib_provenance *provenance, const char *name, const char *version);
/* The text of a format as it was read, once per name and digest (a grid with other block lengths keeps its name). */
void nib_provenance_add_format(struct nib_provenance *provenance, const char *name, const char *text,
                               const char *sha256);
/* Size and XXH3-128 of an input file, once per path. Reads the file. */
enum nib_status nib_provenance_add_input(struct nib_provenance *provenance, const char *path, struct nib_error *error);
/* The same for every file of an open tensor file: all shards of a set, and its index. */
enum nib_status nib_provenance_add_file(struct nib_provenance *provenance, const struct nib_file *file,
                                        struct nib_error *error);

/* What there is to write: scalars by name, and tables. For writers. */
struct nib_provenance_facts {
    const char *version, *commit, *command_line, *time, *cpu, *isa;
    int threads, ranks;          /* 0 where not set */
    const struct nib_table *seeds, *libraries, *formats, *inputs, *environment;
};
/* NIB_ENOMEM when a setter failed. */
enum nib_status nib_provenance_facts(const struct nib_provenance *provenance, struct nib_provenance_facts *out,
                                     struct nib_error *error);

#endif
