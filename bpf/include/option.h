/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The socket API (include/ravelin.h, docs/socket-api.md; paper 001 section 2.5): a program asks for more on its own
 * socket than policy gives it, and reads what is in force. Here too is the guard of SO_MARK.
 *
 * Where the answer would be "no such option", the hooks leave it to the kernel, whose word for it is ENOPROTOOPT.
 */
#ifndef RVL_OPTION_H
#define RVL_OPTION_H

#define EPERM 1
#define ENOMEM 12
#define EACCES 13
#define EINVAL 22

#define SOL_PACKET 263
#define PACKET_QDISC_BYPASS 20
#define SOL_XDP 283
#define XDP_TX_RING 3
#define AF_XDP 44

/* The kernel handles the call as if there were no hook, with the caller's own bytes: ours are one page at most. */
static __always_inline int not_ours(struct bpf_sockopt *ctx)
{
	ctx->optlen = 0;
	return ALLOW;
}

static __always_inline int fails(int error)
{
	bpf_set_retval(-error);
	return REFUSE;
}

/* The options exist for IP sockets of the guarded namespace, and not for the daemon's own. */
static __always_inline bool has_options(struct bpf_sockopt *ctx, const struct rvl_config *cfg)
{
	struct bpf_sock *sk = ctx->sk;

	return cfg && sk && (sk->family == AF_INET || sk->family == AF_INET6) &&
	       bpf_get_netns_cookie(ctx) == cfg->netns && !current_is_exempt(cfg);
}

/* False: not connected. */
static __always_inline bool connected_to(const struct bpf_sock *sk, struct address *peer)
{
	if (sk->family == AF_INET) {
		mapped(peer, sk->dst_ip4);
		return sk->dst_ip4 != 0;
	}
	peer->words[0] = sk->dst_ip6[0];
	peer->words[1] = sk->dst_ip6[1];
	peer->words[2] = sk->dst_ip6[2];
	peer->words[3] = sk->dst_ip6[3];
	return (peer->halves[0] | peer->halves[1]) != 0;
}

/* What policy says of the connected peer. */
static __always_inline struct decision decide_for(const struct rvl_config *cfg, const struct bpf_sock *sk, __u16 app,
						  const struct address *peer)
{
	__u32 local = sk->src_port ? sk->src_port : PORT_UNBOUND;

	return decide(cfg, app, peer, sk->protocol, has_ports(sk->protocol) ? local : 0,
		      has_ports(sk->protocol) ? bpf_ntohs(sk->dst_port) : 0);
}

/* What a request must not lie below: what was asked before and what policy demands. False: policy refuses the peer. */
static __always_inline bool floor_of(const struct rvl_config *cfg, const struct bpf_sock *sk,
				     const struct rvl_socket *stamp, struct attempt *a, __u32 *floor)
{
	struct address peer;
	struct decision d;

	*floor = 0;
	if (!stamp)
		return true;
	*floor = stamp->required;
	if (!connected_to(sk, &peer))
		return true;
	*(struct address *)a->peer = peer;
	d = decide_for(cfg, sk, stamp->app, &peer);
	if (d.action == ACTION_UNTRUSTED || d.action == ACTION_NO_ITEM)
		return false;
	if (d.action == ACTION_PROTECT && d.level == RVL_MANDATORY)
		*floor |= unnamed(d.services);
	return true;
}

static __always_inline int require(struct bpf_sockopt *ctx, const struct rvl_config *cfg)
{
	struct bpf_sock *sk = ctx->sk;
	struct address peer = {};
	struct attempt a = { .peer = &peer, .hook = RVL_HOOK_REQUIRE };
	struct rvl_socket *stamp;
	__u32 *value = ctx->optval;
	__u32 asked, floor, mark;

	if (!sk || ctx->optlen != sizeof(*value) || (void *)(value + 1) > ctx->optval_end)
		return fails(EINVAL);
	asked = *value;
	if (asked & ~RAVELIN_SUPPORTED)
		return fails(EINVAL);
	if (asked & RAVELIN_ENCRYPTION)
		asked |= RAVELIN_AUTHENTICATION;
	stamp = bpf_sk_storage_get(&sockets, sk, 0, 0);
	/* What was asked before the administrator said no stays. */
	if (cfg->no_requests && asked && !(stamp && stamp->required == asked)) {
		count(RVL_C_SOCKOPT_OFF);
		return fails(EACCES);
	}
	if (!floor_of(cfg, sk, stamp, &a, &floor) || floor & ~asked) {
		a.app = stamp ? stamp->app : 0;
		a.family = sk->family;
		a.protocol = sk->protocol;
		a.port = bpf_ntohs(sk->dst_port);
		refuse(RVL_C_SOCKOPT_WEAKER, &a);
		return REFUSE;
	}
	/* Nothing more than there is: an unstamped socket stays unstamped. */
	if (asked && !(stamp && stamp->required == asked)) {
		if (!stamp)
			stamp = bpf_sk_storage_get(&sockets, sk, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
		if (!stamp) {
			count(RVL_C_STAMP_FAILED);
			return fails(ENOMEM);
		}
		stamp->netns = cfg->netns;
		stamp->required = asked;
		/* For what has no socket any more: TIME_WAIT. */
		mark = mark_with(sk->mark, stamp->app, asked);
		if (bpf_setsockopt(sk, SOL_SOCKET, SO_MARK, &mark, sizeof(mark)))
			count(RVL_C_STAMP_FAILED);
		count(RVL_C_REQUIRED);
	}
	/* Done: the kernel need not see it. */
	ctx->optlen = -1;
	return ALLOW;
}

static __always_inline int guard_mark(struct bpf_sockopt *ctx, const struct rvl_config *cfg)
{
	struct address none = {};
	struct attempt a = { .peer = &none, .hook = RVL_HOOK_SETSOCKOPT };
	struct rvl_socket *stamp = 0;
	__u32 *value = ctx->optval;

	if (!cfg || (void *)(value + 1) > ctx->optval_end)
		return ALLOW;
	if (ctx->sk)
		stamp = bpf_sk_storage_get(&sockets, ctx->sk, 0, 0);
	if (stamp && stamp->netns == cfg->netns) {
		/* The mark it has, or another one around the same stamp (the daemon marks old sockets this way). */
		if ((*value & marks.ours) == mark_with(0, stamp->app, stamp->required))
			return ALLOW;
		a.app = stamp->app;
	} else if (!(ours_in(*value) & RVL_MARK_CLAIM)) {
		return ALLOW;
	}
	if (ctx->sk) {
		a.family = ctx->sk->family;
		a.protocol = ctx->sk->protocol;
	}
	refuse(RVL_C_SETSOCKOPT_MARK, &a);
	return REFUSE;
}

/* Whether frames of a socket with this option leave past every program on the device. */
static __always_inline bool leads_past_devices(int level, int name)
{
	return (level == SOL_PACKET && name == PACKET_QDISC_BYPASS) || (level == SOL_XDP && name == XDP_TX_RING);
}

static __always_inline int guard_bypass(struct bpf_sockopt *ctx, const struct rvl_config *cfg)
{
	struct address none = {};
	struct attempt a = { .peer = &none, .hook = RVL_HOOK_SETSOCKOPT, .family = AF_PACKET };

	if (!cfg || current_is_exempt(cfg))
		return not_ours(ctx);
	a.app = app_of_current(cfg);
	if (!a.app && !cfg->guards)
		return not_ours(ctx);
	if (ctx->level == SOL_XDP)
		a.family = AF_XDP;
	refuse(RVL_C_SETSOCKOPT_BYPASS, &a);
	return REFUSE;
}

SEC("cgroup/setsockopt")
int set_option(struct bpf_sockopt *ctx)
{
	const struct rvl_config *cfg = configuration();

	if (ctx->level == SOL_SOCKET && ctx->optname == SO_MARK)
		return guard_mark(ctx, cfg);
	if (leads_past_devices(ctx->level, ctx->optname))
		return guard_bypass(ctx, cfg);
	if (ctx->level == SOL_RAVELIN && ctx->optname == RAVELIN_REQUIRE && has_options(ctx, cfg))
		return require(ctx, cfg);
	return not_ours(ctx);
}

static __always_inline void state_of(struct ravelin_state *state, const struct rvl_config *cfg, struct bpf_sock *sk,
				     const struct rvl_socket *stamp)
{
	struct address peer;
	struct decision d;

	__builtin_memset(state, 0, sizeof(*state));
	state->version = RAVELIN_STATE_VERSION;
	state->generation = cfg->generation;
	if (!stamp)
		return;
	state->application = stamp->app;
	state->required = stamp->required;
	state->in_force = stamp->in_force;
	state->proven = stamp->proven;
	if (!connected_to(sk, &peer))
		return;
	state->class_ = class_of(cfg, stamp->app, &peer);
	d = decide_for(cfg, sk, stamp->app, &peer);
	if (d.action == ACTION_NO_ITEM)
		state->class_ = RAVELIN_CLASS_UNTRUSTED;
	if (d.action == ACTION_PROTECT) {
		state->demanded = unnamed(d.services);
		state->level = d.level;
	}
}

/*
 * What a program must have that policy does not name: what the `default` block demands for peers that only its widest network
 * holds, for the least address stands for them.
 */
static __always_inline __u32 without_policy(const struct rvl_config *cfg, const struct bpf_sock *sk)
{
	__u32 key = (cfg->generation & 1) * RVL_LISTS + RVL_LIST_ANY;
	struct rvl_list *list = bpf_map_lookup_elem(&lists, &key);
	struct address any = {};
	struct decision d;

	if (!list || !list->app)
		return 0;
	if (sk->family == AF_INET)
		mapped(&any, 0);
	d = decide(cfg, list->app, &any, sk->protocol, has_ports(sk->protocol) ? PORT_UNBOUND : 0, 0);
	return d.action == ACTION_PROTECT && d.level == RVL_MANDATORY ? unnamed(d.services) : 0;
}

static __always_inline void defaults_of(struct ravelin_defaults *defaults, const struct rvl_config *cfg,
					const struct bpf_sock *sk)
{
	__builtin_memset(defaults, 0, sizeof(*defaults));
	defaults->version = RAVELIN_DEFAULTS_VERSION;
	defaults->supported = cfg->no_requests ? 0 : RAVELIN_SUPPORTED;
	defaults->without_policy = without_policy(cfg, sk);
	defaults->active = cfg->generation != 0;
	defaults->generation = cfg->generation;
	defaults->tun = cfg->tun;
	defaults->enc = cfg->enc;
}

/* Runs behind the kernel, which has said ENOPROTOOPT to ours. */
SEC("cgroup/getsockopt")
int get_option(struct bpf_sockopt *ctx)
{
	const struct rvl_config *cfg;
	struct rvl_socket *stamp;
	struct bpf_sock *sk = ctx->sk;
	void *end = ctx->optval_end;
	void *to = ctx->optval;
	__u32 size;

	if (ctx->level != SOL_RAVELIN)
		return not_ours(ctx);
	cfg = configuration();
	if (!cfg || !sk || !has_options(ctx, cfg))
		return not_ours(ctx);
	stamp = bpf_sk_storage_get(&sockets, sk, 0, 0);
	switch (ctx->optname) {
	case RAVELIN_REQUIRE:
		size = sizeof(__u32);
		if (to + sizeof(__u32) > end)
			return fails(EINVAL);
		*(__u32 *)to = stamp ? stamp->required : 0;
		break;
	case RAVELIN_STATE:
		size = sizeof(struct ravelin_state);
		if (to + sizeof(struct ravelin_state) > end)
			return fails(EINVAL);
		state_of(to, cfg, sk, stamp);
		break;
	case RAVELIN_DEFAULTS:
		size = sizeof(struct ravelin_defaults);
		if (to + sizeof(struct ravelin_defaults) > end)
			return fails(EINVAL);
		defaults_of(to, cfg, sk);
		break;
	default:
		return not_ours(ctx);
	}
	ctx->optlen = size;
	ctx->retval = 0;
	return ALLOW;
}

#endif
