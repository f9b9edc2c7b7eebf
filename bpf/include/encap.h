/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Packets that a UDP socket's encapsulation takes before `proof` is asked (encap_rcv of the kernel): any program may have ESP in UDP
 * (UDP_ENCAP) over a UDP socket of its own, and sessions of L2TP where nothing refuses them to it (sender.h). They are judged at the device
 * that they arrive by, as proof would judge them.
 */
#ifndef RVL_ENCAP_H
#define RVL_ENCAP_H

/* Whether a packet can be UDP's, by the first header that says so. Extension headers may hide it. */
static __always_inline bool may_be_udp(struct __sk_buff *skb)
{
	__u8 protocol;

	if (skb->protocol == bpf_htons(ETH_P_IP))
		return load(skb, 9, &protocol, 1) && protocol == IPPROTO_UDP;
	return load(skb, 6, &protocol, 1) && protocol != IPPROTO_TCP && protocol != IPPROTO_ESP && protocol != IPPROTO_ICMPV6;
}

/* The counter of what is wrong with a packet for a socket of this stamp, as prove() of proof.h finds it; RVL_COUNTER_COUNT: nothing. */
static __noinline enum rvl_counter fault_of(struct __sk_buff *skb, const struct rvl_config *cfg, const struct rvl_socket *stamp,
						 const struct headers *h)
{
	__u32 mark = ours_in(skb->mark);
	bool proven = cfg && cfg->tun && skb->ifindex == cfg->tun && mark & RVL_MARK_PROOF;
	struct live_flow flow;
	struct decision d;

	if (!cfg || !stamp || !h)
		return RVL_C_INGRESS_MALFORMED;
	d = demand(decide(cfg, stamp->app, &h->source, IPPROTO_UDP, h->destination_port, h->source_port), stamp->required);
	if (!proven) {
		arriving_flow(&flow, stamp->app, h);
		if (!refuses_clear(&d, &flow))
			return RVL_COUNTER_COUNT;
		if (d.action == ACTION_PROTECT)
			return d.level == RVL_MANDATORY ? RVL_C_INGRESS_NO_PROOF : RVL_C_INGRESS_STICKY;
	}
	switch (d.action) {
	case ACTION_BYPASS:
		return RVL_C_INGRESS_UNEXPECTED_PROOF;
	case ACTION_UNTRUSTED:
		return RVL_C_INGRESS_UNTRUSTED;
	case ACTION_NO_ITEM:
		return RVL_C_INGRESS_NO_ITEM;
	case ACTION_PROTECT:
		if (!enough(services_of(mark), d.services))
			return RVL_C_INGRESS_SERVICES;
		if (mark & RVL_MARK_APP && (mark & RVL_MARK_APP) != stamp->app)
			return RVL_C_INGRESS_OTHER_APP;
		break;
	default:
		break;
	}
	return RVL_COUNTER_COUNT;
}

/* is_forwarded_on with a stack of its own. */
static __noinline bool is_for_another(struct __sk_buff *skb, const struct headers *h)
{
	return h && is_forwarded_on(skb, h);
}

/*
 * Whether a packet must not reach the encapsulation of a UDP socket of an application. What is not taken there is judged again by `proof`.
 * Of a datagram in fragments the first one decides: without it the others come to nothing.
 */
static __noinline int is_refused_to_encapsulation(struct __sk_buff *skb, const struct rvl_config *cfg)
{
	struct bpf_sock_tuple tuple = {};
	struct rvl_socket *stamp = 0;
	enum rvl_counter fault = RVL_COUNTER_COUNT;
	struct udp_sock *udp;
	struct bpf_sock *sk;
	struct headers h;
	__u32 size = sizeof(tuple.ipv4);
	__u16 app = 0;

	/* A bridge's, and no packet of this host's. */
	if (!cfg || skb->pkt_type == PACKET_OTHERHOST || !may_be_udp(skb))
		return 0;
	/* The kernel may read further than we do. */
	if (!parse(skb, 0, &h)) {
		count(RVL_C_INGRESS_MALFORMED);
		return 1;
	}
	if (h.protocol != IPPROTO_UDP || h.later_fragment)
		return 0;
	if (h.version == 4) {
		tuple.ipv4.saddr = h.source.words[3];
		tuple.ipv4.daddr = h.destination.words[3];
		tuple.ipv4.sport = bpf_htons(h.source_port);
		tuple.ipv4.dport = bpf_htons(h.destination_port);
	} else {
		__builtin_memcpy(tuple.ipv6.saddr, &h.source, 16);
		__builtin_memcpy(tuple.ipv6.daddr, &h.destination, 16);
		tuple.ipv6.sport = bpf_htons(h.source_port);
		tuple.ipv6.dport = bpf_htons(h.destination_port);
		size = sizeof(tuple.ipv6);
	}
	sk = bpf_sk_lookup_udp(skb, &tuple, size, BPF_F_CURRENT_NETNS, 0);
	if (!sk)
		return 0;
	udp = bpf_rdonly_cast(sk, bpf_core_type_id_kernel(struct udp_sock));
	if (udp->encap_type)
		stamp = bpf_sk_storage_get(&sockets, sk, 0, 0);
	if (stamp) {
		app = stamp->app;
		fault = fault_of(skb, cfg, stamp, &h);
	}
	bpf_sk_release(sk);
	/* A socket of all addresses has the port, and the packet need not be for this host. */
	if (fault == RVL_COUNTER_COUNT || is_for_another(skb, &h))
		return 0;
	refuse_packet(skb, app, fault, RVL_HOOK_IN);
	return 1;
}

#endif
