#include "io/provenance.h"

#include "base/error.h"
#include "base/memory.h"
#include "io/entry.h"
#include <errno.h>
#include <hdf5.h>
#include <jansson.h>
#include <nibble/version.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <xxhash.h>
#include <zip.h>

struct nib_provenance {
    bool out_of_memory;
    char *command_line, *cpu, *isa;
    char time[32];
    int threads, ranks;
    struct nib_table *seeds, *libraries, *formats, *inputs, *environment;
};

extern char **environ;

static void remember(struct nib_provenance *provenance, char **field, char *value) {
    if (value == NULL) provenance->out_of_memory = true;
    free(*field);
    *field = value;
}

/* A row of texts, once per first cell; SIZE_MAX when it is there already or memory is short. */
static size_t add_row(struct nib_provenance *provenance, struct nib_table *table, const char *name) {
    for (size_t i = 0; i < nib_table_rows(table); i++)
        if (strcmp(nib_table_text(table, i, 0), name) == 0) return SIZE_MAX;
    size_t row = nib_table_row(table);
    if (row == SIZE_MAX)
        provenance->out_of_memory = true;
    else
        nib_table_set_text(table, row, 0, name);
    return row;
}

static void add_pair(struct nib_provenance *provenance, struct nib_table *table, const char *name, const char *value) {
    size_t row = add_row(provenance, table, name);
    if (row != SIZE_MAX) nib_table_set_text(table, row, 1, value);
}

static char *cpu_model(void) {
    char line[512], *name = NULL;
    FILE *stream = fopen("/proc/cpuinfo", "r");
    while (stream != NULL && name == NULL && fgets(line, sizeof line, stream) != NULL) {
        char *colon = strchr(line, ':');
        if (colon == NULL || strncmp(line, "model name", 10) != 0) continue;
        colon += 1 + strspn(colon + 1, " \t");
        colon[strcspn(colon, "\n")] = '\0';
        name = strdup(colon);
    }
    if (stream != NULL) fclose(stream);
    return name == NULL ? strdup("unknown") : name;
}

static void add_libraries(struct nib_provenance *provenance) {
    char text[64];
    unsigned major, minor, release;
    if (H5get_libversion(&major, &minor, &release) >= 0) {
        snprintf(text, sizeof text, "%u.%u.%u", major, minor, release);
        nib_provenance_add_library(provenance, "hdf5", text);
    }
    nib_provenance_add_library(provenance, "jansson", JANSSON_VERSION);
    nib_provenance_add_library(provenance, "libzip", zip_libzip_version());
    unsigned hash = XXH_versionNumber();
    snprintf(text, sizeof text, "%u.%u.%u", hash / 10000, hash / 100 % 100, hash % 100);
    nib_provenance_add_library(provenance, "xxhash", text);
}

static void add_environment(struct nib_provenance *provenance) {
    static const char *const prefixes[] = {"NIBBLE_", "OMP_", "GOMP_", "OPENBLAS_", "MKL_", "CUDA_VISIBLE_DEVICES"};
    for (char **item = environ; item != NULL && *item != NULL; item++)
        for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++) {
            if (strncmp(*item, prefixes[i], strlen(prefixes[i])) != 0) continue;
            char *name = strndup(*item, strcspn(*item, "="));
            const char *value = strchr(*item, '=');
            if (name == NULL)
                provenance->out_of_memory = true;
            else
                add_pair(provenance, provenance->environment, name, value == NULL ? "" : value + 1);
            free(name);
            break;
        }
}

static void set_time(struct nib_provenance *provenance) {
    const char *fixed = getenv("SOURCE_DATE_EPOCH"); /* the convention of reproducible builds */
    time_t now = time(NULL);
    struct tm utc;
    char *end;
    if (fixed != NULL && fixed[0] != '\0') {
        long long seconds = strtoll(fixed, &end, 10);
        if (*end == '\0') now = (time_t)seconds;
    }
    if (gmtime_r(&now, &utc) == NULL || strftime(provenance->time, sizeof provenance->time, "%Y-%m-%dT%H:%M:%SZ", &utc) == 0)
        strcpy(provenance->time, "unknown");
}

enum nib_status nib_provenance_new(struct nib_provenance **out, struct nib_error *error) {
    static const struct nib_column
        seeds[] = {{"name", "seed", "", "what the seed is for", NIB_COLUMN_TEXT, 0},
                   {"value", "value", "", "the seed, in decimal", NIB_COLUMN_TEXT, 0}},
        libraries[] = {{"name", "library", "", "library", NIB_COLUMN_TEXT, 0},
                       {"version", "version", "", "version found at run time", NIB_COLUMN_TEXT, 0}},
        formats[] = {{"name", "format", "", "kind and name of the format", NIB_COLUMN_TEXT, 0},
                     {"sha256", "SHA-256", "", "SHA-256 of the text", NIB_COLUMN_TEXT, 0},
                     {"text", "text", "", "YAML text of the format", NIB_COLUMN_TEXT, 0}},
        inputs[] = {{"path", "input", "", "input file", NIB_COLUMN_TEXT, 0},
                    {"bytes", "bytes", "byte", "size of the file", NIB_COLUMN_INTEGER, 0},
                    {"xxh3_128", "XXH3-128", "", "XXH3-128 of the contents, canonical form", NIB_COLUMN_TEXT, 0}},
        environment[] = {{"name", "variable", "", "environment variable", NIB_COLUMN_TEXT, 0},
                         {"value", "value", "", "its value", NIB_COLUMN_TEXT, 0}};
    struct nib_provenance *provenance = nib_alloc(1, sizeof *provenance, "provenance", error);
    if (provenance == NULL) return NIB_ENOMEM;
    enum nib_status status = nib_table_new("seeds", seeds, 2, &provenance->seeds, error);
    if (status == NIB_OK) status = nib_table_new("libraries", libraries, 2, &provenance->libraries, error);
    if (status == NIB_OK) status = nib_table_new("formats", formats, 3, &provenance->formats, error);
    if (status == NIB_OK) status = nib_table_new("inputs", inputs, 3, &provenance->inputs, error);
    if (status == NIB_OK) status = nib_table_new("environment", environment, 2, &provenance->environment, error);
    if (status != NIB_OK) {
        nib_provenance_free(provenance);
        return status;
    }
    set_time(provenance);
    remember(provenance, &provenance->cpu, cpu_model());
    add_libraries(provenance);
    add_environment(provenance);
    *out = provenance;
    return NIB_OK;
}

void nib_provenance_free(struct nib_provenance *provenance) {
    if (provenance == NULL) return;
    nib_table_free(provenance->seeds);
    nib_table_free(provenance->libraries);
    nib_table_free(provenance->formats);
    nib_table_free(provenance->inputs);
    nib_table_free(provenance->environment);
    free(provenance->command_line);
    free(provenance->cpu);
    free(provenance->isa);
    free(provenance);
}

/* Quoted for a shell where it has to be. */
static void append_word(FILE *stream, const char *word) {
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:=,+@%^";
    if (word[0] != '\0' && word[strspn(word, plain)] == '\0') {
        fputs(word, stream);
        return;
    }
    fputc('\'', stream);
    for (; *word != '\0'; word++) {
        if (*word == '\'')
            fputs("'\\''", stream);
        else
            fputc(*word, stream);
    }
    fputc('\'', stream);
}

void nib_provenance_set_command(struct nib_provenance *provenance, int argc, char *const *argv) {
    char *line = NULL;
    size_t size;
    FILE *stream = open_memstream(&line, &size);
    if (stream == NULL) {
        provenance->out_of_memory = true;
        return;
    }
    for (int i = 0; i < argc; i++) {
        if (i > 0) fputc(' ', stream);
        append_word(stream, argv[i]);
    }
    if (fclose(stream) != 0) {
        free(line);
        line = NULL;
    }
    remember(provenance, &provenance->command_line, line);
}

void nib_provenance_set_parallel(struct nib_provenance *provenance, int threads, int ranks) {
    provenance->threads = threads;
    provenance->ranks = ranks;
}

void nib_provenance_set_isa(struct nib_provenance *provenance, const char *isa) {
    remember(provenance, &provenance->isa, strdup(isa));
}

void nib_provenance_add_seed(struct nib_provenance *provenance, const char *name, uint64_t value) {
    char text[32];
    snprintf(text, sizeof text, "%llu", (unsigned long long)value);
    add_pair(provenance, provenance->seeds, name, text);
}

void nib_provenance_add_library(struct nib_provenance *provenance, const char *name, const char *version) {
    add_pair(provenance, provenance->libraries, name, version);
}

void nib_provenance_add_format(struct nib_provenance *provenance, const char *name, const char *text,
                               const char *sha256) {
    struct nib_table *formats = provenance->formats;
    for (size_t i = 0; i < nib_table_rows(formats); i++)
        if (strcmp(nib_table_text(formats, i, 0), name) == 0 && strcmp(nib_table_text(formats, i, 1), sha256) == 0) return;
    size_t row = nib_table_row(formats);
    if (row == SIZE_MAX) {
        provenance->out_of_memory = true;
        return;
    }
    nib_table_set_text(formats, row, 0, name);
    nib_table_set_text(formats, row, 1, sha256);
    nib_table_set_text(formats, row, 2, text);
}

static enum nib_status digest_of(const char *path, uint64_t *size, char out[33], struct nib_error *error) {
    enum { PIECE = 1 << 20 };
    struct stat about;
    FILE *stream = fopen(path, "rb");
    if (stream == NULL) return nib_fail_at(error, NIB_EIO, path, 0, "cannot open: %s", strerror(errno));
    enum nib_status status = NIB_OK;
    XXH3_state_t *state = XXH3_createState();
    char *piece = nib_alloc_raw(PIECE, 1, "read buffer", error);
    uint64_t total = 0;
    if (state == NULL || piece == NULL || XXH3_128bits_reset(state) != XXH_OK)
        status = nib_fail_at(error, NIB_ENOMEM, path, 0, "out of memory");
    else if (fstat(fileno(stream), &about) != 0 || S_ISDIR(about.st_mode))
        status = nib_fail_at(error, NIB_EIO, path, 0, "is a directory, not a file");
    while (status == NIB_OK) {
        size_t got = fread(piece, 1, PIECE, stream);
        XXH3_128bits_update(state, piece, got);
        total += got;
        if (got == PIECE) continue;
        if (ferror(stream)) status = nib_fail_at(error, NIB_EIO, path, 0, "cannot read: %s", strerror(errno));
        break;
    }
    if (status == NIB_OK) {
        XXH128_canonical_t canonical;
        XXH128_canonicalFromHash(&canonical, XXH3_128bits_digest(state));
        for (int i = 0; i < 16; i++) snprintf(out + 2 * i, 3, "%02x", canonical.digest[i]);
        *size = total;
    }
    fclose(stream);
    free(piece);
    XXH3_freeState(state);
    return status;
}

enum nib_status nib_provenance_add_input(struct nib_provenance *provenance, const char *path, struct nib_error *error) {
    uint64_t size = 0;
    char digest[33];
    const struct nib_table *inputs = provenance->inputs;
    for (size_t i = 0; i < nib_table_rows(inputs); i++)
        if (strcmp(nib_table_text(inputs, i, 0), path) == 0) return NIB_OK;
    enum nib_status status = digest_of(path, &size, digest, error);
    if (status != NIB_OK) return status;
    size_t row = add_row(provenance, provenance->inputs, path);
    if (row == SIZE_MAX) return NIB_OK;
    nib_table_set_integer(provenance->inputs, row, 1, (int64_t)size);
    nib_table_set_text(provenance->inputs, row, 2, digest);
    return NIB_OK;
}

enum nib_status nib_provenance_add_file(struct nib_provenance *provenance, const struct nib_file *file,
                                        struct nib_error *error) {
    enum nib_status status = NIB_OK;
    for (size_t i = 0; i < file->mapping_count && status == NIB_OK; i++)
        status = nib_provenance_add_input(provenance, file->mappings[i]->path, error);
    return status;
}

enum nib_status nib_provenance_facts(const struct nib_provenance *provenance, struct nib_provenance_facts *out,
                                     struct nib_error *error) {
    if (provenance->out_of_memory) return nib_fail(error, NIB_ENOMEM, "provenance: out of memory");
    *out = (struct nib_provenance_facts){
        .version = nib_version(), .commit = nib_commit(),
        .command_line = provenance->command_line == NULL ? "" : provenance->command_line,
        .time = provenance->time, .cpu = provenance->cpu, .isa = provenance->isa == NULL ? "" : provenance->isa,
        .threads = provenance->threads, .ranks = provenance->ranks, .seeds = provenance->seeds,
        .libraries = provenance->libraries, .formats = provenance->formats, .inputs = provenance->inputs,
        .environment = provenance->environment};
    return NIB_OK;
}
