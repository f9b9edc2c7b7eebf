/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * AES-256 (FIPS-197) as a cipher of one's own: the smallest library that is useful. It supplies a key and blocks;
 * everything else is made by the host. It is portable C11, and its time does not depend on keys or data.
 */
#include "../../../include/ravelin_cipher.h"
#include "../c/aes256_sliced.h"

static int32_t setkey(void *ctx, const uint8_t *key, size_t key_len)
{
    uint8_t round_key[16 * (AES256_ROUNDS + 1)];
    if (key_len != 32)
        return RAVELIN_CIPHER_BAD_LENGTH;
    aes256_expand(round_key, key);
    aes256_slice(ctx, round_key);
    wipe(round_key, sizeof round_key);
    return RAVELIN_CIPHER_OK;
}

/* What is left of fewer than four blocks is filled up with zeros. */
static void each(const void *ctx, uint8_t *dst, const uint8_t *src, size_t blocks,
                 void (*four)(const struct aes256_sliced *, uint8_t[64]))
{
    uint8_t data[16 * AES256_LANES];
    while (blocks > 0) {
        size_t now = blocks < AES256_LANES ? blocks : AES256_LANES;
        memset(data, 0, sizeof data);
        memcpy(data, src, 16 * now);
        four(ctx, data);
        memcpy(dst, data, 16 * now);
        dst += 16 * now;
        src += 16 * now;
        blocks -= now;
    }
    wipe(data, sizeof data);
}

static void encrypt_blocks(const void *ctx, uint8_t *dst, const uint8_t *src, size_t blocks)
{
    each(ctx, dst, src, blocks, aes256_encrypt4);
}

static void decrypt_blocks(const void *ctx, uint8_t *dst, const uint8_t *src, size_t blocks)
{
    each(ctx, dst, src, blocks, aes256_decrypt4);
}

static const struct ravelin_cipher cipher = {
    .abi_major = RAVELIN_CIPHER_ABI_MAJOR,
    .abi_minor = RAVELIN_CIPHER_ABI_MINOR,
    .struct_size = sizeof(struct ravelin_cipher),
    .kind = RAVELIN_CIPHER_BLOCK,
    .flags = RAVELIN_CIPHER_CONSTANT_TIME | RAVELIN_CIPHER_IN_PLACE | RAVELIN_CIPHER_OVERLAP_FORBIDDEN,
    .name = "aes256c",
    .version = "1.0",
    .vendor = "Ravelin examples",
    .block_len = 16,
    .key_len = 32,
    .ctx_size = sizeof(struct aes256_sliced),
    .ctx_align = _Alignof(struct aes256_sliced),
    .setkey = setkey,
    .encrypt_blocks = encrypt_blocks,
    .decrypt_blocks = decrypt_blocks,
};

const struct ravelin_cipher *ravelin_cipher_v1(uint32_t index)
{
    return index == 0 ? &cipher : NULL;
}
