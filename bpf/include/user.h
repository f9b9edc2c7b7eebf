/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Users that rules of the SPD name (docs/design/0009). Their packets go to the engine unless an application's policy decides
 * about them; which user it is, the record says.
 */
#ifndef RVL_USER_H
#define RVL_USER_H

/* Whether rules decide about packets of this user. */
static __always_inline bool is_ruled(__u32 user)
{
	struct rvl_user_key key = { .prefixlen = 32 };
	__be32 bits = bpf_htonl(user);

	__builtin_memcpy(key.user, &bits, 4);
	return bpf_map_lookup_elem(&users, &key) != 0;
}

/*
 * Note who stands behind a socket's user, by the credentials (their address) that it was made with; also the user himself, where rules
 * decide about him: in a user namespace of his own he may give the socket to a subordinate one (fchown). False: there is no room.
 */
static __always_inline bool note_behind(void *sk, __u64 cred)
{
	__u32 user = user_behind(cred);

	if (user == BPF_CORE_READ((const struct cred *)cred, uid.val) && !is_ruled(user))
		return true;
	return bpf_sk_storage_get(&behind, sk, &user, BPF_LOCAL_STORAGE_GET_F_CREATE) != 0;
}

/*
 * The user that owns the socket of a packet, or who stands behind him if rules decide about that one: that of the descriptor, fixed when the socket was made; for a SYN-ACK the
 * listener's; for TIME_WAIT that of the connection. False: no socket, or none that is known.
 */
static __always_inline bool user_of(struct __sk_buff *skb, __u32 *user)
{
	struct bpf_sock *sk = skb->sk, *full;
	__u64 cookie;
	__u32 *known;

	if (!sk)
		return false;
	full = bpf_sk_fullsock(sk);
	if (!full)
		full = bpf_get_listener_sock(sk);
	/* Where there is no owner the kernel says "nobody", which is a user too. */
	if (full) {
		known = bpf_sk_storage_get(&behind, full, 0, 0);
		*user = known && is_ruled(*known) ? *known : bpf_get_socket_uid(skb);
		return true;
	}
	cookie = bpf_get_socket_cookie(skb);
	known = bpf_map_lookup_elem(&owners, &cookie);
	if (!known)
		return false;
	*user = *known;
	return true;
}

/* Remember the user of a connection for its TIME_WAIT. */
static __always_inline void remember(struct __sk_buff *skb, __u32 user)
{
	struct bpf_sock *sk = skb->sk;
	__u64 cookie;

	if (!sk)
		return;
	sk = bpf_sk_fullsock(sk);
	if (!sk || sk->protocol != IPPROTO_TCP)
		return;
	cookie = bpf_get_socket_cookie(skb);
	if (!bpf_map_lookup_elem(&owners, &cookie))
		bpf_map_update_elem(&owners, &cookie, &user, BPF_ANY);
}

#endif
