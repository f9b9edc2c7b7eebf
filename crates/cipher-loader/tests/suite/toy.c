/* A toy cipher with blocks of 16 octets, and one fault for each macro. It is no cipher for anybody's data. */
#include "ravelin_cipher.h"
#include <string.h>

#define KEY 32
#define ROUNDS 16
#ifndef CTX_SIZE
#define CTX_SIZE 128
#endif
#ifndef CTX_ALIGN
#define CTX_ALIGN 16
#endif
#ifndef NAME
#define NAME "toycipher"
#endif
#ifndef MAJOR
#define MAJOR RAVELIN_CIPHER_ABI_MAJOR
#endif
#ifndef SIZE
#define SIZE sizeof(struct ravelin_cipher)
#endif
#ifndef FLAGS
#define FLAGS RAVELIN_CIPHER_CONSTANT_TIME
#endif
#ifndef KEY_LEN
#define KEY_LEN KEY
#endif
#ifndef CONSTRUCTOR
#define CONSTRUCTOR
#endif
#ifndef IN_SETKEY
#define IN_SETKEY
#endif
#ifndef IN_PACKET
#define IN_PACKET
#endif
#ifndef BEHIND
#define BEHIND
#endif

#ifdef INCLUDES
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include <unwind.h>
#endif
#ifdef __x86_64__
#include <xmmintrin.h>
#endif

volatile int toy_sink;
__attribute__((constructor)) static void constructor(void) { CONSTRUCTOR; }

static uint64_t load(const uint8_t *p)
{
    uint64_t value;
    memcpy(&value, p, 8);
    return value;
}

static uint64_t turn(uint64_t x, int by) { return x << by | x >> (64 - by); }
static uint64_t mix(uint64_t x, uint64_t k) { return turn(x * 0x9e3779b97f4a7c15u + k, 23) ^ turn(x, 7); }

#ifdef GLOBAL_KEY
static uint64_t global_key[ROUNDS];
#endif

static int32_t setkey(void *ctx, const uint8_t *key, size_t len)
{
    uint64_t *k = ctx;
#ifndef ANY_LENGTH
    if (len != KEY)
        return RAVELIN_CIPHER_BAD_LENGTH;
#endif
    IN_SETKEY;
    for (int i = 0; i < ROUNDS; i++)
        k[i] = (len >= KEY ? load(key + 8 * (i % 4)) : len) + 0x0101010101010101u * i;
#ifdef GLOBAL_KEY
    memcpy(global_key, k, sizeof global_key);
#endif
#ifdef SETKEY_BEHIND
    ((uint8_t *)ctx)[CTX_SIZE + SETKEY_BEHIND] = 1;
#endif
#ifdef ANSWER
    return ANSWER;
#endif
    return RAVELIN_CIPHER_OK;
}

static const uint64_t *schedule(const void *ctx)
{
#ifdef GLOBAL_KEY
    (void)ctx;
    return global_key;
#elif defined(CACHED_KEY)
    /* What an author does to save time: the address of the context is taken for the key. */
    static const void *last;
    static uint64_t cached[ROUNDS];
    if (ctx != last)
        memcpy(cached, ctx, sizeof cached);
    last = ctx;
    return cached;
#else
    return ctx;
#endif
}

static void encrypt(const void *ctx, uint8_t *dst, const uint8_t *src, size_t blocks)
{
    const uint64_t *k = schedule(ctx);
    IN_PACKET;
#ifdef NOT_IN_PLACE
    memset(dst, 0, 16 * blocks);
#endif
#ifdef MANY
    /* Wrong for one number of blocks, in both directions. */
    if (blocks == 20) {
        encrypt(ctx, dst, src, 19);
        memcpy(dst + 304, src + 304, 16);
        return;
    }
#endif
#ifdef ALIGNED
    /* 16 octets at once by an instruction that needs alignment. */
    if (blocks)
        __asm__ volatile("movdqa (%0), %%xmm0" : : "r"(src) : "xmm0", "memory");
#endif
#ifdef ODD_PLACE
    uint8_t *const first = blocks && ((uintptr_t)dst & 63) == 61 ? dst : NULL;
#endif
#ifdef SHARED
    /* State of a call where all threads have it. */
    static volatile uint64_t l, r;
#else
    uint64_t l, r;
#endif
    for (; blocks; blocks--, dst += 16, src += 16) {
        l = load(src), r = load(src + 8);
#ifdef NOT_ONE_TO_ONE
        if (r == 0 && l == 0x1234)
            l = 0x1235;
#endif
        for (int i = 0; i < ROUNDS; i++) {
            uint64_t next = l ^ mix(r, k[i]);
            l = r;
            r = next;
        }
#ifdef RARE
        /* Another permutation, for one block in 2^18. */
        if ((l & 0x3ffff) == 0x155)
            r ^= 1;
#endif
        const uint64_t last = r, other = l;
        memcpy(dst, &last, 8);
        memcpy(dst + 8, &other, 8);
    }
#ifdef ODD_PLACE
    if (first)
        *first ^= 1;
#endif
    BEHIND;
}

static void decrypt(const void *ctx, uint8_t *dst, const uint8_t *src, size_t blocks)
{
    const uint64_t *k = schedule(ctx);
#ifdef NOT_IN_PLACE
    memset(dst, 0, 16 * blocks);
#endif
    for (; blocks; blocks--, dst += 16, src += 16) {
        uint64_t r = load(src), l = load(src + 8);
#ifdef RARE
        if ((l & 0x3ffff) == 0x155)
            r ^= 1;
#endif
        for (int i = ROUNDS; i-- > 0;) {
            uint64_t before = r ^ mix(l, k[i]);
            r = l;
            l = before;
        }
#ifdef DECRYPT_RARE
        if ((l & 0xfff) == 0x123)
            l ^= 1;
#endif
#ifdef DECRYPT_RARER
        if ((l & 0x1ffff) == 0x123)
            l ^= 1;
#endif
        memcpy(dst, &l, 8);
        memcpy(dst + 8, &r, 8);
    }
}

#ifdef CTR
/* Counter mode of its own; CARRY is the usual mistake. */
static void ctr(const void *ctx, const uint8_t counter[16], uint8_t *dst, const uint8_t *src, size_t len)
{
    uint8_t block[16], stream[16];
    memcpy(block, counter, 16);
#ifdef CTR_FIRST
    /* The counter of a packet's first block is not what it was. */
    if (block[12] == 0 && block[13] == 0 && block[14] == 0 && block[15] == 1)
        block[15] = 0;
#endif
#ifdef CTR_LONG
    if (len > 4000)
        block[0] ^= 1;
#endif
#ifdef CTR_NOT_IN_PLACE
    memset(dst, 0, len);
#endif
    for (size_t at = 0; at < len; at += 16) {
        encrypt(ctx, stream, block, 1);
        for (size_t i = 0; i < 16 && at + i < len; i++)
            dst[at + i] = src[at + i] ^ stream[i];
        for (int i = 15; i >= CTR; i--)
            if (++block[i])
                break;
    }
}

static void ctr_batch(const void *ctx, struct ravelin_cipher_ctr *packets, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        ctr(ctx, packets[i].counter, packets[i].data, packets[i].data, packets[i].len);
#ifdef CTR_BEHIND
        /* Whole words: what stands behind a short packet is written as it was. */
        for (size_t at = packets[i].len; at % 8; at++)
            *(volatile uint8_t *)(packets[i].data + at) = packets[i].data[at];
#endif
    }
}

static void cbc_batch(const void *ctx, struct ravelin_cipher_cbc *packets, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        uint8_t *iv = packets[i].iv;
        for (size_t at = 0; at + 16 <= packets[i].len; at += 16) {
            uint8_t *block = packets[i].data + at, in[16];
            for (int j = 0; j < 16; j++)
                in[j] = block[j] ^ iv[j];
            encrypt(ctx, block, in, 1);
            iv = block;
        }
    }
}
#endif

static const struct ravelin_cipher description = {
    .abi_major = MAJOR,
    .abi_minor = 0,
    .struct_size = SIZE,
    .kind = RAVELIN_CIPHER_BLOCK,
    .flags = FLAGS,
    .name = NAME,
    .version = "1",
    .vendor = "tests",
    .block_len = 16,
    .key_len = KEY_LEN,
    .ctx_size = CTX_SIZE,
    .ctx_align = CTX_ALIGN,
    .setkey = setkey,
    .encrypt_blocks = encrypt,
    .decrypt_blocks = decrypt,
#ifdef CTR
    .ctr_xor = ctr,
#ifndef CTR_NOT_IN_PLACE
    .ctr_xor_batch = ctr_batch,
#endif
    .cbc_encrypt_batch = cbc_batch,
#endif
#ifdef DESCRIPTION
    DESCRIPTION
#endif
};

#ifndef SYMBOL
#define SYMBOL ravelin_cipher_v1
#endif
RAVELIN_CIPHER_EXPORT const struct ravelin_cipher *SYMBOL(uint32_t index);
const struct ravelin_cipher *SYMBOL(uint32_t index)
{
#ifdef ELSEWHERE
    static struct ravelin_cipher copy[2];
    (void)index;
    copy[0] = description;
    return (const struct ravelin_cipher *)(ELSEWHERE);
#elif defined(ENDLESS)
    (void)index;
    return &description;
#else
    return index == 0 ? &description : NULL;
#endif
}
#ifdef MAIN
int main(void) { return 0; }
#endif
