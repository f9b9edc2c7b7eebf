
static void decrypt(const struct context *context, uint8_t *dst, const uint8_t *src)
{
    uint64_t r = load(src), l = load(src + 8);
    for (int i = ROUNDS; i-- > 0;) {
        uint64_t before = r ^ round_function(l, context->round_key[i]);
        r = l;
        l = before;
    }
    store(dst, l);
    store(dst + 8, r);
}

static void encrypt_blocks(const void *ctx, uint8_t *dst, const uint8_t *src, size_t blocks)
{
    for (; blocks > 0; blocks--, dst += 16, src += 16)
        encrypt((const struct context *)ctx, dst, src);
}

static void decrypt_blocks(const void *ctx, uint8_t *dst, const uint8_t *src, size_t blocks)
{
    for (; blocks > 0; blocks--, dst += 16, src += 16)
        decrypt((const struct context *)ctx, dst, src);
}
