/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Classes of outer packets that arrive (docs/design/0042): which socket of the daemon's takes one, and whether that has room.
 *
 * The class is a hint for the place where a packet waits, and no right: the engine finds its association and classifies it again. What names
 * no association of its sender waits behind the classes, in a queue of its own, so that a flood of it takes no place of theirs.
 */
#ifndef RVL_SOCKET_CLASS_H
#define RVL_SOCKET_CLASS_H

/* The split of outer packets among sockets; NULL where they are not split. */
static __always_inline struct rvl_split *split_of_sockets(void)
{
	__u32 key = 0;
	struct rvl_split *value = bpf_map_lookup_elem(&socket_split, &key);

	return value && value->queues ? value : NULL;
}

/* The queues of the class of an association's packets, whose outer header has this DSCP; NULL: there is no such association. */
static __always_inline const struct rvl_share *share_of_sa(const struct rvl_split *value, const struct rvl_sa_name *name, __u32 dscp)
{
	const struct rvl_share *share;
	__u32 *class = bpf_map_lookup_elem(&sa_classes, name);

	if (!class) {
		struct rvl_sa_name any = {};

		any.spi = name->spi;
		class = bpf_map_lookup_elem(&sa_classes, &any);
	}
	if (!class)
		return NULL;
	share = &value->of[*class & CLASS_BITS];
	/* An association without a class, or with one that the graph does not have, goes by the outer header. */
	if (!*class || !share->count)
		share = &value->of[value->of_dscp[dscp & CLASS_BITS] & CLASS_BITS];
	return share->count ? share : NULL;
}

/* The hash of a sender (as user_hash). */
static __always_inline __u32 sender_hash(const struct rvl_split *value, const struct rvl_sa_name *name)
{
	__u64 sum = value->seed[0] + value->seed[1] * name->spi;
	__u32 words[4];

	__builtin_memcpy(words, name->source, sizeof(words));
	sum += value->seed[2] * words[0];
	sum += value->seed[3] * words[1];
	sum += value->seed[4] * words[2];
	sum += value->seed[5] * words[3];
	return sum >> 32;
}

/* The queue for an association's packet. */
static __always_inline __u32 queue_of_sa(const struct rvl_split *value, const struct rvl_sa_name *name, __u32 dscp)
{
	const struct rvl_share *share = share_of_sa(value, name, dscp);

	if (!share)
		return value->queues;
	if (share->count < 2)
		return share->first;
	return share->first + sender_hash(value, name) % share->count;
}

/* Read the sender of a packet, and its DSCP, whatever kind of context this is; whether they are there. */
static __always_inline bool read_outer(const void *ctx, bool is_v4, struct rvl_sa_name *name, __u32 *dscp)
{
	__u8 head[2];

	if (bpf_skb_load_bytes_relative(ctx, 0, head, sizeof(head), BPF_HDR_START_NET))
		return false;
	if (is_v4) {
		*dscp = head[1] >> 2;
		name->source[10] = 0xff;
		name->source[11] = 0xff;
		return !bpf_skb_load_bytes_relative(ctx, 12, name->source + 12, 4, BPF_HDR_START_NET);
	}
	*dscp = (head[0] & 0xf) << 2 | head[1] >> 6;
	return !bpf_skb_load_bytes_relative(ctx, 8, name->source, 16, BPF_HDR_START_NET);
}

/*
 * The queue for a datagram. A run of joined ones goes where its first one does. Its octets need not be in the linear part, so they are
 * loaded. The kernel also asks without a packet, which is then answered by its hash.
 */
static __always_inline __u32 queue_of_datagram(struct sk_reuseport_md *md, bool is_v4)
{
	const struct rvl_split *value = split_of_sockets();
	struct rvl_sa_name name = {};
	__u32 dscp = 0;

	if (!value)
		return 0;
	/* Keepalives and IKE name no association: they are shorter, or have a zero there. */
	if (bpf_skb_load_bytes(md, 8, &name.spi, 4) || !name.spi)
		return value->queues;
	if (!read_outer(md, is_v4, &name, &dscp))
		return value->queues;
	return queue_of_sa(value, &name, dscp);
}

/* The socket for a datagram. Where its socket is not there, the datagram goes to the first one, which every daemon has. */
SEC("sk_reuseport")
int udp_class(struct sk_reuseport_md *md)
{
	bool is_v4 = md->eth_protocol == bpf_htons(ETH_P_IP);
	__u32 first = is_v4 ? 0 : RVL_SOCKET_QUEUES;
	__u32 key = first + queue_of_datagram(md, is_v4);

	if (!bpf_sk_select_reuseport(md, &udp_sockets, &key, 0))
		return SK_PASS;
	if (!bpf_sk_select_reuseport(md, &udp_sockets, &first, 0))
		return SK_PASS;
	return SK_DROP;
}

/* The datagrams that a socket gets at once. */
static __always_inline __u64 datagrams(struct __sk_buff *skb)
{
	__u32 each = skb->gso_size;

	if (!each || skb->len < 8)
		return 1;
	return (skb->len - 8 + each - 1) / each;
}

/* The queue of a place, and whether a raw socket is one for AH. */
#define PLACE_QUEUE 0xff
#define PLACE_AH 0x100

/* The place of the socket that a filter runs for; NULL: it has none. */
static __always_inline const __u32 *place_of_socket(struct __sk_buff *skb)
{
	__u64 cookie = bpf_get_socket_cookie(skb);

	return bpf_map_lookup_elem(&socket_places, &cookie);
}

/* Whether a queue takes so many packets at once, which are counted. */
static __always_inline bool takes(__u32 queue, __u64 packets)
{
	struct rvl_kernel_queue *row = bpf_map_lookup_elem(&socket_queues, &queue);

	if (!row || has_room(row, packets))
		return true;
	count(RVL_C_SOCKET_QUEUE_FULL);
	return false;
}

/* Whether the queue that a UDP socket belongs to takes what came for it. A socket that belongs to none takes everything. */
SEC("socket")
int socket_queue(struct __sk_buff *skb)
{
	const __u32 *place = place_of_socket(skb);

	return !place || takes(*place & PLACE_QUEUE, datagrams(skb)) ? skb->len : 0;
}

/* The queue for a bare ESP or AH packet. With IPv4 its header comes first, and with IPv6 what is behind all headers. */
static __always_inline __u32 queue_of_bare(struct __sk_buff *skb, bool is_ah)
{
	const struct rvl_split *value = split_of_sockets();
	bool is_v4 = skb->protocol == bpf_htons(ETH_P_IP);
	struct rvl_sa_name name = {};
	__u32 dscp = 0, at = is_ah ? 4 : 0;
	__u8 first;

	if (!value)
		return 0;
	if (is_v4) {
		if (bpf_skb_load_bytes(skb, 0, &first, 1))
			return value->queues;
		at += (first & 0xf) * 4;
	}
	if (bpf_skb_load_bytes(skb, at, &name.spi, 4) || !read_outer(skb, is_v4, &name, &dscp))
		return value->queues;
	return queue_of_sa(value, &name, dscp);
}

/*
 * Whether a packet is one of the queue that a raw socket belongs to, which has room for it. Each raw socket of the protocol is asked, and
 * gets a copy of what it takes.
 */
SEC("socket")
int raw_queue(struct __sk_buff *skb)
{
	const __u32 *place = place_of_socket(skb);

	if (!place)
		return skb->len;
	if (queue_of_bare(skb, *place & PLACE_AH) != (*place & PLACE_QUEUE))
		return 0;
	return takes(*place & PLACE_QUEUE, 1) ? skb->len : 0;
}

#endif
