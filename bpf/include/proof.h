/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The program on the cgroup that sees the packets that come for sockets: it demands of each the proof that policy wants.
 */
#ifndef RVL_PROOF_H
#define RVL_PROOF_H

static __always_inline int dropped(struct __sk_buff *skb, __u16 app, enum rvl_counter counter)
{
	refuse_packet(skb, app, counter, RVL_HOOK_IN);
	return REFUSE;
}

/* A clear packet from an observed network: whether it would have been refused. */
static __noinline void observe_arrival(struct __sk_buff *skb, __u16 app, const struct decision *d, const struct headers *h)
{
	struct decision intended = decision_in(d->would, d->protection, h->protocol, h->destination_port, h->source_port);
	struct live_flow flow;

	arriving_flow(&flow, app, h);
	if (is_refusal(&intended) || (skb->ifindex != 1 && refuses_clear(&intended, &flow)))
		add_packet(skb, app, RVL_T_IN_WOULD_REFUSE, h);
}

/*
 * Traffic between two sockets of this host needs no proof. A packet on lo whose source is not this host's is no such traffic: any user
 * may send as somebody else over IPv6 (IPV6_FREEBIND). lo_ingress has marked it; it is worth what it would be from the wire.
 */
static __always_inline bool is_between_own_sockets(const struct __sk_buff *skb)
{
	return skb->ifindex == 1 && !(ours_in(skb->mark) & RVL_MARK_STAMPED);
}

/*
 * Whether a raw socket is shown a copy of what came for the daemon: ESP and AH, or ESP in UDP. What is in it reaches its own socket with
 * proof; the copy proves nothing, and nobody misses it.
 */
static __noinline bool is_copy_for_daemon(struct __sk_buff *skb, struct bpf_sock *sk, const struct rvl_config *cfg,
					  const struct headers *h)
{
	struct bpf_sock_tuple tuple = {};
	struct bpf_sock *owner;
	__u32 size = sizeof(tuple.ipv4);
	bool found;

	if (!sk || !h || !cfg || sk->type != SOCK_RAW)
		return false;
	if (sk->protocol == IPPROTO_ESP || sk->protocol == IPPROTO_AH)
		return true;
	if (!cfg->exempt || h->protocol != IPPROTO_UDP || h->later_fragment)
		return false;
	if (h->version == 4) {
		tuple.ipv4.saddr = h->source.words[3];
		tuple.ipv4.daddr = h->destination.words[3];
		tuple.ipv4.sport = bpf_htons(h->source_port);
		tuple.ipv4.dport = bpf_htons(h->destination_port);
	} else {
		__builtin_memcpy(tuple.ipv6.saddr, &h->source, 16);
		__builtin_memcpy(tuple.ipv6.daddr, &h->destination, 16);
		tuple.ipv6.sport = bpf_htons(h->source_port);
		tuple.ipv6.dport = bpf_htons(h->destination_port);
		size = sizeof(tuple.ipv6);
	}
	owner = bpf_sk_lookup_udp(skb, &tuple, size, BPF_F_CURRENT_NETNS, 0);
	if (!owner)
		return false;
	found = bpf_sk_cgroup_id(owner) == cfg->exempt;
	bpf_sk_release(owner);
	return found;
}

/* Whether policy takes a packet in clear. */
static __noinline bool takes_clear(const struct rvl_config *cfg, const struct rvl_socket *stamp, const struct headers *h)
{
	struct live_flow flow;
	struct decision d;

	if (!cfg || !stamp || !h)
		return false;
	d = demand(decide(cfg, stamp->app, &h->source, h->protocol, h->destination_port, h->source_port), stamp->required);
	arriving_flow(&flow, stamp->app, h);
	return !refuses_clear(&d, &flow);
}

/* What policy takes in clear is dropped all the same beyond what the application's limit gives its source. */
static __always_inline int within_accepted(struct __sk_buff *skb, const struct rvl_config *cfg, __u16 app, const struct headers *h)
{
	if (!limits_on_accepted(cfg) || is_between_own_sockets(skb) ||
	    source_within_limit(cfg->generation, app, pieces_of(skb), octets_of_packet(skb, h), &h->source))
		return ALLOW;
	return dropped(skb, app, RVL_C_INGRESS_LIMITED);
}

/*
 * A packet for a socket of an application, or of a program that asked for protection. `counted`: what the services of an accepted one with
 * proof count as.
 */
static __always_inline int prove(struct __sk_buff *skb, const struct rvl_config *cfg, struct rvl_socket *stamp,
				 __u8 required, const struct headers *h, bool proven, __u8 *counted)
{
	__u32 mark = ours_in(skb->mark);
	__u16 app = stamp->app;
	struct live_flow flow;
	struct decision d;
	__u8 services;

	d = demand(decide(cfg, app, &h->source, h->protocol, h->destination_port, h->source_port), stamp->required | required);
	switch (d.action) {
	case ACTION_BYPASS:
		/* The answer would leave in clear. */
		if (proven)
			return dropped(skb, app, RVL_C_INGRESS_UNEXPECTED_PROOF);
		if (!d.would)
			return within_accepted(skb, cfg, app, h);
		/* What is only watched is not held. */
		observe_arrival(skb, app, &d, h);
		return ALLOW;
	case ACTION_NEVER:
		*counted = counted_for(services_of(mark), 0);
		return proven ? ALLOW : within_accepted(skb, cfg, app, h);
	case ACTION_UNTRUSTED:
		return dropped(skb, app, RVL_C_INGRESS_UNTRUSTED);
	case ACTION_NO_ITEM:
		return dropped(skb, app, RVL_C_INGRESS_NO_ITEM);
	case ACTION_PROTECT:
		break;
	}
	if (!proven) {
		arriving_flow(&flow, app, h);
		if (is_between_own_sockets(skb) || !refuses_clear(&d, &flow)) {
			if (within_accepted(skb, cfg, app, h) != ALLOW)
				return REFUSE;
			stamp->in_force = 0;
			return ALLOW;
		}
		return dropped(skb, app, d.level == RVL_MANDATORY ? RVL_C_INGRESS_NO_PROOF : RVL_C_INGRESS_STICKY);
	}
	services = services_of(mark);
	if (!enough(services, d.services))
		return dropped(skb, app, RVL_C_INGRESS_SERVICES);
	if (mark & RVL_MARK_APP && (mark & RVL_MARK_APP) != app)
		return dropped(skb, app, RVL_C_INGRESS_OTHER_APP);
	/* Two processors may do this at once for one socket. */
	__sync_fetch_and_add(&stamp->proven, 1);
	*counted = counted_for(services, d.services);
	stamp->in_force = *counted;
	count(RVL_C_PROVEN);
	return ALLOW;
}

/* `required`: services that an MPTCP connection demands of the subflow that the packet is for. */
static __always_inline int judge(struct __sk_buff *skb, const struct rvl_config *cfg, struct bpf_sock *sk,
				 struct rvl_socket *stamp, __u8 required)
{
	struct headers h;
	bool proven;
	int verdict;
	__u32 user;
	__u8 counted = 0;

	/* The mark alone proves nothing, a firewall rule can set it; the interface cannot be forged. */
	proven = cfg->tun && skb->ifindex == cfg->tun && ours_in(skb->mark) & RVL_MARK_PROOF;
	if (!stamp) {
		/* A user's rules decide about the answer too. */
		if (proven && sk && !(ours_in(skb->mark) & RVL_MARK_APP) && user_of(skb, &user) && is_ruled(user)) {
			count(RVL_C_PROVEN);
			return ALLOW;
		}
		if (cfg->flows & RVL_FLOWS_ALL && sk && !proven && skb->ifindex != 1 && !is_daemons(skb, cfg)) {
			const struct headers *known = parse(skb, 0, &h) ? &h : 0;

			count_flow(skb, 0, RVL_T_IN_CLEAR, pieces_of(skb), octets_of_packet(skb, known), known);
		}
		/* The daemon's raw sockets get a copy of every ICMP message, of its own answers through the device too: nobody misses it. */
		if (proven && sk && sk->type == SOCK_RAW && canonical(sk->protocol) == IPPROTO_ICMP && is_daemons(skb, cfg))
			return REFUSE;
		return proven ? dropped(skb, 0, RVL_C_INGRESS_UNEXPECTED_PROOF) : ALLOW;
	}
	proven = proven && stamp->netns == cfg->netns;
	if (!parse(skb, 0, &h)) {
		add_unread(skb, stamp->app, RVL_T_IN_REFUSED, false);
		return dropped(skb, stamp->app, RVL_C_INGRESS_MALFORMED);
	}
	if (!proven && is_copy_for_daemon(skb, sk, cfg, &h) && !takes_clear(cfg, stamp, &h)) {
		count(RVL_C_INGRESS_COPY);
		return REFUSE;
	}
	verdict = prove(skb, cfg, stamp, required, &h, proven, &counted);
	add_arrival(skb, stamp->app, verdict == ALLOW, proven, counted, &h);
	return verdict;
}

/* Sees the receiving socket even for a SYN: its listener. */
SEC("cgroup_skb/ingress")
int proof(struct __sk_buff *skb)
{
	const struct rvl_config *cfg = configuration();
	struct bpf_sock *sk = skb->sk;
	struct rvl_socket *stamp = 0, *own;
	struct mptcp_sock *whole;
	__u8 required = 0;
	int verdict;

	if (!cfg)
		return REFUSE;
	if (sk)
		sk = bpf_sk_fullsock(sk);
	if (sk)
		stamp = bpf_sk_storage_get(&sockets, sk, 0, 0);
	whole = connection_of(sk);
	if (whole && sk) {
		/* Before it is known whose the connection is, the stricter of two stamps is the connection's: see claim. */
		own = bpf_sk_storage_get(&sockets, whole, 0, 0);
		if (!stamp || (stamp->unclaimed &&
			       (is_decided(whole) ||
				(own && own->app && handover_of(cfg, stamp, own->app) == HANDOVER_STAMP))))
			stamp = own;
		required = required_of_subflow(cfg, whole, sk, stamp);
	}
	if (sk && !stamp && sk->protocol == IPPROTO_SCTP) {
		if (!stamp_accepted(skb, sk, false))
			return REFUSE;
		stamp = bpf_sk_storage_get(&sockets, sk, 0, 0);
		if (!stamp && hears_for_nobody_known(skb, sk, cfg))
			return dropped(skb, 0, RVL_C_INGRESS_UNCLAIMED);
	}
	verdict = judge(skb, cfg, sk, stamp, required);
	if (verdict == ALLOW && sk && sk->protocol == IPPROTO_SCTP && sk->state == TCP_LISTEN)
		note_endpoint(skb, sk, stamp);
	if (verdict == ALLOW && sk)
		tell_answer(skb, cfg, sk, stamp);
	return verdict;
}

#endif
