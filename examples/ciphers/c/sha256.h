/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* SHA-256 (FIPS 180-4 section 6.2), HMAC (RFC 2104) and HKDF (RFC 5869) for short inputs, in portable C11. */
#ifndef EXAMPLE_SHA256_H
#define EXAMPLE_SHA256_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "wipe.h"

static inline uint32_t sha256_rotate(uint32_t x, unsigned by)
{
    return x >> by | x << (32 - by);
}

static void sha256_block(uint32_t state[8], const uint8_t block[64])
{
    static const uint32_t constant[64] = {
        0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
        0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
        0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
        0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
        0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
        0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
        0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
        0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
    };
    uint32_t w[64], v[8];
    for (int i = 0; i < 16; i++)
        w[i] = (uint32_t)block[4 * i] << 24 | (uint32_t)block[4 * i + 1] << 16 | (uint32_t)block[4 * i + 2] << 8 |
               block[4 * i + 3];
    for (int i = 16; i < 64; i++) {
        uint32_t s0 = sha256_rotate(w[i - 15], 7) ^ sha256_rotate(w[i - 15], 18) ^ w[i - 15] >> 3;
        uint32_t s1 = sha256_rotate(w[i - 2], 17) ^ sha256_rotate(w[i - 2], 19) ^ w[i - 2] >> 10;
        w[i] = w[i - 16] + s0 + w[i - 7] + s1;
    }
    memcpy(v, state, sizeof v);
    for (int i = 0; i < 64; i++) {
        uint32_t s1 = sha256_rotate(v[4], 6) ^ sha256_rotate(v[4], 11) ^ sha256_rotate(v[4], 25);
        uint32_t s0 = sha256_rotate(v[0], 2) ^ sha256_rotate(v[0], 13) ^ sha256_rotate(v[0], 22);
        uint32_t choice = (v[4] & v[5]) ^ (~v[4] & v[6]);
        uint32_t majority = (v[0] & v[1]) ^ (v[0] & v[2]) ^ (v[1] & v[2]);
        uint32_t t1 = v[7] + s1 + choice + constant[i] + w[i], t2 = s0 + majority;
        memmove(v + 1, v, 7 * sizeof v[0]);
        v[4] += t1;
        v[0] = t1 + t2;
    }
    for (int i = 0; i < 8; i++)
        state[i] += v[i];
    wipe(w, sizeof w);
    wipe(v, sizeof v);
}

/* HMAC-SHA-256 under a key of 32 octets of a message of at most 119 octets. */
static void hmac_sha256(uint8_t mac[32], const uint8_t key[32], const uint8_t *message, size_t len)
{
    static const uint32_t start[8] = { 0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                       0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19 };
    uint8_t block[64], tail[128];
    uint32_t state[8];
    memset(mac, 0, 32);
    for (int outer = 0; outer < 2; outer++) {
        size_t octets = outer ? 32 : len, blocks = octets + 9 > 64 ? 2 : 1, bits = 8 * (64 + octets);
        memset(block, outer ? 0x5c : 0x36, sizeof block);
        for (int i = 0; i < 32; i++)
            block[i] ^= key[i];
        memset(tail, 0, sizeof tail);
        memcpy(tail, outer ? mac : message, octets);
        tail[octets] = 0x80;
        tail[64 * blocks - 2] = (uint8_t)(bits >> 8);
        tail[64 * blocks - 1] = (uint8_t)bits;
        memcpy(state, start, sizeof state);
        sha256_block(state, block);
        for (size_t i = 0; i < blocks; i++)
            sha256_block(state, tail + 64 * i);
        for (int i = 0; i < 32; i++)
            mac[i] = (uint8_t)(state[i / 4] >> (24 - 8 * (i % 4)));
    }
    wipe(block, sizeof block);
    wipe(tail, sizeof tail);
    wipe(state, sizeof state);
}

/* HKDF-SHA-256 with an empty salt: two blocks of output. key_len is at most 119, info_len at most 80. */
static void hkdf_sha256(uint8_t out[64], const uint8_t *key, size_t key_len, const char *info, size_t info_len)
{
    uint8_t salt[32] = { 0 }, prk[32], message[32 + 80 + 1];
    hmac_sha256(prk, salt, key, key_len);
    memcpy(message + 32, info, info_len);
    message[32 + info_len] = 1;
    hmac_sha256(out, prk, message + 32, info_len + 1);
    memcpy(message, out, 32);
    message[32 + info_len] = 2;
    hmac_sha256(out + 32, prk, message, 32 + info_len + 1);
    wipe(prk, sizeof prk);
    wipe(message, sizeof message);
}

#endif
