/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Classes of packets that leave (docs/design/0042): which one a packet is of before it waits anywhere, and the queue of the TUN for it.
 *
 * The class is a hint for the place where a packet waits, and no right: the engine classifies it again. It travels in skb->tc_index, whose
 * upper ten bits say what wrote it. No sender can set this field; of programs only those on devices write it.
 */
#ifndef RVL_CLASS_H
#define RVL_CLASS_H

/* uplink_egress has noted in the lower bits the class that an item of policy gives, for tun_egress. */
#define RVL_CLASSED 0x5280
/* tun_egress has noted in the lower bits the class of the packet, for tun_queue. Nobody else can write this value, so it is not secret. */
#define RVL_SEEN 0x5240

/* The split of packets among the queues of the TUN; NULL where they are not split. */
static __always_inline struct rvl_split *split_of_queues(void)
{
	__u32 key = 0;
	struct rvl_split *value = bpf_map_lookup_elem(&split, &key);

	return value && value->queues ? value : NULL;
}

/* Note the class that policy gives a packet that goes to the TUN. A later fragment has no ports: its DSCP decides. */
static __always_inline void note_class(struct __sk_buff *skb, const struct rvl_network *network, const struct headers *h)
{
	__u8 aggregate;

	if (!network || h->later_fragment || !split_of_queues())
		return;
	aggregate = decide_at(network, h->protocol, h->source_port, h->destination_port).aggregate;
	if (aggregate)
		skb->tc_index = RVL_CLASSED | (aggregate & CLASS_BITS);
}

/* The DSCP of a packet by the first octets of its IP header (RFC 2474 section 3). */
static __always_inline __u32 dscp_of(const __u8 head[2])
{
	__u32 dscp = head[0] >> 4 == 4 ? head[1] >> 2 : (head[0] & 0xf) << 2 | head[1] >> 6;

	return dscp & (RVL_AGGREGATES - 1);
}

/* The class of an application's packet at the TUN, whose IP header comes first. */
static __always_inline __u8 class_at_tun(struct __sk_buff *skb, __u32 app)
{
	const struct rvl_split *value = split_of_queues();
	const struct rvl_app_classes *of_app = NULL;
	__u8 head[2] = {}, reserved;

	if (!value)
		return 0;
	if (bpf_skb_load_bytes(skb, 0, head, sizeof(head)))
		return 0;
	reserved = reserved_class(skb, dscp_of(head));
	if (reserved)
		return reserved;
	if ((skb->tc_index & ~CLASS_BITS) == RVL_CLASSED)
		return skb->tc_index & CLASS_BITS;
	if (app && value->apps)
		of_app = bpf_map_lookup_elem(&split_apps, &app);
	return of_app ? of_app->of_dscp[dscp_of(head)] : value->of_dscp[dscp_of(head)];
}

/*
 * The hash of a user, who is an address behind this host, or an application of it (multilinear hashing by a secret key: who does not know it
 * cannot choose addresses that fall together).
 */
static __always_inline __u32 user_hash(const struct rvl_split *value, __u32 app, const __u32 words[4])
{
	__u64 sum = value->seed[0];

	sum += value->seed[1] * app;
	sum += value->seed[2] * words[0];
	sum += value->seed[3] * words[1];
	sum += value->seed[4] * words[2];
	sum += value->seed[5] * words[3];
	return sum >> 32;
}

/* The hash of the user whose packet is at the TUN, behind its record. */
static __always_inline __u32 user_at_tun(struct __sk_buff *skb, const struct rvl_split *value)
{
	struct rvl_record record;
	__u32 words[4] = {};

	if (bpf_skb_load_bytes(skb, 0, &record, sizeof(record)))
		return 0;
	if (record.version == 0x40)
		bpf_skb_load_bytes(skb, sizeof(record) + 12, words, 4);
	else
		bpf_skb_load_bytes(skb, sizeof(record) + 8, words, 16);
	return user_hash(value, record.mark & RVL_MARK_APP, words);
}

/* The queue of the TUN for a packet. The kernel takes the answer modulo the number of attached queues. */
SEC("socket")
int tun_steering(struct __sk_buff *skb)
{
	const struct rvl_split *value = split_of_queues();
	const struct rvl_share *share;

	if (!value || (skb->tc_index & ~CLASS_BITS) != RVL_SEEN)
		return 0;
	share = &value->of[skb->tc_index & CLASS_BITS];
	if (share->count < 2)
		return share->first;
	return share->first + user_at_tun(skb, value) % share->count;
}

/* Whether the queue that a packet was given takes it, which the ring has room for. */
static __always_inline bool fits_queue(struct __sk_buff *skb)
{
	__u32 key = skb->queue_mapping;
	struct rvl_kernel_queue *queue;

	if (!split_of_queues())
		return true;
	queue = bpf_map_lookup_elem(&tun_queues, &key);
	return !queue || has_room(queue, 1);
}

/*
 * Whether the queue that a packet from a network behind us will be given is full. Such a packet can be dropped here: the way to the queue,
 * where it would end, costs more than everything up to this place. It is counted as one that came to the queue and was lost there.
 */
static __always_inline bool is_queue_full(struct __sk_buff *skb, const struct headers *h)
{
	const struct rvl_split *value = split_of_queues();
	const struct rvl_share *share;
	struct rvl_kernel_queue *queue;
	__u32 words[4] = {}, key;
	__u8 head[2], class;

	if (!value || !load(skb, 0, head, sizeof(head)))
		return false;
	class = (skb->tc_index & ~CLASS_BITS) == RVL_CLASSED ? skb->tc_index : value->of_dscp[dscp_of(head)];
	share = &value->of[class & CLASS_BITS];
	key = share->first;
	if (share->count > 1) {
		if (h->version == 4)
			words[0] = h->source.words[3];
		else
			__builtin_memcpy(words, &h->source, sizeof(words));
		key += user_hash(value, 0, words) % share->count;
	}
	queue = bpf_map_lookup_elem(&tun_queues, &key);
	if (!queue || !queue->limit)
		return false;
	if (waiting_in(queue) < (__s64)queue->limit)
		return false;
	/* A packet of a reserved flow may have another queue. */
	if (is_reserved(h, dscp_of(head)))
		return false;
	__sync_fetch_and_add(&queue->arrived, 1);
	__sync_fetch_and_add(&queue->lost, 1);
	return true;
}

#endif
