/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Who sends, by the call (security_socket_sendmsg). `guard` sees who sends by the thread that the packet leaves in. That is another one where
 * something between the two holds the packet: a firewall's queue (NFQUEUE), a corked datagram that somebody else sends on. Where the kernel
 * takes a program at that hook, the call has stamped the socket before.
 */
#ifndef RVL_SENDER_H
#define RVL_SENDER_H

/* Whether a socket is of a kind that has no hook of its own for each of its calls, and whose packets are stamped by who sends them. */
static __always_inline bool follows_sender(const struct sock *sk)
{
	return !BPF_CORE_READ_BITFIELD_PROBED(sk, sk_kern_sock) && has_caller(sk->sk_protocol, sk->sk_type, true);
}

/* The protocol of a socket of AF_PPPOX. */
#define PX_PROTO_OL2TP 1

/*
 * A program of policy has no session of L2TP in the kernel, nor sends by one that somebody else has opened. What leaves by it may wait for a
 * neighbour or in a queue, until nobody's hands tell whose it is; in another network namespace nobody looks at all; and what arrives for it
 * is taken without its proof, by whatever UDP socket or IP protocol it comes (the kernel finds sessions by their number alone).
 */
static __always_inline int refuse_session(struct sock *sk, const struct rvl_config *cfg, __u8 hook)
{
	struct address none = {};
	struct attempt a = { .peer = &none, .family = AF_INET, .protocol = IPPROTO_L2TP, .hook = hook };

	if (!cfg || current_is_exempt(cfg))
		return 0;
	a.app = app_of_current(cfg);
	if (!a.app || !is_watched(sk, cfg))
		return 0;
	refuse(RVL_C_L2TP, &a);
	return -EPERM;
}

/*
 * A call on a socket of AF_PPPOX: to connect one of L2TP makes a session of it. Frames of PPPoE are the devices' to look at, and in another
 * network namespace nobody's: they are not sent there.
 */
static __always_inline int judge_session(struct socket *socket, __u8 hook)
{
	const struct rvl_config *cfg = configuration();
	struct sock *sk = socket->sk;

	if (!sk || !cfg || sk->__sk_common.skc_family != AF_PPPOX)
		return 0;
	if (sk->sk_protocol != PX_PROTO_OL2TP &&
	    (hook == RVL_HOOK_CONNECT || sk->__sk_common.skc_net.net->net_cookie == cfg->netns))
		return 0;
	return refuse_session(sk, cfg, hook);
}

/* The calling process sends by a socket. An error: the policies do not compare, or there is no room for the stamp. */
static __always_inline int judge_sender(struct socket *socket)
{
	const struct rvl_config *cfg = configuration();
	struct address none = {};
	struct attempt a = { .peer = &none, .hook = RVL_HOOK_SENDMSG };
	struct sock *sk = socket->sk;
	struct rvl_socket *stamp;
	__u16 has, is;

	if (!cfg || !sk || (sk->__sk_common.skc_family != AF_INET && sk->__sk_common.skc_family != AF_INET6))
		return 0;
	/* A raw socket may have the protocol of either. */
	if (sk->sk_type == SOCK_STREAM && sk->sk_protocol != IPPROTO_SCTP) {
		note_writer(sk);
		return 0;
	}
	if (!follows_sender(sk))
		return 0;
	stamp = bpf_sk_storage_get(&sockets, sk, 0, 0);
	has = stamp ? stamp->app : 0;
	is = app_of_current(cfg);
	if (!is || has == is || current_is_exempt(cfg) || !is_watched(sk, cfg))
		return 0;
	switch (handover_of(cfg, stamp, is)) {
	case HANDOVER_KEEP:
		return 0;
	case HANDOVER_REFUSE:
		a.app = is;
		a.family = sk->__sk_common.skc_family;
		a.protocol = sk->sk_protocol;
		refuse(RVL_C_INCOMPARABLE, &a);
		return -EPERM;
	case HANDOVER_STAMP:
		break;
	}
	if (!stamp)
		stamp = bpf_sk_storage_get(&sockets, sk, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!stamp) {
		count(RVL_C_STAMP_FAILED);
		return -EPERM;
	}
	assign(stamp, sk->__sk_common.skc_net.net->net_cookie, is);
	count(RVL_C_RESTAMPED);
	return 0;
}

#endif
