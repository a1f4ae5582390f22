/* The files in data/ are the ones that data/COPYING names, and the repository stays small. */
#include "base/sha256.h"
#include "nib_test.h"

#include <jansson.h>
#include <sys/stat.h>

static void *read_whole(const char *path, size_t *size) {
    FILE *stream = fopen(path, "rb");
    if (stream == NULL) return NULL;
    struct stat about;
    void *bytes = NULL;
    if (fstat(fileno(stream), &about) == 0 && (bytes = malloc((size_t)about.st_size + 1)) != NULL) {
        *size = fread(bytes, 1, (size_t)about.st_size, stream);
        ((char *)bytes)[*size] = '\0';
    }
    fclose(stream);
    return bytes;
}

/* Lines "DIGEST  NAME" of a text in `folder`; returns how many there were. */
static size_t check_digests(const char *folder, const char *list) {
    size_t size, count = 0;
    char digest[65], name[256], path[1024], found[65];
    snprintf(path, sizeof path, "%s/%s", folder, list);
    char *text = read_whole(path, &size);
    NIB_CHECKF(text != NULL, "%s is missing", path);
    for (char *line = text == NULL ? NULL : strtok(text, "\n"); line != NULL; line = strtok(NULL, "\n")) {
        if (strspn(line, "0123456789abcdef") != 64 || sscanf(line, "%64s %255s", digest, name) != 2) continue;
        snprintf(path, sizeof path, "%s/%s", folder, name);
        void *bytes = read_whole(path, &size);
        NIB_CHECKF(bytes != NULL, "%s is missing", path);
        if (bytes == NULL) continue;
        nib_sha256_hex(bytes, size, found);
        NIB_CHECKF(strcmp(found, digest) == 0, "%s: SHA-256 %s, %s says %s", path, found, list, digest);
        free(bytes);
        count++;
    }
    free(text);
    return count;
}

static void every_digest_in_copying_holds(void) { CU_ASSERT_EQUAL(check_digests(NIB_DATA_DIR, "COPYING"), 10); }

static void every_digest_of_the_golden_sample_holds(void) {
    CU_ASSERT(check_digests(NIB_DATA_DIR "/golden", "SHA256SUMS") > 0);
}

/* Every tracked file of data/ has a line in COPYING, or in the list of its folder; all tracked files together stay under 40 MiB. */
static void the_repository_stays_under_40_mib(void) {
    size_t size;
    char *copying = read_whole(NIB_DATA_DIR "/COPYING", &size), name[1024], path[2048];
    char *golden = read_whole(NIB_DATA_DIR "/golden/SHA256SUMS", &size);
    FILE *list = popen("git -C '" NIB_SOURCE_DIR "' ls-files 2>/dev/null", "r");
    CU_ASSERT_PTR_NOT_NULL_FATAL(copying);
    CU_ASSERT_PTR_NOT_NULL_FATAL(golden);
    CU_ASSERT_PTR_NOT_NULL_FATAL(list);
    unsigned long long total = 0;
    while (fgets(name, sizeof name, list) != NULL) {
        struct stat about;
        name[strcspn(name, "\n")] = '\0';
        snprintf(path, sizeof path, "%s/%s", NIB_SOURCE_DIR, name);
        if (lstat(path, &about) == 0) total += (unsigned long long)about.st_size;
        const char *extension = strrchr(name, '.');
        bool needs_line = strncmp(name, "data/", 5) == 0 && extension != NULL && strcmp(extension, ".md") != 0;
        bool is_golden = strncmp(name, "data/golden/", 12) == 0;
        const char *lines = is_golden ? golden : copying, *key = name + (is_golden ? 12 : 5);
        if (needs_line) NIB_CHECKF(strstr(lines, key) != NULL, "%s has no digest", name);
    }
    bool is_checkout = pclose(list) == 0;
    if (is_checkout) NIB_CHECKF(total < 40ull << 20, "tracked files take %llu bytes", total);
    free(copying);
    free(golden);
}

static void the_case_file_is_complete(void) {
    json_error_t why;
    json_t *cases = json_load_file(NIB_DATA_DIR "/cases/handover.json", JSON_REJECT_DUPLICATES, &why), *one;
    size_t i;
    NIB_CHECKF(cases != NULL, "%s", why.text);
    CU_ASSERT_EQUAL(json_array_size(cases), 69);
    static const char *const fields[] = {"id", "url", "kind", "input", "params", "expected", "note"};
    json_array_foreach(cases, i, one) {
        CU_ASSERT_EQUAL(json_object_size(one), 7);
        for (size_t k = 0; k < 7; k++) CU_ASSERT_PTR_NOT_NULL(json_object_get(one, fields[k]));
    }
    json_decref(cases);
}

NIB_TEST_MAIN("data", {"every digest in COPYING holds", every_digest_in_copying_holds},
              {"every digest of the golden sample holds", every_digest_of_the_golden_sample_holds},
              {"the repository stays under 40 MiB", the_repository_stays_under_40_mib},
              {"the case file is complete", the_case_file_is_complete})
