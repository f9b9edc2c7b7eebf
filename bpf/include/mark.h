/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Where the fields of a mark (RVL_MARK_*) lie in the marks of sockets and packets. Others on the host use marks too, so an
 * administrator says which bits are ours (docs/design/0016). In the standard layout they lie as in RVL_MARK_*. Records and all
 * arithmetic are in RVL_MARK_*; what is read from a socket or packet goes through ours_in(), what is written through as_mark().
 */
#ifndef RVL_MARK_H
#define RVL_MARK_H

/* Written by user space before the programs are loaded: to the verifier they are constants. */
const volatile struct rvl_layout marks SEC(".rodata.marks") = { .standard = 1, .ours = RVL_MARK_OURS };

/*
 * The flags from the lowest bit to the highest: in any layout they are in this order, above the application's number. No
 * branches: the verifier would follow each of the 64 ways.
 */
#define RVL_MARK_FLAGS(X) X(0, 16) X(1, 17) X(2, 18) X(3, 24) X(4, 25) X(5, 31)

/* Our fields in the mark of a socket or packet. */
static __always_inline __u32 ours_in(__u32 mark)
{
	__u32 app, out;

	if (marks.standard)
		return mark & (RVL_MARK_OURS | RVL_MARK_FORWARDED | RVL_MARK_ARRIVED);
	app = mark >> marks.app_shift & ((1u << marks.app_bits) - 1);
	/* The last number is RVL_APP_REFUSED in every width. */
	out = app | (0u - ((app + 1) >> marks.app_bits) & RVL_APP_REFUSED);
#define X(number, bit) out |= (mark >> marks.flags[number] & 1) << bit;
	RVL_MARK_FLAGS(X)
#undef X
	return out;
}

/* The bits of a mark that say this. */
static __always_inline __u32 as_mark(__u32 fields)
{
	__u32 out;

	if (marks.standard)
		return fields;
	out = (fields & RVL_MARK_APP & ((1u << marks.app_bits) - 1)) << marks.app_shift;
#define X(number, bit) out |= (fields >> bit & 1) << marks.flags[number];
	RVL_MARK_FLAGS(X)
#undef X
	return out;
}

/* The mark of a socket: what others have in it stays. */
static __always_inline __u32 mark_with(__u32 mark, __u16 app, __u8 required)
{
	return (mark & ~marks.ours) | as_mark(RVL_MARK_STAMPED | app | (__u32)unnamed(required) << RVL_MARK_SERVICES);
}

/* The services in our fields: those of a packet, or those that a socket asked for. */
static __always_inline __u8 services_of(__u32 fields)
{
	return fields >> RVL_MARK_SERVICES & RVL_SERVICE_ALL;
}

/* Our bits taken off, if the mark is ours at all. */
static __always_inline __u32 mark_without(__u32 mark)
{
	return ours_in(mark) & RVL_MARK_CLAIM ? mark & ~marks.ours : mark;
}

#endif
