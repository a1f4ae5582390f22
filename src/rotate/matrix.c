/* Hadamard matrices whose order is no power of two, as the fast-hadamard-transform library (e7706fa) has them. */
#include "rotate/rotation.h"

/* Whether a is a square modulo the prime q, 0 for multiples of q. */
static int legendre(unsigned a, unsigned q) {
    a %= q;
    if (a == 0) return 0;
    for (unsigned i = 1; i < q; i++)
        if (i * i % q == a) return 1;
    return -1;
}

/* Paley's second construction with q = 5. */
static int paley_12(unsigned i, unsigned j) {
    unsigned row = i / 2, column = j / 2;
    bool second = i % 2 != 0, last = j % 2 != 0;
    if (row == column) return !second && !last ? 1 : -1;
    int symbol = row == 0 || column == 0 ? 1 : legendre(row + 5 - column, 5);
    return second && last ? -symbol : symbol;
}

/* Williamson's construction: four by four circulant blocks, each by its first row, bit k being column k. */
static int williamson(const uint8_t first[16], unsigned order, unsigned i, unsigned j) {
    unsigned shift = (j % order + order - i % order) % order;
    return first[i / order * 4 + j / order] >> shift & 1 ? 1 : -1;
}
static const uint8_t blocks_20[16] = {0x01, 0x01, 0x13, 0x0D, 0x1E, 0x01, 0x12, 0x13, 0x0C, 0x0D, 0x01, 0x1E, 0x12, 0x0C, 0x01, 0x01};
static const uint8_t blocks_28[16] = {0x01, 0x43, 0x25, 0x19, 0x3C, 0x01, 0x66, 0x25, 0x5A, 0x19, 0x01, 0x3C, 0x66, 0x5A, 0x43, 0x01};

/* Paley's first construction with q = 19, doubled. */
static int paley_40(unsigned i, unsigned j) {
    int sign = i >= 20 && j >= 20 ? -1 : 1;
    i %= 20;
    j %= 20;
    if (i == 0 || j == 0) return j == 0 ? sign : -sign;
    return i == j ? sign : -sign * legendre(j + 19 - i, 19);
}

int nib_hadamard_base(unsigned base, unsigned i, unsigned j) {
    switch (base) {
    case 12: return paley_12(i, j);
    case 20: return williamson(blocks_20, 5, i, j);
    case 28: return williamson(blocks_28, 7, i, j);
    case 40: return paley_40(i, j);
    default: return 1;
    }
}

int nib_hadamard_entry(const struct nib_rotation *rotation, unsigned i, unsigned j) {
    unsigned power = rotation->size / rotation->base;
    int sylvester = __builtin_popcount((i % power) & (j % power)) % 2 == 0 ? 1 : -1;
    return sylvester * nib_hadamard_base(rotation->base, i / power, j / power);
}
