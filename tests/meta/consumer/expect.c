/* Links the optional library. */
#include <nibble/expect.h>
#include <stdio.h>

int main(void) {
    const struct nib_density *density;
    struct nib_error error;
    if (nib_density_open("gaussian", &density, &error) != NIB_OK) {
        fprintf(stderr, "%s\n", error.text);
        return 1;
    }
    printf("%s\n", nib_density_name(density));
    nib_density_close(density);
    return 0;
}
