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
	/* Through a socket of what must not send nothing has gone: a file was verified late. */
	if (!has || has == RVL_APP_REFUSED)
		return HANDOVER_STAMP;
	key.generation = cfg->generation;
	key.from = has;
	key.to = is;
	order_value = bpf_map_lookup_elem(&order, &key);
	if (!order_value)
		return HANDOVER_REFUSE;
	return *order_value == RVL_ORDER_TO ? HANDOVER_STAMP : HANDOVER_KEEP;
}

#define SOL_SOCKET 1
#define SO_MARK 36
#define AF_INET 2
#define AF_INET6 10
#define AF_PACKET 17
#define SOCK_DGRAM 2
#define SOCK_RAW 3

#endif
