/* --json of every command is one JSON object that names its schema; --tsv begins with one header line. */
#include "cli/command.h"
#include "nib_test.h"

#include <jansson.h>
#include <sys/wait.h>

static const struct {
    const char *command, *rest;
} calls[] = {
    {"list", ""},
    {"list", "elements"},
    {"show", "e2m1"},
    {"show", "quantizers/te-nvfp4"},
    {"show", "recipes/quartet"},
    {"show", "axes"},
    {"show", "jobs/bias"},
    {"list", "jobs"},
    {"round", "--format e2m1 2.5 -0.75 inf nan"},
    {"round", "--format e4m3 448 1e9"},
    {"inspect", "'" NIB_DATA_DIR "/bytelm-8m.safetensors'"},
    {"quantize", "-q te-nvfp4 --values 1,nan,-inf,0.1"},
    {"quantize", "-q ocp-mxfp4 --values 3,0.625 --explain 0,1"},
    {"dequantize", "-q te-nvfp4 --shape 1x2 --packed 0x27 --scales 0x7e --tensor-amax 6"},
    {"compare", "one.json one.json"},
    {"gemm", "-u blackwell-tcgen05-nvfp4 -q te-nvfp4 -g 2x2x64"},
    {"identify", "one.json --input one.npy"},
    {"witness", "ocp-mxfp4 ocp-mxfp4 --set-b rounding=rna"},
    {"bias", "--dist gaussian -n 65536 -q e2m1-fp32 --rotate rht16"},
    {"bias", "--dist gaussian -n 65536 -q e2m1-fp32 --per-level"},
    {"bench", "quantize --elements 65536 --seconds 0.01"},
    {"gemm", "-u blackwell-tcgen05-nvfp4 -q te-nvfp4 -g 4x3x64 --error --anatomy"},
    {"rotate", "--size 4 --values 1,2,0,0"},
    {"layout", "--shape 256x12 --to 128x4 --offset 37,5"},
    {"explore", "--levels 0,1,2,3,4,5,6,8 --dist gaussian"},
    {"chain", "--depth 2 --seeds 2"},
    {"stack",
     "'" NIB_DATA_DIR "/bytelm-8m.safetensors' --tokens '" NIB_DATA_DIR "/heldout.txt' -r bf16 -s 1 -l 8 --quick"},
    {"run", NIB_SOURCE_DIR "/experiments/grid-sweep.yaml --dry-run"},
    {"selftest", ""},
    {"version", ""},
};
enum { CALLS = sizeof calls / sizeof *calls };

/* The output of a command line of the built program, which ctest puts into the PATH; NULL where it fails. */
static char *output_of(const char *line) {
    FILE *pipe = popen(line, "r");
    if (pipe == NULL) return NULL;
    char *text = NULL;
    size_t room = 0;
    ssize_t length = getdelim(&text, &room, '\0', pipe);
    int status = pclose(pipe);
    NIB_CHECKF(length > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0, "%s: exit code %d", line,
               WEXITSTATUS(status));
    return text;
}

/* one.npy, the numbers 1 and 2, and what te-nvfp4 makes of them. */
static void make_inputs(void) {
    static const char magic[] = "\x93NUMPY\x01\x00\x76\x00{'descr': '<f4', 'fortran_order': False, 'shape': (1, 2), }";
    static const float numbers[] = {1, 2};
    char header[128];
    memset(header, ' ', sizeof header);
    memcpy(header, magic, sizeof magic - 1);
    header[127] = '\n';
    FILE *file = fopen("one.npy", "wb");
    CU_ASSERT_FATAL(file != NULL);
    CU_ASSERT(fwrite(header, 1, 128, file) == 128 && fwrite(numbers, 4, 2, file) == 2);
    fclose(file);
    CU_ASSERT(system("nibble quantize -q te-nvfp4 one.npy --json > one.json") == 0);
}

static void every_object_names_its_schema(void) {
    make_inputs();
    for (size_t i = 0; i < CALLS; i++) {
        char line[512], schema[64];
        snprintf(line, sizeof line, "nibble %s --json %s", calls[i].command, calls[i].rest);
        snprintf(schema, sizeof schema, "nibble.%s/1", calls[i].command);
        char *text = output_of(line);
        json_error_t error = {0};
        json_t *root = text == NULL ? NULL : json_loads(text, JSON_REJECT_DUPLICATES, &error);
        const char *said = json_string_value(json_object_get(root, "schema"));
        NIB_CHECKF(root != NULL, "%s: %s at line %d", line, error.text, error.line);
        NIB_CHECKF(said != NULL && strcmp(said, schema) == 0, "%s: schema %s", line, said == NULL ? "missing" : said);
        json_decref(root);
        free(text);
    }
    remove("one.json");
    remove("one.npy");
}

/* What a result came from, defaults included. */
static void results_carry_their_parameters(void) {
    static const struct {
        const char *line, *parameters; /* some of them */
        const char *key, *value;       /* of the outermost object */
    } cases[] = {
        {"chain --depth 3 --seeds 2 --seed 7 --activation relu -q te-nvfp4 --rotate rht16 --no-backward",
         "{\"depth\": 3, \"width\": 128, \"rows\": 48, \"seeds\": 2, \"seed\": 7, \"activation\": \"relu\", "
         "\"rounding\": \"own\","
         " \"norm\": false, \"no_backward\": true, \"dist\": \"gaussian\", \"quantizer\": [\"te-nvfp4\"], \"rotate\": "
         "[\"rht16\"]}",
         "cases", "[\"te-nvfp4\", \"te-nvfp4, rht16\"]"},
        {"chain --depth 2 --seeds 2 --no-backward", "{\"depth\": 2}", "cases", "[\"e2m1-fp32\", \"e1m2-fp32\"]"},
        {"explore --levels 0,1,2,3,4,5,6,8 --scale e8m0",
         "{\"levels\": [\"0,1,2,3,4,5,6,8\"], \"scale\": [\"e8m0\"], \"seed\": 0}", "objective", "\"mse\""},
        {"bias --dist gaussian -n 4096 -q te-nvfp4 --seed 7",
         "{\"dist\": [\"gaussian\"], \"count\": 4096, \"quantizer\": [\"te-nvfp4\"], \"seed\": 7}", "differences",
         "[]"},
        {"stack '" NIB_DATA_DIR "/bytelm-8m.safetensors' --tokens '" NIB_DATA_DIR
         "/heldout.txt' -r bf16 -s 1 -l 8 --quick",
         "{\"recipe\": [\"bf16\"], \"sequences\": 1, \"length\": 8, \"quick\": true, \"product\": \"blas\"}",
         "headline", "\"\""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char line[512];
        snprintf(line, sizeof line, "nibble %s --json", cases[i].line);
        char *text = output_of(line);
        json_t *root = text == NULL ? NULL : json_loads(text, 0, NULL), *said = json_object_get(root, "parameters");
        json_t *some = json_loads(cases[i].parameters, 0, NULL),
               *value = json_loads(cases[i].value, JSON_DECODE_ANY, NULL), *expected;
        const char *name;
        CU_ASSERT(some != NULL && value != NULL);
        json_object_foreach(some, name, expected)
            NIB_CHECKF(json_equal(json_object_get(said, name), expected), "%s: parameter %s", line, name);
        NIB_CHECKF(json_equal(json_object_get(root, cases[i].key), value), "%s: %s", line, cases[i].key);
        json_decref(value);
        json_decref(some);
        json_decref(root);
        free(text);
    }
}

/* Commands whose result is no table have no --tsv. */
static void every_table_has_one_header(void) {
    make_inputs();
    for (size_t i = 0; i < CALLS; i++) {
        struct nib_command command;
        struct nib_error error;
        NIB_OK_OR_FAIL(nib_command_find(calls[i].command, &command, &error), error);
        if ((command.takes & NIB_TAKES_JSON) == 0) continue;
        char line[512];
        snprintf(line, sizeof line, "nibble %s --tsv %s", calls[i].command, calls[i].rest);
        char *text = output_of(line), *next = text;
        NIB_CHECKF(text != NULL && text[0] == '#', "%s: no header", line);
        for (size_t headers = 0; next != NULL && *next != '\0';
             next = strchr(next, '\n') == NULL ? NULL : strchr(next, '\n') + 1) {
            headers += *next == '#';
            NIB_CHECKF(headers == 1, "%s: a second header", line);
            if (headers > 1) break;
        }
        free(text);
    }
    remove("one.json");
    remove("one.npy");
}

static void no_command_is_left_out(void) {
    struct nib_command command;
    for (size_t c = 0; nib_command_at(c, &command); c++) {
        bool called = (command.takes & (NIB_TAKES_JSON | NIB_TAKES_JSON_ONLY)) == 0;
        called |= strcmp(command.name, "gpu") == 0; /* its JSON needs a device */
        for (size_t i = 0; i < CALLS && !called; i++) called = strcmp(calls[i].command, command.name) == 0;
        NIB_CHECKF(called, "%s has --json, and no test here", command.name);
    }
}

NIB_TEST_MAIN("machine-readable results", {"every object names its schema", every_object_names_its_schema},
              {"results carry their parameters", results_carry_their_parameters},
              {"every table has one header", every_table_has_one_header},
              {"no command is left out", no_command_is_left_out})
