/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * AES-256 (FIPS-197) in portable C11, four blocks at a time, without a table: no branch and no address depends on the
 * key or on data.
 *
 * The state of four blocks is eight 64-bit words, "planes". Plane b holds bit b of all 64 octets. Octet i of block k
 * (i = row + 4 * column, FIPS-197 section 3.4) is bit 4 * i + k, so that a column is 16 neighbouring bits, the four
 * blocks are the bits of a group of four, and ShiftRows and MixColumns are rotations.
 *
 * The S-box inverts in GF(2^8) as GF(2^4)[z] / (z^2 + z + v) with GF(2^4) = GF(2)[y] / (y^4 + y + 1) and
 * v = y^3 + y. The four matrices below lead from the field of FIPS-197 (section 4.2) into that one and back. The way
 * back of encryption includes the affine map of FIPS-197 section 5.1.1, and the way in of decryption its inverse.
 */
#ifndef EXAMPLE_AES256_SLICED_H
#define EXAMPLE_AES256_SLICED_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "wipe.h"

#define AES256_ROUNDS 14
/* Blocks that are computed at once. */
#define AES256_LANES 4

/* The round keys as planes; each is the same in all four blocks. */
struct aes256_sliced {
    uint64_t round_key[AES256_ROUNDS + 1][8];
};

/* ---- octets to planes and back ---- */

/* Exchange the bits of `a` under mask << shift with the bits of `b` under mask. */
static inline void aes_exchange(uint64_t *a, uint64_t *b, unsigned shift, uint64_t mask)
{
    uint64_t differ = ((*a >> shift) ^ *b) & mask;
    *b ^= differ;
    *a ^= differ << shift;
}

/* Bit b of octet j of word k becomes bit k of octet j of word b. The map is its own inverse. */
static inline void aes_transpose(uint64_t x[8])
{
    for (int i = 0; i < 8; i += 2)
        aes_exchange(&x[i], &x[i + 1], 1, 0x5555555555555555);
    for (int i = 0; i < 8; i += 4) {
        aes_exchange(&x[i], &x[i + 2], 2, 0x3333333333333333);
        aes_exchange(&x[i + 1], &x[i + 3], 2, 0x3333333333333333);
    }
    for (int i = 0; i < 4; i++)
        aes_exchange(&x[i], &x[i + 4], 4, 0x0f0f0f0f0f0f0f0f);
}

/* Word k has octets of block k & 3: the even ones for k < 4, the odd ones above. */
static inline void aes_load(uint64_t x[8], const uint8_t src[64])
{
    for (int k = 0; k < 8; k++) {
        const uint8_t *from = src + 16 * (k & 3) + (k >> 2);
        x[k] = 0;
        for (int j = 0; j < 8; j++)
            x[k] |= (uint64_t)from[2 * j] << (8 * j);
    }
    aes_transpose(x);
}

static inline void aes_store(uint8_t dst[64], uint64_t x[8])
{
    aes_transpose(x);
    for (int k = 0; k < 8; k++) {
        uint8_t *to = dst + 16 * (k & 3) + (k >> 2);
        for (int j = 0; j < 8; j++)
            to[2 * j] = (uint8_t)(x[k] >> (8 * j));
    }
}

/* ---- the S-box ---- */

/* The product in GF(2^4): the seven coefficients of the polynomial, reduced by y^4 = y + 1. */
static inline void aes_multiply16(uint64_t r[4], const uint64_t a[4], const uint64_t b[4])
{
    uint64_t c4 = (a[1] & b[3]) ^ (a[2] & b[2]) ^ (a[3] & b[1]);
    uint64_t c5 = (a[2] & b[3]) ^ (a[3] & b[2]);
    uint64_t c6 = a[3] & b[3];
    uint64_t c0 = a[0] & b[0];
    uint64_t c1 = (a[0] & b[1]) ^ (a[1] & b[0]);
    uint64_t c2 = (a[0] & b[2]) ^ (a[1] & b[1]) ^ (a[2] & b[0]);
    uint64_t c3 = (a[0] & b[3]) ^ (a[1] & b[2]) ^ (a[2] & b[1]) ^ (a[3] & b[0]);
    r[0] = c0 ^ c4;
    r[1] = c1 ^ c4 ^ c5;
    r[2] = c2 ^ c5 ^ c6;
    r[3] = c3 ^ c6;
}

/* The inverse in GF(2^4), 0 for 0, as polynomials in the four bits. */
static inline void aes_invert16(uint64_t r[4], const uint64_t x[4])
{
    uint64_t x01 = x[0] & x[1], x02 = x[0] & x[2], x03 = x[0] & x[3];
    uint64_t x12 = x[1] & x[2], x13 = x[1] & x[3], x23 = x[2] & x[3];
    r[0] = x[0] ^ x[1] ^ x[2] ^ x[3] ^ x02 ^ x12 ^ (x01 & x[2]) ^ (x12 & x[3]);
    r[1] = x[3] ^ x01 ^ x02 ^ x12 ^ x13 ^ (x01 & x[3]);
    r[2] = x[2] ^ x[3] ^ x01 ^ x02 ^ x03 ^ (x02 & x[3]);
    r[3] = x[1] ^ x[2] ^ x[3] ^ x03 ^ x13 ^ x23 ^ (x12 & x[3]);
}

/* The inverse of a * z + b with a = x[4..7], b = x[0..3]: (a * z + (a + b)) / (a^2 * v + a * b + b^2). */
static inline void aes_invert256(uint64_t x[8])
{
    uint64_t *a = x + 4, *b = x, sum[4], norm[4], inverse[4];
    aes_multiply16(norm, a, b);
    norm[0] ^= a[2] ^ a[3] ^ b[0] ^ b[2];
    norm[1] ^= a[0] ^ a[1] ^ b[2];
    norm[2] ^= a[1] ^ a[2] ^ b[1] ^ b[3];
    norm[3] ^= a[0] ^ a[1] ^ a[2] ^ b[3];
    aes_invert16(inverse, norm);
    for (int i = 0; i < 4; i++)
        sum[i] = a[i] ^ b[i];
    aes_multiply16(b, sum, inverse);
    for (int i = 0; i < 4; i++)
        sum[i] = a[i];
    aes_multiply16(a, sum, inverse);
}

static inline void aes_substitute(uint64_t x[8])
{
    uint64_t t[8] = {
        x[0] ^ x[5],
        x[2] ^ x[3] ^ x[5],
        x[1] ^ x[6] ^ x[7],
        x[1] ^ x[3] ^ x[6] ^ x[7],
        x[2] ^ x[3] ^ x[4] ^ x[6] ^ x[7],
        x[2] ^ x[3] ^ x[5] ^ x[7],
        x[1] ^ x[4] ^ x[5] ^ x[6],
        x[5] ^ x[7],
    };
    aes_invert256(t);
    x[0] = ~(t[0] ^ t[4] ^ t[5] ^ t[7]);
    x[1] = ~(t[0] ^ t[2]);
    x[2] = t[0] ^ t[1] ^ t[3];
    x[3] = t[0] ^ t[4] ^ t[6];
    x[4] = t[0] ^ t[1] ^ t[2] ^ t[4] ^ t[5] ^ t[7];
    x[5] = ~(t[1] ^ t[2] ^ t[4] ^ t[5] ^ t[7]);
    x[6] = ~(t[4] ^ t[7]);
    x[7] = t[1] ^ t[2] ^ t[3] ^ t[4];
}

static inline void aes_substitute_back(uint64_t y[8])
{
    uint64_t x[8] = { ~y[0], ~y[1], y[2], y[3], y[4], ~y[5], ~y[6], y[7] };
    uint64_t t[8] = {
        x[4] ^ x[5],
        x[0] ^ x[1] ^ x[5],
        x[1] ^ x[4] ^ x[5],
        x[0] ^ x[1] ^ x[2] ^ x[4],
        x[1] ^ x[2] ^ x[7],
        x[0] ^ x[4] ^ x[5] ^ x[6],
        x[1] ^ x[2] ^ x[3] ^ x[4] ^ x[5] ^ x[7],
        x[1] ^ x[2] ^ x[6] ^ x[7],
    };
    aes_invert256(t);
    y[0] = t[0] ^ t[1] ^ t[5] ^ t[7];
    y[1] = t[4] ^ t[5] ^ t[6];
    y[2] = t[2] ^ t[3] ^ t[5] ^ t[7];
    y[3] = t[2] ^ t[3];
    y[4] = t[2] ^ t[6] ^ t[7];
    y[5] = t[1] ^ t[5] ^ t[7];
    y[6] = t[1] ^ t[2] ^ t[4] ^ t[6];
    y[7] = t[1] ^ t[5];
}

/* ---- rows and columns ---- */

static inline uint64_t aes_rotate(uint64_t x, unsigned by)
{
    return x >> by | x << (64 - by);
}

/* Row r moves by r columns to the left (FIPS-197 section 5.1.2), or back. */
static inline void aes_shift_rows(uint64_t x[8], int back)
{
    const uint64_t row = 0x000f000f000f000f;
    for (int b = 0; b < 8; b++) {
        uint64_t one = x[b] & row << 4, two = x[b] & row << 8, three = x[b] & row << 12;
        x[b] = (x[b] & row) | aes_rotate(one, back ? 48 : 16) | aes_rotate(two, 32) |
               aes_rotate(three, back ? 16 : 48);
    }
}

/* Each octet is replaced with the one that is one row, or two rows, below in its column. */
static inline uint64_t aes_below(uint64_t x)
{
    return (x >> 4 & 0x0fff0fff0fff0fff) | (x << 12 & 0xf000f000f000f000);
}

static inline uint64_t aes_below2(uint64_t x)
{
    return (x >> 8 & 0x00ff00ff00ff00ff) | (x << 8 & 0xff00ff00ff00ff00);
}

/* Multiply each octet by x in the field of FIPS-197. */
static inline void aes_double(uint64_t x[8])
{
    uint64_t top = x[7];
    x[7] = x[6];
    x[6] = x[5];
    x[5] = x[4];
    x[4] = x[3] ^ top;
    x[3] = x[2] ^ top;
    x[2] = x[1];
    x[1] = x[0] ^ top;
    x[0] = top;
}

/* FIPS-197 section 5.1.3: 2 * (a + below) + below + the two rows under that. */
static inline void aes_mix_columns(uint64_t x[8])
{
    uint64_t both[8], below[8];
    for (int b = 0; b < 8; b++) {
        below[b] = aes_below(x[b]);
        both[b] = x[b] ^ below[b];
        x[b] = below[b] ^ aes_below2(both[b]);
    }
    aes_double(both);
    for (int b = 0; b < 8; b++)
        x[b] ^= both[b];
}

/* The inverse matrix is that of MixColumns times the circulant (5, 0, 4, 0). */
static inline void aes_mix_columns_back(uint64_t x[8])
{
    uint64_t t[8];
    for (int b = 0; b < 8; b++)
        t[b] = x[b] ^ aes_below2(x[b]);
    aes_double(t);
    aes_double(t);
    for (int b = 0; b < 8; b++)
        x[b] ^= t[b];
    aes_mix_columns(x);
}

static inline void aes_add(uint64_t x[8], const uint64_t key[8])
{
    for (int b = 0; b < 8; b++)
        x[b] ^= key[b];
}

/* ---- what others call ---- */

/* The 15 round keys as octets (FIPS-197 section 5.2). */
static void aes256_expand(uint8_t round_key[16 * (AES256_ROUNDS + 1)], const uint8_t key[32])
{
    uint8_t word[64] = { 0 }, constant = 1;
    uint64_t x[8];
    memcpy(round_key, key, 32);
    for (int at = 32; at < 16 * (AES256_ROUNDS + 1); at += 4) {
        uint8_t *to = round_key + at;
        if (at % 16 == 0) {
            int turn = at % 32 == 0;
            for (int i = 0; i < 4; i++)
                word[i] = to[(turn ? (i + 1) % 4 : i) - 4];
            aes_load(x, word);
            aes_substitute(x);
            aes_store(word, x);
            if (turn) {
                word[0] ^= constant;
                constant = (uint8_t)(constant << 1);
            }
            for (int i = 0; i < 4; i++)
                to[i] = to[i - 32] ^ word[i];
        } else {
            for (int i = 0; i < 4; i++)
                to[i] = to[i - 32] ^ to[i - 4];
        }
    }
    wipe(word, sizeof word);
    wipe(x, sizeof x);
}

/* Octets to planes; the octets may have been changed in between. */
static void aes256_slice(struct aes256_sliced *aes, const uint8_t round_key[16 * (AES256_ROUNDS + 1)])
{
    uint8_t same[64];
    for (int round = 0; round <= AES256_ROUNDS; round++) {
        for (int k = 0; k < AES256_LANES; k++)
            memcpy(same + 16 * k, round_key + 16 * round, 16);
        aes_load(aes->round_key[round], same);
    }
    wipe(same, sizeof same);
}

/* Four blocks in place. */
static void aes256_encrypt4(const struct aes256_sliced *aes, uint8_t data[64])
{
    uint64_t x[8];
    aes_load(x, data);
    aes_add(x, aes->round_key[0]);
    for (int round = 1; round < AES256_ROUNDS; round++) {
        aes_substitute(x);
        aes_shift_rows(x, 0);
        aes_mix_columns(x);
        aes_add(x, aes->round_key[round]);
    }
    aes_substitute(x);
    aes_shift_rows(x, 0);
    aes_add(x, aes->round_key[AES256_ROUNDS]);
    aes_store(data, x);
}

static void aes256_decrypt4(const struct aes256_sliced *aes, uint8_t data[64])
{
    uint64_t x[8];
    aes_load(x, data);
    aes_add(x, aes->round_key[AES256_ROUNDS]);
    for (int round = AES256_ROUNDS - 1; round > 0; round--) {
        aes_shift_rows(x, 1);
        aes_substitute_back(x);
        aes_add(x, aes->round_key[round]);
        aes_mix_columns_back(x);
    }
    aes_shift_rows(x, 1);
    aes_substitute_back(x);
    aes_add(x, aes->round_key[0]);
    aes_store(data, x);
}

#endif
