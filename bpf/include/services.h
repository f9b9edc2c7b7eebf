/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The services of packets against those that are demanded of them: what wire::Services is in user space. abi.h has the values.
 */
#ifndef RVL_SERVICES_H
#define RVL_SERVICES_H

/* What is demanded without the name of a suite: what programs are shown, and what fits the two bits of a mark. */
static __always_inline __u8 unnamed(__u8 need)
{
	return need & RVL_SERVICE_ALL;
}

/* Whether a packet has had what is demanded. Encryption for which an item names a cipher of one's own is given by CUSTOM, too. */
static __always_inline bool enough(__u8 has, __u8 need)
{
	__u8 least = unnamed(need);

	if (need & RVL_SERVICE_NAMED && least == RVL_SERVICE_ALL)
		least = RVL_SERVICE_CUSTOM;
	return has >= least;
}

/* Whether encryption is demanded. Not for what a packet has had: see counted_for. */
static __always_inline bool demands_encryption(__u8 need)
{
	return need & RVL_SERVICE_ENCRYPTED;
}

/* How what a packet has had counts where this is demanded: a cipher of one's own is encryption only where its suite is named. */
static __always_inline __u8 counted_for(__u8 has, __u8 need)
{
	if (has == RVL_SERVICE_CUSTOM)
		return need & RVL_SERVICE_NAMED ? RVL_SERVICE_ALL : RVL_SERVICE_AUTHENTICATED;
	return has;
}

#endif
