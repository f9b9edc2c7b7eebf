/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Programs on the cgroup that see calls: stamp a socket before it has a packet, refuse what policy refuses while the caller can
 * still be told (EPERM).
 */
#ifndef RVL_CGROUP_H
#define RVL_CGROUP_H

/*
 * Refuse a socket of L2TP over IP (RFC 3931 section 4.1.1). The kernel delivers what comes for a session without a look at the socket, so
 * that nothing could ask for its proof, and no lookup of a program finds such sockets. This holds on kernels too that take no program at
 * their security hooks, where sender.h refuses sessions of every kind.
 */
static __always_inline int refuse_l2tp(__u16 app, __u8 family)
{
	struct address none = {};
	struct attempt a = { .peer = &none, .app = app, .family = family, .protocol = IPPROTO_L2TP, .hook = RVL_HOOK_CREATE };

	refuse(RVL_C_L2TP, &a);
	return REFUSE;
}

SEC("cgroup/sock_create")
int sock_create(struct bpf_sock *sk)
{
	const struct rvl_config *cfg = configuration();
	struct rvl_socket *stamp;
	__u16 app;

	if (!cfg || current_is_exempt(cfg))
		return ALLOW;
	if (!note_behind(sk, (__u64)BPF_CORE_READ(bpf_get_current_task_btf(), cred))) {
		count(RVL_C_STAMP_FAILED);
		return REFUSE;
	}
	app = app_of_current(cfg);
	if (!app && sk->protocol == IPPROTO_SCTP && !note_nobodys(sk)) {
		count(RVL_C_STAMP_FAILED);
		return REFUSE;
	}
	if (!app)
		return ALLOW;
	if (sk->protocol == IPPROTO_L2TP && sk->type == SOCK_DGRAM)
		return refuse_l2tp(app, sk->family);
	stamp = stamp_socket(sk, 0, bpf_get_netns_cookie(sk), app);
	if (!stamp)
		return REFUSE;
	if (stamp->netns == cfg->netns)
		sk->mark = mark_with(sk->mark, app, 0);
	count(RVL_C_STAMPED);
	return ALLOW;
}

/*
 * The first subflow of an MPTCP connection is connected, or listens, for the calling program: the connection is whose the subflow is,
 * whoever opened its socket, and what was noted of an earlier connection by it is over. False: there is no room to say so.
 */
static __always_inline bool lead_connection(struct mptcp_sock *connection, const struct rvl_socket *stamp)
{
	struct rvl_socket *whole;

	bpf_sk_storage_delete(&unclaimed, connection);
	if (!stamp || !stamp->app)
		return true;
	whole = bpf_sk_storage_get(&sockets, connection, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!whole) {
		count(RVL_C_STAMP_FAILED);
		return false;
	}
	assign(whole, stamp->netns, stamp->app);
	whole->unclaimed = 0;
	return true;
}

/* Whether a subflow is the first of its connection, which is being connected by a process: the others find it established. */
static __always_inline bool is_first_subflow(struct mptcp_sock *connection)
{
	const struct sock *kernel = bpf_rdonly_cast(connection, bpf_core_type_id_kernel(struct sock));

	return kernel->__sk_common.skc_state == TCP_SYN_SENT;
}

/*
 * A further subflow of an MPTCP connection is made and connected by a worker of the kernel, which is nobody: it belongs to
 * whom the connection belongs to, and demands what that one demands. False: there is no room for its stamp, so it must not be connected.
 */
static __always_inline bool join_connection(struct bpf_sock_addr *ctx, const struct rvl_config *cfg)
{
	struct bpf_sock *sk = ctx->sk;
	struct rvl_socket *whole, *stamp;
	struct mptcp_sock *connection;
	__u32 *note;

	connection = connection_of_caller(sk);
	if (!connection || !sk || bpf_sk_storage_get(&sockets, sk, 0, 0))
		return true;
	whole = bpf_sk_storage_get(&sockets, connection, 0, 0);
	if (!whole)
		return true;
	stamp = stamp_socket(sk, 0, whole->netns, whole->app);
	if (!stamp)
		return false;
	stamp->required = whole->required;
	note = bpf_sk_storage_get(&unclaimed, connection, 0, 0);
	stamp->unclaimed = note && is_open(note);
	count(RVL_C_STAMPED);
	mark_socket(ctx, sk->mark, cfg, stamp);
	return true;
}

/* lead_connection for a socket that is being connected, and that restamp has seen. False: there is no room to say so. */
static __always_inline bool lead_by_call(struct bpf_sock *sk)
{
	struct mptcp_sock *connection = connection_of_caller(sk);

	if (!sk || !connection || !is_first_subflow(connection))
		return true;
	return lead_connection(connection, bpf_sk_storage_get(&sockets, sk, 0, 0));
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
	app = restamp(ctx, ctx->sk, cfg, &a);
	if (app >= 0 && hook == RVL_HOOK_CONNECT && !lead_by_call(ctx->sk))
		return REFUSE;
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
	return restamp(ctx, ctx->sk, cfg, &a) < 0 ? REFUSE : ALLOW;
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
	if (!stamp && !cfg->generation)
		return;
	/* Whoever has the listener need not be who accepts: see claim. Its mark is set when it ends, for TIME_WAIT. */
	if (!note_connection(sk, stamp)) {
		say_no_room(ctx);
		return;
	}
	bpf_sock_ops_cb_flags_set(ctx, ctx->bpf_sock_ops_cb_flags | BPF_SOCK_OPS_STATE_CB_FLAG);
	if (!stamp || stamp->netns != cfg->netns)
		return;
	/* A copy of the listener's: what arrived there was not for this socket. */
	stamp->in_force = 0;
	stamp->proven = 0;
	mark_socket(ctx, sk->mark, cfg, stamp);
}

/* Connections that come to a listener of MPTCP have copies of both stamps: the subflow's, which restamp has seen, and the connection's. */
static __always_inline void lead_by_listening(struct bpf_sock *sk)
{
	struct mptcp_sock *connection = connection_of_caller(sk);

	if (sk && connection)
		lead_connection(connection, bpf_sk_storage_get(&sockets, sk, 0, 0));
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
		restamp(ctx, ctx->sk, cfg, &a);
		lead_by_listening(ctx->sk);
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

#endif
