/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Gateway mode: packets that this host forwards between the networks behind it and the rest of the world (RFC 4301 section
 * 5). What enters at an inside interface and would leave by another goes to the engine, and so does what arrives in clear
 * for a network behind us. Where the peer's address alone says "bypass", the packet goes on as if we were not here.
 *
 * A packet whose time to live is over is left to the kernel, which answers it and forwards it nowhere; a fragment is not,
 * for the kernel may join it with others that have time left. The egress of uplinks and inside interfaces, and of no
 * other device, is the second lock: what is forwarded, needs protection and was not seen here (a firewall rewrote it on its
 * way, a program in front of ours let it pass, the device it came by has no program of ours yet) ends there.
 */
#ifndef RVL_GATEWAY_H
#define RVL_GATEWAY_H

#define PACKET_HOST 0
#define PACKET_OTHERHOST 3

static __always_inline bool is_inside(__u32 ifindex)
{
	return bpf_map_lookup_elem(&insides, &ifindex) != 0;
}

static __always_inline bool is_gateway(void)
{
	return is_inside(0);
}

static __always_inline bool bypassed(const struct address *peer, __u32 way)
{
	struct rvl_peer_key key;
	__u32 *ways;

	key.prefixlen = 128;
	__builtin_memcpy(key.addr, peer, 16);
	ways = bpf_map_lookup_elem(&spans, &key);
	return ways && *ways & way;
}

/* Whether the kernel would think of forwarding it: for this device, not for one of its VLANs; unicast for our own station. */
static __always_inline bool may_be_forwarded(const struct __sk_buff *skb)
{
	return is_ip(skb) && skb->pkt_type == PACKET_HOST && !(skb->vlan_present && skb->vlan_tci & VLAN_ID);
}

/* Where the kernel would send an arriving packet. */
enum way {
	WAY_NOT_FORWARDED, /* it is for this host, or nobody can have it */
	WAY_INSIDE,
	WAY_OUTSIDE,
	WAY_UNKNOWN,
};

static __always_inline enum way way_of(struct __sk_buff *skb, const struct headers *h)
{
	struct bpf_fib_lookup fib = {};
	long answer;

	if (h->version == 4) {
		fib.family = AF_INET;
		fib.source[0] = h->source.words[3];
		fib.destination[0] = h->destination.words[3];
	} else {
		/* Link-local and multicast destinations never leave their link. */
		if (h->destination.bytes[0] == 0xff ||
		    (h->destination.bytes[0] == 0xfe && (h->destination.bytes[1] & 0xc0) == 0x80))
			return WAY_NOT_FORWARDED;
		fib.family = AF_INET6;
		__builtin_memcpy(fib.source, &h->source, 16);
		__builtin_memcpy(fib.destination, &h->destination, 16);
	}
	fib.l4_protocol = h->protocol;
	fib.sport = bpf_htons(h->source_port);
	fib.dport = bpf_htons(h->destination_port);
	fib.ifindex = skb->ifindex;
	answer = bpf_fib_lookup(skb, &fib, sizeof(fib), 0);
	switch (answer) {
	case 1 ... 5: /* blackhole, unreachable, prohibited, not to be forwarded, forwarding is off */
		return WAY_NOT_FORWARDED;
	case 0:
	case 7: /* the neighbour is not known yet */
	case 8: /* too big for the device */
		return is_inside(fib.ifindex) ? WAY_INSIDE : WAY_OUTSIDE;
	default:
		return WAY_UNKNOWN;
	}
}

/* Whether an arriving packet is on its way to another host, by whatever device. */
static __always_inline bool is_forwarded_on(struct __sk_buff *skb, const struct headers *h)
{
	enum way way = way_of(skb, h);

	return way == WAY_INSIDE || way == WAY_OUTSIDE;
}

static __always_inline int to_engine(struct __sk_buff *skb, const struct rvl_config *cfg, const struct headers *h,
				     __u32 fields, enum rvl_counter counter)
{
	if (h->source_route)
		return device_drop(RVL_C_GATEWAY_SOURCE_ROUTE);
	if (!cfg->tun)
		return device_drop(RVL_C_EGRESS_NO_TUN);
	skb->mark = as_mark(fields);
	count(counter);
	return bpf_redirect(cfg->tun, 0);
}

/* The kernel answers a packet whose time is over, and does not forward it. */
static __always_inline bool is_over(struct __sk_buff *skb, const struct headers *h)
{
	__u8 left = 0;

	return load(skb, h->version == 4 ? 8 : 7, &left, 1) && left <= 1;
}

/* Joined with fragments that have time left, one without could pass unseen. */
static __always_inline int over(const struct headers *h)
{
	return h->fragment ? device_drop(RVL_C_GATEWAY_FRAGMENT_OVER) : TCX_NEXT;
}

/*
 * ICMP errors for this host from a network behind it are believed by type and code (RFC 4301 section 6.1.2): a word for each
 * type, ICMP first, then ICMPv6, with a bit for each code; the last bit is for all codes from 31 on.
 */
const volatile __u32 inside_icmp[512] SEC(".rodata.inside") = { 0 };

static __always_inline bool is_refused_error(struct __sk_buff *skb, const struct headers *h)
{
	__u8 type_code[2];
	__u32 code;

	if (h->protocol != (h->version == 4 ? IPPROTO_ICMP : IPPROTO_ICMPV6) || h->later_fragment)
		return false;
	if (!load(skb, h->transport, type_code, 2))
		return true;
	code = type_code[1] < 31 ? type_code[1] : 31;
	return (is_icmp_error(h->version, type_code[0]) || type_code[0] == redirect_of(h->version)) &&
	       !(inside_icmp[(h->version == 4 ? 0 : 256) + type_code[0]] >> code & 1);
}

/* What arrives by an inside interface: to the engine, if it is on its way out; else TCX_NEXT. */
static __always_inline int arriving_from_inside(struct __sk_buff *skb)
{
	const struct rvl_config *cfg = configuration();
	struct headers h;
	enum way way;

	if (!may_be_forwarded(skb))
		return TCX_NEXT;
	if (!cfg)
		return TCX_DROP;
	if (!parse(skb, 0, &h))
		return device_drop(RVL_C_GATEWAY_MALFORMED);
	if (is_refused_error(skb, &h) && way_of(skb, &h) == WAY_NOT_FORWARDED)
		return device_drop(RVL_C_GATEWAY_ICMP);
	if (bypassed(&h.destination, RVL_BYPASS_OUT))
		return TCX_NEXT;
	way = way_of(skb, &h);
	if (way == WAY_NOT_FORWARDED || way == WAY_INSIDE)
		return TCX_NEXT;
	if (is_over(skb, &h))
		return over(&h);
	if (is_queue_full(skb, &h))
		return device_drop(RVL_C_TUN_QUEUE_FULL);
	return to_engine(skb, cfg, &h, RVL_MARK_FORWARDED, RVL_C_GATEWAY_FORWARDED);
}

/* Whether an ICMP error is about a packet that rules have to look at: a forged one could shrink or cut its flow. */
static __always_inline bool quotes_ruled(struct __sk_buff *skb, const struct headers *h)
{
	struct headers q;
	__u8 kind = 0;

	if (h->protocol != (h->version == 4 ? IPPROTO_ICMP : IPPROTO_ICMPV6))
		return false;
	if (h->later_fragment || !load(skb, h->transport, &kind, 1))
		return true;
	if (!is_icmp_error(h->version, kind))
		return false;
	return !parse(skb, h->transport + 8, &q) || !bypassed(&q.destination, RVL_BYPASS_OUT);
}

/* What arrives at an uplink in clear, for a network behind us. */
static __always_inline int arriving_for_inside(struct __sk_buff *skb)
{
	const struct rvl_config *cfg = configuration();
	struct headers h;
	enum way way;

	if (!may_be_forwarded(skb))
		return TCX_NEXT;
	if (!cfg)
		return TCX_DROP;
	if (!parse(skb, 0, &h))
		return device_drop(RVL_C_GATEWAY_MALFORMED);
	if (bypassed(&h.source, RVL_BYPASS_IN) && !quotes_ruled(skb, &h))
		return TCX_NEXT;
	way = way_of(skb, &h);
	if (way == WAY_NOT_FORWARDED || way == WAY_OUTSIDE)
		return TCX_NEXT;
	if (is_over(skb, &h))
		return over(&h);
	return to_engine(skb, cfg, &h, RVL_MARK_FORWARDED | RVL_MARK_ARRIVED, RVL_C_GATEWAY_ARRIVED);
}

/*
 * At an uplink's egress: a forwarded packet. From inside it was seen already, unless something is wrong. What came out of an
 * association and goes to another one (a hub's) is ruled like what comes from inside.
 */
static __always_inline int leaving(struct __sk_buff *skb, const struct rvl_config *cfg, __u32 from)
{
	struct headers h;

	/* From anywhere but another uplink: an inside interface that was made anew has an index that is in no map yet. */
	if (from != cfg->tun && !is_inside(from) && bpf_map_lookup_elem(&uplinks, &from))
		return TCX_NEXT;
	if (!parse(skb, 0, &h))
		return device_drop(RVL_C_GATEWAY_MALFORMED);
	if (bypassed(&h.destination, RVL_BYPASS_OUT))
		return TCX_NEXT;
	if (from != cfg->tun)
		return device_drop(RVL_C_GATEWAY_UNSEEN);
	return to_engine(skb, cfg, &h, RVL_MARK_FORWARDED, RVL_C_GATEWAY_FORWARDED);
}

/*
 * A forwarded packet on its way to a network behind us. What the engine let pass in clear comes from its own socket, what
 * was protected from the TUN; both were seen. The rest may pass only if its source alone says so.
 */
static __always_inline int forwarded_inside(struct __sk_buff *skb)
{
	const struct rvl_config *cfg = configuration();
	__u32 from = skb->ingress_ifindex;
	struct headers h;

	if (!from || !is_ip(skb))
		return TCX_NEXT;
	if (!cfg)
		return TCX_DROP;
	if (from == cfg->tun || is_inside(from))
		return TCX_NEXT;
	if (!parse(skb, 0, &h))
		return device_drop(RVL_C_GATEWAY_MALFORMED);
	return bypassed(&h.source, RVL_BYPASS_IN) ? TCX_NEXT : device_drop(RVL_C_GATEWAY_UNPROVEN);
}

/* On the TUN: a packet that we sent there from an ingress hook. */
static __always_inline bool is_forwarded(const struct __sk_buff *skb)
{
	return skb->ingress_ifindex &&
	       (ours_in(skb->mark) & (RVL_MARK_FORWARDED | RVL_MARK_CLAIM)) == RVL_MARK_FORWARDED;
}

/* One hop less, as a router must; not if the kernel has done it already. The packet begins with its IP header. */
static __always_inline bool pass_hop(struct __sk_buff *skb)
{
	const struct rvl_config *cfg = configuration();
	__u8 old[2], now[2];
	__be16 from, to;

	if (!cfg || skb->ingress_ifindex == cfg->tun)
		return cfg != 0;
	if (skb->protocol == bpf_htons(ETH_P_IPV6)) {
		if (!load(skb, 7, old, 1))
			return false;
		now[0] = old[0] - 1;
		return !bpf_skb_store_bytes(skb, 7, now, 1, BPF_F_RECOMPUTE_CSUM);
	}
	if (!load(skb, 8, old, 2))
		return false;
	now[0] = old[0] - 1;
	now[1] = old[1];
	__builtin_memcpy(&from, old, 2);
	__builtin_memcpy(&to, now, 2);
	return !bpf_l3_csum_replace(skb, 10, from, to, 2) && !bpf_skb_store_bytes(skb, 8, now, 1, 0);
}

#endif
