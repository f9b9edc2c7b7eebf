/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What a socket is stamped with, and whose it becomes in other hands.
 *
 * The identity of a process (subject.h) is the file that it executed, kept in the storage of its thread group leader. It is
 * never read from mm->exe_file of a running program: PR_SET_MM_MAP can change that from a user namespace of one's
 * own. The only exceptions are processes without a record: those older than the tracepoints.
 */
#ifndef RVL_IDENTITY_H
#define RVL_IDENTITY_H

static __always_inline bool current_is_exempt(const struct rvl_config *cfg)
{
	return cfg->exempt && bpf_get_current_cgroup_id() == cfg->exempt;
}

/* What to do with a socket of application `has` in the hands of application `is`. */
enum handover {
	HANDOVER_KEEP,
	HANDOVER_STAMP,
	HANDOVER_REFUSE,
};

static __always_inline enum handover handover(const struct rvl_config *cfg, __u16 has, __u16 is)
{
	struct rvl_order_key key = {};
	__u8 *order_value;

	/* No policy is the weakest policy. */
	if (has == is || !is)
		return HANDOVER_KEEP;
	if (!has)
		return HANDOVER_STAMP;
	key.generation = cfg->generation;
	key.from = has;
	key.to = is;
	order_value = bpf_map_lookup_elem(&order, &key);
	if (!order_value)
		return HANDOVER_REFUSE;
	return *order_value == RVL_ORDER_TO ? HANDOVER_STAMP : HANDOVER_KEEP;
}

static __always_inline __u32 mark_with(__u32 mark, __u16 app, __u8 required)
{
	return (mark & ~RVL_MARK_OURS) | RVL_MARK_STAMPED | app | (__u32)required << RVL_MARK_SERVICES;
}

/* The services in a mark. */
static __always_inline __u8 services_of(__u32 mark)
{
	return mark >> RVL_MARK_SERVICES & RAVELIN_SUPPORTED;
}

/* Our bits taken off, if the mark is ours at all. */
static __always_inline __u32 mark_without(__u32 mark)
{
	return mark & RVL_MARK_CLAIM ? mark & ~RVL_MARK_OURS : mark;
}

#define SOL_SOCKET 1
#define SO_MARK 36
#define AF_INET 2
#define AF_INET6 10
#define SOCK_DGRAM 2
#define SOCK_RAW 3

#endif
