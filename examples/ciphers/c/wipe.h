/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Overwrite memory that held a secret, so that the compiler does not leave it out. */
#ifndef EXAMPLE_WIPE_H
#define EXAMPLE_WIPE_H

#include <stddef.h>
#include <stdint.h>

static inline void wipe(void *memory, size_t len)
{
    volatile uint8_t *octet = (volatile uint8_t *)memory;
    while (len--)
        *octet++ = 0;
}

#endif
