/*
 * @NAME@: a cipher of one's own for Ravelin. ravelin_cipher.h says what a library must keep to.
 *
 * The frame below is a placeholder: a Feistel network of 32 rounds over two words of 64 bits. It shows where everything
 * goes, and it PROTECTS NOTHING. Replace it by your cipher, and say the same in reference.py.
 */
#include "ravelin_cipher.h"
#include <string.h>

#define KEY 32
#define ROUNDS 32

/* A prepared key: all that a key needs, and the only memory that setkey writes. */
struct context {
    uint64_t round_key[ROUNDS];
};

static uint64_t load(const uint8_t *p)
{
    uint64_t value = 0;
    for (int i = 8; i-- > 0;)
        value = value << 8 | p[i];
    return value;
}

static void store(uint8_t *p, uint64_t value)
{
    for (int i = 0; i < 8; i++, value >>= 8)
        p[i] = (uint8_t)value;
}

/*
 * PLACE 1 OF 2: your cipher. `ravelin cipher check` fails until this function and the one in reference.py (place 2)
 * compute the same. To see a check pass before your own cipher is written, take this line in place of `return 0;`:
 *
 *     return (x * 0x9e3779b97f4a7c15u + k) ^ (x << 23 | x >> 41) ^ (k << 7 | k >> 57);
 */
static uint64_t round_function(uint64_t x, uint64_t k)
{
    (void)x;
    (void)k;
    return 0;
}

static int32_t setkey(void *ctx, const uint8_t *key, size_t key_len)
{
    struct context *context = (struct context *)ctx;
    if (key_len != KEY)
        return RAVELIN_CIPHER_BAD_LENGTH;
    for (uint64_t i = 0; i < ROUNDS; i++)
        context->round_key[i] = load(key + 8 * (i % 4)) + i * 0x0101010101010101u;
    return RAVELIN_CIPHER_OK;
}

/* One block of 16 octets. */
static void encrypt(const struct context *context, uint8_t *dst, const uint8_t *src)
{
    uint64_t l = load(src), r = load(src + 8);
    for (int i = 0; i < ROUNDS; i++) {
        uint64_t next = l ^ round_function(r, context->round_key[i]);
        l = r;
        r = next;
    }
    store(dst, r);
    store(dst + 8, l);
}
