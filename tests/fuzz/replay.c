/* Runs a fuzz target over the files of folders, without libFuzzer. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "fuzz/target.h"

static int replay(const char *folder, const char *name) {
    char path[4096];
    static uint8_t data[1 << 20];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        perror(path);
        return 1;
    }
    size_t size = fread(data, 1, sizeof data, file);
    fclose(file);
    /* an exact-size copy, so that a sanitizer sees a step past the end */
    uint8_t *copy = malloc(size > 0 ? size : 1);
    if (copy == NULL) return 1;
    for (size_t i = 0; i < size; i++) copy[i] = data[i];
    int result = LLVMFuzzerTestOneInput(copy, size);
    /* and every prefix of a short file */
    for (size_t cut = 0; cut < size && size <= 2048; cut++) result |= LLVMFuzzerTestOneInput(copy, cut);
    free(copy);
    return result;
}

int main(int argc, char **argv) {
    size_t count = 0;
    for (int i = 1; i < argc; i++) {
        DIR *folder = opendir(argv[i]);
        if (folder == NULL) {
            perror(argv[i]);
            return 1;
        }
        for (struct dirent *entry; (entry = readdir(folder)) != NULL;) {
            if (entry->d_name[0] == '.') continue;
            if (replay(argv[i], entry->d_name) != 0) return 1;
            count++;
        }
        closedir(folder);
    }
    printf("%zu files\n", count);
    return count > 0 ? 0 : 1;
}
