/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What the policy says: application first, then the longest prefix of the peer, then the first item whose ports
 * match. The same order as sadb::spd::AppPolicy::decide, from the same tables.
 */
#ifndef RVL_VERDICT_H
#define RVL_VERDICT_H

enum class {
	CLASS_NONE = 0,
	CLASS_TRUSTED = RVL_TRUSTED,
	CLASS_UNTRUSTED = RVL_UNTRUSTED,
	CLASS_PROTECTED = RVL_PROTECTED,
};

enum action {
	ACTION_BYPASS,
	ACTION_UNTRUSTED,
	ACTION_NO_ITEM,
	ACTION_PROTECT,
	ACTION_NEVER, /* clear by an item: what comes protected is accepted all the same */
};

struct decision {
	enum action action;
	__u8 services;
	__u8 level;
	__u8 would; /* rvl_network.would, and its protection */
	__u16 protection;
};

static __always_inline struct rvl_network *network_of(const struct rvl_config *cfg, __u16 app,
						       const struct address *peer)
{
	struct rvl_network_key key;

	key.prefixlen = 160;
	key.generation = cfg->generation;
	key.app = app;
	__builtin_memcpy(key.addr, peer, 16);
	return bpf_map_lookup_elem(&networks, &key);
}

static __always_inline enum class class_of(const struct rvl_config *cfg, __u16 app, const struct address *peer)
{
	struct rvl_network *network = network_of(cfg, app, peer);

	return network ? (enum class)network->class : CLASS_NONE;
}

/* Port 0 as `local`: not bound yet, any local range may still match. */
#define PORT_UNBOUND 0x10000
/* A raw socket whose packets bring their own headers: any protocol may still match. */
#define PROTOCOL_UNKNOWN 255

/* Both ICMPs are one to policy. */
static __always_inline __u8 canonical(__u8 protocol)
{
	return protocol == IPPROTO_ICMPV6 ? IPPROTO_ICMP : protocol;
}

/* The first item of a protection that speaks of these ports. */
static __always_inline struct decision decide_by(__u32 key, __u8 protocol, __u32 local, __u16 remote)
{
	struct decision out = { .action = ACTION_NO_ITEM };
	struct rvl_protection *protection = bpf_map_lookup_elem(&protections, &key);

	if (!protection)
		return out;
	for (__u32 i = 0; i < RVL_ITEMS; i++) {
		const struct rvl_item *item = &protection->items[i];

		if (i >= protection->count)
			break;
		if (item->protocol && protocol != PROTOCOL_UNKNOWN && item->protocol != canonical(protocol))
			continue;
		if (remote < item->remote_first || remote > item->remote_last)
			continue;
		if (local != PORT_UNBOUND && (local < item->local_first || local > item->local_last))
			continue;
		out.action = item->level == RVL_NEVER ? ACTION_NEVER : ACTION_PROTECT;
		out.services = item->services;
		out.level = item->level;
		break;
	}
	return out;
}

static __always_inline struct decision decide(const struct rvl_config *cfg, __u16 app, const struct address *peer,
					      __u8 protocol, __u32 local, __u16 remote)
{
	struct decision out = { .action = ACTION_BYPASS };
	struct rvl_network *network = network_of(cfg, app, peer);

	if (!network)
		return out;
	if (network->class == RVL_TRUSTED) {
		out.would = network->would;
		out.protection = network->protection;
		return out;
	}
	out.action = ACTION_UNTRUSTED;
	if (network->class != RVL_PROTECTED)
		return out;
	return decide_by(network->protection, protocol, local, remote);
}

/*
 * What would be decided in an observed network: `what` is the class, and the protection 16 bits higher; the result is the action,
 * and 8 bits higher each the services and the level. A global function on numbers: verified once.
 */
__noinline int would_decide(__u32 what, __u32 protocol, __u32 local, __u32 remote)
{
	struct decision d = { .action = ACTION_BYPASS };

	switch (what & 0xff) {
	case RVL_UNTRUSTED:
		d.action = ACTION_UNTRUSTED;
		break;
	case RVL_PROTECTED:
		d = decide_by(what >> 16, protocol, local, remote);
		break;
	}
	return d.action | d.services << 8 | d.level << 16;
}

static __always_inline struct decision would(__u8 class, __u16 protection, __u8 protocol, __u32 local, __u16 remote)
{
	int packed = would_decide(class | (__u32)protection << 16, protocol, local, remote);
	struct decision d = { .action = packed & 0xff, .services = packed >> 8 & 0xff, .level = packed >> 16 & 0xff };

	return d;
}

static __always_inline bool is_refusal(const struct decision *d)
{
	return d->action == ACTION_UNTRUSTED || d->action == ACTION_NO_ITEM;
}

/* What is demanded where the socket asked for services of its own: both, and not optionally. What is refused stays so. */
static __always_inline struct decision demand(struct decision d, __u8 required)
{
	if (!required || is_refusal(&d))
		return d;
	d.action = ACTION_PROTECT;
	d.services |= required;
	d.level = RVL_MANDATORY;
	return d;
}

/* Whether an inbound association serves the peer. */
static __always_inline bool has_live_sa(const struct address *peer)
{
	struct rvl_peer_key key;

	key.prefixlen = 128;
	__builtin_memcpy(key.addr, peer, 16);
	return bpf_map_lookup_elem(&live_sa, &key) != 0;
}

/* Whether a clear packet must not be taken from the peer: protection is mandatory, or not and working. */
static __always_inline bool refuses_clear(const struct decision *d, const struct address *peer)
{
	if (d->action == ACTION_BYPASS || d->action == ACTION_NEVER)
		return false;
	return d->action != ACTION_PROTECT || d->level == RVL_MANDATORY || has_live_sa(peer);
}

#endif
