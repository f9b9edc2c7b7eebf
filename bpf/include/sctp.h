/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Whose an SCTP socket is. One that accept makes has passed no hook and has no copy of its listener's stamp (Linux before 6.19); the
 * kernel sends by it before a process has: acknowledgments, and data that waited for the peer's window. So the port's listener is
 * noted while an association is made, which each accepted socket's was, and the first packet of the socket, in or out, gets its stamp.
 */
#ifndef RVL_SCTP_H
#define RVL_SCTP_H

/* RFC 9260 section 3.2; I-DATA is RFC 8260's. */
#define SCTP_DATA 0
#define SCTP_INIT 1
#define SCTP_COOKIE_ECHO 10
#define SCTP_I_DATA 64
#define SCTP_COMMON_HEADER 12
/* Chunks that are looked at. */
#define SCTP_CHUNKS 32

static __always_inline struct rvl_endpoint_key endpoint_of(struct bpf_sock *sk)
{
	struct sock *kernel = bpf_rdonly_cast(sk, bpf_core_type_id_kernel(struct sock));
	struct rvl_endpoint_key key = { .port = sk->src_port };

	key.netns = kernel->__sk_common.skc_net.net->net_cookie;
	return key;
}

/* Whether a packet carries what a process has sent, in front or behind other chunks. One that cannot be read does. */
static __noinline bool carries_chunks(struct __sk_buff *skb)
{
	struct headers h;
	__u8 chunk[4]; /* type, flags, length */
	__u32 at;

	if (!parse(skb, 0, &h) || h.later_fragment)
		return true;
	at = h.transport + SCTP_COMMON_HEADER;
	for (int i = 0; i < SCTP_CHUNKS; i++) {
		__u32 length;

		if (at >= skb->len)
			return false;
		if (!load(skb, at, chunk, sizeof(chunk)) || chunk[0] == SCTP_DATA || chunk[0] == SCTP_I_DATA)
			return true;
		length = chunk[2] << 8 | chunk[3];
		if (length < sizeof(chunk))
			return true;
		at += (length + 3) & ~3u;
	}
	return true;
}

/* A listener's packet that asks for an association: whose the socket will be that accept makes of it. */
static __noinline void note_endpoint(struct __sk_buff *skb, struct bpf_sock *sk, const struct rvl_socket *stamp)
{
	struct rvl_endpoint value = {};
	struct rvl_endpoint_key key;
	struct headers h;
	__u8 type;

	if (!parse(skb, 0, &h) || h.later_fragment || !load(skb, h.transport + SCTP_COMMON_HEADER, &type, 1))
		return;
	if (type != SCTP_INIT && type != SCTP_COOKIE_ECHO)
		return;
	key = endpoint_of(sk);
	if (!stamp) {
		bpf_map_delete_elem(&endpoints, &key);
		return;
	}
	value.app = stamp->app;
	value.required = stamp->required;
	bpf_map_update_elem(&endpoints, &key, &value, BPF_ANY);
}

static __always_inline bool is_settled(struct bpf_sock *sk)
{
	__u32 *note = bpf_sk_storage_get(&unclaimed, sk, 0, 0);

	return note && *note == NOTE_DECIDED;
}

/* No stamp is nobody's from here on. False: there is no room to say so. */
static __always_inline bool note_nobodys(struct bpf_sock *sk)
{
	__u32 decided = NOTE_DECIDED;

	return bpf_sk_storage_get(&unclaimed, sk, &decided, BPF_LOCAL_STORAGE_GET_F_CREATE);
}

/* A socket without a stamp gets its listener's, if it is one that accept has made. False: there is no room for it. */
static __noinline bool stamp_accepted(struct bpf_sock *sk)
{
	struct rvl_endpoint *endpoint;
	struct rvl_endpoint_key key;
	struct rvl_socket *stamp;

	if (sk->state == TCP_LISTEN || is_settled(sk))
		return true;
	key = endpoint_of(sk);
	endpoint = bpf_map_lookup_elem(&endpoints, &key);
	if (!endpoint)
		return true;
	stamp = stamp_socket(sk, 0, key.netns, endpoint->app);
	if (!stamp)
		return false;
	stamp->required = endpoint->required;
	count(RVL_C_STAMPED);
	return true;
}

/*
 * A packet that leaves without a caller by a socket without a stamp. Data is that of a process nobody has seen: the note of the listener
 * was lost, or nobody has sent on the socket since a policy speaks.
 */
static __always_inline bool is_of_nobody_known(struct __sk_buff *skb, struct bpf_sock *sk, const struct rvl_config *cfg)
{
	return cfg->generation && !is_settled(sk) && carries_chunks(skb);
}

#endif
