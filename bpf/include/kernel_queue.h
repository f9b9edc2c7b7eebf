/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Kernel queues of classes (docs/design/0042): whether one has room, and which one an outer packet that arrives belongs to. frames.bpf.c has
 * it too, so nothing here asks how the octets of a packet are read.
 */
#ifndef RVL_KERNEL_QUEUE_H
#define RVL_KERNEL_QUEUE_H

/* The bits of the number of a class, and of skb->tc_index that hold it. */
#define CLASS_BITS 0x3f

/* The packets that wait in a queue, as far as they are counted. */
static __always_inline __s64 waiting_in(const struct rvl_kernel_queue *queue)
{
	return queue->arrived - queue->lost - queue->gone - queue->taken;
}

/*
 * Whether a queue takes so many packets at once, which are counted. An empty queue takes any number. Two processors that count at once may
 * let one packet more in.
 */
static __always_inline bool has_room(struct rvl_kernel_queue *queue, __u64 packets)
{
	__s64 waiting;

	if (!queue->limit)
		return true;
	__sync_fetch_and_add(&queue->arrived, packets);
	waiting = waiting_in(queue);
	if (waiting <= (__s64)queue->limit || waiting <= (__s64)packets)
		return true;
	__sync_fetch_and_add(&queue->lost, packets);
	return false;
}

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

/* Whether a queue takes so many packets at once, which are counted. */
static __always_inline bool takes(__u32 queue, __u64 packets)
{
	struct rvl_kernel_queue *row = bpf_map_lookup_elem(&socket_queues, &queue);

	if (!row || has_room(row, packets))
		return true;
	count(RVL_C_SOCKET_QUEUE_FULL);
	return false;
}

static __always_inline bool is_esp_port(__be16 port)
{
	__u32 key = 0;
	__u32 *ours = bpf_map_lookup_elem(&frame_port, &key);

	return ours && *ours == port;
}

#endif
