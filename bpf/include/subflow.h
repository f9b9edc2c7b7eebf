/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The subflows of an MPTCP connection (RFC 8684): which connection a TCP socket belongs to, and what that one demands of it. The ends of
 * the connection's own socket are those of its first subflow.
 */
#ifndef RVL_SUBFLOW_H
#define RVL_SUBFLOW_H

#define SOCK_STREAM 1

/*
 * The MPTCP connection that a socket is a subflow of; null: of none. For calls, which hold the socket. The helper takes every socket of
 * protocol 6 for one of TCP. That of a raw socket is shorter, and the kernel reads what lies behind it, so nobody else may call the helper.
 */
static __always_inline struct mptcp_sock *connection_of_caller(struct bpf_sock *sk)
{
	if (!sk || sk->protocol != IPPROTO_TCP || sk->type != SOCK_STREAM)
		return 0;
	return bpf_skc_to_mptcp_sock(sk);
}

/*
 * The same for packets, which can outlive their socket: one that has been destroyed is in state CLOSE, still calls itself a subflow, and
 * leads to memory that has been given back.
 */
static __always_inline struct mptcp_sock *connection_of(struct bpf_sock *sk)
{
	return sk && sk->state != TCP_CLOSE ? connection_of_caller(sk) : 0;
}

/* Whether a socket of TCP was a subflow, and nobody can say any more of which connection. */
static __always_inline bool has_lost_connection(struct bpf_sock *sk)
{
	struct tcp_sock *tcp = bpf_rdonly_cast(sk, bpf_core_type_id_kernel(struct tcp_sock));

	return sk->state == TCP_CLOSE && bpf_core_field_exists(tcp->is_mptcp) && tcp->is_mptcp;
}

#pragma GCC poison bpf_skc_to_mptcp_sock

static __always_inline void remote_end(const struct sock_common *common, struct address *out)
{
	if (common->skc_family == AF_INET)
		mapped(out, common->skc_daddr);
	else
		__builtin_memcpy(out, &common->skc_v6_daddr, 16);
}

/*
 * The services that a connection's first subflow must have, for another one that leads to another address: what the peer announces, or
 * joins from, is no way past the policy of the address that the program has connected to. Where policy refuses the first peer by now, both.
 */
static __noinline __u8 demand_of_connection(const struct rvl_config *cfg, struct mptcp_sock *whole, struct bpf_sock *sk, __u16 app)
{
	const struct sock_common *first, *own;
	struct address peer, other;
	struct decision d;

	if (!cfg || !whole || !sk)
		return 0;
	first = &((struct sock *)bpf_rdonly_cast(whole, bpf_core_type_id_kernel(struct sock)))->__sk_common;
	own = &((struct sock *)bpf_rdonly_cast(sk, bpf_core_type_id_kernel(struct sock)))->__sk_common;
	remote_end(first, &peer);
	remote_end(own, &other);
	if (peer.halves[0] == other.halves[0] && peer.halves[1] == other.halves[1])
		return 0;
	d = decide(cfg, app, &peer, IPPROTO_TCP, first->skc_num, bpf_ntohs(first->skc_dport));
	if (is_refusal(&d))
		return RAVELIN_SUPPORTED;
	/* The suite that the first peer's item names, another peer's may not. */
	return d.action == ACTION_PROTECT && d.level == RVL_MANDATORY ? unnamed(d.services) : 0;
}

/* What a subflow must have beyond the policy of its own address: that, and what the program has asked for on the connection. */
static __always_inline __u8 required_of_subflow(const struct rvl_config *cfg, struct mptcp_sock *whole, struct bpf_sock *sk,
						const struct rvl_socket *stamp)
{
	struct rvl_socket *own = bpf_sk_storage_get(&sockets, whole, 0, 0);
	__u8 required = own ? own->required : 0;
	__u16 app = stamp && stamp->app ? stamp->app : own ? own->app : 0;

	return app ? required | demand_of_connection(cfg, whole, sk, app) : required;
}

#endif
