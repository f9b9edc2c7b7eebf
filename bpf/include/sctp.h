/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Whose an SCTP socket is. One that accept makes has passed no hook and has no copy of its listener's stamp (Linux before 6.19); the
 * kernel sends by it before a process has: acknowledgments, and data that waited for the peer's window. So the port's listener is
 * noted while an association is made, which each accepted socket's was, and the first packet of the socket, in or out, gets its stamp. It is
 * noted with the address: another program may listen on the same port of another one.
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

/* The end of an association at an address of this host's. */
static __always_inline void endpoint_at(struct rvl_endpoint_key *key, struct bpf_sock *sk, const struct address *local)
{
	struct sock *kernel = bpf_rdonly_cast(sk, bpf_core_type_id_kernel(struct sock));

	__builtin_memset(key, 0, sizeof(*key));
	key->netns = kernel->__sk_common.skc_net.net->net_cookie;
	key->device = sk->bound_dev_if;
	key->port = sk->src_port;
	if (local)
		__builtin_memcpy(key->addr, local, 16);
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

/* All addresses of the packet's family. */
static __always_inline void all_addresses(struct rvl_endpoint_key *key, const struct headers *h)
{
	if (h->version == 4)
		mapped((struct address *)key->addr, 0);
	else
		__builtin_memset(key->addr, 0, 16);
}

/*
 * What adoption has noted of a listener without an address of its own counts until an association is asked for at the port: whose port it is
 * at which address, this says.
 */
static __always_inline void forget_noted(const struct rvl_endpoint_key *key, const struct rvl_endpoint *value)
{
	struct rvl_endpoint *before = bpf_map_lookup_elem(&sctp_listeners, key);

	if (before && (before->app != value->app || before->required != value->required))
		bpf_map_delete_elem(&sctp_listeners, key);
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
	endpoint_at(&key, sk, &h.destination);
	if (stamp) {
		value.app = stamp->app;
		value.required = stamp->required;
	}
	bpf_map_update_elem(&sctp_listeners, &key, &value, BPF_ANY);
	all_addresses(&key, &h);
	forget_noted(&key, &value);
}

static __always_inline bool is_settled(struct bpf_sock *sk)
{
	__u32 *note = bpf_sk_storage_get(&unclaimed, sk, 0, 0);

	return note && *note == NOTE_DECIDED;
}

/* No stamp is nobody's from here on. False: there is no room to say so. */
static __always_inline bool note_nobodys(struct bpf_sock *sk)
{
	__u32 *note = bpf_sk_storage_get(&unclaimed, sk, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);

	if (note)
		*note = NOTE_DECIDED;
	return note;
}

/*
 * A socket without a stamp gets its listener's, if it is one that accept has made. Where the listener is nobody's, it is noted that the
 * socket came of it. False: there is no room for it.
 */
static __noinline bool stamp_accepted(struct __sk_buff *skb, struct bpf_sock *sk, bool leaves)
{
	struct rvl_endpoint *endpoint;
	struct rvl_endpoint_key key;
	struct rvl_socket *stamp;
	struct headers h;

	if (sk->state == TCP_LISTEN || bpf_sk_storage_get(&unclaimed, sk, 0, 0) || !parse(skb, 0, &h))
		return true;
	endpoint_at(&key, sk, leaves ? &h.source : &h.destination);
	endpoint = bpf_map_lookup_elem(&sctp_listeners, &key);
	if (!endpoint) {
		all_addresses(&key, &h);
		endpoint = bpf_map_lookup_elem(&sctp_listeners, &key);
	}
	if (!endpoint)
		return true;
	if (!endpoint->app && !endpoint->required)
		return bpf_sk_storage_get(&unclaimed, sk, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	stamp = stamp_socket(sk, 0, key.netns, endpoint->app);
	if (!stamp)
		return false;
	stamp->required = endpoint->required;
	count(RVL_C_STAMPED);
	return true;
}

/*
 * Whether data came for a socket of which nothing is known: neither a stamp, nor that it is nobody's. The note of its listener was lost, or
 * the association is older than the policy and nobody has accepted it yet.
 */
static __always_inline bool hears_for_nobody_known(struct __sk_buff *skb, struct bpf_sock *sk, const struct rvl_config *cfg)
{
	return cfg->generation && sk->state != TCP_LISTEN && !bpf_sk_storage_get(&unclaimed, sk, 0, 0) && carries_chunks(skb);
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
