/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * ravelin_cipher.h - a cipher of one's own for Ravelin, ABI version 1.
 *
 * A cipher is a shared library that exports one function, ravelin_cipher_v1. The function returns the description of
 * the library's cipher number `index`, counted from 0, and NULL after the last one. A description is constant data:
 * it stays valid and unchanged for as long as the library is mapped.
 *
 * This file is all that an author in C11 or C++17 needs to write a library. Ravelin loads a library together with two
 * files in the same folder: test vectors and a manifest. `ravelin cipher new` makes all three. docs/custom-cipher.md,
 * section "A C file without the template", defines them for those who write them by hand. examples/ciphers has
 * libraries in C, C++ and Rust that can be built and tried. A library is built by:
 *
 *     cc -std=c11 -O2 -fPIC -fvisibility=hidden -shared -Wl,-z,noexecstack -o mycipher.so mycipher.c
 *
 * It may be linked with libc, libm and libgcc_s, and with nothing else.
 *
 * WHAT RAVELIN DOES, AND THE LIBRARY DOES NOT
 *   Modes (CTR by RFC 3686, CBC, GCM by RFC 4106), nonces, padding, integrity (HMAC by the host under a key of its
 *   own), sequence numbers, key storage, tests. A block cipher supplies blocks, a stream cipher supplies its key
 *   stream, an AEAD supplies seal and open.
 *
 * RULES FOR EVERY FUNCTION
 *   - All state of a key lives in `ctx`. Ravelin provides ctx_size octets at an address that is a multiple of
 *     ctx_align, filled with zeros. setkey writes it. After setkey it is mapped READ-ONLY: a function that writes it
 *     ends the process. Ravelin wipes it. The library keeps no copy.
 *   - Several threads call with the same ctx at the same time. Two keys exist at the same time.
 *   - No allocation, no system call, no lock, no thread, no signal handler, no errno, no exception or longjmp across
 *     the border, no change of the floating point control (MXCSR, x87) or of the direction flag, no writable global
 *     or static data. A cipher that looks at the processor does so in each setkey, or with CPUID in the call.
 *   - Nothing outside `ctx` (in setkey), `dst`, `data`, `tag` (in sealing) and `result` (in opening a batch) is
 *     written, not even for a moment.
 *   - A loop may depend on lengths. Branches and addresses must not depend on keys or data if
 *     RAVELIN_CIPHER_CONSTANT_TIME is claimed.
 *   - Pointers to octets have no alignment. A pointer whose length is 0 may be NULL.
 *   - The functions cannot fail, except setkey and the opening of an AEAD.
 */
#ifndef RAVELIN_CIPHER_H
#define RAVELIN_CIPHER_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The ABI that this file describes. A host refuses another major number. A higher minor number has more fields at the
 * end of struct ravelin_cipher and changes nothing in front of them. The records of packets never change within a major
 * number, since they are handed over in arrays. */
#define RAVELIN_CIPHER_ABI_MAJOR 1u
#define RAVELIN_CIPHER_ABI_MINOR 0u

/* The kinds of ciphers. */
#define RAVELIN_CIPHER_BLOCK 1u
#define RAVELIN_CIPHER_STREAM 2u
#define RAVELIN_CIPHER_AEAD 3u

/* Flags of a description, or-ed. */
/* The author claims that time, branches and addresses do not depend on keys or data. */
#define RAVELIN_CIPHER_CONSTANT_TIME 1u
/* dst may be the same pointer as src. Without this flag Ravelin copies first. */
#define RAVELIN_CIPHER_IN_PLACE 2u
/* dst and src may not overlap in any way but being the same. Ravelin never passes any other overlap; the flag is for
 * other hosts. */
#define RAVELIN_CIPHER_OVERLAP_FORBIDDEN 4u

/* What setkey returns. */
#define RAVELIN_CIPHER_OK 0
/* key_len is not the cipher's. */
#define RAVELIN_CIPHER_BAD_LENGTH (-1)
/* The key is weak and must not be used (for mAES-512: both halves are the same). */
#define RAVELIN_CIPHER_WEAK_KEY (-2)
/* What the opening of an AEAD returns if the tag is wrong. */
#define RAVELIN_CIPHER_BAD_TAG (-3)

/* One packet of a batch of ctr_xor_batch. */
struct ravelin_cipher_ctr {
    /* The first counter block. Its last four octets are a 32-bit number, most significant octet first, which grows by
     * one with each block and wraps without carry into the other octets (RFC 3686 section 4). */
    uint8_t counter[16];
    uint8_t *data; /* XORed with the key stream in place. */
    size_t len;    /* Octets; any number, also 0 and no multiple of the block. */
};

/* One packet of a batch of cbc_encrypt_batch. */
struct ravelin_cipher_cbc {
    uint8_t iv[16]; /* block_len octets count. */
    uint8_t *data;  /* Encrypted in place. */
    size_t len;     /* Octets, a multiple of block_len. */
};

/* One packet of a batch of an AEAD. */
struct ravelin_cipher_aead {
    const uint8_t *nonce; /* nonce_len octets. */
    const uint8_t *aad;   /* Octets that are authenticated and not encrypted. */
    size_t aad_len;
    uint8_t *data; /* Sealed or opened in place. */
    size_t len;
    uint8_t *tag;   /* tag_len octets: sealing writes them, opening reads them. */
    int32_t result; /* Opening writes RAVELIN_CIPHER_OK or RAVELIN_CIPHER_BAD_TAG. */
    uint32_t reserved;
};

/* The description of a cipher. Functions of another kind than `kind` are NULL, and so are optional functions that the
 * library does not have. The manifest says the same name, version, vendor, kind, lengths and limit once more. */
struct ravelin_cipher {
    uint32_t abi_major;   /* RAVELIN_CIPHER_ABI_MAJOR */
    uint32_t abi_minor;   /* RAVELIN_CIPHER_ABI_MINOR */
    uint32_t struct_size; /* sizeof(struct ravelin_cipher). The host reads the smaller of its own and this. */
    uint32_t kind;        /* RAVELIN_CIPHER_BLOCK, _STREAM or _AEAD */
    uint64_t flags;       /* RAVELIN_CIPHER_CONSTANT_TIME and others; unknown ones are refused. */

    /* [a-z][a-z0-9]{1,15}, ends with 0, no name of a standard cipher. `maes512` gives the suites maes512ctr-sha256,
     * maes512cbc-sha256 and others. */
    const char *name;
    const char *version; /* Printable UTF-8, 1 to 63 octets, as `1.2`. */
    const char *vendor;  /* Printable UTF-8, 1 to 63 octets. */

    /* BLOCK: 16 or 8 octets. Others: 0. Blocks of 8 octets give CBC suites only, and one key encrypts at most 2^20 of
     * them, or fewer if max_octets_per_key says so. */
    uint32_t block_len;
    uint32_t key_len;   /* 16 to 128 octets; a cipher with two key lengths is two ciphers with two names. */
    uint32_t nonce_len; /* STREAM and AEAD: 12 octets (4 of salt, 8 of sequence number). BLOCK: 0. */
    uint32_t tag_len;   /* AEAD: 8, 12 or 16 octets. Others: 0. */
    uint32_t ctx_size;  /* 1 to 65536 octets. */
    uint32_t ctx_align; /* A power of two, at most 64. */

    /* Octets that one key may encrypt; 0: the host's own limit alone counts. It becomes a hard lifetime of
     * associations which nobody can raise. */
    uint64_t max_octets_per_key;

    /* Prepare a key. key_len is the description's; a library checks it all the same. Where it does not return
     * RAVELIN_CIPHER_OK, ctx may hold anything: Ravelin wipes it and calls nothing with it. */
    int32_t (*setkey)(void *ctx, const uint8_t *key, size_t key_len);

    /* BLOCK, both mandatory: `blocks` blocks, each for itself. */
    void (*encrypt_blocks)(const void *ctx, uint8_t *dst, const uint8_t *src, size_t blocks);
    void (*decrypt_blocks)(const void *ctx, uint8_t *dst, const uint8_t *src, size_t blocks);
    /* BLOCK of 16 octets, optional, for speed. They compute what the host would make of encrypt_blocks; the host
     * compares. ctr_xor: one packet, counter as in struct ravelin_cipher_ctr. */
    void (*ctr_xor)(const void *ctx, const uint8_t counter[16], uint8_t *dst, const uint8_t *src, size_t len);
    void (*ctr_xor_batch)(const void *ctx, struct ravelin_cipher_ctr *packets, size_t count);
    void (*cbc_encrypt_batch)(const void *ctx, struct ravelin_cipher_cbc *packets, size_t count);

    /* STREAM, mandatory: XOR the key stream of this nonce from octet `offset` on. offset + len stays below 2^32 octets;
     * what a cipher makes of more is its own matter. */
    void (*xor_at)(const void *ctx, const uint8_t *nonce, uint64_t offset, uint8_t *dst, const uint8_t *src,
                   size_t len);

    /* AEAD, both mandatory: dst has len octets. open returns RAVELIN_CIPHER_BAD_TAG, and leaves no octet of plaintext
     * in dst, if the tag is wrong. The tag is compared in constant time. */
    void (*seal)(const void *ctx, const uint8_t *nonce, const uint8_t *aad, size_t aad_len, uint8_t *dst,
                 const uint8_t *src, size_t len, uint8_t *tag);
    int32_t (*open)(const void *ctx, const uint8_t *nonce, const uint8_t *aad, size_t aad_len, uint8_t *dst,
                    const uint8_t *src, size_t len, const uint8_t *tag);
    /* AEAD, optional. */
    void (*seal_batch)(const void *ctx, struct ravelin_cipher_aead *packets, size_t count);
    void (*open_batch)(const void *ctx, struct ravelin_cipher_aead *packets, size_t count);
};

/* The one symbol. Mark the definition with RAVELIN_CIPHER_EXPORT and build with -fvisibility=hidden. */
#if defined(__GNUC__)
#define RAVELIN_CIPHER_EXPORT __attribute__((visibility("default")))
#else
#define RAVELIN_CIPHER_EXPORT
#endif
RAVELIN_CIPHER_EXPORT const struct ravelin_cipher *ravelin_cipher_v1(uint32_t index);

#ifdef __cplusplus
}
#endif
#endif
