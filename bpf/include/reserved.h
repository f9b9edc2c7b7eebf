/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Reserved flows (docs/design/0044): a packet within the rate of its flow waits in the queue of the class that is reserved for it.
 *
 * Like every class here it is a hint for the place where a packet waits. The engine meters the flow again. Two processors that count at once
 * may let one packet more through.
 */
#ifndef RVL_RESERVED_H
#define RVL_RESERVED_H

/* Bits of a shape: what flows of this shape leave open. */
#define ANY_SOURCE 1
#define ANY_DESTINATION 2
#define ANY_DSCP 4
/* The shapes in the order in which they are looked for, the fewest open fields first; four bits each, the lowest first. */
#define SHAPES_IN_ORDER 0x76534210u

/* Whether a packet of so many octets keeps within the rate of its flow, which it is charged to. */
static __always_inline bool take_reserved(struct rvl_reserved *flow, __u64 octets)
{
	__u64 now = bpf_ktime_get_ns(), until = flow->until;
	__u64 cost = octets * flow->ns_per_1024 / 1024;

	if (until < now)
		until = now;
	if (until - now + cost > flow->burst_ns)
		return false;
	flow->until = until + cost;
	return true;
}

/* The reserved flow that a packet is of; NULL: none. */
static __always_inline struct rvl_reserved *reserved_flow(const struct rvl_shapes *shapes, const struct headers *h, __u8 dscp)
{
	struct rvl_reserved_key key = {};
	struct rvl_reserved *flow = NULL;

	__builtin_memcpy(key.destination, &h->destination, 16);
	key.protocol = h->protocol;
	for (int at = 0; at < RVL_SHAPES && !flow; at++) {
		__u32 shape = SHAPES_IN_ORDER >> (4 * at) & (RVL_SHAPES - 1);

		if (!shapes->flows[shape])
			continue;
		key.source_port = shape & ANY_SOURCE ? 0 : h->source_port;
		key.destination_port = shape & ANY_DESTINATION ? 0 : h->destination_port;
		key.dscp = shape & ANY_DSCP ? RVL_ANY_DSCP : dscp;
		flow = bpf_map_lookup_elem(&reserved_flows, &key);
	}
	return flow;
}

/* The reserved flows by their shapes; NULL: there are none. */
static __always_inline struct rvl_shapes *shapes_of_reserved(void)
{
	struct rvl_shapes *shapes;
	__u32 zero = 0;

	shapes = bpf_map_lookup_elem(&reserved_shapes, &zero);
	return shapes && shapes->all ? shapes : NULL;
}

/* Whether a packet is of a reserved flow, whatever its rate. It is not charged. */
static __always_inline bool is_reserved(const struct headers *h, __u8 dscp)
{
	const struct rvl_shapes *shapes = shapes_of_reserved();

	return shapes && reserved_flow(shapes, h, dscp);
}

/* The class that is reserved for a packet at the TUN, whose IP header comes first; 0: none, or the packet is beyond the rate. */
static __always_inline __u8 reserved_class(struct __sk_buff *skb, __u8 dscp)
{
	const struct rvl_shapes *shapes = shapes_of_reserved();
	struct rvl_reserved *flow;
	struct headers h;
	__u64 octets, pieces;

	if (!shapes || !parse(skb, 0, &h))
		return 0;
	flow = reserved_flow(shapes, &h, dscp);
	if (!flow)
		return 0;
	pieces = skb->gso_segs ? skb->gso_segs : 1;
	octets = skb->len;
	if (octets < pieces * flow->least)
		octets = pieces * flow->least;
	return take_reserved(flow, octets) ? flow->aggregate & CLASS_BITS : 0;
}

#endif
