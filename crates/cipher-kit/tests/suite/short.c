/* A toy cipher with blocks of 8 octets. It is no cipher for anybody's data. */
#include "ravelin_cipher.h"

#define KEY 16
#define ROUNDS 32

static uint32_t load(const uint8_t *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static void store(uint8_t *p, uint32_t value)
{
    for (int i = 0; i < 4; i++, value >>= 8)
        p[i] = (uint8_t)value;
}

static uint32_t mix(uint32_t x, uint32_t k) { return (x * 0x9e3779b1u + k) ^ (x << 11 | x >> 21); }

static int32_t setkey(void *ctx, const uint8_t *key, size_t len)
{
    uint32_t *k = ctx;
    if (len != KEY)
        return RAVELIN_CIPHER_BAD_LENGTH;
    for (uint32_t i = 0; i < ROUNDS; i++)
        k[i] = load(key + 4 * (i % 4)) + i * 0x01010101u;
    return RAVELIN_CIPHER_OK;
}

static void encrypt(const void *ctx, uint8_t *dst, const uint8_t *src, size_t blocks)
{
    const uint32_t *k = ctx;
    for (; blocks > 0; blocks--, dst += 8, src += 8) {
        uint32_t l = load(src), r = load(src + 4);
        for (int i = 0; i < ROUNDS; i++) {
            uint32_t next = l ^ mix(r, k[i]);
            l = r;
            r = next;
        }
        store(dst, r);
        store(dst + 4, l);
    }
}

static void decrypt(const void *ctx, uint8_t *dst, const uint8_t *src, size_t blocks)
{
    const uint32_t *k = ctx;
    for (; blocks > 0; blocks--, dst += 8, src += 8) {
        uint32_t r = load(src), l = load(src + 4);
        for (int i = ROUNDS; i-- > 0;) {
            uint32_t before = r ^ mix(l, k[i]);
            r = l;
            l = before;
        }
        store(dst, l);
        store(dst + 4, r);
    }
}

static const struct ravelin_cipher description = {
    .abi_major = RAVELIN_CIPHER_ABI_MAJOR,
    .abi_minor = RAVELIN_CIPHER_ABI_MINOR,
    .struct_size = sizeof(struct ravelin_cipher),
    .kind = RAVELIN_CIPHER_BLOCK,
    .flags = RAVELIN_CIPHER_CONSTANT_TIME | RAVELIN_CIPHER_IN_PLACE,
    .name = "shortcipher",
    .version = "1",
    .vendor = "tests",
    .block_len = 8,
    .key_len = KEY,
    .ctx_size = 4 * ROUNDS,
    .ctx_align = 4,
    .setkey = setkey,
    .encrypt_blocks = encrypt,
    .decrypt_blocks = decrypt,
};

RAVELIN_CIPHER_EXPORT const struct ravelin_cipher *ravelin_cipher_v1(uint32_t index)
{
    return index == 0 ? &description : 0;
}
