
/* XOR the key stream of a nonce from an octet on: blocks that hold the nonce and the number of the block. */
static void xor_at(const void *ctx, const uint8_t *nonce, uint64_t offset, uint8_t *dst, const uint8_t *src,
                   size_t len)
{
    uint8_t block[16], stream[16];
    uint64_t number = offset / 16;
    size_t at = (size_t)(offset % 16);
    memcpy(block, nonce, 12);
    while (len > 0) {
        size_t now = 16 - at < len ? 16 - at : len;
        for (int i = 0; i < 4; i++)
            block[12 + i] = (uint8_t)(number >> 8 * i);
        encrypt((const struct context *)ctx, stream, block);
        for (size_t i = 0; i < now; i++)
            dst[i] = src[i] ^ stream[at + i];
        dst += now;
        src += now;
        len -= now;
        at = 0;
        number++;
    }
}
