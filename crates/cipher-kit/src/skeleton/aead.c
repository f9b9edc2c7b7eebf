
/* A row of octets into the tag, filled up with zeros to whole blocks. */
static void absorb(const void *ctx, uint8_t tag[16], const uint8_t *data, size_t len)
{
    for (size_t at = 0; at < len; at += 16) {
        for (size_t i = 0; i < 16 && at + i < len; i++)
            tag[i] ^= data[at + i];
        encrypt((const struct context *)ctx, tag, tag);
    }
}

/* Nonce, both lengths, associated data and ciphertext, chained. */
static void make_tag(const void *ctx, const uint8_t *nonce, const uint8_t *aad, size_t aad_len, const uint8_t *data,
                     size_t len, uint8_t tag[16])
{
    uint8_t first[32] = {0xff};
    memcpy(first + 1, nonce, 12);
    store(first + 16, aad_len);
    store(first + 24, len);
    memset(tag, 0, 16);
    absorb(ctx, tag, first, 32);
    absorb(ctx, tag, aad, aad_len);
    absorb(ctx, tag, data, len);
    tag[0] ^= 1;
    encrypt((const struct context *)ctx, tag, tag);
}

static void seal(const void *ctx, const uint8_t *nonce, const uint8_t *aad, size_t aad_len, uint8_t *dst,
                 const uint8_t *src, size_t len, uint8_t *tag)
{
    xor_at(ctx, nonce, 0, dst, src, len);
    make_tag(ctx, nonce, aad, aad_len, dst, len, tag);
}

static int32_t open_sealed(const void *ctx, const uint8_t *nonce, const uint8_t *aad, size_t aad_len, uint8_t *dst,
                           const uint8_t *src, size_t len, const uint8_t *tag)
{
    uint8_t want[16], differ = 0;
    make_tag(ctx, nonce, aad, aad_len, src, len, want);
    for (int i = 0; i < 16; i++)
        differ |= want[i] ^ tag[i];
    if (differ != 0)
        return RAVELIN_CIPHER_BAD_TAG;
    xor_at(ctx, nonce, 0, dst, src, len);
    return RAVELIN_CIPHER_OK;
}
