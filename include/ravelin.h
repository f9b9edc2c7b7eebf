/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Ravelin's socket options: a program asks for more protection on its own socket than the host's policy gives it,
 * and learns what is in force. docs/socket-api.md has the rules and examples.
 *
 *	uint32_t need = RAVELIN_ENCRYPTION;
 *	if (setsockopt(fd, SOL_RAVELIN, RAVELIN_REQUIRE, &need, sizeof(need)))
 *		...
 *
 * The answer on a host without Ravelin, in a network namespace that no daemon guards, and for sockets that are neither
 * IPv4 nor IPv6 is ENOPROTOOPT, as for every level that the kernel does not know.
 */
#ifndef RAVELIN_H
#define RAVELIN_H

#ifndef __bpf__
#include <stdint.h>
#endif

/* The level: "RVL". No protocol of the kernel has a number near it. */
#define SOL_RAVELIN 0x52564c

/*
 * RAVELIN_REQUIRE, get and set, uint32_t: what every packet of the socket must have, in both directions, to every peer.
 * What policy demands comes on top. It can only grow.
 *   EINVAL  another size than four octets, or a bit that is not in RAVELIN_SUPPORTED
 *   EPERM   less than was asked before, or than policy demands for the connected peer; or policy refuses that peer
 */
#define RAVELIN_REQUIRE 1
#define RAVELIN_AUTHENTICATION 1u /* data origin authentication and integrity */
#define RAVELIN_ENCRYPTION 2u	  /* confidentiality; asks for authentication as well */
#define RAVELIN_SUPPORTED (RAVELIN_AUTHENTICATION | RAVELIN_ENCRYPTION)

/* RAVELIN_STATE, get, struct ravelin_state. EINVAL: the buffer is too short. */
#define RAVELIN_STATE 2
#define RAVELIN_STATE_VERSION 1u

/* What policy makes of the connected peer. */
#define RAVELIN_CLASS_NONE 0u	   /* no peer, or policy does not name it: clear */
#define RAVELIN_CLASS_TRUSTED 1u   /* clear */
#define RAVELIN_CLASS_UNTRUSTED 2u /* refused */
#define RAVELIN_CLASS_PROTECTED 3u

/* How policy demands its services. */
#define RAVELIN_LEVEL_NONE 0u
#define RAVELIN_LEVEL_MANDATORY 1u
#define RAVELIN_LEVEL_OPTIONAL 2u
#define RAVELIN_LEVEL_ACCEPT_ONLY 3u

struct ravelin_state {
	uint32_t version;     /* RAVELIN_STATE_VERSION; a later version is longer and begins with the same fields */
	uint32_t application; /* number of the application whose policy the socket has; 0: none */
	uint32_t required;    /* what this socket asked for, or its listener */
	uint32_t demanded;    /* services that policy demands for the connected peer */
	uint32_t class_;      /* RAVELIN_CLASS_* of the connected peer */
	uint32_t level;	      /* RAVELIN_LEVEL_* of `demanded` */
	uint32_t in_force;    /* services that the last packet for this socket had; 0: clear, or none has come yet */
	uint32_t generation;  /* of the policy; it changes with every load (1 to 254, then 1 again) */
	uint64_t proven;      /* packets with proof of protection that this socket has been given */
};

/* RAVELIN_DEFAULTS, get, struct ravelin_defaults. EINVAL: the buffer is too short. */
#define RAVELIN_DEFAULTS 3
#define RAVELIN_DEFAULTS_VERSION 1u

struct ravelin_defaults {
	uint32_t version;	 /* RAVELIN_DEFAULTS_VERSION */
	uint32_t supported;	 /* bits that RAVELIN_REQUIRE takes */
	uint32_t without_policy; /* services that the `default` block of the policy demands everywhere; 0: clear, or no block */
	uint32_t active;	 /* 1: a policy is loaded and the programs that enforce it are attached */
	uint32_t generation;	 /* of the policy; 0: none was loaded yet */
	uint32_t tun;		 /* interface index of the device that protected packets pass */
	uint32_t enc;		 /* interface index of the device that shows them in clear; 0: nobody listens there */
	uint32_t zero;
};

#endif
