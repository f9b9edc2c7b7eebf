/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What sockets do, for the paper's own translation (docs/design/0011): nothing of this runs unless rvl_config.per_socket is
 * set. An event that finds no room is counted; its socket then has no entry, and the engine refuses its packets.
 */
#ifndef RVL_ANNOUNCE_H
#define RVL_ANNOUNCE_H

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, RVL_SOCKET_EVENTS_SIZE);
} socket_events SEC(".maps");

/* When a datagram socket's flow was last told; an LRU table, for nobody takes entries out. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, RVL_ANNOUNCED);
	__type(key, struct rvl_announced_key);
	__type(value, __u64);
} announced SEC(".maps");

static __always_inline bool announce(const struct rvl_socket_event *told)
{
	struct rvl_socket_event *event = bpf_ringbuf_reserve(&socket_events, sizeof(*event), 0);

	if (!event) {
		count(RVL_C_SOCKET_EVENTS_LOST);
		return false;
	}
	*event = *told;
	event->time = bpf_ktime_get_ns();
	bpf_ringbuf_submit(event, 0);
	count(RVL_C_SOCKET_EVENTS);
	return true;
}

/* The application of a socket of the guarded network namespace; 0: none. */
static __always_inline __u16 app_of_stamp(const struct rvl_config *cfg, const struct rvl_socket *stamp)
{
	return stamp && stamp->netns == cfg->netns ? stamp->app : 0;
}

/* listen, connect, and a connection that came in: both ends are known, the local port of a dynamic socket too. */
static __always_inline void announce_tcp(struct bpf_sock_ops *ctx, const struct rvl_config *cfg, __u8 call)
{
	struct rvl_socket_event told = { .call = call, .protocol = IPPROTO_TCP };
	struct bpf_sock *sk = ctx->sk;

	if (!cfg->per_socket || !sk)
		return;
	told.app = app_of_stamp(cfg, bpf_sk_storage_get(&sockets, sk, 0, 0));
	if (!told.app)
		return;
	told.cookie = bpf_get_socket_cookie(ctx);
	told.local_port = ctx->local_port;
	if (ctx->family == AF_INET) {
		__be32 own = ctx->local_ip4, far = ctx->remote_ip4;

		/* The verifier takes no context pointer that the compiler chose at run time. */
		barrier_var(own);
		barrier_var(far);
		mapped((struct address *)told.local, own);
		mapped((struct address *)told.remote, far);
	} else {
		struct address *local = (struct address *)told.local, *remote = (struct address *)told.remote;

		local->words[0] = ctx->local_ip6[0];
		local->words[1] = ctx->local_ip6[1];
		local->words[2] = ctx->local_ip6[2];
		local->words[3] = ctx->local_ip6[3];
		remote->words[0] = ctx->remote_ip6[0];
		remote->words[1] = ctx->remote_ip6[1];
		remote->words[2] = ctx->remote_ip6[2];
		remote->words[3] = ctx->remote_ip6[3];
	}
	/* In network order as 32 bits. */
	told.remote_port = bpf_ntohl(ctx->remote_port);
	/* Told of its end too; a listener can end by shutdown(2). */
	bpf_sock_ops_cb_flags_set(ctx, ctx->bpf_sock_ops_cb_flags | BPF_SOCK_OPS_STATE_CB_FLAG);
	announce(&told);
}

/* A connection, or a listener, is closed: for good, or the kernel answers for it in TIME_WAIT. */
static __always_inline void announce_end(struct bpf_sock_ops *ctx, const struct rvl_config *cfg)
{
	struct rvl_socket_event told = { .call = RVL_CALL_CLOSE, .protocol = IPPROTO_TCP };
	struct bpf_sock *sk = ctx->sk;
	__u32 old = ctx->args[0];

	if (!cfg->per_socket || !sk || ctx->args[1] != TCP_CLOSE)
		return;
	told.app = app_of_stamp(cfg, bpf_sk_storage_get(&sockets, sk, 0, 0));
	if (!told.app)
		return;
	if (old == TCP_FIN_WAIT1 || old == TCP_FIN_WAIT2 || old == TCP_CLOSING)
		told.call = RVL_CALL_TIME_WAIT;
	told.cookie = bpf_get_socket_cookie(ctx);
	announce(&told);
}

/* A connection that became an application's by what it sends: it has come in, and no listener of that application has entries for it. */
static __noinline void announce_claimed(struct __sk_buff *skb, __u16 app)
{
	struct rvl_socket_event told = { .call = RVL_CALL_ACCEPT, .protocol = IPPROTO_TCP, .app = app };
	struct headers h;

	if (!app || !parse(skb, 0, &h))
		return;
	told.cookie = bpf_get_socket_cookie(skb);
	told.local_port = h.source_port;
	told.remote_port = h.destination_port;
	__builtin_memcpy(told.local, &h.source, 16);
	__builtin_memcpy(told.remote, &h.destination, 16);
	announce(&told);
}

/*
 * close(2): of a datagram socket, or of a listener older than we are. What a connection still sends comes behind it, so its
 * change of state tells of its end.
 */
SEC("cgroup/sock_release")
int sock_release(struct bpf_sock *sk)
{
	const struct rvl_config *cfg = configuration();
	struct rvl_socket_event told = { .call = RVL_CALL_CLOSE };

	if (!cfg || !cfg->per_socket || (sk->protocol == IPPROTO_TCP && sk->state != TCP_LISTEN && sk->state != TCP_CLOSE))
		return ALLOW;
	told.app = app_of_stamp(cfg, bpf_sk_storage_get(&sockets, sk, 0, 0));
	if (!told.app)
		return ALLOW;
	told.protocol = sk->protocol;
	told.cookie = bpf_get_socket_cookie(sk);
	announce(&told);
	return ALLOW;
}

/* Tell of a datagram socket's flow unless that was done lately; whether it was told. */
static __always_inline bool announce_once(const struct rvl_config *cfg, struct rvl_socket_event *told)
{
	struct rvl_announced_key key = {};
	__u64 now = bpf_ktime_get_ns();
	__u64 *last;

	key.cookie = told->cookie;
	__builtin_memcpy(key.local, told->local, 16);
	__builtin_memcpy(key.remote, told->remote, 16);
	key.local_port = told->local_port;
	key.remote_port = told->remote_port;
	key.protocol = told->protocol;
	key.call = told->call;
	last = bpf_map_lookup_elem(&announced, &key);
	if (last && now - *last < (__u64)cfg->per_socket * 1000000)
		return false;
	if (!announce(told))
		return false;
	bpf_map_update_elem(&announced, &key, &now, BPF_ANY);
	return true;
}

/*
 * A datagram socket has a local port, so datagrams can arrive: the paper's recvfrom. The call itself would be too late for a
 * program that waits in poll, which calls it when there is a datagram only.
 */
static __always_inline void announce_receiver(const struct rvl_config *cfg, struct bpf_sock *sk, __u16 app, __u64 cookie,
					      const struct address *local, __u16 port)
{
	struct rvl_socket_event told = { .call = RVL_CALL_RECVFROM, .app = app, .cookie = cookie };

	if (!app || !port || (sk->protocol != IPPROTO_UDP && sk->protocol != IPPROTO_UDPLITE))
		return;
	told.protocol = sk->protocol;
	told.local_port = port;
	__builtin_memcpy(told.local, local, 16);
	announce_once(cfg, &told);
}

static __always_inline void own_address(struct bpf_sock *sk, bool v6, struct address *out)
{
	if (v6) {
		out->words[0] = sk->src_ip6[0];
		out->words[1] = sk->src_ip6[1];
		out->words[2] = sk->src_ip6[2];
		out->words[3] = sk->src_ip6[3];
	} else {
		__be32 own = sk->src_ip4;

		barrier_var(own);
		mapped(out, own);
	}
}

static __always_inline int has_bound(struct bpf_sock *sk, bool v6)
{
	const struct rvl_config *cfg = configuration();
	struct address local;
	__u16 app;

	if (!cfg || !cfg->per_socket)
		return ALLOW;
	app = app_of_stamp(cfg, bpf_sk_storage_get(&sockets, sk, 0, 0));
	own_address(sk, v6, &local);
	announce_receiver(cfg, sk, app, bpf_get_socket_cookie(sk), &local, sk->src_port);
	return ALLOW;
}

SEC("cgroup/post_bind4")
int bound4(struct bpf_sock *sk)
{
	return has_bound(sk, false);
}

SEC("cgroup/post_bind6")
int bound6(struct bpf_sock *sk)
{
	return has_bound(sk, true);
}

/*
 * sendto, sendmsg, sendmmsg, send behind connect, io_uring: seen at the packet that they make, before it is steered, for only then
 * both addresses are known. ICMP and other protocols without connections alike. Who sends without bind has a local port from
 * here on.
 */
static __always_inline void announce_datagram(struct __sk_buff *skb, const struct rvl_config *cfg, struct bpf_sock *sk,
					      __u16 app)
{
	struct rvl_socket_event told = { .call = RVL_CALL_SENDTO, .app = app };
	struct address local;
	struct headers h;

	if (!app || sk->protocol == IPPROTO_TCP || !parse(skb, 0, &h) || h.protocol == IPPROTO_TCP)
		return;
	told.cookie = bpf_get_socket_cookie(skb);
	told.protocol = h.protocol;
	__builtin_memcpy(told.local, &h.source, 16);
	__builtin_memcpy(told.remote, &h.destination, 16);
	if (has_ports(h.protocol)) {
		told.local_port = h.source_port;
		told.remote_port = h.destination_port;
	}
	if (!announce_once(cfg, &told))
		return;
	own_address(sk, sk->family == AF_INET6, &local);
	announce_receiver(cfg, sk, app, told.cookie, &local, sk->src_port);
}

#endif
