/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What is noted of a connection that came in and on which no process has written yet (docs/design/0012, activated programs). The note of a
 * TCP connection is its socket's, in its stamp or in `unclaimed`; that of an MPTCP connection is the connection's, for all its subflows.
 */
#ifndef RVL_NOTE_H
#define RVL_NOTE_H

#define IPPROTO_MPTCP 262

static __always_inline __u32 kind_of(const __u32 *note)
{
	return *note & NOTE_KIND;
}

/* Whether a note says that it has not shown whose the connection is. */
static __always_inline bool is_open(const __u32 *note)
{
	return kind_of(note) == NOTE_UNCLAIMED || kind_of(note) >= NOTE_WRITTEN;
}

/* Whether the stamp of a TCP socket and the note beside it say that no process has written on the connection. */
static __always_inline bool is_unwritten(const struct rvl_socket *stamp, const __u32 *note)
{
	if (stamp && (stamp->app || stamp->unclaimed))
		return stamp->unclaimed;
	return note && is_open(note);
}

/*
 * A socket can have no room for a note: the filter that it has from its listener takes all that it may have (SO_ATTACH_FILTER). Such a
 * connection sends nothing. The mark of it is kept where there always is room: in the flags that say which events sock_ops is called for.
 * These three stand together for nothing else; our program ignores the events of the retransmission time-out and the round-trip time.
 */
#define NO_ROOM_FLAGS (BPF_SOCK_OPS_RTO_CB_FLAG | BPF_SOCK_OPS_STATE_CB_FLAG | BPF_SOCK_OPS_RTT_CB_FLAG)

static __always_inline void say_no_room(struct bpf_sock_ops *ctx)
{
	count(RVL_C_STAMP_FAILED);
	bpf_sock_ops_cb_flags_set(ctx, NO_ROOM_FLAGS);
}

/* Whether a connection has said that it has no room. The socket must be one of TCP's: a raw one of its protocol number is shorter. */
static __always_inline bool has_no_room(struct bpf_sock *sk)
{
	struct tcp_sock *tcp = bpf_rdonly_cast(sk, bpf_core_type_id_kernel(struct tcp_sock));

	return tcp->bpf_sock_ops_cb_flags == NO_ROOM_FLAGS;
}

/* Note that no process has written on a connection that came in. False: there is no room to say so. */
static __always_inline bool note_connection(struct bpf_sock *sk, struct rvl_socket *stamp)
{
	struct mptcp_sock *whole = connection_of(sk);

	if (stamp)
		stamp->unclaimed = 1;
	if (whole && !bpf_sk_storage_get(&unclaimed, whole, 0, BPF_LOCAL_STORAGE_GET_F_CREATE))
		return false;
	/* With a stamp as well: who writes must find room for his note. */
	return bpf_sk_storage_get(&unclaimed, sk, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
}

/*
 * Whether a call on a socket, or holding it, does not make it the caller's for good: no process has written on the connection, so it is
 * the first writer's. What it is stamped with meanwhile is the least that it must have.
 */
static __always_inline bool stays_unclaimed(struct bpf_sock *sk, const struct rvl_socket *stamp)
{
	__u32 *note;

	if (sk->type != SOCK_STREAM || (sk->protocol != IPPROTO_TCP && sk->protocol != IPPROTO_MPTCP))
		return false;
	note = bpf_sk_storage_get(&unclaimed, sk, 0, 0);
	if (sk->protocol == IPPROTO_MPTCP)
		return note && is_open(note);
	return is_unwritten(stamp, note);
}

#endif
