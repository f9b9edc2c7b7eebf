/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What the policy says: application first, then the longest prefix of the peer, then the first item whose ports
 * match. The same order as sadb::spd::AppPolicy::decide, from the same tables.
 */
#ifndef RVL_VERDICT_H
#define RVL_VERDICT_H

/* What a program on the cgroup answers. */
#define REFUSE 0
#define ALLOW 1

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
	__u8 aggregate; /* the class that the item gives; 0: none */
	__u32 protection;
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

/* Whether policy lets an application's socket, which may ask for services of its own, send to a peer in clear. */
static __always_inline bool may_go_in_clear(const struct rvl_config *cfg, __u16 app, __u8 required,
					    const struct address *peer)
{
	enum class class = class_of(cfg, app, peer);

	return !required && (class == CLASS_NONE || class == CLASS_TRUSTED);
}

/* Port 0 as `local`: not bound yet, any local range may still match. */
#define PORT_UNBOUND 0x10000
#define PORT_LAST 0xffff
/* A raw socket whose packets bring their own headers: any protocol may still match. */
#define PROTOCOL_UNKNOWN 255

/* Both ICMPs are one to policy. */
static __always_inline __u8 canonical(__u8 protocol)
{
	return protocol == IPPROTO_ICMPV6 ? IPPROTO_ICMP : protocol;
}

/* Whether an item speaks of these ports. */
static __always_inline bool speaks_of(const struct rvl_item *item, __u8 protocol, __u32 local, __u16 remote)
{
	if (item->protocol && protocol != PROTOCOL_UNKNOWN && item->protocol != protocol)
		return false;
	if (remote < item->remote_first || remote > item->remote_last)
		return false;
	return local == PORT_UNBOUND || (local >= item->local_first && local <= item->local_last);
}

/*
 * The first item of a protection that speaks of these ports. The verifier walks through a loop of bpf_for two or three times, and through any
 * other as often as it may run, for each program that decides. Most protections have one item, which needs no iterator.
 */
static __always_inline struct decision decide_by(__u32 key, __u8 protocol, __u32 local, __u16 remote)
{
	struct decision out = { .action = ACTION_NO_ITEM };
	struct rvl_protection *protection = bpf_map_lookup_elem(&protections, &key);
	const struct rvl_item *item;
	__u32 i;

	if (!protection || !protection->count)
		return out;
	protocol = canonical(protocol);
	item = &protection->items[0];
	if (speaks_of(item, protocol, local, remote))
		goto found;
	if (protection->count == 1)
		return out;
	bpf_for(i, 1, RVL_ITEMS) {
		/* The compiler must leave this comparison to the verifier. */
		barrier_var(i);
		if (i >= RVL_ITEMS || i >= protection->count)
			return out;
		item = &protection->items[i];
		if (speaks_of(item, protocol, local, remote))
			goto found;
	}
	return out;
found:
	out.action = item->level == RVL_NEVER ? ACTION_NEVER : ACTION_PROTECT;
	out.services = item->services;
	out.level = item->level;
	out.aggregate = item->aggregate;
	return out;
}

/*
 * What is decided in a network of this class; the result is the action, and 8 bits higher each the services, the level and the class. A global
 * function on numbers: the verifier walks through the items once for each program, and not once for every way that leads here.
 */
__noinline int decide_in(__u32 class, __u32 protection, __u32 protocol, __u32 local, __u32 remote)
{
	struct decision d = { .action = ACTION_UNTRUSTED };

	switch (class) {
	case RVL_TRUSTED:
		d.action = ACTION_BYPASS;
		break;
	case RVL_PROTECTED:
		d = decide_by(protection, protocol, local, remote);
		break;
	}
	return d.action | d.services << 8 | d.level << 16 | (d.aggregate & 0x3f) << 24;
}

static __always_inline struct decision decision_in(__u8 class, __u32 protection, __u8 protocol, __u32 local,
						   __u16 remote)
{
	int packed = decide_in(class, protection, protocol, local, remote);
	struct decision d = {
		.action = packed & 0xff,
		.services = packed >> 8 & 0xff,
		.level = packed >> 16 & 0xff,
		.aggregate = packed >> 24 & 0x3f,
	};

	return d;
}

/* What is decided at a peer's network, null where policy speaks of none. */
static __always_inline struct decision decide_at(const struct rvl_network *network, __u8 protocol, __u32 local,
						 __u16 remote)
{
	struct decision out = { .action = ACTION_BYPASS };

	if (!network)
		return out;
	out = decision_in(network->class, network->protection, protocol, local, remote);
	if (network->class == RVL_TRUSTED) {
		out.would = network->would;
		out.protection = network->protection;
	}
	return out;
}

static __always_inline struct decision decide(const struct rvl_config *cfg, __u16 app, const struct address *peer,
					      __u8 protocol, __u32 local, __u16 remote)
{
	return decide_at(network_of(cfg, app, peer), protocol, local, remote);
}

static __always_inline bool is_refusal(const struct decision *d)
{
	return d->action == ACTION_UNTRUSTED || d->action == ACTION_NO_ITEM;
}

/*
 * What is demanded where the socket asked for services of its own: both, and not optionally. What is refused stays so. The name of a suite is
 * the item's: a cipher of one's own is enough for what the socket asked where the item names it.
 */
static __always_inline struct decision demand(struct decision d, __u8 required)
{
	if (!required || is_refusal(&d))
		return d;
	d.action = ACTION_PROTECT;
	d.services |= required;
	d.level = RVL_MANDATORY;
	return d;
}

static __always_inline const struct rvl_live *live_of(const struct address *peer)
{
	struct rvl_peer_key key;

	key.prefixlen = 128;
	__builtin_memcpy(key.addr, peer, 16);
	return bpf_map_lookup_elem(&live_sa, &key);
}

/* Whether an inbound association serves any flow of the peer. */
static __always_inline bool has_live_sa(const struct address *peer)
{
	return live_of(peer) != 0;
}

/* One flow of a socket, as associations see it. */
struct live_flow {
	struct address local;
	struct address peer;
	__u16 app;
	__u16 local_port;
	__u16 remote_port;
	__u8 protocol;
	__u8 zero;
};

static __always_inline bool in_prefix(const struct address *addr, const __u8 *first, __u8 len)
{
	struct address bits;
	__u64 high, low;

	__builtin_memcpy(&bits, first, 16);
	high = bpf_be64_to_cpu(addr->halves[0] ^ bits.halves[0]);
	low = bpf_be64_to_cpu(addr->halves[1] ^ bits.halves[1]);
	if (!len)
		return true;
	if (len <= 64)
		return !(high >> (64 - len));
	return !high && !(low >> (128 - len));
}

/*
 * Whether the selectors of an inbound association cover a flow: sadb::Selectors::covers and serves. Ports leave out protocols that
 * have none. ICMP types that an association names in their place came here as all ports.
 * A global function: the verifier proves it once for each program.
 */
__noinline int live_covers(const struct live_flow *flow)
{
	const struct rvl_live *live;
	bool ports;
	__u32 i;

	if (!flow)
		return 1;
	live = live_of(&flow->peer);
	if (!live)
		return 0;
	ports = has_ports(flow->protocol);
	bpf_for(i, 0, RVL_LIVE_EACH) {
		const struct rvl_live_selector *s;

		/* The verifier does not take the bounds from the iterator. */
		barrier_var(i);
		if (i >= RVL_LIVE_EACH)
			break;
		s = &live->of[i];

		if (i >= live->count)
			return 0;
		if (s->protocol && s->protocol != flow->protocol)
			continue;
		if (s->app && s->app != flow->app)
			continue;
		if (ports && (flow->local_port < s->local_first || flow->local_port > s->local_last ||
			      flow->remote_port < s->remote_first || flow->remote_port > s->remote_last))
			continue;
		if (!ports && (s->local_first || s->remote_first || s->local_last != PORT_LAST || s->remote_last != PORT_LAST))
			continue;
		if (in_prefix(&flow->local, s->local, s->local_len))
			return 1;
	}
	/* All of a full list looked at, or more than fit into one. */
	return live->count > RVL_LIVE_EACH;
}

/* Whether a clear packet must not be taken from the peer: protection is mandatory, or not and working for this flow. */
static __always_inline bool refuses_clear(const struct decision *d, const struct live_flow *flow)
{
	if (d->action == ACTION_BYPASS || d->action == ACTION_NEVER)
		return false;
	return d->action != ACTION_PROTECT || d->level == RVL_MANDATORY || live_covers(flow);
}

static __always_inline void arriving_flow(struct live_flow *flow, __u16 app, const struct headers *h)
{
	*flow = (struct live_flow){ h->destination, h->source, app, h->destination_port, h->source_port, h->protocol, 0 };
}

static __always_inline void leaving_flow(struct live_flow *flow, __u16 app, const struct headers *h)
{
	*flow = (struct live_flow){ h->source, h->destination, app, h->source_port, h->destination_port, h->protocol, 0 };
}

/* Whether an address is one of this host's, as the daemon last told, or one of `lo`. */
static __always_inline bool is_own_address(const struct address *addr)
{
	struct rvl_peer_key key = { .prefixlen = 128 };

	if (!addr->halves[0] && (addr->halves[1] == bpf_cpu_to_be64(1) ||
				 (bpf_be64_to_cpu(addr->halves[1]) & 0xffffffffff000000ull) == 0x0000ffff7f000000ull))
		return true;
	__builtin_memcpy(key.addr, addr, 16);
	return bpf_map_lookup_elem(&locals, &key) != 0;
}

/* The same on lo, for a packet that goes from or to `other`. From an address to the same one is the usual case. */
static __always_inline bool is_local(const struct address *addr, const struct address *other)
{
	return (addr->halves[0] == other->halves[0] && addr->halves[1] == other->halves[1]) || is_own_address(addr);
}

/* Whether the source of a packet on lo is an address of this host. */
static __always_inline bool source_is_local(struct __sk_buff *skb)
{
	struct address ends[2];
	__be32 v4[2];

	if (skb->protocol == bpf_htons(ETH_P_IP)) {
		if (!load(skb, 12, v4, sizeof(v4)))
			return false;
		mapped(&ends[0], v4[0]);
		mapped(&ends[1], v4[1]);
	} else if (!load(skb, 8, ends, sizeof(ends))) {
		return false;
	}
	return is_local(&ends[0], &ends[1]);
}

#endif
