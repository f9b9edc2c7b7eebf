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
};

static __always_inline struct rvl_network *network_of(const struct rvl_config *cfg, __u16 app,
						       const struct address *peer)
{
	struct rvl_network_key key;

	/* No network has table 0. */
	key.prefixlen = 160;
	key.table = table_of(cfg->generation, app);
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

static __always_inline struct decision decide(const struct rvl_config *cfg, __u16 app, const struct address *peer,
					      __u8 protocol, __u32 local, __u16 remote)
{
	struct decision out = { ACTION_BYPASS, 0, 0 };
	struct rvl_network *network = network_of(cfg, app, peer);
	struct rvl_protection *protection;
	__u32 key;

	if (!network || network->class == RVL_TRUSTED)
		return out;
	out.action = ACTION_UNTRUSTED;
	if (network->class != RVL_PROTECTED)
		return out;
	out.action = ACTION_NO_ITEM;
	key = network->protection;
	protection = bpf_map_lookup_elem(&protections, &key);
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

/* What is demanded where the socket asked for services of its own: both, and not optionally. What is refused stays so. */
static __always_inline struct decision demand(struct decision d, __u8 required)
{
	if (!required || d.action == ACTION_UNTRUSTED || d.action == ACTION_NO_ITEM)
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
