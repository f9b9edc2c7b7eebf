/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Programs on the cgroup: stamp a socket before it has a packet, refuse what policy refuses while the caller can
 * still be told (EPERM), refuse packets on devices nobody guards, and demand the proof inbound.
 */
#ifndef RVL_CGROUP_H
#define RVL_CGROUP_H

#define REFUSE 0
#define ALLOW 1

static __always_inline bool has_ports(__u32 protocol)
{
	return protocol == IPPROTO_TCP || protocol == IPPROTO_UDP || protocol == IPPROTO_UDPLITE ||
	       protocol == IPPROTO_SCTP || protocol == IPPROTO_DCCP;
}

#include "announce.h"
#include "names.h"

struct attempt {
	const struct address *peer;
	__u16 app;
	__u16 port;
	__u8 family;
	__u8 protocol;
	__u8 hook;
};

static __always_inline void tell_of_call(enum rvl_counter counter, const struct attempt *a, __u8 observed)
{
	struct rvl_event *event;
	__u64 id = bpf_get_current_pid_tgid();

	event = bpf_ringbuf_reserve(&events, sizeof(*event), 0);
	if (!event) {
		count(RVL_C_EVENTS_LOST);
		return;
	}
	event->pid = id >> 32;
	event->uid = (__u32)bpf_get_current_uid_gid();
	event->app = a->app;
	event->port = a->port;
	event->family = a->family;
	event->protocol = a->protocol;
	event->hook = a->hook | observed;
	event->counter = counter;
	__builtin_memcpy(event->addr, a->peer, 16);
	if (bpf_get_current_comm(event->comm, sizeof(event->comm)))
		event->comm[0] = 0;
	bpf_ringbuf_submit(event, 0);
}

static __always_inline void refuse(enum rvl_counter counter, const struct attempt *a)
{
	count(counter);
	add_refusal(a->app, counter);
	if (a->app && (a->hook == RVL_HOOK_CONNECT || a->hook == RVL_HOOK_SENDMSG)) {
		const struct rvl_config *cfg = configuration();

		add_traffic(a->app, RVL_T_OUT_REFUSED, 1, 0);
		if (cfg)
			note_call(cfg, a->app, a->peer, a->port, a->protocol, RVL_T_OUT_REFUSED);
	}
	tell_of_call(counter, a, 0);
}

static __always_inline enum rvl_counter reason_of(const struct decision *d, __u8 hook)
{
	if (d->action == ACTION_UNTRUSTED)
		return hook == RVL_HOOK_CONNECT ? RVL_C_CONNECT_UNTRUSTED : RVL_C_SENDMSG_UNTRUSTED;
	return hook == RVL_HOOK_CONNECT ? RVL_C_CONNECT_NO_ITEM : RVL_C_SENDMSG_NO_ITEM;
}

/* A call to a peer in an observed network: told of if it would have been refused, not oftener than of packets. */
static __always_inline void observe_call(const struct decision *d, const struct attempt *a, __u32 local)
{
	struct decision intended = would(d->would, d->protection, a->protocol, local, a->port);
	enum rvl_counter reason;

	if (!is_refusal(&intended))
		return;
	reason = reason_of(&intended, a->hook);
	if (add_reason(a->app, RVL_T_WOULD_REASON + reason))
		tell_of_call(reason, a, RVL_HOOK_OBSERVED);
}

/* Make the socket one of this application's. Null: there is no room for a stamp, and the socket must not be used. */
static __always_inline struct rvl_socket *stamp_socket(struct bpf_sock *sk, struct rvl_socket *stamp, __u64 netns,
						       __u16 app)
{
	if (!stamp)
		stamp = bpf_sk_storage_get(&sockets, sk, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!stamp) {
		count(RVL_C_STAMP_FAILED);
		return 0;
	}
	stamp->netns = netns;
	stamp->app = app;
	return stamp;
}

/* Nobody acts on the mark in another namespace; the guard reads the storage. */
static __always_inline void mark_socket(void *ctx, __u32 old, const struct rvl_config *cfg,
					const struct rvl_socket *stamp)
{
	__u32 mark = mark_with(old, stamp->app, stamp->required);

	if (stamp->netns == cfg->netns && mark != old &&
	    bpf_setsockopt(ctx, SOL_SOCKET, SO_MARK, &mark, sizeof(mark)))
		count(RVL_C_STAMP_FAILED);
}

/*
 * Bring the stamp of a socket up to the calling process. The result is the application that decides from now on,
 * or -1: the policies of the socket's and the caller's application do not compare.
 */
static __always_inline int restamp(void *ctx, struct bpf_sock *sk, __u64 netns, const struct rvl_config *cfg,
				   struct attempt *a)
{
	struct rvl_socket *stamp;
	__u16 has, is;

	if (!sk)
		return 0;
	stamp = bpf_sk_storage_get(&sockets, sk, 0, 0);
	has = stamp ? stamp->app : 0;
	is = current_is_exempt(cfg) ? 0 : app_of_current(cfg);
	switch (handover(cfg, has, is)) {
	case HANDOVER_KEEP:
		return has;
	case HANDOVER_REFUSE:
		a->app = is;
		refuse(RVL_C_INCOMPARABLE, a);
		return -1;
	case HANDOVER_STAMP:
		break;
	}
	stamp = stamp_socket(sk, stamp, netns, is);
	if (!stamp)
		return -1;
	count(RVL_C_RESTAMPED);
	mark_socket(ctx, sk->mark, cfg, stamp);
	return is;
}

SEC("cgroup/sock_create")
int sock_create(struct bpf_sock *sk)
{
	const struct rvl_config *cfg = configuration();
	struct rvl_socket *stamp;
	__u16 app;

	if (!cfg || current_is_exempt(cfg))
		return ALLOW;
	app = app_of_current(cfg);
	if (!app)
		return ALLOW;
	stamp = stamp_socket(sk, 0, bpf_get_netns_cookie(sk), app);
	if (!stamp)
		return REFUSE;
	if (stamp->netns == cfg->netns)
		sk->mark = mark_with(sk->mark, app, 0);
	count(RVL_C_STAMPED);
	return ALLOW;
}

/*
 * A further subflow of an MPTCP connection is made and connected by a worker of the kernel, which is nobody: it belongs to
 * whom the connection belongs to. False: there is no room for its stamp, so it must not be connected.
 */
static __always_inline bool join_connection(struct bpf_sock_addr *ctx, const struct rvl_config *cfg)
{
	struct bpf_sock *sk = ctx->sk;
	struct rvl_socket *whole, *stamp;
	struct mptcp_sock *connection;

	if (!sk || sk->protocol != IPPROTO_TCP || bpf_sk_storage_get(&sockets, sk, 0, 0))
		return true;
	connection = bpf_skc_to_mptcp_sock(sk);
	if (!connection)
		return true;
	whole = bpf_sk_storage_get(&sockets, connection, 0, 0);
	if (!whole)
		return true;
	stamp = stamp_socket(sk, 0, whole->netns, whole->app);
	if (!stamp)
		return false;
	stamp->required = whole->required;
	count(RVL_C_STAMPED);
	mark_socket(ctx, sk->mark, cfg, stamp);
	return true;
}

static __always_inline int towards(struct bpf_sock_addr *ctx, const struct address *peer, __u8 hook)
{
	const struct rvl_config *cfg = configuration();
	struct attempt a = { .peer = peer, .hook = hook };
	__u32 local = 0;
	struct decision d;
	int app;

	if (!cfg)
		return REFUSE;
	a.family = ctx->family;
	a.protocol = ctx->protocol;
	if (has_ports(ctx->protocol)) {
		a.port = bpf_ntohs(ctx->user_port);
		local = ctx->sk && ctx->sk->src_port ? ctx->sk->src_port : PORT_UNBOUND;
	}
	if (hook == RVL_HOOK_CONNECT && !join_connection(ctx, cfg))
		return REFUSE;
	app = restamp(ctx, ctx->sk, bpf_get_netns_cookie(ctx), cfg, &a);
	if (app <= 0)
		return app == 0 ? ALLOW : REFUSE;
	a.app = app;
	d = decide(cfg, app, peer, a.protocol, local, a.port);
	if (is_refusal(&d)) {
		refuse(reason_of(&d, hook), &a);
		return REFUSE;
	}
	if (d.would)
		observe_call(&d, &a, local);
	return ALLOW;
}

static __always_inline void named_address(struct bpf_sock_addr *ctx, bool v6, struct address *out)
{
	if (v6) {
		out->words[0] = ctx->user_ip6[0];
		out->words[1] = ctx->user_ip6[1];
		out->words[2] = ctx->user_ip6[2];
		out->words[3] = ctx->user_ip6[3];
	} else {
		mapped(out, ctx->user_ip4);
	}
}

SEC("cgroup/connect4")
int connect4(struct bpf_sock_addr *ctx)
{
	struct address peer;

	named_address(ctx, false, &peer);
	return towards(ctx, &peer, RVL_HOOK_CONNECT);
}

SEC("cgroup/connect6")
int connect6(struct bpf_sock_addr *ctx)
{
	struct address peer;

	named_address(ctx, true, &peer);
	return towards(ctx, &peer, RVL_HOOK_CONNECT);
}

SEC("cgroup/sendmsg4")
int sendmsg4(struct bpf_sock_addr *ctx)
{
	struct address peer;

	named_address(ctx, false, &peer);
	return towards(ctx, &peer, RVL_HOOK_SENDMSG);
}

SEC("cgroup/sendmsg6")
int sendmsg6(struct bpf_sock_addr *ctx)
{
	struct address peer;

	named_address(ctx, true, &peer);
	return towards(ctx, &peer, RVL_HOOK_SENDMSG);
}

static __always_inline int bound(struct bpf_sock_addr *ctx, bool v6)
{
	const struct rvl_config *cfg = configuration();
	struct address local;
	struct attempt a = { .peer = &local, .hook = RVL_HOOK_BIND };

	if (!cfg)
		return REFUSE;
	named_address(ctx, v6, &local);
	a.family = ctx->family;
	a.protocol = ctx->protocol;
	a.port = bpf_ntohs(ctx->user_port);
	return restamp(ctx, ctx->sk, bpf_get_netns_cookie(ctx), cfg, &a) < 0 ? REFUSE : ALLOW;
}

SEC("cgroup/bind4")
int bind4(struct bpf_sock_addr *ctx)
{
	return bound(ctx, false);
}

SEC("cgroup/bind6")
int bind6(struct bpf_sock_addr *ctx)
{
	return bound(ctx, true);
}

/* A connection takes its mark from the request, which may be older than the stamp of its listener. */
static __always_inline void mark_child(struct bpf_sock_ops *ctx, const struct rvl_config *cfg)
{
	struct bpf_sock *sk = ctx->sk;
	struct rvl_socket *stamp;

	if (!sk)
		return;
	stamp = bpf_sk_storage_get(&sockets, sk, 0, 0);
	if (!stamp) {
		/* Whoever has the listener need not be who accepts: see claim. Its mark is set when it ends, for TIME_WAIT. */
		if (cfg->generation && bpf_sk_storage_get(&unclaimed, sk, 0, BPF_LOCAL_STORAGE_GET_F_CREATE))
			bpf_sock_ops_cb_flags_set(ctx, BPF_SOCK_OPS_STATE_CB_FLAG);
		return;
	}
	if (stamp->netns != cfg->netns)
		return;
	/* A copy of the listener's: what arrived there was not for this socket. */
	stamp->in_force = 0;
	stamp->proven = 0;
	mark_socket(ctx, sk->mark, cfg, stamp);
}

/* The mark of a connection that was claimed: where there is no socket any more only the mark can tell. */
static __always_inline void mark_late(struct bpf_sock_ops *ctx, const struct rvl_config *cfg)
{
	struct bpf_sock *sk = ctx->sk;
	struct rvl_socket *stamp = sk ? bpf_sk_storage_get(&sockets, sk, 0, 0) : 0;

	if (stamp && sk)
		mark_socket(ctx, sk->mark, cfg, stamp);
}

SEC("sockops")
int sock_ops(struct bpf_sock_ops *ctx)
{
	const struct rvl_config *cfg = configuration();
	struct address local = {};
	struct attempt a = { .peer = &local, .protocol = IPPROTO_TCP, .hook = RVL_HOOK_LISTEN };

	if (!cfg)
		return 1;
	switch (ctx->op) {
	case BPF_SOCK_OPS_TCP_LISTEN_CB:
		/* listen() cannot be refused from here: where policies do not compare, the old stamp stays. */
		a.family = ctx->family;
		a.port = ctx->local_port;
		restamp(ctx, ctx->sk, bpf_get_netns_cookie(ctx), cfg, &a);
		announce_tcp(ctx, cfg, RVL_CALL_LISTEN);
		break;
	case BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB:
		mark_child(ctx, cfg);
		announce_tcp(ctx, cfg, RVL_CALL_ACCEPT);
		break;
	case BPF_SOCK_OPS_TCP_CONNECT_CB:
		announce_tcp(ctx, cfg, RVL_CALL_CONNECT);
		break;
	case BPF_SOCK_OPS_STATE_CB:
		mark_late(ctx, cfg);
		announce_end(ctx, cfg);
		break;
	}
	return 1;
}

/* What becomes of a packet by who sends it. */
enum sender {
	SENDER_REFUSED,
	SENDER_GOES_ON,
	SENDER_CLAIMS, /* the connection is its application's from here on */
};

/*
 * A listener can be older than the program that accepts from it, and another's: socket activation, inetd. No call of such a
 * program has a hook, so the connection becomes that of the first process that sends on it, before the packet is seen by the
 * uplink. A socket that is owned is in the hands of the calling process; what the kernel sends meanwhile waits. Refused: there
 * is no room for the stamp.
 */
static __noinline enum sender claim(struct bpf_sock *sk, const struct rvl_config *cfg)
{
	struct rvl_socket *stamp;
	struct sock *kernel;
	__u16 is;

	if (!bpf_sk_storage_get(&unclaimed, sk, 0, 0))
		return SENDER_GOES_ON;
	kernel = bpf_rdonly_cast(sk, bpf_core_type_id_kernel(struct sock));
	if (!kernel->sk_lock.owned || !kernel->sk_socket)
		return SENDER_GOES_ON;
	is = current_is_exempt(cfg) ? 0 : app_of_current(cfg);
	bpf_sk_storage_delete(&unclaimed, sk);
	stamp = bpf_sk_storage_get(&sockets, sk, 0, 0);
	if (!is || (stamp && stamp->app))
		return SENDER_GOES_ON;
	if (!stamp_socket(sk, stamp, kernel->__sk_common.skc_net.net->net_cookie, is))
		return SENDER_REFUSED;
	count(RVL_C_CLAIMED);
	return SENDER_CLAIMS;
}

/*
 * Datagram, raw and ping sockets send in their caller's context, so here is seen who has one that no other hook saw: raw and
 * ping sockets have none for sendmsg and bind, a connected socket that changed hands has none at all. Not TCP, which also
 * sends while others run, nor sockets of the kernel, nor those by which a tunnel of the kernel sends for everybody.
 * Refused: the policies do not compare.
 */
static __noinline enum sender follow_sender(struct __sk_buff *skb, struct bpf_sock *sk, const struct rvl_config *cfg)
{
	struct rvl_socket *stamp;
	struct sock *kernel;
	__u16 has, is;

	if (sk->protocol == IPPROTO_TCP)
		return claim(sk, cfg);
	if (sk->type != SOCK_DGRAM && sk->type != SOCK_RAW)
		return SENDER_GOES_ON;
	is = app_of_current(cfg);
	if (!is)
		return SENDER_GOES_ON;
	stamp = bpf_sk_storage_get(&sockets, sk, 0, 0);
	has = stamp ? stamp->app : 0;
	if (has == is || (cfg->exempt && bpf_skb_cgroup_id(skb) == cfg->exempt))
		return SENDER_GOES_ON;
	kernel = bpf_rdonly_cast(sk, bpf_core_type_id_kernel(struct sock));
	if (!kernel->sk_socket || !kernel->sk_socket->file)
		return SENDER_GOES_ON;
	if (sk->protocol == IPPROTO_UDP) {
		struct udp_sock *udp = bpf_rdonly_cast(sk, bpf_core_type_id_kernel(struct udp_sock));

		if (udp->encap_type)
			return SENDER_GOES_ON;
	}
	switch (handover(cfg, has, is)) {
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
	return SENDER_GOES_ON;
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
	sender = follow_sender(skb, sk, cfg);
	if (sender == SENDER_REFUSED) {
		stamp = bpf_sk_storage_get(&sockets, sk, 0, 0);
		add_packet(skb, stamp ? stamp->app : 0, RVL_T_OUT_REFUSED);
		return REFUSE;
	}
	note_question(skb, cfg, sk);
	stamp = bpf_sk_storage_get(&sockets, sk, 0, 0);
	if (!stamp || ifindex == 1)
		return ALLOW;
	if (stamp->netns == cfg->netns && bpf_map_lookup_elem(&uplinks, &ifindex)) {
		if (cfg->per_socket && sender == SENDER_CLAIMS)
			announce_claimed(skb, stamp->app);
		else if (cfg->per_socket)
			announce_datagram(skb, cfg, sk, stamp->app);
		return ALLOW;
	}
	if (parse(skb, 0, &h) && !h.source_route) {
		struct rvl_network *network = network_of(cfg, stamp->app, &h.destination);

		if ((!network || network->class == RVL_TRUSTED) && !stamp->required) {
			if (!packet_within_limit(skb, cfg, stamp->app)) {
				refuse_packet(skb, stamp->app, RVL_C_EGRESS_LIMITED, RVL_HOOK_OUT);
				add_packet(skb, stamp->app, RVL_T_OUT_REFUSED);
				return REFUSE;
			}
			add_packet(skb, stamp->app, RVL_T_OUT_CLEAR);
			if (network && network->would)
				add_would(skb, stamp->app, network, &h, false);
			return ALLOW;
		}
	}
	refuse_packet(skb, stamp->app, RVL_C_EGRESS_UNGUARDED, RVL_HOOK_OUT);
	add_packet(skb, stamp->app, RVL_T_OUT_REFUSED);
	return REFUSE;
}

static __always_inline int dropped(struct __sk_buff *skb, __u16 app, enum rvl_counter counter)
{
	refuse_packet(skb, app, counter, RVL_HOOK_IN);
	return REFUSE;
}

/* A clear packet from an observed network: whether it would have been refused. */
static __noinline void observe_arrival(struct __sk_buff *skb, __u16 app, const struct decision *d, const struct headers *h)
{
	struct decision intended = would(d->would, d->protection, h->protocol, h->destination_port, h->source_port);
	struct live_flow flow;

	arriving_flow(&flow, app, h);
	if (is_refusal(&intended) || (skb->ifindex != 1 && refuses_clear(&intended, &flow)))
		add_packet(skb, app, RVL_T_IN_WOULD_REFUSE);
}

/* A packet for a socket of an application, or of a program that asked for protection. */
static __always_inline int prove(struct __sk_buff *skb, const struct rvl_config *cfg, struct rvl_socket *stamp,
				 bool proven)
{
	__u32 mark = ours_in(skb->mark);
	__u16 app = stamp->app;
	struct live_flow flow;
	struct headers h;
	struct decision d;
	__u8 services;

	if (!parse(skb, 0, &h))
		return dropped(skb, app, RVL_C_INGRESS_MALFORMED);
	d = demand(decide(cfg, app, &h.source, h.protocol, h.destination_port, h.source_port), stamp->required);
	switch (d.action) {
	case ACTION_BYPASS:
		if (d.would && !proven)
			observe_arrival(skb, app, &d, &h);
		/* The answer would leave in clear. */
		return proven ? dropped(skb, app, RVL_C_INGRESS_UNEXPECTED_PROOF) : ALLOW;
	case ACTION_NEVER:
		return ALLOW;
	case ACTION_UNTRUSTED:
		return dropped(skb, app, RVL_C_INGRESS_UNTRUSTED);
	case ACTION_NO_ITEM:
		return dropped(skb, app, RVL_C_INGRESS_NO_ITEM);
	case ACTION_PROTECT:
		break;
	}
	if (!proven) {
		arriving_flow(&flow, app, &h);
		if (skb->ifindex == 1 || !refuses_clear(&d, &flow)) {
			stamp->in_force = 0;
			return ALLOW;
		}
		return dropped(skb, app, d.level == RVL_MANDATORY ? RVL_C_INGRESS_NO_PROOF : RVL_C_INGRESS_STICKY);
	}
	services = services_of(mark);
	if ((services & d.services) != d.services)
		return dropped(skb, app, RVL_C_INGRESS_SERVICES);
	if (mark & RVL_MARK_APP && (mark & RVL_MARK_APP) != app)
		return dropped(skb, app, RVL_C_INGRESS_OTHER_APP);
	/* Two processors may do this at once for one socket. */
	__sync_fetch_and_add(&stamp->proven, 1);
	stamp->in_force = services;
	count(RVL_C_PROVEN);
	return ALLOW;
}

static __always_inline int judge(struct __sk_buff *skb, const struct rvl_config *cfg, struct bpf_sock *sk,
				 struct rvl_socket *stamp)
{
	bool proven;
	int verdict;

	/* The mark alone proves nothing, a firewall rule can set it; the interface cannot be forged. */
	proven = cfg->tun && skb->ifindex == cfg->tun && ours_in(skb->mark) & RVL_MARK_PROOF;
	if (!stamp) {
		/* A user's rules decide about the answer too. */
		if (proven && sk && !(ours_in(skb->mark) & RVL_MARK_APP) && is_ruled(bpf_get_socket_uid(skb))) {
			count(RVL_C_PROVEN);
			return ALLOW;
		}
		if (cfg->flows & RVL_FLOWS_ALL && sk && !proven && skb->ifindex != 1 &&
		    !(cfg->exempt && bpf_skb_cgroup_id(skb) == cfg->exempt))
			count_flow(skb, 0, RVL_T_IN_CLEAR, pieces_of(skb), octets_of_packet(skb));
		return proven ? dropped(skb, 0, RVL_C_INGRESS_UNEXPECTED_PROOF) : ALLOW;
	}
	proven = proven && stamp->netns == cfg->netns;
	verdict = prove(skb, cfg, stamp, proven);
	add_arrival(skb, stamp->app, verdict == ALLOW, proven);
	return verdict;
}

/* Sees the receiving socket even for a SYN: its listener. */
SEC("cgroup_skb/ingress")
int proof(struct __sk_buff *skb)
{
	const struct rvl_config *cfg = configuration();
	struct bpf_sock *sk = skb->sk;
	struct rvl_socket *stamp = 0;
	int verdict;

	if (!cfg)
		return REFUSE;
	if (sk)
		sk = bpf_sk_fullsock(sk);
	if (sk)
		stamp = bpf_sk_storage_get(&sockets, sk, 0, 0);
	verdict = judge(skb, cfg, sk, stamp);
	if (verdict == ALLOW && sk)
		tell_answer(skb, cfg, sk, stamp);
	return verdict;
}

#endif
