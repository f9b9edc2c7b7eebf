/* A toy stream cipher, a toy combined mode (AEAD) or a toy cipher with blocks of 8 octets (EIGHT), and one fault for
 * each macro. None is for anybody's data. */
#include "ravelin_cipher.h"
#include <string.h>

#ifndef FLAGS
#define FLAGS RAVELIN_CIPHER_CONSTANT_TIME
#endif
#ifndef AT
#define AT offset
#endif

static uint64_t load(const uint8_t *p)
{
    uint64_t value;
    memcpy(&value, p, 8);
    return value;
}

static uint64_t turn(uint64_t x, int by) { return x << by | x >> (64 - by); }
static uint64_t mix(uint64_t x, uint64_t k) { return turn(x * 0x9e3779b97f4a7c15u + k, 23) ^ turn(x, 7); }

static int32_t setkey(void *ctx, const uint8_t *key, size_t len)
{
    if (len != 32)
        return RAVELIN_CIPHER_BAD_LENGTH;
    memcpy(ctx, key, 32);
    return RAVELIN_CIPHER_OK;
}

static uint8_t stream(const uint64_t *k, const uint8_t *nonce, uint64_t at)
{
    uint64_t word = at / 8;
    for (int i = 0; i < 4; i++)
        word = mix(word + load(nonce), k[i]) ^ load(nonce + 4);
    return (uint8_t)(word >> 8 * (at % 8));
}

static void xor_at(const void *ctx, const uint8_t *nonce, uint64_t offset, uint8_t *dst, const uint8_t *src, size_t len)
{
#ifdef NOT_IN_PLACE
    memset(dst, 0, len);
#endif
    for (size_t i = 0; i < len; i++)
        dst[i] = src[i] ^ stream(ctx, nonce, AT + i);
}

#ifdef EIGHT
static void encrypt(const void *ctx, uint8_t *dst, const uint8_t *src, size_t blocks)
{
    for (const uint64_t *k = ctx; blocks; blocks--, dst += 8, src += 8) {
        uint64_t x = load(src);
        for (int i = 0; i < 4; i++)
            x = turn((x ^ k[i]) * 0x9e3779b97f4a7c15u, 23);
        memcpy(dst, &x, 8);
    }
}

static void decrypt(const void *ctx, uint8_t *dst, const uint8_t *src, size_t blocks)
{
    for (const uint64_t *k = ctx; blocks; blocks--, dst += 8, src += 8) {
        uint64_t x = load(src);
        for (int i = 4; i-- > 0;)
            x = turn(x, 41) * 0xf1de83e19937733du ^ k[i];
        memcpy(dst, &x, 8);
    }
}
#endif

#ifdef AEAD
static void mac(const uint64_t *k, const uint8_t *nonce, const uint8_t *aad, size_t aad_len, const uint8_t *ct,
                size_t len, uint8_t *tag)
{
    uint64_t sum[2] = { mix(load(nonce), k[0]) + aad_len, mix(load(nonce + 4), k[1]) + len };
    for (size_t i = 0; i < aad_len; i++)
        sum[0] = mix(sum[0] + aad[i], k[2]);
    for (size_t i = 0; i < len; i++)
        sum[1] = mix(sum[1] + ct[i], k[3]);
    sum[0] += mix(sum[1], k[0]);
    sum[1] += mix(sum[0], k[1]);
    memcpy(tag, sum, 16);
}

static void seal(const void *ctx, const uint8_t *nonce, const uint8_t *aad, size_t aad_len, uint8_t *dst,
                 const uint8_t *src, size_t len, uint8_t *tag)
{
    xor_at(ctx, nonce, 8, dst, src, len);
    mac(ctx, nonce, aad, aad_len, dst, len, tag);
#ifdef TAG_BEHIND
    *(volatile uint8_t *)(tag + 16) = tag[16];
#endif
}

static int32_t open(const void *ctx, const uint8_t *nonce, const uint8_t *aad, size_t aad_len, uint8_t *dst,
                    const uint8_t *src, size_t len, const uint8_t *tag)
{
    uint8_t made[16];
    int differs = 0;
    mac(ctx, nonce, aad, aad_len, src, len, made);
    for (int i = 0; i < 16; i++)
        differs |= made[i] ^ tag[i];
#ifdef RELEASES
    xor_at(ctx, nonce, 8, dst, src, len);
#endif
#ifdef OPENS
    differs = 0;
#endif
#ifdef ANSWER
    if (differs)
        return ANSWER;
#endif
    if (differs)
        return RAVELIN_CIPHER_BAD_TAG;
#ifndef RELEASES
    xor_at(ctx, nonce, 8, dst, src, len);
#endif
    return RAVELIN_CIPHER_OK;
}

#ifdef BATCH
static void seal_batch(const void *ctx, struct ravelin_cipher_aead *p, size_t count)
{
    for (size_t i = 0; i < count; i++)
        seal(ctx, p[i].nonce, p[i].aad, p[i].aad_len, p[i].data, p[i].data, p[i].len, p[i].tag);
#if BATCH == 2
    if (count > 3)
        p[2].tag[0] ^= 1;
#endif
}

static void open_batch(const void *ctx, struct ravelin_cipher_aead *p, size_t count)
{
    for (size_t i = 0; i < count; i++)
        p[i].result = open(ctx, p[i].nonce, p[i].aad, p[i].aad_len, p[i].data, p[i].data, p[i].len, p[i].tag);
#if BATCH == 3
    for (size_t i = 1; i < count; i++)
        p[i].result = p[0].result;
#endif
}
#endif
#endif

static const struct ravelin_cipher description = {
    .abi_major = RAVELIN_CIPHER_ABI_MAJOR,
    .abi_minor = RAVELIN_CIPHER_ABI_MINOR,
    .struct_size = sizeof(struct ravelin_cipher),
    .flags = FLAGS,
    .name = "toyflow",
    .version = "1",
    .vendor = "tests",
    .key_len = 32,
    .ctx_size = 32,
    .ctx_align = 8,
    .setkey = setkey,
#ifdef EIGHT
    .kind = RAVELIN_CIPHER_BLOCK,
    .block_len = 8,
    .encrypt_blocks = encrypt,
    .decrypt_blocks = decrypt,
#elif defined(AEAD)
    .kind = RAVELIN_CIPHER_AEAD,
    .nonce_len = 12,
    .tag_len = 16,
    .seal = seal,
    .open = open,
#ifdef BATCH
    .seal_batch = seal_batch,
    .open_batch = open_batch,
#endif
#else
    .kind = RAVELIN_CIPHER_STREAM,
    .nonce_len = 12,
    .xor_at = xor_at,
#endif
};

RAVELIN_CIPHER_EXPORT const struct ravelin_cipher *ravelin_cipher_v1(uint32_t index)
{
    return index == 0 ? &description : NULL;
}
