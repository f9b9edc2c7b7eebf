/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The program on the cgroup that sees the packets that sockets send: it follows who sends, and refuses what leaves by devices that nobody
 * guards.
 */
#ifndef RVL_GUARD_H
#define RVL_GUARD_H

/* What becomes of a packet by who sends it. */
enum sender {
	SENDER_REFUSED,
	SENDER_GOES_ON,
	SENDER_STAMPS, /* the socket is its application's from here on */
	SENDER_CLAIMS, /* the same of a connection that came in */
};

/* Whether whose an MPTCP connection is has been decided; what came with the listener's stamp has not. */
static __always_inline bool is_decided(struct mptcp_sock *whole)
{
	__u32 *note = bpf_sk_storage_get(&unclaimed, whole, 0, 0);

	return note && *note == NOTE_DECIDED;
}

/* Whether a subflow's connection came in, and no process has written on it. */
static __always_inline bool is_unwritten_connection(struct mptcp_sock *whole)
{
	__u32 *note = bpf_sk_storage_get(&unclaimed, whole, 0, 0);

	return note && is_open(note);
}

/* Its subflows are all whose this one is. What the program has asked for stays. False: there is no room to say so. */
static __always_inline bool decide_whole(struct mptcp_sock *whole, const struct rvl_socket *stamp)
{
	__u32 decided = NOTE_DECIDED, *note;
	struct rvl_socket *own;

	if (stamp) {
		own = bpf_sk_storage_get(&sockets, whole, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
		if (!own)
			return false;
		assign(own, stamp->netns, stamp->app);
		own->unclaimed = 0;
	}
	note = bpf_sk_storage_get(&unclaimed, whole, &decided, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!note)
		return false;
	*note = NOTE_DECIDED;
	return true;
}

/* From here on it is whose it is. */
static __always_inline void settle(struct bpf_sock *sk, struct rvl_socket *stamp)
{
	if (stamp)
		stamp->unclaimed = 0;
	bpf_sk_storage_delete(&unclaimed, sk);
}

#define TCP_FIN 1

/* What a segment carries of what a process has sent. */
enum load {
	CARRIES_NOTHING,
	CARRIES_END,
	CARRIES_DATA,
};

/* One that cannot be read carries data. */
static __noinline enum load load_of(struct __sk_buff *skb)
{
	struct headers h;
	__u8 tcp[2]; /* length of the header, flags */

	if (!parse(skb, 0, &h) || h.later_fragment || !load(skb, h.transport + 12, tcp, sizeof(tcp)) ||
	    skb->len > h.transport + (tcp[0] >> 4) * 4)
		return CARRIES_DATA;
	return tcp[1] & TCP_FIN ? CARRIES_END : CARRIES_NOTHING;
}

/* What nobody is known to have written stays: who only sends it on is nobody who could say whose it is. */
static __noinline enum sender hold(struct __sk_buff *skb, struct bpf_sock *sk, const struct rvl_socket *stamp)
{
	struct mptcp_sock *whole = connection_of(sk);
	__u32 held = NOTE_HELD, *note;

	note = whole ? bpf_sk_storage_get(&unclaimed, whole, &held, BPF_LOCAL_STORAGE_GET_F_CREATE)
		     : bpf_sk_storage_get(&unclaimed, sk, &held, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (note && kind_of(note) == NOTE_UNCLAIMED)
		*note = NOTE_HELD;
	refuse_packet(skb, stamp ? stamp->app : 0, RVL_C_EGRESS_UNCLAIMED, RVL_HOOK_OUT);
	return SENDER_REFUSED;
}

/*
 * Refuse a packet of which nobody can say whose it is: of a connection without room for a note, on which a process may have written, or data
 * of a subflow that has been destroyed.
 */
static __noinline enum sender hold_for_nobody(struct __sk_buff *skb, const struct rvl_socket *stamp)
{
	refuse_packet(skb, stamp ? stamp->app : 0, RVL_C_EGRESS_UNCLAIMED, RVL_HOOK_OUT);
	return SENDER_REFUSED;
}

/*
 * Whether a packet says nothing of who has written: an acknowledgment, and the end of a connection that has the stamp of what it must have at
 * least. The kernel sends both again when no process has the socket any more.
 */
static __always_inline bool goes_in_any_hands(enum load load, const struct rvl_socket *stamp)
{
	return load == CARRIES_NOTHING || (load == CARRIES_END && stamp && stamp->app);
}

/* Whether nobody writes on a connection without a note of who it is, before anything can leave. */
static __always_inline bool writers_are_noted(const struct mptcp_sock *whole)
{
	return senders_are_seen || (writes_are_seen && !whole);
}

/*
 * Whether what leaves in the hands of a process without a note of who has written it is this process's own. Where writes are seen there
 * is a note for all but the end of a stream, and the hands may be those of a firewall's queue. Elsewhere the call that writes is not over
 * yet; what an earlier one has written is noted, unless it still waits for room.
 */
static __always_inline bool is_own(const struct sock *kernel, struct mptcp_sock *whole, const __u32 *note, enum load load)
{
	if (writers_are_noted(whole))
		return load == CARRIES_END;
	if (whole)
		kernel = bpf_rdonly_cast(whole, bpf_core_type_id_kernel(struct sock));
	return !kernel->sk_write_pending && !(note && kind_of(note) == NOTE_HELD);
}

/*
 * Who accepts a connection can be another program than the listener's: socket activation, inetd. No call of such a program has a
 * hook, so the first process that writes decides, before the packet is seen by the uplink: where its policy may have the
 * connection, it has it. Where the note of who that was is still to come, a socket that is owned is in the hands of the calling process.
 * An acknowledgment in the hands of the listener's program says nothing yet: it has not sent. Data of which nobody knows who has written
 * it waits. Refused: so is that, or the policies do not compare, or there is no room for the stamp.
 *
 * Hands alone, where each write is noted, are no more than the least that the connection must have until somebody writes: they may be those
 * of a program that gives the packet back from a firewall's queue, while another thread has the socket.
 */
static __noinline enum sender claim(struct __sk_buff *skb, struct bpf_sock *sk, const struct rvl_config *cfg,
				    struct rvl_socket *stamp)
{
	struct mptcp_sock *whole;
	struct rvl_socket *first;
	struct sock *kernel;
	bool written, unwritten, hands_alone;
	enum load load;
	__u32 *note;
	__u16 is;

	if (has_no_room(sk))
		return hold_for_nobody(skb, stamp);
	if (has_lost_connection(sk) && !(stamp && stamp->app && !stamp->unclaimed))
		return goes_in_any_hands(load_of(skb), stamp) ? SENDER_GOES_ON : hold_for_nobody(skb, stamp);
	whole = connection_of(sk);
	note = bpf_sk_storage_get(&unclaimed, sk, 0, 0);
	unwritten = is_unwritten(stamp, note);
	if (!unwritten && !whole)
		return SENDER_GOES_ON;
	first = whole ? bpf_sk_storage_get(&sockets, whole, 0, 0) : 0;
	if (whole && is_decided(whole)) {
		if (!first || !first->app || (!unwritten && stamp && stamp->app == first->app)) {
			if (unwritten)
				settle(sk, stamp);
			return SENDER_GOES_ON;
		}
		stamp = stamp_socket(sk, stamp, first->netns, first->app);
		if (!stamp)
			return SENDER_REFUSED;
		settle(sk, stamp);
		count(RVL_C_CLAIMED);
		return SENDER_CLAIMS;
	}
	if (!unwritten && !(whole && !(stamp && stamp->app) && is_unwritten_connection(whole)))
		return SENDER_GOES_ON;
	/* Who has called on the connection meanwhile, or held it when policy was loaded, has said what it must have at least. */
	if (first && handover_of(cfg, stamp, first->app) == HANDOVER_STAMP) {
		stamp = stamp_socket(sk, stamp, first->netns, first->app);
		if (!stamp)
			return SENDER_REFUSED;
		stamp->unclaimed = 1;
	}
	load = load_of(skb);
	kernel = bpf_rdonly_cast(sk, bpf_core_type_id_kernel(struct sock));
	note = whole ? bpf_sk_storage_get(&unclaimed, whole, 0, 0) : bpf_sk_storage_get(&unclaimed, sk, 0, 0);
	if (note && kind_of(note) == NOTE_CONFLICT) {
		count(RVL_C_INCOMPARABLE);
		return SENDER_REFUSED;
	}
	written = note && kind_of(note) == NOTE_WRITTEN;
	if (written) {
		is = *note >> NOTE_WRITER;
	} else {
		/* The sockets of subflows are the kernel's own; the connection's is the program's. */
		if (!kernel->sk_lock.owned || !kernel->sk_socket ||
		    is_work_of_another(whole ? bpf_rdonly_cast(whole, bpf_core_type_id_kernel(struct sock)) : kernel))
			return goes_in_any_hands(load, stamp) ? SENDER_GOES_ON : hold(skb, sk, stamp);
		is = current_is_exempt(cfg) ? 0 : app_of_current(cfg);
	}
	hands_alone = !written && writers_are_noted(whole);
	switch (handover_of(cfg, stamp, is)) {
	case HANDOVER_KEEP:
		if (!written && (load == CARRIES_NOTHING || (hands_alone && goes_in_any_hands(load, stamp))))
			return SENDER_GOES_ON;
		if (!written && !is_own(kernel, whole, note, load))
			return hold(skb, sk, stamp);
		/* The verifier must see this comparison, which the compiler would draw from others. */
		barrier_var(whole);
		if (whole && !decide_whole(whole, stamp))
			return SENDER_REFUSED;
		settle(sk, stamp);
		return SENDER_GOES_ON;
	case HANDOVER_REFUSE:
		if (hands_alone && load == CARRIES_NOTHING)
			return SENDER_GOES_ON;
		count(RVL_C_INCOMPARABLE);
		return SENDER_REFUSED;
	case HANDOVER_STAMP:
		break;
	}
	if (hands_alone && load == CARRIES_DATA)
		return hold(skb, sk, stamp);
	stamp = stamp_socket(sk, stamp, kernel->__sk_common.skc_net.net->net_cookie, is);
	if (!stamp)
		return SENDER_REFUSED;
	count(RVL_C_CLAIMED);
	if (hands_alone) {
		stamp->unclaimed = 1;
		return SENDER_CLAIMS;
	}
	if (whole && !decide_whole(whole, stamp))
		return SENDER_REFUSED;
	settle(sk, stamp);
	return SENDER_CLAIMS;
}

/* A subflow demands what its MPTCP connection demands. Refused: there is no room for the stamp that says so. */
static __noinline enum sender follow_connection(struct bpf_sock *sk, const struct rvl_config *cfg, enum sender sender)
{
	struct mptcp_sock *whole = connection_of(sk);
	struct rvl_socket *stamp, *own;
	struct sock *kernel;
	__u8 required;

	if (!whole || sender == SENDER_REFUSED)
		return sender;
	stamp = bpf_sk_storage_get(&sockets, sk, 0, 0);
	required = required_of_subflow(cfg, whole, sk, stamp);
	if (!(required & ~(stamp ? stamp->required : 0)))
		return sender;
	if (!stamp) {
		own = bpf_sk_storage_get(&sockets, whole, 0, 0);
		kernel = bpf_rdonly_cast(sk, bpf_core_type_id_kernel(struct sock));
		stamp = stamp_socket(sk, 0, kernel->__sk_common.skc_net.net->net_cookie, own ? own->app : 0);
		if (!stamp)
			return SENDER_REFUSED;
		if (sender == SENDER_GOES_ON)
			sender = SENDER_STAMPS;
	}
	stamp->required |= required;
	return sender;
}

/* Whether a packet of such a socket leaves in the context of who sends it. */
static __always_inline bool has_caller(__u32 protocol, __u32 type, bool owned)
{
	return type == SOCK_DGRAM || type == SOCK_RAW || (protocol == IPPROTO_SCTP && owned);
}

/* What SCTP sends without a caller, or with one that has no policy. */
static __noinline enum sender follow_nobody(struct __sk_buff *skb, struct bpf_sock *sk, const struct rvl_config *cfg,
					    const struct rvl_socket *stamp, bool has_caller)
{
	if (sk->protocol != IPPROTO_SCTP || stamp || !is_of_nobody_known(skb, sk, cfg) || is_daemons(skb, cfg))
		return SENDER_GOES_ON;
	if (has_caller && note_nobodys(sk))
		return SENDER_GOES_ON;
	refuse_packet(skb, 0, RVL_C_EGRESS_UNCLAIMED, RVL_HOOK_OUT);
	return SENDER_REFUSED;
}

/*
 * Datagram, raw and ping sockets send in their caller's context, so here is seen who has one that no other hook saw: raw and
 * ping sockets have none for sendmsg and bind, a connected socket that changed hands has none at all. Not TCP, which also
 * sends while others run, nor sockets of the kernel, nor those by which a tunnel of the kernel sends for everybody. SCTP does
 * both: it is its caller's who has its lock; without a caller it is its listener's, or nobody's (sctp.h).
 * Refused: the policies do not compare.
 */
static __noinline enum sender follow_sender(struct __sk_buff *skb, struct bpf_sock *sk, const struct rvl_config *cfg,
					    struct rvl_socket *stamp)
{
	struct sock *kernel;
	__u16 has, is;

	kernel = bpf_rdonly_cast(sk, bpf_core_type_id_kernel(struct sock));
	if (!has_caller(sk->protocol, sk->type, kernel->sk_lock.owned))
		return follow_nobody(skb, sk, cfg, stamp, false);
	/* The call has stamped it, and these hands may be those of a firewall's queue. */
	if (senders_are_seen == SENDERS_ALL && sk->protocol != IPPROTO_SCTP)
		return SENDER_GOES_ON;
	is = app_of_current(cfg);
	if (!is)
		return follow_nobody(skb, sk, cfg, stamp, true);
	has = stamp ? stamp->app : 0;
	if (has == is || is_daemons(skb, cfg))
		return SENDER_GOES_ON;
	if (!kernel->sk_socket || !kernel->sk_socket->file)
		return SENDER_GOES_ON;
	if (sk->protocol == IPPROTO_UDP && sk->type == SOCK_DGRAM) {
		struct udp_sock *udp = bpf_rdonly_cast(sk, bpf_core_type_id_kernel(struct udp_sock));

		if (udp->encap_type)
			return SENDER_GOES_ON;
	}
	switch (handover_of(cfg, stamp, is)) {
	case HANDOVER_KEEP:
		return SENDER_GOES_ON;
	case HANDOVER_REFUSE:
		count(RVL_C_INCOMPARABLE);
		return SENDER_REFUSED;
	case HANDOVER_STAMP:
		break;
	}
	if (!stamp_socket(sk, stamp, kernel->__sk_common.skc_net.net->net_cookie, is))
		return SENDER_REFUSED;
	count(RVL_C_RESTAMPED);
	return SENDER_STAMPS;
}

static __always_inline bool is_to_group(const struct __sk_buff *skb)
{
	__u8 first;

	if (skb->protocol == bpf_htons(ETH_P_IP))
		return load(skb, 16, &first, 1) && first >> 4 == 14;
	return load(skb, 24, &first, 1) && first == 0xff;
}

/*
 * Whether a packet to a multicast group must be protected, and no association of the group does it. No key manager agrees on one with a
 * group (RFC 4301 section 4.1), so the packet would wait for nothing and end unheard: its sender is told at once.
 */
static __noinline bool has_unserved_group(struct __sk_buff *skb, const struct rvl_config *cfg, const struct rvl_socket *stamp)
{
	struct live_flow flow;
	struct decision d;
	struct headers h;

	if (!stamp || !parse(skb, 0, &h))
		return false;
	d = demand(decide(cfg, stamp->app, &h.destination, h.protocol, h.source_port, h.destination_port), stamp->required);
	if (d.action != ACTION_PROTECT || d.level != RVL_MANDATORY)
		return false;
	leaving_flow(&flow, stamp->app, &h);
	return !live_covers(&flow);
}

/*
 * Whether a packet that its program sends by the TUN itself is to be protected. An answer by the device that the question came by does that
 * (IP_PKTINFO with its index): the question came by the TUN. tun_egress compares the mark, and the engine decides as of any packet.
 */
static __noinline bool is_asked_of_tun(struct __sk_buff *skb, const struct rvl_config *cfg, const struct rvl_socket *stamp)
{
	struct headers h;
	__u16 kind;

	if (!stamp || !cfg || !cfg->tun || skb->ifindex != cfg->tun || !parse(skb, 0, &h) || h.source_route)
		return false;
	kind = asked_of(cfg, network_of(cfg, stamp->app, &h.destination), stamp->app, stamp->required, &h) & ~ASKED_CLEAR;
	if (kind != RVL_T_OUT_AUTHENTICATED && kind != RVL_T_OUT_ENCRYPTED)
		return false;
	add_packet(skb, stamp->app, kind, &h);
	return true;
}

/*
 * Whether a packet has the source of another host, to which policy lets nothing go in clear. Any program may choose such a source
 * (IPV6_FREEBIND). Whatever answers the packet answers there, and quotes it, in clear: the kernel, where no neighbour answers or where its
 * own copy for a group arrives, and the engine, where the packet is too long. Nobody answers the unspecified address.
 */
static __noinline bool speaks_for_another(struct __sk_buff *skb, struct bpf_sock *sk, const struct rvl_config *cfg,
					  const struct rvl_socket *stamp)
{
	struct sock *kernel = bpf_rdonly_cast(sk, bpf_core_type_id_kernel(struct sock));
	struct address source = {};
	__u32 user;
	__be32 v4;

	/* Addresses of other namespaces, where a user of the same number is somebody else, are not known here. */
	if (!cfg || kernel->__sk_common.skc_net.net->net_cookie != cfg->netns)
		return false;
	if (!stamp && !(user_of(skb, &user) && is_ruled(user)))
		return false;
	if (skb->protocol == bpf_htons(ETH_P_IP)) {
		if (!load(skb, 12, &v4, sizeof(v4)))
			return true;
		if (!v4)
			return false;
		mapped(&source, v4);
	} else if (!load(skb, 8, &source, sizeof(source))) {
		return true;
	}
	if ((!source.halves[0] && !source.halves[1]) || is_own_address(&source))
		return false;
	/* A user's rules say nothing about his sources. */
	return !stamp || !may_go_in_clear(cfg, stamp->app, stamp->required, &source);
}

/*
 * The last word on devices that no program of ours guards: a new uplink, another network namespace. It runs with the
 * listener for a SYN-ACK.
 */
SEC("cgroup_skb/egress")
int guard(struct __sk_buff *skb)
{
	const struct rvl_config *cfg = configuration();
	struct bpf_sock *sk = skb->sk;
	struct rvl_socket *stamp;
	struct headers h;
	__u32 ifindex = skb->ifindex;
	enum sender sender;

	if (!cfg || !sk)
		return ALLOW;
	sk = bpf_sk_fullsock(sk);
	if (!sk)
		return ALLOW;
	stamp = bpf_sk_storage_get(&sockets, sk, 0, 0);
	if (!stamp && is_daemons(skb, cfg))
		return ALLOW;
	if (!stamp && sk->protocol == IPPROTO_SCTP) {
		if (!stamp_accepted(skb, sk, true))
			return REFUSE;
		stamp = bpf_sk_storage_get(&sockets, sk, 0, 0);
	}
	/* Two calls side by side: one in the other needs more stack than there is. */
	if (sk->protocol == IPPROTO_TCP && sk->type != SOCK_RAW)
		sender = follow_connection(sk, cfg, claim(skb, sk, cfg, stamp));
	else
		sender = follow_sender(skb, sk, cfg, stamp);
	if (sender == SENDER_REFUSED) {
		add_unread(skb, stamp ? stamp->app : 0, RVL_T_OUT_REFUSED, false);
		return REFUSE;
	}
	note_question(skb, cfg, sk);
	if (!stamp && sender != SENDER_GOES_ON)
		stamp = bpf_sk_storage_get(&sockets, sk, 0, 0);
	if (ifindex == 1)
		return ALLOW;
	if (speaks_for_another(skb, sk, cfg, stamp)) {
		refuse_packet(skb, stamp ? stamp->app : 0, RVL_C_EGRESS_FOREIGN, RVL_HOOK_OUT);
		add_unread(skb, stamp ? stamp->app : 0, RVL_T_OUT_REFUSED, false);
		return REFUSE;
	}
	if (!stamp)
		return ALLOW;
	if (stamp->netns == cfg->netns && (bpf_map_lookup_elem(&uplinks, &ifindex) || is_asked_of_tun(skb, cfg, stamp))) {
		if (is_to_group(skb) && has_unserved_group(skb, cfg, stamp)) {
			refuse_packet(skb, stamp->app, RVL_C_EGRESS_GROUP, RVL_HOOK_OUT);
			add_unread(skb, stamp->app, RVL_T_OUT_REFUSED, false);
			return REFUSE;
		}
		if (cfg->per_socket && sender == SENDER_CLAIMS)
			announce_claimed(skb, stamp->app);
		else if (cfg->per_socket)
			announce_datagram(skb, cfg, sk, stamp->app);
		return ALLOW;
	}
	if (parse(skb, 0, &h) && !h.source_route) {
		struct rvl_network *network = network_of(cfg, stamp->app, &h.destination);

		if ((!network || network->class == RVL_TRUSTED) && !stamp->required) {
			if (!(network && network->would) && !packet_within_limit(skb, cfg, stamp->app, &h)) {
				refuse_packet(skb, stamp->app, RVL_C_EGRESS_LIMITED, RVL_HOOK_OUT);
				add_packet(skb, stamp->app, RVL_T_OUT_REFUSED, &h);
				return REFUSE;
			}
			add_packet(skb, stamp->app, RVL_T_OUT_CLEAR, &h);
			if (network && network->would)
				add_would(skb, stamp->app, network, &h, false);
			return ALLOW;
		}
	}
	refuse_packet(skb, stamp->app, RVL_C_EGRESS_UNGUARDED, RVL_HOOK_OUT);
	add_unread(skb, stamp->app, RVL_T_OUT_REFUSED, false);
	return REFUSE;
}

#endif
