/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * mAES-512, the sample cipher of paper 004, in C: with the AES instructions of x86 where the processor has them, in
 * portable C elsewhere. Neither form has a branch or an address that depends on keys or data.
 *
 * The key is K1 and K2, 32 octets each; K1 = K2 is weak. HKDF-SHA-256 (RFC 5869) with an empty salt makes W0, W1 and
 * W2 of the key and `mAES-512 v1`. With A and B as AES-256 under K1 and K2, and P as the permutation of octets below,
 *
 *     E(x) = W2 ^ B(W1 ^ P(A(x ^ W0)))
 *
 * W0, W1 and W2 are added to the first round key of A and to the first and the last round key of B.
 */
#include "../../../include/ravelin_cipher.h"
#include "../c/aes256_sliced.h"
#include "../c/sha256.h"

#if defined(__x86_64__) && !defined(MAES_PORTABLE)
#include <cpuid.h>
#include <immintrin.h>
#define MAES_X86 1
#define MAES_TARGET __attribute__((target("aes,ssse3")))
#else
#define MAES_X86 0
#endif

/* Blocks that are computed at once: enough to fill the pipeline of the AES instructions. */
#define LANES 8
#define ROUNDS AES256_ROUNDS

/* Octet i of P's output is octet shuffle[i] of its input. */
static const uint8_t shuffle[16] = { 4, 9, 14, 3, 8, 13, 2, 7, 12, 1, 6, 11, 0, 5, 10, 15 };
/* The inverse of P, in the same way. */
static const uint8_t unshuffle[16] = { 12, 9, 6, 3, 0, 13, 10, 7, 4, 1, 14, 11, 8, 5, 2, 15 };

/* The round keys of A and B as 16 octets each, in the order in which the instructions want them. */
struct accelerated {
    uint8_t encrypt[2][ROUNDS + 1][16]; /* A, B */
    uint8_t decrypt[2][ROUNDS + 1][16]; /* B, A */
};

struct context {
    uint64_t has_instructions;
    union {
        struct accelerated accelerated;
        struct aes256_sliced sliced[2];
    } keys;
};

/* ---- the AES instructions ---- */

#if MAES_X86

static int has_instructions(void)
{
    unsigned eax, ebx, ecx, edx;
    return __get_cpuid(1, &eax, &ebx, &ecx, &edx) && (ecx & bit_AES) && (ecx & bit_SSSE3);
}

static inline MAES_TARGET __m128i load(const uint8_t *from)
{
    return _mm_loadu_si128((const __m128i *)(const void *)from);
}

static inline MAES_TARGET void store(uint8_t *to, __m128i x)
{
    _mm_storeu_si128((__m128i *)(void *)to, x);
}

MAES_TARGET static void accelerated_setkey(struct accelerated *keys, const uint8_t round_key[2][16 * (ROUNDS + 1)])
{
    memcpy(keys->encrypt, round_key, sizeof keys->encrypt);
    for (int half = 0; half < 2; half++) {
        for (int round = 0; round <= ROUNDS; round++) {
            __m128i key = load(keys->encrypt[1 - half][ROUNDS - round]);
            if (round != 0 && round != ROUNDS)
                key = _mm_aesimc_si128(key);
            store(keys->decrypt[half][round], key);
        }
    }
}

/* `lanes` is a constant in each call, and the loops over it are unrolled. */
__attribute__((always_inline)) static inline MAES_TARGET void
accelerated_lanes(const uint8_t keys[2][ROUNDS + 1][16], const uint8_t order[16], int decrypt, uint8_t *dst,
                  const uint8_t *src, int lanes)
{
    const __m128i permutation = load(order);
    __m128i x[LANES];
#pragma GCC unroll 8
    for (int i = 0; i < lanes; i++)
        x[i] = load(src + 16 * i);
    for (int half = 0; half < 2; half++) {
        __m128i key = load(keys[half][0]);
#pragma GCC unroll 8
        for (int i = 0; i < lanes; i++)
            x[i] = _mm_xor_si128(x[i], key);
        for (int round = 1; round < ROUNDS; round++) {
            key = load(keys[half][round]);
#pragma GCC unroll 8
            for (int i = 0; i < lanes; i++)
                x[i] = decrypt ? _mm_aesdec_si128(x[i], key) : _mm_aesenc_si128(x[i], key);
        }
        key = load(keys[half][ROUNDS]);
#pragma GCC unroll 8
        for (int i = 0; i < lanes; i++) {
            x[i] = decrypt ? _mm_aesdeclast_si128(x[i], key) : _mm_aesenclast_si128(x[i], key);
            if (half == 0)
                x[i] = _mm_shuffle_epi8(x[i], permutation);
        }
    }
#pragma GCC unroll 8
    for (int i = 0; i < lanes; i++)
        store(dst + 16 * i, x[i]);
}

__attribute__((always_inline)) static inline MAES_TARGET void
accelerated_blocks(const uint8_t keys[2][ROUNDS + 1][16], const uint8_t order[16], int decrypt, uint8_t *dst,
                   const uint8_t *src, size_t blocks)
{
    for (; blocks >= LANES; blocks -= LANES, dst += 16 * LANES, src += 16 * LANES)
        accelerated_lanes(keys, order, decrypt, dst, src, LANES);
    for (; blocks >= LANES / 2; blocks -= LANES / 2, dst += 8 * LANES, src += 8 * LANES)
        accelerated_lanes(keys, order, decrypt, dst, src, LANES / 2);
    for (; blocks > 0; blocks--, dst += 16, src += 16)
        accelerated_lanes(keys, order, decrypt, dst, src, 1);
}

MAES_TARGET static void accelerated_encrypt(const struct accelerated *keys, uint8_t *dst, const uint8_t *src,
                                            size_t blocks)
{
    accelerated_blocks(keys->encrypt, shuffle, 0, dst, src, blocks);
}

MAES_TARGET static void accelerated_decrypt(const struct accelerated *keys, uint8_t *dst, const uint8_t *src,
                                            size_t blocks)
{
    accelerated_blocks(keys->decrypt, unshuffle, 1, dst, src, blocks);
}

#endif

/* ---- portable C ---- */

static void permute(uint8_t data[16 * AES256_LANES], const uint8_t order[16])
{
    uint8_t block[16];
    for (int k = 0; k < AES256_LANES; k++) {
        memcpy(block, data + 16 * k, 16);
        for (int i = 0; i < 16; i++)
            data[16 * k + i] = block[order[i]];
    }
}

static void sliced_blocks(const struct aes256_sliced keys[2], int decrypt, uint8_t *dst, const uint8_t *src,
                          size_t blocks)
{
    uint8_t data[16 * AES256_LANES];
    while (blocks > 0) {
        size_t now = blocks < AES256_LANES ? blocks : AES256_LANES;
        memset(data, 0, sizeof data);
        memcpy(data, src, 16 * now);
        if (decrypt) {
            aes256_decrypt4(&keys[1], data);
            permute(data, unshuffle);
            aes256_decrypt4(&keys[0], data);
        } else {
            aes256_encrypt4(&keys[0], data);
            permute(data, shuffle);
            aes256_encrypt4(&keys[1], data);
        }
        memcpy(dst, data, 16 * now);
        dst += 16 * now;
        src += 16 * now;
        blocks -= now;
    }
    wipe(data, sizeof data);
}

/* ---- the functions of the description ---- */

static void encrypt_blocks(const void *ctx, uint8_t *dst, const uint8_t *src, size_t blocks)
{
    const struct context *context = ctx;
#if MAES_X86
    if (context->has_instructions) {
        accelerated_encrypt(&context->keys.accelerated, dst, src, blocks);
        return;
    }
#endif
    sliced_blocks(context->keys.sliced, 0, dst, src, blocks);
}

static void decrypt_blocks(const void *ctx, uint8_t *dst, const uint8_t *src, size_t blocks)
{
    const struct context *context = ctx;
#if MAES_X86
    if (context->has_instructions) {
        accelerated_decrypt(&context->keys.accelerated, dst, src, blocks);
        return;
    }
#endif
    sliced_blocks(context->keys.sliced, 1, dst, src, blocks);
}

/* 0 and 1 for a key that is good and weak, without a branch. */
static int32_t is_weak(const uint8_t key[64])
{
    uint32_t differ = 0;
    for (int i = 0; i < 32; i++)
        differ |= (uint32_t)(key[i] ^ key[32 + i]);
    return (int32_t)((differ - 1) >> 31);
}

/* The context is written for a weak key, too: the host wipes it, and the time of setkey tells nothing. */
static int32_t setkey_of(struct context *context, const uint8_t key[64], int instructions)
{
    uint8_t round_key[2][16 * (ROUNDS + 1)], whitening[64];
    hkdf_sha256(whitening, key, 64, "mAES-512 v1", 11);
    for (int half = 0; half < 2; half++)
        aes256_expand(round_key[half], key + 32 * half);
    for (int i = 0; i < 16; i++) {
        round_key[0][i] ^= whitening[i];
        round_key[1][i] ^= whitening[16 + i];
        round_key[1][16 * ROUNDS + i] ^= whitening[32 + i];
    }
    context->has_instructions = (uint64_t)instructions;
#if MAES_X86
    if (instructions)
        accelerated_setkey(&context->keys.accelerated, (const uint8_t(*)[16 * (ROUNDS + 1)])round_key);
    else
#endif
        for (int half = 0; half < 2; half++)
            aes256_slice(&context->keys.sliced[half], round_key[half]);
    wipe(round_key, sizeof round_key);
    wipe(whitening, sizeof whitening);
    return RAVELIN_CIPHER_WEAK_KEY * is_weak(key);
}

static int32_t setkey(void *ctx, const uint8_t *key, size_t key_len)
{
    int instructions = 0;
    if (key_len != 64)
        return RAVELIN_CIPHER_BAD_LENGTH;
#if MAES_X86
    instructions = has_instructions();
#endif
    return setkey_of(ctx, key, instructions);
}

/* Counter blocks that wait for encryption, and what their key stream is for. Blocks of several packets share a turn. */
struct turn {
    uint8_t block[16 * LANES];
    struct {
        uint8_t *dst;
        const uint8_t *src;
        size_t len;
    } target[LANES];
    size_t count;
};

/* dst = src ^ stream. Whole blocks go in words: octet by octet was two thirds of the time of counter mode. */
static inline void xor_block(uint8_t *dst, const uint8_t *src, const uint8_t stream[16], size_t len)
{
    if (len == 16) {
        uint64_t data[2], with[2];
        memcpy(data, src, 16);
        memcpy(with, stream, 16);
        data[0] ^= with[0];
        data[1] ^= with[1];
        memcpy(dst, data, 16);
    } else {
        for (size_t i = 0; i < len; i++)
            dst[i] = src[i] ^ stream[i];
    }
}

static void finish(const void *ctx, struct turn *turn)
{
    encrypt_blocks(ctx, turn->block, turn->block, turn->count);
    for (size_t i = 0; i < turn->count; i++)
        xor_block(turn->target[i].dst, turn->target[i].src, turn->block + 16 * i, turn->target[i].len);
    turn->count = 0;
}

static void add_packet(const void *ctx, struct turn *turn, const uint8_t counter[16], uint8_t *dst,
                       const uint8_t *src, size_t len)
{
    uint32_t number = (uint32_t)counter[12] << 24 | (uint32_t)counter[13] << 16 | (uint32_t)counter[14] << 8 |
                      counter[15];
    while (len > 0) {
        size_t now = len < 16 ? len : 16;
        uint8_t *block = turn->block + 16 * turn->count;
        memcpy(block, counter, 12);
        for (int i = 0; i < 4; i++)
            block[12 + i] = (uint8_t)(number >> (24 - 8 * i));
        turn->target[turn->count].dst = dst;
        turn->target[turn->count].src = src;
        turn->target[turn->count].len = now;
        if (++turn->count == LANES)
            finish(ctx, turn);
        number++;
        dst += now;
        src += now;
        len -= now;
    }
}

static void ctr_xor(const void *ctx, const uint8_t counter[16], uint8_t *dst, const uint8_t *src, size_t len)
{
    struct turn turn;
    turn.count = 0;
    add_packet(ctx, &turn, counter, dst, src, len);
    finish(ctx, &turn);
    wipe(turn.block, sizeof turn.block);
}

static void ctr_xor_batch(const void *ctx, struct ravelin_cipher_ctr *packets, size_t count)
{
    struct turn turn;
    turn.count = 0;
    for (size_t i = 0; i < count; i++)
        add_packet(ctx, &turn, packets[i].counter, packets[i].data, packets[i].data, packets[i].len);
    finish(ctx, &turn);
    wipe(turn.block, sizeof turn.block);
}

/* A block of CBC needs the one in front of it: up to eight packets go in step, one block each. */
static void cbc_encrypt_batch(const void *ctx, struct ravelin_cipher_cbc *packets, size_t count)
{
    uint8_t chain[16 * LANES];
    for (size_t first = 0; first < count; first += LANES) {
        size_t lanes = count - first < LANES ? count - first : LANES, longest = 0;
        for (size_t i = 0; i < lanes; i++) {
            memcpy(chain + 16 * i, packets[first + i].iv, 16);
            if (packets[first + i].len > longest)
                longest = packets[first + i].len;
        }
        for (size_t at = 0; at + 16 <= longest; at += 16) {
            for (size_t i = 0; i < lanes; i++)
                if (at + 16 <= packets[first + i].len)
                    xor_block(chain + 16 * i, chain + 16 * i, packets[first + i].data + at, 16);
            encrypt_blocks(ctx, chain, chain, lanes);
            for (size_t i = 0; i < lanes; i++)
                if (at + 16 <= packets[first + i].len)
                    memcpy(packets[first + i].data + at, chain + 16 * i, 16);
        }
    }
}

static const struct ravelin_cipher cipher = {
    .abi_major = RAVELIN_CIPHER_ABI_MAJOR,
    .abi_minor = RAVELIN_CIPHER_ABI_MINOR,
    .struct_size = sizeof(struct ravelin_cipher),
    .kind = RAVELIN_CIPHER_BLOCK,
    .flags = RAVELIN_CIPHER_CONSTANT_TIME | RAVELIN_CIPHER_IN_PLACE | RAVELIN_CIPHER_OVERLAP_FORBIDDEN,
    .name = "maes512c",
    .version = "1.0",
    .vendor = "Ravelin examples",
    .block_len = 16,
    .key_len = 64,
    .ctx_size = sizeof(struct context),
    .ctx_align = _Alignof(struct context),
    .setkey = setkey,
    .encrypt_blocks = encrypt_blocks,
    .decrypt_blocks = decrypt_blocks,
    .ctr_xor = ctr_xor,
    .ctr_xor_batch = ctr_xor_batch,
    .cbc_encrypt_batch = cbc_encrypt_batch,
};

const struct ravelin_cipher *ravelin_cipher_v1(uint32_t index)
{
    return index == 0 ? &cipher : NULL;
}
