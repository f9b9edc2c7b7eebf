/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What a call on a socket comes to: a stamp that follows the caller, or a refusal that is counted and told.
 */
#ifndef RVL_STAMP_H
#define RVL_STAMP_H

struct attempt {
	const struct address *peer;
	__u16 app;
	__u16 port;
	__u8 family;
	__u8 protocol;
	__u8 hook;
};

static __always_inline void tell_of_call(enum rvl_counter counter, const struct attempt *a, __u8 observed)
{
	struct rvl_event *event;
	__u64 id = bpf_get_current_pid_tgid();

	event = bpf_ringbuf_reserve(&events, sizeof(*event), 0);
	if (!event) {
		count(RVL_C_EVENTS_LOST);
		return;
	}
	event->pid = id >> 32;
	event->uid = current_user();
	event->app = a->app;
	event->port = a->port;
	event->family = a->family;
	event->protocol = a->protocol;
	event->hook = a->hook | observed;
	event->counter = counter;
	__builtin_memcpy(event->addr, a->peer, 16);
	current_name(event->comm);
	bpf_ringbuf_submit(event, 0);
}

static __always_inline void refuse(enum rvl_counter counter, const struct attempt *a)
{
	bool is_told;

	count(counter);
	is_told = add_refusal(a->app, counter, true);
	if (a->app && (a->hook == RVL_HOOK_CONNECT || a->hook == RVL_HOOK_SENDMSG)) {
		const struct rvl_config *cfg = configuration();

		add_traffic(a->app, RVL_T_OUT_REFUSED, 1, 0);
		if (cfg)
			note_call(cfg, a->app, a->peer, a->port, a->protocol, RVL_T_OUT_REFUSED);
	}
	if (is_told)
		tell_of_call(counter, a, 0);
}

static __always_inline enum rvl_counter reason_of(const struct decision *d, __u8 hook)
{
	if (d->action == ACTION_UNTRUSTED)
		return hook == RVL_HOOK_CONNECT ? RVL_C_CONNECT_UNTRUSTED : RVL_C_SENDMSG_UNTRUSTED;
	return hook == RVL_HOOK_CONNECT ? RVL_C_CONNECT_NO_ITEM : RVL_C_SENDMSG_NO_ITEM;
}

/* A call to a peer in an observed network: told of if it would have been refused, not oftener than of packets. */
static __always_inline void observe_call(const struct decision *d, const struct attempt *a, __u32 local)
{
	struct decision intended = decision_in(d->would, d->protection, a->protocol, local, a->port);
	enum rvl_counter reason;

	if (!is_refusal(&intended))
		return;
	reason = reason_of(&intended, a->hook);
	if (add_reason(a->app, RVL_T_WOULD_REASON + reason, false))
		tell_of_call(reason, a, RVL_HOOK_OBSERVED);
}

/* Make the socket one of this application's. Null: there is no room for a stamp, and the socket must not be used. */
static __always_inline struct rvl_socket *stamp_socket(struct bpf_sock *sk, struct rvl_socket *stamp, __u64 netns,
						       __u16 app)
{
	if (!stamp)
		stamp = bpf_sk_storage_get(&sockets, sk, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!stamp) {
		count(RVL_C_STAMP_FAILED);
		return 0;
	}
	assign(stamp, netns, app);
	return stamp;
}

/* Nobody acts on the mark in another namespace; the guard reads the storage. */
static __always_inline void mark_socket(void *ctx, __u32 old, const struct rvl_config *cfg,
					const struct rvl_socket *stamp)
{
	__u32 mark = mark_with(old, stamp->app, stamp->required);

	if (stamp->netns == cfg->netns && mark != old &&
	    bpf_setsockopt(ctx, SOL_SOCKET, SO_MARK, &mark, sizeof(mark)))
		count(RVL_C_STAMP_FAILED);
}

/*
 * Bring the stamp of a socket up to the calling process. The result is the application that decides from now on,
 * or -1: the policies of the socket's and the caller's application do not compare.
 */
static __always_inline int restamp(void *ctx, struct bpf_sock *sk, const struct rvl_config *cfg, struct attempt *a)
{
	struct rvl_socket *stamp;
	bool unwritten;
	__u16 has, is;

	if (!sk)
		return 0;
	stamp = bpf_sk_storage_get(&sockets, sk, 0, 0);
	unwritten = stays_unclaimed(sk, stamp);
	has = stamp ? stamp->app : 0;
	is = current_is_exempt(cfg) ? 0 : app_of_current(cfg);
	switch (handover_of(cfg, stamp, is)) {
	case HANDOVER_KEEP:
		return has;
	case HANDOVER_REFUSE:
		a->app = is;
		refuse(RVL_C_INCOMPARABLE, a);
		return -1;
	case HANDOVER_STAMP:
		break;
	}
	stamp = stamp_socket(sk, stamp, bpf_get_netns_cookie(ctx), is);
	if (!stamp)
		return -1;
	stamp->unclaimed = unwritten;
	count(RVL_C_RESTAMPED);
	mark_socket(ctx, sk->mark, cfg, stamp);
	return is;
}

#endif
