/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * ravelin-qos.h - a component for Ravelin's graphs of classes, built outside of its tree. ABI version 1.
 *
 * A component is a shared library that exports one function, ravelin_qos_v1, which returns the description of the
 * component: constant data that stays valid and unchanged for as long as the library is mapped. Ravelin shows the
 * component metadata of packets, never octets of them, and the component answers a verdict for each. It cannot end a
 * packet itself: Ravelin does, for the reason that the verdict gives.
 *
 * This file is all that an author in C11 or C++17 needs. ravelin-qos(5), section FOREIGN COMPONENTS, says how an
 * administrator loads a library and puts it into a graph; examples/qos/component-c and examples/qos/component-rust can
 * be built and tried. A library is built by:
 *
 *     cc -std=c11 -O2 -fPIC -fvisibility=hidden -shared -Wl,-z,noexecstack,-z,now -o mine.so mine.c
 *
 * It may be linked with libc, libm and libgcc_s, and with nothing else. `ravelin qos component check mine.so` tries it.
 *
 * THE LIBRARY RUNS IN THE DAEMON AND IS TRUSTED
 *   It is code of the process that holds the keys. Ravelin checks what it answers and how long it takes, and no more: a
 *   component that writes beside its memory, or never returns from a call, takes the daemon with it.
 *
 * RULES FOR EVERY FUNCTION
 *   - An instance is used by one thread at a time, and not always by the same one. Each place in a graph has an
 *     instance for each direction of its hook, and for a moment those of the graph before exist too. Instances may run
 *     in two threads at the same time.
 *   - create and destroy may allocate. run must not: no allocation, no lock, no system call, no file, no thread. After
 *     its start the daemon is under a filter of system calls, which ends a process that makes one of its own.
 *   - Time and randomness are arguments. The time never goes back, and does not stand still between calls for long.
 *   - Nothing but the instance and the verdicts is written. Pointers that are handed over are valid during the call.
 *   - No exception, panic or longjmp crosses the border.
 */
#ifndef RAVELIN_QOS_H
#define RAVELIN_QOS_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The ABI that this file describes. A host refuses another major number. A higher minor number has more fields at the
 * end of struct ravelin_qos_component and changes nothing in front of them. The records of packets never change within
 * a major number, since they are handed over in arrays. */
#define RAVELIN_QOS_ABI_MAJOR 1u
#define RAVELIN_QOS_ABI_MINOR 0u

/* The kinds of components. Version 1 has behaviours: they stand in the chain of a hook in front of a queue. Such hooks
 * are, in the order in which packets meet them, 1a (in front of the look-up), 3a and 5a (in front of cryptography), 4a
 * and 2a (behind it). The numbers 2 to 5 are kept for the other kinds of paper 002 section III.A (enqueueing parts,
 * queues, dequeueing parts, disciplines), which a host of version 1 refuses. */
#define RAVELIN_QOS_BEHAVIOUR 1u

/* The most packets of one call. */
#define RAVELIN_QOS_MOST_PACKETS 64u

/* What is the same for each packet of a call: 16 octets. */
struct ravelin_qos_call {
    /* The time now, in nanoseconds of the monotonic clock. */
    uint64_t now_ns;
    /* 64 random bits of this call. */
    uint64_t random;
};

/* What is known of a packet: 64 octets. A number that is too large for its field is the largest of the field. What is
 * not known at a hook is 0: outbound there is no association in front of the look-up (1a). */
struct ravelin_qos_meta {
    /* The time of arrival, in nanoseconds of the monotonic clock. */
    uint64_t arrived_ns;
    /* The nanoseconds of a processor that the packet is expected to cost. */
    uint64_t cost_ns;
    /* The packets that it counts as: 1, or the pieces of a super-packet. */
    uint32_t packets;
    /* The octets of the packet. */
    uint32_t octets;
    /* The number of its security association; 0: none is known. */
    uint32_t association;
    /* The SPI; 0: none is known. */
    uint32_t spi;
    /* The mark of the packet in the kernel. */
    uint32_t mark;
    /* A keyed hash of the user that it is charged to: outbound the inner source, inbound the outer one. */
    uint32_t user;
    /* A keyed hash of its flow. */
    uint32_t flow;
    /* The number of the key. */
    uint32_t key;
    /* The number of the application; 0: none is known. */
    uint16_t app;
    /* The number of the suite in the graph's list. */
    uint16_t suite;
    /* The number of the far end among the prefixes that the graph names; 0: in none. */
    uint16_t peer;
    /* The units that can serve the packet, one bit each. */
    uint16_t units;
    /* The number of its class in this instance of Ravelin. Numbers differ between hosts; ports name classes. */
    uint8_t class_id;
    /* The colour: RAVELIN_QOS_GREEN, _YELLOW, _RED. */
    uint8_t colour;
    /* The DSCP of the outer header, 0 to 63, or the one that a component in front has set. Outbound there is no outer
     * header in front of cryptography: 0 until a component sets one. */
    uint8_t dscp_outer;
    /* The DSCP of the inner header, 0 to 63. Inbound the outer one stands for it. */
    uint8_t dscp_inner;
    /* The ECN field, 0 to 3; 0: congestion cannot be told by a mark (RFC 3168). Outbound it is that of the inner
     * header, and at 4a and 2a that of the outermost one. Inbound it is that of the outer header. */
    uint8_t ecn;
    /* The front of the packet: RAVELIN_QOS_ESP and the following. */
    uint8_t header;
    /* 0: outbound, to be protected. 1: inbound. */
    uint8_t direction;
    /* The associations of its bundle that are done. */
    uint8_t index;
};

/* Colours (RFC 2697): within the committed rate, within the excess, beyond both. */
#define RAVELIN_QOS_GREEN 0u
#define RAVELIN_QOS_YELLOW 1u
#define RAVELIN_QOS_RED 2u

/* Fronts of packets. */
#define RAVELIN_QOS_ESP 0u
#define RAVELIN_QOS_ESP_IN_UDP 1u
#define RAVELIN_QOS_AH 2u
#define RAVELIN_QOS_IPCOMP 3u
#define RAVELIN_QOS_IKE 4u
#define RAVELIN_QOS_KEEPALIVE 5u
#define RAVELIN_QOS_ICMP_ERROR 6u
#define RAVELIN_QOS_CLEAR 7u

/* The verdict on a packet: 16 octets. Before a call each has an action that means nothing, so that a verdict which is
 * not written is noticed. A value that this file does not name is out of range: the component is detached. */
struct ravelin_qos_verdict {
    /* RAVELIN_QOS_PASS, _MARK, _DROP or _TO. */
    uint32_t action;
    /* With _DROP the reason, with _TO the number of the port; else 0. */
    uint32_t value;
    /* The fields that are changed: RAVELIN_QOS_SET_COLOUR, RAVELIN_QOS_SET_DSCP, or-ed. */
    uint32_t changes;
    /* The new colour, or 0. */
    uint8_t colour;
    /* The new DSCP of the header that the packet leaves with, 0 to 63, or 0. Outbound it is written into the outer
     * header, or into the only one of a packet that goes in clear. Inbound it is written into the header of the opened
     * packet. Components behind see it as `dscp_outer`. */
    uint8_t dscp;
    /* Reserved: 0. */
    uint16_t reserved;
};

/* The packet goes on. */
#define RAVELIN_QOS_PASS 0u
/* The packet goes on, marked as having met congestion if its `ecn` is not 0. */
#define RAVELIN_QOS_MARK 1u
/* The packet ends. */
#define RAVELIN_QOS_DROP 2u
/* The packet goes on in the class of a port. Ports are counted from 0; the graph names their classes. */
#define RAVELIN_QOS_TO 3u

/* Reasons of an end, as counters and captures show them: component_refused, policed, early_drop, not_admitted. */
#define RAVELIN_QOS_REFUSED 0u
#define RAVELIN_QOS_POLICED 1u
#define RAVELIN_QOS_EARLY_DROP 2u
#define RAVELIN_QOS_NOT_ADMITTED 3u

/* Fields to be changed. */
#define RAVELIN_QOS_SET_COLOUR 1u
#define RAVELIN_QOS_SET_DSCP 2u

/* What create returns if nothing is wrong, and run. */
#define RAVELIN_QOS_OK 0

/* What an instance is made with. */
struct ravelin_qos_settings {
    /* The text of `parameters` in the graph, UTF-8 without NUL, and a NUL behind it. */
    const char *parameters;
    /* Its octets, without that NUL; 4096 at most. */
    size_t parameters_len;
    /* Random and secret, for keys of hashes. */
    uint64_t secret;
    /* The number of ports that the graph gives the component, 0 to 16. */
    uint32_t ports;
    /* Reserved: 0. */
    uint32_t reserved;
};

/* The description of a component: 56 octets. */
struct ravelin_qos_component {
    /* RAVELIN_QOS_ABI_MAJOR */
    uint32_t abi_major;
    /* RAVELIN_QOS_ABI_MINOR */
    uint32_t abi_minor;
    /* sizeof(struct ravelin_qos_component) */
    uint32_t struct_size;
    /* RAVELIN_QOS_BEHAVIOUR */
    uint32_t kind;
    /* The name and the version for people, UTF-8 of 1 to 63 octets with a NUL behind them, in the library's own
     * memory. */
    const char *name;
    const char *version;
    /* Make an instance, and write its address to *instance. Any other answer than RAVELIN_QOS_OK refuses the settings:
     * the reason, of at most why_len - 1 octets with a NUL behind them, is shown to the administrator, and *instance is
     * not used. */
    int32_t (*create)(const struct ravelin_qos_settings *settings, void **instance, char *why, size_t why_len);
    /* Free an instance. Not called for one that broke a rule: its memory is given up. */
    void (*destroy)(void *instance);
    /* Write a verdict for each of `count` packets, 1 to RAVELIN_QOS_MOST_PACKETS. Any other answer than RAVELIN_QOS_OK
     * says that the component has failed: it is detached, and not called again. */
    int32_t (*run)(void *instance, const struct ravelin_qos_call *call, const struct ravelin_qos_meta *metas,
                   struct ravelin_qos_verdict *verdicts, size_t count);
};

/* How the one function is defined. */
#if defined(__GNUC__)
#define RAVELIN_QOS_EXPORT __attribute__((visibility("default")))
#else
#define RAVELIN_QOS_EXPORT
#endif

/* The one function that a library exports. */
RAVELIN_QOS_EXPORT const struct ravelin_qos_component *ravelin_qos_v1(void);

#ifdef __cplusplus
}
#endif

#endif
