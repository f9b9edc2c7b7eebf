/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * ICMP errors and redirects that arrive in clear: which of them reach sockets of this host.
 */
#ifndef RVL_ICMP_H
#define RVL_ICMP_H

/* The kind of device that an ICMP error arrives by. */
enum arrival {
	BY_UPLINK,
	BY_LO,
	/* Bare in IP, through the daemon. */
	BY_TUN,
	/* Neither an uplink nor ours: bridges of containers, second cards. */
	BY_OTHER,
	/* From networks behind a gateway, whose errors are believed by type besides (gateway.h). */
	BY_INSIDE,
};

/* Whether a socket is the daemon's, by its control group: programs on devices may not call bpf_sk_cgroup_id. */
static __always_inline bool is_daemons_socket(struct bpf_sock *sk, const struct rvl_config *cfg)
{
	struct sock *kernel = bpf_rdonly_cast(sk, bpf_core_type_id_kernel(struct sock));

	return cfg->exempt && kernel->sk_cgrp_data.cgroup->kn->id == cfg->exempt;
}

/* Whether the socket that a quoted packet belongs to would refuse a clear packet from the quoted peer. */
static __always_inline bool quotes_protected(struct __sk_buff *skb, const struct rvl_config *cfg, struct headers *q,
					     bool too_big, enum arrival by)
{
	struct bpf_sock_tuple tuple = {};
	struct bpf_sock *sk, *full;
	struct rvl_socket *stamp = 0;
	struct live_flow flow;
	struct decision d;
	bool refuse_it = false;
	__u32 size;

	/* The tuple as an incoming packet of that flow would have it. */
	if (q->version == 4) {
		tuple.ipv4.saddr = q->destination.words[3];
		tuple.ipv4.daddr = q->source.words[3];
		tuple.ipv4.sport = bpf_htons(q->destination_port);
		tuple.ipv4.dport = bpf_htons(q->source_port);
		size = sizeof(tuple.ipv4);
	} else {
		__builtin_memcpy(tuple.ipv6.saddr, &q->destination, 16);
		__builtin_memcpy(tuple.ipv6.daddr, &q->source, 16);
		tuple.ipv6.sport = bpf_htons(q->destination_port);
		tuple.ipv6.dport = bpf_htons(q->source_port);
		size = sizeof(tuple.ipv6);
	}
	if (q->protocol == IPPROTO_TCP)
		sk = bpf_skc_lookup_tcp(skb, &tuple, size, BPF_F_CURRENT_NETNS, 0);
	else
		sk = bpf_sk_lookup_udp(skb, &tuple, size, BPF_F_CURRENT_NETNS, 0);
	/*
	 * No socket of this host has the flow. A raw socket of the quoted protocol, whoever's it is, would make the kernel lower the path MTU
	 * to the peer for everybody. On a gateway the error may be about a flow that it forwards, which the engine decides about.
	 */
	if (!sk)
		return too_big && (by == BY_TUN || !is_gateway()) && has_live_sa(&q->destination);
	full = bpf_sk_fullsock(sk);
	if (!full)
		full = bpf_get_listener_sock(sk);
	if (full)
		stamp = bpf_sk_storage_get(&sockets, full, 0, 0);
	if (stamp) {
		d = decide(cfg, stamp->app, &q->destination, q->protocol, q->source_port, q->destination_port);
		d = demand(d, stamp->required);
		leaving_flow(&flow, stamp->app, q);
		refuse_it = refuses_clear(&d, &flow);
	}
	/* A path MTU is that of all flows to the peer, whoever's socket it was told to. What quotes ESP in UDP is the daemon's to read. */
	if (too_big && !(full && is_daemons_socket(full, cfg)))
		refuse_it |= has_live_sa(&q->destination);
	bpf_sk_release(sk);
	return refuse_it;
}

/*
 * ICMP errors reach sockets past every cgroup hook, so a forged one in clear could shrink or cut a protected flow.
 * Those that quote ESP or AH belong to the daemon and pass.
 */
static __noinline int filter_icmp(struct __sk_buff *skb, const struct rvl_config *cfg, enum arrival by)
{
	/* The headers of the packet, then those of the packet that it quotes. tun_ingress has no stack for both at once. */
	struct headers h;
	__u8 version;
	__u8 type_code[2];
	__be16 ports[2];
	bool too_big;

	if (!cfg)
		return TCX_DROP;
	if (!parse(skb, 0, &h))
		return device_drop(RVL_C_ICMP_UNREADABLE);
	if (h.protocol != (h.version == 4 ? IPPROTO_ICMP : IPPROTO_ICMPV6) || h.later_fragment)
		return TCX_NEXT;
	if (!load(skb, h.transport, type_code, 2))
		return device_drop(RVL_C_ICMP_UNREADABLE);
	/* A redirect would lead whatever goes to a host elsewhere, on the word of anyone on the link. */
	if (by != BY_INSIDE && type_code[0] == redirect_of(h.version))
		return by == BY_OTHER && is_forwarded_on(skb, &h) ? TCX_NEXT : device_drop(RVL_C_ICMP_REDIRECT);
	if (!is_icmp_error(h.version, type_code[0]))
		return TCX_NEXT;
	too_big = h.version == 4 ? type_code[0] == 3 && type_code[1] == 4 : type_code[0] == 2;
	/* What is not for this host is the affair of those it is forwarded to. */
	if ((by == BY_OTHER || by == BY_INSIDE) && is_forwarded_on(skb, &h))
		return TCX_NEXT;
	version = h.version;
	if (!parse(skb, h.transport + 8, &h) || h.version != version)
		return device_drop(RVL_C_ICMP_UNREADABLE);
	if (by == BY_LO && !too_big && is_local(&h.destination, &h.source))
		return TCX_NEXT;
	switch (h.protocol) {
	case IPPROTO_TCP:
	case IPPROTO_UDP:
		/* The kernel reads the ports of a quoted later fragment too. */
		if (h.later_fragment) {
			if (!load(skb, h.transport, ports, sizeof(ports)))
				return device_drop(RVL_C_ICMP_UNREADABLE);
			h.source_port = bpf_ntohs(ports[0]);
			h.destination_port = bpf_ntohs(ports[1]);
		}
		return quotes_protected(skb, cfg, &h, too_big, by) ? device_drop(RVL_C_ICMP_PROTECTED) : TCX_NEXT;
	case IPPROTO_ESP:
	/* Only of IPv4: behind that of IPv6 the kernel, and parse(), see the flow. */
	case IPPROTO_AH:
		return TCX_NEXT;
	default:
		/* No socket to ask; an error about a ping would still change the path MTU for everyone. */
		return has_live_sa(&h.destination) ? device_drop(RVL_C_ICMP_PROTECTED) : TCX_NEXT;
	}
}

/* The errors among packets that say that they are IP. */
static __always_inline int filter_errors(struct __sk_buff *skb, const struct rvl_config *cfg, enum arrival by)
{
	__u8 protocol;

	if (skb->protocol == bpf_htons(ETH_P_IP)) {
		if (!load(skb, 9, &protocol, 1) || protocol != IPPROTO_ICMP)
			return TCX_NEXT;
	} else {
		if (!load(skb, 6, &protocol, 1) || protocol == IPPROTO_TCP || protocol == IPPROTO_UDP ||
		    protocol == IPPROTO_ESP)
			return TCX_NEXT;
	}
	return filter_icmp(skb, cfg, by);
}

#endif
