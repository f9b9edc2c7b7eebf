/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Packets that no socket of an application sends: by packet sockets, which no cgroup hook sees, from other network
 * namespaces, by the kernel, by programs that no block names. docs/design/0016.
 */
#ifndef RVL_BYSTANDER_H
#define RVL_BYSTANDER_H

/*
 * Types that carry IP inside, or that a switch takes off: the frame is not what it says to the kernel. They are those that wire::link
 * follows, and those of which it says that others may follow them (crates/sockmon/tests/suite/bystander.rs compares the two).
 */
static __always_inline bool hides_ip(__be16 type)
{
	switch (bpf_ntohs(type)) {
	case 0x0800: /* IPv4 */
	case 0x86dd: /* IPv6 */
	case 0x8100: /* 802.1Q */
	case 0x88a8: /* 802.1ad */
	case 0x9100: /* 802.1Q twice, as it was before 802.1ad */
	case 0x9200:
	case 0x9300:
	case 0x8847: /* MPLS */
	case 0x8848:
	case 0x8863: /* PPPoE */
	case 0x8864:
	case 0x880b: /* PPP */
	case 0x4305: /* B.A.T.M.A.N. */
	case 0x6558: /* transparent Ethernet bridging */
	case 0x22f3: /* TRILL */
	case 0x8903: /* FabricPath */
	case 0x8909: /* Cisco's metadata */
	case 0x8926: /* VN-Tag */
	case 0x88be: /* ERSPAN */
	case 0x22eb:
	case 0x88e5: /* MACsec, which need not encrypt */
	case 0x88e7: /* the I-tag of 802.1ah */
	case 0x892f: /* HSR */
	case 0x894f: /* NSH */
	case 0x8947: /* GeoNetworking */
	case 0x8899: /* Realtek's tag */
	case 0xa0ed: /* LoWPAN */
		return true;
	}
	return false;
}

/* Whether a frame of this type is what ARP for IPv4 over Ethernet (RFC 826) looks like, and no longer than the shortest frame. */
static __always_inline bool is_arp(struct __sk_buff *skb)
{
	static const __u8 said[6] = { 0, 1, 8, 0, 6, 4 };
	__u8 found[6];

	if (skb->len > 60 || bpf_skb_load_bytes_relative(skb, 14, found, sizeof(found), BPF_HDR_START_MAC))
		return false;
	for (int i = 0; i < 6; i++)
		if (found[i] != said[i])
			return false;
	return true;
}

/*
 * A frame by a packet socket that the kernel does not take for IP. The sender names the protocol, and the frame may say
 * another one; that of the frame counts on the wire.
 */
static __always_inline bool is_disguised(struct __sk_buff *skb)
{
	__u8 llc[8];
	__be16 type;

	if (hides_ip(skb->protocol) || skb->vlan_present)
		return true;
	if (bpf_skb_load_bytes_relative(skb, 12, &type, sizeof(type), BPF_HDR_START_MAC))
		return false;
	/* IEEE 802.2: a length in place of the type. IP has a service access point of its own (RFC 948), or a type behind SNAP (RFC 1042). */
	if (bpf_ntohs(type) < 0x600) {
		if (bpf_skb_load_bytes_relative(skb, 14, llc, sizeof(llc), BPF_HDR_START_MAC))
			return false;
		__builtin_memcpy(&type, &llc[6], sizeof(type));
		/* Of SNAP, bridged frames too (RFC 2684); of ISO's protocols the first octet says which (RFC 2427). */
		if (llc[0] == 0xaa)
			return hides_ip(type) || (llc[4] == 0x80 && llc[5] == 0xc2);
		return llc[0] == 0x06 || llc[0] == 0xfe;
	}
	if (bpf_ntohs(type) == 0x0806)
		return !is_arp(skb);
	return hides_ip(type);
}

/* Neighbour discovery (RFC 4861) of this link: without it nothing else arrives either. */
static __always_inline bool is_discovery(struct __sk_buff *skb, const struct headers *h)
{
	__u8 hops, type;

	if (h->version != 6 || h->protocol != IPPROTO_ICMPV6 || h->later_fragment)
		return false;
	if (!load(skb, 7, &hops, 1) || hops != 255 || !load(skb, h->transport, &type, 1))
		return false;
	return type >= 133 && type <= 137;
}

/*
 * Whether a route has wrapped what a socket sent in another IP packet (`encap` of ip-route(8): seg6, ioam6), whose destination says
 * nothing about the peer. A raw socket may send such packets itself.
 */
static __always_inline bool is_wrapped(struct bpf_sock *sk, const struct headers *h)
{
	if (!sk || (h->protocol != IPPROTO_IPIP && h->protocol != IPPROTO_IPV6))
		return false;
	sk = bpf_sk_fullsock(sk);
	if (!sk)
		return true;
	return (sk->family == AF_INET || sk->family == AF_INET6) && sk->protocol != h->protocol &&
	       sk->protocol != IPPROTO_RAW;
}

/* Whether the policy says that nothing leaves for this peer that no block decides about (`guard`). */
static __always_inline bool is_guarded(struct __sk_buff *skb, const struct rvl_config *cfg)
{
	struct headers h;

	if (!cfg->guards)
		return false;
	if (!parse(skb, 0, &h))
		return true;
	/* The address on the wire may be a hop. */
	if (h.source_route || is_wrapped(skb->sk, &h))
		return true;
	return class_of(cfg, RVL_APP_GUARD, &h.destination) == CLASS_UNTRUSTED && !is_discovery(skb, &h);
}

#endif
