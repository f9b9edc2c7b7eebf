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
	return cfg->exempt && current_group() == cfg->exempt;
}

/* Whether a packet is of a socket of the daemon's. */
static __always_inline bool is_daemons(struct __sk_buff *skb, const struct rvl_config *cfg)
{
	return cfg->exempt && bpf_skb_cgroup_id(skb) == cfg->exempt;
}

/* What to do with a socket of application `has` in the hands of application `is`. */
enum handover {
	HANDOVER_KEEP,
	HANDOVER_STAMP,
	HANDOVER_REFUSE,
};

/* Whether the policy of application `is` may take a socket of `has` over, neither of them 0. */
__noinline int take_over(__u32 generation, __u32 has, __u32 is)
{
	struct rvl_order_key key = {};
	__u32 from, to, stricter;
	__u8 *value;

	key.low = RVL_ORDER_APPS | (generation & 0xff) << RVL_ORDER_GENERATION | (has & 0xffff);
	key.high = is & 0xffff;
	value = bpf_map_lookup_elem(&order, &key);
	if (value) {
		if (*value == RVL_ORDER_TO)
			return HANDOVER_STAMP;
		return *value == RVL_ORDER_FROM ? HANDOVER_KEEP : HANDOVER_REFUSE;
	}
	from = table_of(generation, has);
	to = table_of(generation, is);
	/* No policy is the weakest policy. */
	if (from == to || !from)
		return HANDOVER_STAMP;
	if (!to)
		return HANDOVER_KEEP;
	key.low = from < to ? from : to;
	key.high = from < to ? to : from;
	stricter = from < to ? RVL_ORDER_HIGH : RVL_ORDER_LOW;
	value = bpf_map_lookup_elem(&order, &key);
	if (!value)
		return HANDOVER_REFUSE;
	return *value & stricter ? HANDOVER_STAMP : HANDOVER_KEEP;
}

static __always_inline enum handover handover(const struct rvl_config *cfg, __u16 has, __u16 is)
{
	/* No policy is the weakest policy. */
	if (has == is || !is)
		return HANDOVER_KEEP;
	return has ? (enum handover)take_over(cfg->generation, has, is) : HANDOVER_STAMP;
}

/*
 * The same for a socket with this stamp. One of what must not send goes to whom it could have gone before: it can be a connection
 * that was protected. Who may have it only by keeping its policy must wait until that one is verified.
 */
static __always_inline enum handover handover_of(const struct rvl_config *cfg, const struct rvl_socket *stamp, __u16 is)
{
	__u16 has = stamp ? stamp->app : 0;

	if (has != RVL_APP_REFUSED || is == RVL_APP_REFUSED)
		return handover(cfg, has, is);
	return is && is == stamp->was ? HANDOVER_STAMP : handover(cfg, stamp->was, is);
}

/* Make the stamp that of an application. */
static __always_inline void assign(struct rvl_socket *stamp, __u64 netns, __u16 app)
{
	if (app != RVL_APP_REFUSED)
		stamp->was = 0;
	else if (stamp->app != RVL_APP_REFUSED)
		stamp->was = stamp->app;
	stamp->netns = netns;
	stamp->app = app;
}

#define SOL_SOCKET 1
#define SO_MARK 36
#define SOL_TCP 6
#define TCP_BPF_SOCK_OPS_CB_FLAGS 1008
#define AF_INET 2
#define AF_INET6 10
#define AF_PACKET 17
#define AF_PPPOX 24
#define SOCK_DGRAM 2
#define SOCK_RAW 3

#endif
