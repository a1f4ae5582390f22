/* Opens a format and prints its levels, as any program would that uses nibble. */
#include <nibble/nibble.h>
#include <stdio.h>

int main(void) {
    const struct nib_element *element;
    struct nib_error error;
    if (nib_element_open("e2m1", &element, &error) != NIB_OK) {
        fprintf(stderr, "%s\n", error.text);
        return 1;
    }
    printf("%s:", nib_version());
    for (unsigned rank = 0; rank < element->levels; rank++) printf(" %g", (double)element->level_of_rank[rank]);
    printf("\n");
    nib_element_close(element);
    return 0;
}
