/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Speck128/256, a library of which the author knew nothing of Ravelin but ravelin_cipher.h.
 *
 * The cipher is that of Beaulieu, Shors, Smith, Treatman-Clark, Weeks and Wingers, "The Simon and Speck Families of
 * Lightweight Block Ciphers" (IACR ePrint 2013/404). Octets become words as in the designers' "Simon and Speck
 * Implementation Guide": least significant octet first, and the first word of a block is the right-hand one.
 */
#include "ravelin_cipher.h"

#include <stddef.h>
#include <stdint.h>

enum { ROUNDS = 34, BLOCK_LEN = 16, KEY_LEN = 32 };

struct round_keys {
    uint64_t round[ROUNDS];
};

static uint64_t load64(const uint8_t *octets)
{
    uint64_t word = 0;
    for (unsigned i = 0; i < 8; i++)
        word |= (uint64_t)octets[i] << (8 * i);
    return word;
}

static void store64(uint8_t *octets, uint64_t word)
{
    for (unsigned i = 0; i < 8; i++)
        octets[i] = (uint8_t)(word >> (8 * i));
}

static uint64_t rotate_left(uint64_t word, unsigned bits)
{
    return word << bits | word >> (64 - bits);
}

static uint64_t rotate_right(uint64_t word, unsigned bits)
{
    return word >> bits | word << (64 - bits);
}

/* One round. The key schedule is the same round with the number of the round as its key. */
static void forward(uint64_t *left, uint64_t *right, uint64_t key)
{
    *left = (rotate_right(*left, 8) + *right) ^ key;
    *right = rotate_left(*right, 3) ^ *left;
}

static void backward(uint64_t *left, uint64_t *right, uint64_t key)
{
    *right = rotate_right(*right ^ *left, 3);
    *left = rotate_left((*left ^ key) - *right, 8);
}

static int32_t speck_setkey(void *ctx, const uint8_t *key, size_t key_len)
{
    struct round_keys *keys = ctx;
    if (key_len != KEY_LEN)
        return RAVELIN_CIPHER_BAD_LENGTH;
    uint64_t current = load64(key);
    uint64_t others[3] = { load64(key + 8), load64(key + 16), load64(key + 24) };
    for (unsigned i = 0; i < ROUNDS; i++) {
        keys->round[i] = current;
        forward(&others[i % 3], &current, i);
    }
    return RAVELIN_CIPHER_OK;
}

static void encrypt_one(const struct round_keys *keys, uint8_t *dst, const uint8_t *src)
{
    uint64_t right = load64(src);
    uint64_t left = load64(src + 8);
    for (unsigned i = 0; i < ROUNDS; i++)
        forward(&left, &right, keys->round[i]);
    store64(dst, right);
    store64(dst + 8, left);
}

static void decrypt_one(const struct round_keys *keys, uint8_t *dst, const uint8_t *src)
{
    uint64_t right = load64(src);
    uint64_t left = load64(src + 8);
    for (unsigned i = ROUNDS; i-- > 0;)
        backward(&left, &right, keys->round[i]);
    store64(dst, right);
    store64(dst + 8, left);
}

static void speck_encrypt_blocks(const void *ctx, uint8_t *dst, const uint8_t *src, size_t blocks)
{
    for (size_t i = 0; i < blocks; i++)
        encrypt_one(ctx, dst + BLOCK_LEN * i, src + BLOCK_LEN * i);
}

static void speck_decrypt_blocks(const void *ctx, uint8_t *dst, const uint8_t *src, size_t blocks)
{
    for (size_t i = 0; i < blocks; i++)
        decrypt_one(ctx, dst + BLOCK_LEN * i, src + BLOCK_LEN * i);
}

static void speck_ctr_xor(const void *ctx, const uint8_t counter[16], uint8_t *dst, const uint8_t *src, size_t len)
{
    uint8_t block[BLOCK_LEN];
    uint8_t stream[BLOCK_LEN];
    uint32_t number = (uint32_t)counter[12] << 24 | (uint32_t)counter[13] << 16 | (uint32_t)counter[14] << 8 |
                      counter[15];
    for (unsigned i = 0; i < 12; i++)
        block[i] = counter[i];
    for (size_t at = 0; at < len; at += BLOCK_LEN) {
        size_t now = len - at < BLOCK_LEN ? len - at : BLOCK_LEN;
        for (unsigned i = 0; i < 4; i++)
            block[12 + i] = (uint8_t)(number >> (24 - 8 * i));
        encrypt_one(ctx, stream, block);
        for (size_t i = 0; i < now; i++)
            dst[at + i] = src[at + i] ^ stream[i];
        number++;
    }
}

static const struct ravelin_cipher speck = {
    .abi_major = RAVELIN_CIPHER_ABI_MAJOR,
    .abi_minor = RAVELIN_CIPHER_ABI_MINOR,
    .struct_size = sizeof(struct ravelin_cipher),
    .kind = RAVELIN_CIPHER_BLOCK,
    .flags = RAVELIN_CIPHER_CONSTANT_TIME | RAVELIN_CIPHER_IN_PLACE,
    .name = "speck",
    .version = "1",
    .vendor = "a test of Ravelin",
    .block_len = BLOCK_LEN,
    .key_len = KEY_LEN,
    .ctx_size = sizeof(struct round_keys),
    .ctx_align = _Alignof(struct round_keys),
    .setkey = speck_setkey,
    .encrypt_blocks = speck_encrypt_blocks,
    .decrypt_blocks = speck_decrypt_blocks,
    .ctr_xor = speck_ctr_xor,
};

RAVELIN_CIPHER_EXPORT const struct ravelin_cipher *ravelin_cipher_v1(uint32_t index)
{
    return index == 0 ? &speck : NULL;
}
