/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Programs on devices: steer at the uplink's egress, keep forged marks and forged ICMP errors out at its ingress,
 * write and check the record on the TUN.
 */
#ifndef RVL_DEVICE_H
#define RVL_DEVICE_H

/* Whether a socket is one that a program opened, and not the kernel for itself. */
static __always_inline bool is_of_program(struct bpf_sock *sk)
{
	struct sock *kernel = bpf_rdonly_cast(sk, bpf_core_type_id_kernel(struct sock));

	return !BPF_CORE_READ_BITFIELD(kernel, sk_kern_sock);
}

/*
 * Whether the mark of a packet says on whose behalf it is sent: where there is no socket any more, or one of the kernel's, which answers
 * by the mark of what it answers. What a program's socket sends has the mark of the socket or one that the program named beside the
 * datagram (SO_MARK as a control message, for which there is no hook): its storage decides.
 */
static __always_inline bool mark_counts(struct bpf_sock *sk)
{
	struct bpf_sock *full;

	if (!sk)
		return true;
	full = bpf_sk_fullsock(sk);
	if (!full)
		full = bpf_get_listener_sock(sk);
	return !full || !is_of_program(full);
}

/*
 * Packet sockets, and others that send in their caller's context what no hook of sockets of IP sees: PPPoE, whose sockets anybody
 * may open, and LLC.
 */
static __always_inline bool sends_frames(const struct bpf_sock *sk)
{
	return sk->family != AF_INET && sk->family != AF_INET6;
}

/* On whose behalf a packet is sent. */
struct owner {
	__u16 app;
	__u8 required;
	bool stored; /* storage decided */
};

static __always_inline void owner_of_mark(__u32 mark, struct owner *owner)
{
	mark = ours_in(mark);
	if (!(mark & RVL_MARK_STAMPED))
		return;
	owner->app = mark & RVL_MARK_APP;
	owner->required = services_of(mark);
}

/*
 * Who is behind a socket that is attached to a packet: its storage; for a SYN-ACK the listener's; for TIME_WAIT the mark
 * that the socket had; for one that is none of IP's and sends in its caller's context, the caller.
 */
static __always_inline void owner_of_socket(struct bpf_sock *sk, const struct rvl_config *cfg, struct owner *owner)
{
	struct bpf_sock *full = bpf_sk_fullsock(sk);
	struct rvl_socket *stamp;
	struct tcp_timewait_sock *waiting;

	if (!full)
		full = bpf_get_listener_sock(sk);
	if (full) {
		stamp = bpf_sk_storage_get(&sockets, full, 0, 0);
		if (!stamp) {
			if (sends_frames(full))
				owner->app = app_of_current(cfg);
			return;
		}
		owner->stored = true;
		owner->app = stamp->app;
		owner->required = stamp->required;
		return;
	}
	waiting = bpf_skc_to_tcp_timewait_sock(sk);
	if (waiting)
		owner_of_mark(waiting->tw_sk.tw_mark, owner);
}

/* Octets of a frame that are read before it leaves: link header, IP header, its extensions, ports. */
#define FRAME_HEADERS 1024

/* In place of a checksum: the device, or the kernel behind this program, puts one where the sender says (PACKET_VNET_HDR). */
#define CHECKSUM_PARTIAL 3

/*
 * Whether what is left to be written into a frame is the checksum of its TCP or UDP header. Anywhere else it could be the address or the port
 * that policy went by. A checksum behind extension headers of IPv6 is the sender's own to write.
 */
static __always_inline bool sums_its_transport(struct __sk_buff *skb)
{
	struct sk_buff *kernel = bpf_cast_to_kern_ctx(skb);
	__u32 at = 40;
	__u8 octet, protocol;

	if (BPF_CORE_READ_BITFIELD(kernel, ip_summed) != CHECKSUM_PARTIAL)
		return true;
	/* Written over the type of a frame, a sum could make IP of what is not IP here. */
	if (!is_ip(skb))
		return false;
	if (skb->protocol == bpf_htons(ETH_P_IP)) {
		if (!load(skb, 0, &octet, 1) || !load(skb, 9, &protocol, 1))
			return false;
		at = (octet & 15) * 4;
	} else if (!load(skb, 6, &protocol, 1)) {
		return false;
	}
	if (kernel->csum_start != kernel->network_header + at)
		return false;
	return (protocol == IPPROTO_TCP && kernel->csum_offset == 16) || (protocol == IPPROTO_UDP && kernel->csum_offset == 6);
}

/*
 * Whether a packet socket's frame says what it is: the type that the kernel goes by is the sender's word, that of the link header is
 * what counts on the wire. What its headers are made of must be ours: of a ring (PACKET_TX_RING) they lie in memory that the sender
 * can still change.
 */
static __always_inline bool is_plain_frame(struct __sk_buff *skb)
{
	struct sk_buff *kernel = bpf_cast_to_kern_ctx(skb);
	__u32 link = (__u16)(kernel->network_header - kernel->mac_header);
	__u32 length = skb->len < FRAME_HEADERS ? skb->len : FRAME_HEADERS;
	__be16 type;

	if (bpf_skb_pull_data(skb, length) || !sums_its_transport(skb))
		return false;
	/* A device without link headers. */
	if (!link)
		return true;
	if (bpf_skb_load_bytes_relative(skb, 12, &type, sizeof(type), BPF_HDR_START_MAC))
		return false;
	return link == 14 && type == skb->protocol;
}

/* Whether a packet was sent by a packet socket, or another one that is none of IP's. */
static __always_inline bool is_frame(struct __sk_buff *skb)
{
	struct bpf_sock *sk = skb->sk;

	if (sk)
		sk = bpf_sk_fullsock(sk);
	return sk && sends_frames(sk);
}

/*
 * Whether a packet of IP was sent by a socket of L2TP. It can have waited for its neighbour, so the thread that it leaves in says nothing; and
 * programs of policy have no such sockets where the kernel takes a program at its security hooks (sender.h). pppd's own packets have no socket.
 */
static __always_inline bool is_of_session(struct __sk_buff *skb, const struct rvl_config *cfg)
{
	struct bpf_sock *sk = skb->sk;

	if (!cfg->generation || !sk)
		return false;
	sk = bpf_sk_fullsock(sk);
	return sk && sk->family == AF_PPPOX;
}

static __always_inline int refused_frame(struct __sk_buff *skb, const struct owner *owner, enum rvl_counter counter)
{
	add_unread(skb, owner->app, RVL_T_OUT_REFUSED, true);
	refuse_packet(skb, owner->app, counter, RVL_HOOK_OUT);
	return TCX_DROP;
}

/* What a route makes of a packet of a socket of IP so that it is not IP any more (MPLS): nothing that policy speaks about leaves so. */
static __always_inline int leaving_wrapped(struct __sk_buff *skb, const struct rvl_config *cfg)
{
	struct bpf_sock *sk = skb->sk;
	struct owner owner = {};
	__u32 user;

	if (!cfg || !sk || is_daemons(skb, cfg))
		return TCX_NEXT;
	owner_of_socket(sk, cfg, &owner);
	if (!owner.app && !owner.required && !(user_of(skb, &user) && is_ruled(user)) &&
	    !(cfg->guards && !owner.stored && !mark_counts(sk)))
		return TCX_NEXT;
	return refused_frame(skb, &owner, RVL_C_EGRESS_SOURCE_ROUTE);
}

/* What is not IP: of the host's own business, but for frames of programs that policy speaks about. */
static __always_inline int leaving_otherwise(struct __sk_buff *skb, const struct rvl_config *cfg)
{
	struct bpf_sock *sk = skb->sk;
	bool is_ours;

	if (sk)
		sk = bpf_sk_fullsock(sk);
	if (!sk || !sends_frames(sk))
		return leaving_wrapped(skb, cfg);
	/* Headers in a transmit ring (PACKET_TX_RING) are copied before they are looked at: the sender can still change the ring. */
	is_ours = !bpf_skb_pull_data(skb, skb->len < FRAME_HEADERS ? skb->len : FRAME_HEADERS);
	if (is_ours && !is_disguised(skb) && sums_its_transport(skb))
		return TCX_NEXT;
	if (!cfg)
		return TCX_DROP;
	if (cfg->exempt && bpf_skb_cgroup_id(skb) == cfg->exempt)
		return TCX_NEXT;
	return cfg->guards || app_of_current(cfg) ? device_drop(RVL_C_EGRESS_DISGUISED) : TCX_NEXT;
}

/* A packet that no block and no rule decides about. */
static __always_inline int leaving_unpoliced(struct __sk_buff *skb, const struct rvl_config *cfg)
{
	bool refused = is_guarded(skb, cfg);
	const struct headers *known = 0;
	struct headers h;

	if (skb->sk && cfg->flows & RVL_FLOWS_ALL) {
		if (parse(skb, 0, &h))
			known = &h;
		count_flow(skb, 0, refused ? RVL_T_OUT_REFUSED : RVL_T_OUT_CLEAR, pieces_of(skb), octets_of_frame(skb, known),
			   known);
	}
	return refused ? device_drop(RVL_C_EGRESS_GUARD) : TCX_NEXT;
}

/* What comes back in clear from the data path is within the limit already, unless protection was expected of it. */
static __always_inline bool returns_within_limit(struct __sk_buff *skb, const struct rvl_config *cfg,
						 const struct owner *owner)
{
	struct rvl_network *network;
	struct headers h;

	if (!limits_on_sent(cfg))
		return true;
	if (!parse(skb, 0, &h))
		return frames_within_limit(skb, cfg, owner->app, 0);
	network = network_of(cfg, owner->app, &h.destination);
	return asked_of(cfg, network, owner->app, owner->required, &h) & ASKED_CLEAR ||
	       frames_within_limit(skb, cfg, owner->app, &h);
}

/* What the daemon sends. What goes in clear it marks with the application whose packet it is. */
static __always_inline int leaving_daemon(struct __sk_buff *skb, const struct rvl_config *cfg)
{
	struct bpf_sock *sk = skb->sk;
	struct owner owner = {};

	owner_of_mark(skb->mark, &owner);
	if (!owner.app)
		return TCX_NEXT;
	if (sk)
		sk = bpf_sk_fullsock(sk);
	/* The mark is that of a socket of an application that has come into the daemon's hands. */
	if (sk && bpf_sk_storage_get(&sockets, sk, 0, 0))
		return TCX_NEXT;
	if (!returns_within_limit(skb, cfg, &owner))
		return refused_frame(skb, &owner, RVL_C_EGRESS_LIMITED);
	add_unread(skb, owner.app, RVL_T_OUT_RETURNED, true);
	return TCX_NEXT;
}

SEC("tcx/egress")
int uplink_egress(struct __sk_buff *skb)
{
	const struct rvl_config *cfg = configuration();
	struct bpf_sock *sk = skb->sk;
	struct owner owner = {};
	struct rvl_network *network = 0;
	struct headers h;
	bool answer, believed, ruled = false;
	__u32 user = 0;

	if (!is_ip(skb))
		return leaving_otherwise(skb, cfg);
	if (!cfg)
		return TCX_DROP;
	if (skb->ingress_ifindex && is_gateway()) {
		int verdict = leaving(skb, cfg, skb->ingress_ifindex);

		if (verdict != TCX_NEXT || skb->ingress_ifindex == cfg->tun)
			return verdict;
	}
	if (is_daemons(skb, cfg))
		return leaving_daemon(skb, cfg);
	if (is_of_session(skb, cfg))
		return refused_frame(skb, &owner, RVL_C_EGRESS_UNCLAIMED);
	/* The socket first: a firewall rule can wipe or set the packet's mark. */
	if (sk)
		owner_of_socket(sk, cfg, &owner);
	believed = mark_counts(sk);
	if (believed && !owner.app && !owner.required)
		owner_of_mark(skb->mark, &owner);
	/* An answer of the kernel itself (RST, unreachable, echo, TIME_WAIT) to a protected packet: fwmark_reflect. */
	answer = believed && !owner.stored && ours_in(skb->mark) & RVL_MARK_PROOF;
	if ((owner.app || cfg->guards) && is_frame(skb) && !is_plain_frame(skb))
		return refused_frame(skb, &owner, RVL_C_EGRESS_DISGUISED);
	if (!owner.app && !answer && user_of(skb, &user))
		ruled = is_ruled(user);
	if (!owner.app && !owner.required && !answer && !ruled && !cfg->guards && !(cfg->flows & RVL_FLOWS_ALL))
		return TCX_NEXT;
	if (!owner.app && !owner.required && !answer && !ruled)
		return leaving_unpoliced(skb, cfg);
	if (!answer) {
		if (!parse(skb, 0, &h) || h.transport > FRAME_HEADERS - 32)
			return refused_frame(skb, &owner, RVL_C_EGRESS_MALFORMED);
		/* The address on the wire may be a hop, not the peer whose policy counts. */
		if (h.source_route || is_wrapped(skb->sk, &h))
			return refused_frame(skb, &owner, RVL_C_EGRESS_SOURCE_ROUTE);
		network = network_of(cfg, owner.app, &h.destination);
		switch (network ? network->class : RVL_TRUSTED) {
		case RVL_TRUSTED:
			if (!owner.required && !ruled) {
				/* What is only watched is not held to its limit either. */
				if (!(network && network->would) && !frames_within_limit(skb, cfg, owner.app, &h))
					return refused_frame(skb, &owner, RVL_C_EGRESS_LIMITED);
				add_frames(skb, owner.app, RVL_T_OUT_CLEAR, &h);
				if (network && network->would)
					add_would(skb, owner.app, network, &h, true);
				return TCX_NEXT;
			}
			break;
		case RVL_PROTECTED:
			break;
		default:
			return refused_frame(skb, &owner, RVL_C_EGRESS_UNTRUSTED);
		}
		if (ruled)
			remember(skb, user);
		skb->mark = mark_with(skb->mark, owner.app, owner.required);
	}
	if (!cfg->tun)
		return refused_frame(skb, &owner, RVL_C_EGRESS_NO_TUN);
	if (!answer && (owner.app || owner.required)) {
		__u16 kind = asked_of(cfg, network, owner.app, owner.required, &h);

		if (kind & ASKED_CLEAR && !frames_within_limit(skb, cfg, owner.app, &h))
			return refused_frame(skb, &owner, RVL_C_EGRESS_LIMITED);
		kind &= ~ASKED_CLEAR;
		if (kind < RVL_T_KINDS)
			add_frames(skb, owner.app, kind, &h);
		note_class(skb, network, &h);
	}
	count(RVL_C_REDIRECTED);
	return bpf_redirect(cfg->tun, 0);
}

/*
 * Whether a packet on lo is of a socket that policy speaks for and has the source of another host, to which policy lets nothing go in
 * clear. The kernel would answer there, by no socket of the program's, and quote what it answers: errors, echo replies.
 */
static __always_inline bool has_answer_elsewhere(struct __sk_buff *skb, const struct rvl_config *cfg)
{
	struct bpf_sock *sk = skb->sk;
	struct owner owner = {};
	struct headers h;
	__u32 user;

	/* The verifier must see this comparison, which the compiler would draw from others. */
	barrier_var(sk);
	if (!sk)
		return false;
	owner_of_socket(sk, cfg, &owner);
	if (!owner.app && !owner.required && !(user_of(skb, &user) && is_ruled(user)))
		return false;
	if (source_is_local(skb))
		return false;
	return !owner.app || !parse(skb, 0, &h) || !may_go_in_clear(cfg, owner.app, owner.required, &h.source);
}

/* What a program that no block names sends for a network that is closed to it (`guard`), by a socket of IP. */
static __always_inline bool is_closed_to(struct __sk_buff *skb, const struct rvl_config *cfg)
{
	struct bpf_sock *sk = skb->sk;
	struct owner owner = {};

	if (!cfg->guards || skb->ifindex == 1 || !sk)
		return false;
	owner_of_socket(sk, cfg, &owner);
	return !owner.stored && !owner.app && !mark_counts(sk) && is_guarded(skb, cfg);
}

/*
 * A copy that a firewall made of a packet of a program that policy speaks about (nftables: dup; iptables: TEE): it has no socket any more,
 * and the mark of the packet.
 */
static __always_inline int leaving_as_copy(struct __sk_buff *skb, const struct rvl_config *cfg)
{
	struct owner owner = {};
	struct headers h;

	if (skb->ifindex == 1 || !is_ip(skb))
		return TCX_NEXT;
	owner_of_mark(skb->mark, &owner);
	if (!owner.app && !owner.required)
		return TCX_NEXT;
	if (cfg && parse(skb, 0, &h) && !h.source_route && may_go_in_clear(cfg, owner.app, owner.required, &h.destination))
		return TCX_NEXT;
	return refused_frame(skb, &owner, RVL_C_EGRESS_UNGUARDED);
}

/*
 * By another device than an uplink, where packet sockets are the only ones that cgroup hooks do not see. Their frames leave there only
 * where policy says "trusted": nothing would protect them. `guard` holds for all.
 */
static __always_inline int leaving_elsewhere(struct __sk_buff *skb)
{
	const struct rvl_config *cfg = configuration();
	struct rvl_network *network;
	struct owner owner = {};
	struct headers h;

	if (!skb->sk)
		return leaving_as_copy(skb, cfg);
	if (!is_ip(skb))
		return leaving_otherwise(skb, cfg);
	if (!cfg)
		return TCX_DROP;
	if (is_of_session(skb, cfg))
		return refused_frame(skb, &owner, RVL_C_EGRESS_UNCLAIMED);
	if (skb->ifindex == 1 && has_answer_elsewhere(skb, cfg))
		return refused_frame(skb, &owner, RVL_C_EGRESS_UNGUARDED);
	/* Most packets end here: those of sockets of IP, where nothing is guarded. */
	if (is_closed_to(skb, cfg))
		return is_daemons(skb, cfg) ? TCX_NEXT : device_drop(RVL_C_EGRESS_GUARD);
	if (!is_frame(skb))
		return TCX_NEXT;
	owner.app = app_of_current(cfg);
	if ((!owner.app && !cfg->guards) || is_daemons(skb, cfg))
		return TCX_NEXT;
	if (!is_plain_frame(skb))
		return refused_frame(skb, &owner, RVL_C_EGRESS_DISGUISED);
	if (!owner.app)
		return is_guarded(skb, cfg) ? device_drop(RVL_C_EGRESS_GUARD) : TCX_NEXT;
	if (!parse(skb, 0, &h) || h.transport > FRAME_HEADERS - 32)
		return refused_frame(skb, &owner, RVL_C_EGRESS_MALFORMED);
	if (h.source_route)
		return refused_frame(skb, &owner, RVL_C_EGRESS_SOURCE_ROUTE);
	network = network_of(cfg, owner.app, &h.destination);
	if (network && network->class != RVL_TRUSTED)
		return refused_frame(skb, &owner, RVL_C_EGRESS_UNGUARDED);
	if (!(network && network->would) && !frames_within_limit(skb, cfg, owner.app, &h))
		return refused_frame(skb, &owner, RVL_C_EGRESS_LIMITED);
	add_frames(skb, owner.app, RVL_T_OUT_CLEAR, &h);
	if (network && network->would)
		add_would(skb, owner.app, network, &h, true);
	return TCX_NEXT;
}

/* Every other device, lo too: what goes there may come back and be forwarded. */
SEC("tcx/egress")
int other_egress(struct __sk_buff *skb)
{
	return leaving_elsewhere(skb);
}

/* An interface of a network behind this host: what is forwarded, and frames of this host's packet sockets. */
SEC("tcx/egress")
int inside_egress(struct __sk_buff *skb)
{
	return skb->ingress_ifindex ? forwarded_inside(skb) : leaving_elsewhere(skb);
}

/* What of the packets that arrive in clear the hooks of sockets would not see: ICMP errors, and what an encapsulation takes. */
static __always_inline int filter_clear(struct __sk_buff *skb, const struct rvl_config *cfg, enum arrival by)
{
	int verdict = filter_errors(skb, cfg, by);

	if (verdict != TCX_NEXT || (by == BY_LO && source_is_local(skb)))
		return verdict;
	return is_refused_to_encapsulation(skb, cfg) ? TCX_DROP : TCX_NEXT;
}

static __always_inline int arriving(struct __sk_buff *skb, enum arrival by)
{
	const struct rvl_config *cfg = configuration();
	__u32 mark = skb->mark;

	if (hides_a_tag(skb))
		return device_drop(RVL_C_INGRESS_TAGGED);
	if (mark_without(mark) != mark)
		skb->mark = mark_without(mark);
	return cfg && is_ip(skb) ? filter_clear(skb, cfg, by) : TCX_NEXT;
}

SEC("tcx/ingress")
int uplink_ingress(struct __sk_buff *skb)
{
	int verdict = arriving(skb, BY_UPLINK);

	return verdict == TCX_NEXT && is_gateway() ? arriving_for_inside(skb) : verdict;
}

/*
 * A frame for another station, or of a VLAN, is not for this device: if the host takes it, it arrives by a device above this one. Marks
 * are left as they are: on a device that is not ours they belong to others, and `proof` (proof.h) believes those of the TUN alone.
 */
static __always_inline int arriving_elsewhere(struct __sk_buff *skb, enum arrival by)
{
	const struct rvl_config *cfg = configuration();

	if (skb->pkt_type == PACKET_OTHERHOST)
		return TCX_NEXT;
	if (hides_a_tag(skb))
		return device_drop(RVL_C_INGRESS_TAGGED);
	if (!cfg || !is_ip(skb) || (skb->vlan_present && skb->vlan_tci & VLAN_ID))
		return TCX_NEXT;
	return filter_clear(skb, cfg, by);
}

SEC("tcx/ingress")
int other_ingress(struct __sk_buff *skb)
{
	return arriving_elsewhere(skb, BY_OTHER);
}

/* What a network behind this host sends to it, or through it. */
SEC("tcx/ingress")
int inside_ingress(struct __sk_buff *skb)
{
	__u32 mark = skb->mark;
	int verdict;

	if (mark_without(mark) != mark)
		skb->mark = mark_without(mark);
	verdict = arriving_from_inside(skb);
	return verdict == TCX_NEXT ? arriving_elsewhere(skb, BY_INSIDE) : verdict;
}

/*
 * On lo the host answers its own programs about what they send to each other. Whoever may open a raw socket sends there as the host, so an
 * error about a protected flow to somewhere else is worth no more than from the wire. What has the source of another host is marked
 * (proof.h): the mark of everything else on lo is left to its users.
 */
SEC("tcx/ingress")
int lo_ingress(struct __sk_buff *skb)
{
	int verdict = arriving(skb, BY_LO);

	/* What does not say that it is IP may be taken for it behind this program, and is not seen to come from this host. */
	if (verdict == TCX_NEXT && (!is_ip(skb) || !source_is_local(skb)))
		skb->mark |= as_mark(RVL_MARK_STAMPED);
	return verdict;
}

/* A copy in clear to the enc device, for whoever looks at it (paper 001 section 2.2). */
static __always_inline void mirror(struct __sk_buff *skb)
{
	const struct rvl_config *cfg = configuration();

	if (cfg && cfg->enc && !bpf_clone_redirect(skb, cfg->enc, 0))
		count(RVL_C_MIRRORED);
}

/*
 * Whether a packet at the TUN has the mark that its socket stands for, as what the uplink redirects has. A program may send by the TUN
 * itself (SO_BINDTODEVICE), beside a mark of its choice.
 */
static __always_inline bool has_own_mark(struct __sk_buff *skb, const struct rvl_config *cfg, __u32 mark)
{
	struct bpf_sock *sk = skb->sk;
	struct owner owner = {};
	__u32 user;

	if (!sk || mark_counts(sk))
		return true;
	owner_of_socket(sk, cfg, &owner);
	if (!owner.stored && !owner.app && !(user_of(skb, &user) && is_ruled(user)))
		return false;
	return (mark & RVL_MARK_OURS) == (RVL_MARK_STAMPED | owner.app | (__u32)owner.required << RVL_MARK_SERVICES);
}

SEC("tcx/egress")
int tun_egress(struct __sk_buff *skb)
{
	struct rvl_record record = { .magic = { 'R', 'V', 'L' } };
	const struct rvl_config *cfg = configuration();
	bool forwarded = is_forwarded(skb);
	__u32 user = 0;
	__u8 aggregate;

	/* What the device itself emits: router solicitations, MLD. */
	record.mark = ours_in(skb->mark);
	if (!forwarded && !(record.mark & RVL_MARK_CLAIM))
		return device_drop(RVL_C_TUN_UNSTAMPED);
	if (!forwarded && (!cfg || !has_own_mark(skb, cfg, record.mark)))
		return device_drop(RVL_C_TUN_UNSTAMPED);
	if (skb->protocol == bpf_htons(ETH_P_IP))
		record.version = 0x40;
	else if (skb->protocol == bpf_htons(ETH_P_IPV6))
		record.version = 0x60;
	else
		return device_drop(RVL_C_TUN_UNSTAMPED);
	if (forwarded) {
		if (!pass_hop(skb))
			return device_drop(RVL_C_GATEWAY_MALFORMED);
		record.cookie = skb->ingress_ifindex;
	} else {
		record.cookie = bpf_get_socket_cookie(skb);
		/* Only rules ask for the user, and they decide about no application that has a policy. */
		if ((record.mark & (RVL_MARK_STAMPED | RVL_MARK_APP)) == RVL_MARK_STAMPED && user_of(skb, &user)) {
			record.mark |= RVL_MARK_USER;
			record.cookie = record.cookie << 32 | user;
		}
	}
	mirror(skb);
	aggregate = class_at_tun(skb, forwarded ? 0 : record.mark & RVL_MARK_APP);
	if (bpf_skb_change_head(skb, sizeof(record), 0) ||
	    bpf_skb_store_bytes(skb, 0, &record, sizeof(record), 0))
		return device_drop(RVL_C_TUN_NO_ROOM);
	skb->tc_index = RVL_SEEN | aggregate;
	count(RVL_C_RECORDED);
	return TCX_NEXT;
}

/*
 * The filter of the TUN's queue, behind every way in: a packet socket (PACKET_QDISC_BYPASS) or an AF_XDP socket hands frames to the device
 * past tun_egress, and could write a record of its own.
 */
SEC("socket")
int tun_queue(struct __sk_buff *skb)
{
	if ((skb->tc_index & ~CLASS_BITS) != RVL_SEEN) {
		count(RVL_C_TUN_UNSEEN);
		return 0;
	}
	if (!fits_queue(skb)) {
		count(RVL_C_TUN_QUEUE_FULL);
		return 0;
	}
	return skb->len;
}

SEC("tcx/ingress")
int tun_ingress(struct __sk_buff *skb)
{
	const struct rvl_config *cfg = configuration();
	struct rvl_record record;
	struct headers h;

	/* What the daemon wrote is for this host; a copy of what somebody sends to a group by this device is not his. */
	if (skb->pkt_type != PACKET_HOST)
		return device_drop(RVL_C_TUN_NO_RECORD);
	if (bpf_skb_load_bytes(skb, 0, &record, sizeof(record)) || record.magic[0] != 'R' ||
	    record.magic[1] != 'V' || record.magic[2] != 'L')
		return device_drop(RVL_C_TUN_NO_RECORD);
	/* IP in IP that arrived bare, as ARRIVED and nothing else: it goes on as what comes in clear from the wire. */
	if (!(record.mark & RVL_MARK_PROOF) && record.mark != RVL_MARK_ARRIVED)
		return device_drop(RVL_C_TUN_NO_PROOF);
	if (!parse(skb, sizeof(record), &h) || record.version != h.version << 4)
		return device_drop(RVL_C_TUN_MALFORMED);
	/* A proven first fragment would lend its proof to a clear second one; for a network behind us nobody joins them here. */
	if (h.fragment && !(is_gateway() && way_of(skb, &h) == WAY_INSIDE))
		return device_drop(RVL_C_TUN_FRAGMENT);
	/* The engine's answer to a program of this host. To another host the kernel would forward it, with the program's data that it quotes. */
	if (record.mark & RVL_MARK_STAMPED && !is_own_address(&h.destination))
		return device_drop(RVL_C_TUN_FOREIGN_ANSWER);
	if (bpf_skb_adjust_room(skb, -(int)sizeof(record), BPF_ADJ_ROOM_MAC, BPF_F_ADJ_ROOM_FIXED_GSO))
		return device_drop(RVL_C_TUN_NO_ROOM);
	skb->mark = as_mark(record.mark & (RVL_MARK_PROVEN | RVL_MARK_APP));
	count(RVL_C_STRIPPED);
	if (cfg && is_refused_to_encapsulation(skb, cfg))
		return TCX_DROP;
	/* The hooks of sockets do not see what the kernel does about an error. */
	if (record.mark == RVL_MARK_ARRIVED)
		return cfg ? filter_icmp(skb, cfg, BY_TUN) : device_drop(RVL_C_TUN_NO_PROOF);
	mirror(skb);
	return TCX_NEXT;
}

#endif
