/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What each application's packets came to, counted where they pass and by nobody else: what leaves an uplink in clear at the
 * uplink, not where somebody decided that it should. docs/design/0013 says what each kind proves.
 */
#ifndef RVL_TRAFFIC_H
#define RVL_TRAFFIC_H

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_HASH);
	__uint(max_entries, RVL_TRAFFIC);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct rvl_traffic_key);
	__type(value, struct rvl_traffic);
} traffic SEC(".maps");

/*
 * A flood must not drown what others are told. Of one application and reason, a packet is told of every 100 ms; a call, which names
 * its process, every 31 ms, and 32 of them at once where there were none before.
 */
#define RVL_PACKET_EVERY 100000000ull

static __always_inline struct rvl_traffic *traffic_of(__u16 app, __u16 kind)
{
	struct rvl_traffic_key key = { .app = app, .kind = kind };
	struct rvl_traffic none = {};
	struct rvl_traffic *sum = bpf_map_lookup_elem(&traffic, &key);

	if (!sum) {
		bpf_map_update_elem(&traffic, &key, &none, BPF_NOEXIST);
		sum = bpf_map_lookup_elem(&traffic, &key);
	}
	if (!sum)
		count(RVL_C_TRAFFIC_LOST);
	return sum;
}

/* A packet in the middle of this may be interrupted by another one on the same processor. */
static __noinline void add_traffic(__u16 app, __u16 kind, __u64 packets, __u64 octets)
{
	struct rvl_traffic *sum = traffic_of(app, kind);

	if (!sum)
		return;
	__sync_fetch_and_add(&sum->packets, packets);
	__sync_fetch_and_add(&sum->octets, octets);
}

/* Count a refusal for its application and reason; whether it is time to tell of one. `octets` is when all told so far are paid for. */
static __noinline bool add_reason(__u16 app, __u16 reason, bool is_call)
{
	struct rvl_traffic *sum = traffic_of(app, reason);
	__u64 every = is_call ? RVL_CALL_EVERY : RVL_PACKET_EVERY, ahead = is_call ? RVL_CALLS_AT_ONCE - 1 : 0;
	__u64 now = bpf_ktime_get_ns(), paid;

	if (!sum)
		return false;
	__sync_fetch_and_add(&sum->packets, 1);
	paid = sum->octets > now ? sum->octets : now;
	if (paid - now > ahead * every) {
		count(RVL_C_EVENTS_LEFT_OUT);
		return false;
	}
	sum->octets = paid + every;
	return true;
}

static __always_inline bool add_refusal(__u16 app, __u32 counter, bool is_call)
{
	return add_reason(app, RVL_T_REASON + counter, is_call);
}

/* A packet was refused. What cannot be told is counted all the same. */
static __noinline void refuse_packet(struct __sk_buff *skb, __u16 app, __u32 counter, __u8 hook)
{
	struct rvl_event *event;
	struct headers h;

	count(counter);
	if (!add_refusal(app, counter, false))
		return;
	if (!parse(skb, 0, &h))
		__builtin_memset(&h, 0, sizeof(h));
	event = bpf_ringbuf_reserve(&events, sizeof(*event), 0);
	if (!event) {
		count(RVL_C_EVENTS_LOST);
		return;
	}
	__builtin_memset(event, 0, sizeof(*event));
	event->app = app;
	event->port = hook == RVL_HOOK_IN ? h.source_port : h.destination_port;
	event->family = h.version == 6 ? AF_INET6 : AF_INET;
	event->protocol = h.protocol;
	event->hook = hook;
	event->counter = counter;
	__builtin_memcpy(event->addr, hook == RVL_HOOK_IN ? &h.source : &h.destination, 16);
	bpf_ringbuf_submit(event, 0);
}

static __always_inline __u32 pieces_of(const struct __sk_buff *skb)
{
	return skb->gso_segs > 1 ? skb->gso_segs : 1;
}

/* Octets of the IP packets that a packet of a cgroup hook is on the wire: a super-packet has its headers once. */
static __always_inline __u32 octets_of_packet(struct __sk_buff *skb, const struct headers *h)
{
	__u32 pieces = pieces_of(skb), octets = skb->len;
	__u8 offset;

	if (pieces > 1 && h) {
		__u32 header = h->transport + 8;

		if (h->protocol == IPPROTO_TCP && load(skb, h->transport + 12, &offset, 1))
			header = h->transport + (offset >> 4) * 4;
		octets += (pieces - 1) * header;
	}
	return octets;
}

/* The same at the egress of a device, where the link's header is in front and the kernel knows the length of all pieces. */
static __noinline __u32 octets_of_frame(struct __sk_buff *skb, const struct headers *h)
{
	__u32 whole = 0, link = 14;
	__be16 length;
	__u8 first;

	if (h)
		whole = h->length;
	else if (load(skb, 0, &first, 1)) {
		if (first >> 4 == 4 && load(skb, 2, &length, 2))
			whole = bpf_ntohs(length);
		else if (first >> 4 == 6 && load(skb, 4, &length, 2) && length)
			whole = bpf_ntohs(length) + sizeof(struct ipv6_header);
	}
	/* No length: longer than the field can say. */
	if (whole && whole <= skb->len)
		link = skb->len - whole;
	return skb->wire_len - pieces_of(skb) * link;
}

/* Count a packet for its application and its flow. Its headers are null where they cannot be read. */
static __noinline void add_amount(struct __sk_buff *skb, __u16 app, __u16 kind, __u32 octets, const struct headers *h)
{
	__u32 pieces = pieces_of(skb);

	add_traffic(app, kind, pieces, octets);
	count_flow(skb, app, kind, pieces, octets, h);
}

static __always_inline void add_packet(struct __sk_buff *skb, __u16 app, __u16 kind, const struct headers *h)
{
	add_amount(skb, app, kind, octets_of_packet(skb, h), h);
}

static __always_inline void add_frames(struct __sk_buff *skb, __u16 app, __u16 kind, const struct headers *h)
{
	add_amount(skb, app, kind, octets_of_frame(skb, h), h);
}

/* The same where nobody has read the headers yet: of a device's frame, or of a packet in a cgroup hook. */
static __noinline void add_unread(struct __sk_buff *skb, __u16 app, __u16 kind, bool frame)
{
	const struct headers *known = 0;
	struct headers h;

	if (parse(skb, 0, &h))
		known = &h;
	add_amount(skb, app, kind, frame ? octets_of_frame(skb, known) : octets_of_packet(skb, known), known);
}

/* Whether what is about to leave in clear at a device is within the application's limits. */
static __always_inline bool frames_within_limit(struct __sk_buff *skb, const struct rvl_config *cfg, __u16 app,
						const struct headers *h)
{
	return !limits_on_sent(cfg) || within_limit(cfg->generation, app, pieces_of(skb), octets_of_frame(skb, h));
}

/* The same in a cgroup hook. */
static __always_inline bool packet_within_limit(struct __sk_buff *skb, const struct rvl_config *cfg, __u16 app,
						const struct headers *h)
{
	return !limits_on_sent(cfg) || within_limit(cfg->generation, app, pieces_of(skb), octets_of_packet(skb, h));
}

/*
 * What a packet that arrived for an application's socket was; `counted`: what its services count as, if it had proof. Between two sockets of
 * this host nothing is on a wire.
 */
static __always_inline void add_arrival(struct __sk_buff *skb, __u16 app, bool accepted, bool proven, __u8 counted,
					const struct headers *h)
{
	__u16 kind = RVL_T_IN_REFUSED;

	if (accepted && proven)
		kind = counted == RVL_SERVICE_ALL ? RVL_T_IN_ENCRYPTED : RVL_T_IN_AUTHENTICATED;
	else if (accepted && skb->ifindex == 1)
		return;
	else if (accepted)
		kind = RVL_T_IN_CLEAR;
	add_packet(skb, app, kind, h);
}

/* Beside a kind: as far as the kernel half knows, the data path will give it back in clear. */
#define ASKED_CLEAR 0x100
/* A packet of an observed network leaves, in clear; by a device that nobody guards nothing else could have left. */
static __noinline void add_would(struct __sk_buff *skb, __u16 app, const struct rvl_network *network, const struct headers *h,
				 bool guarded)
{
	struct decision d;
	__u16 kind;

	if (!network)
		return;
	d = decision_in(network->would, network->protection, h->protocol, h->source_port, h->destination_port);
	if (h->later_fragment && network->would == RVL_PROTECTED) {
		/* The ports are not known: the least that would be asked for. */
		d.action = ACTION_PROTECT;
		d.services = RVL_SERVICE_AUTHENTICATED;
	}
	if (is_refusal(&d) || (!guarded && network->would == RVL_PROTECTED))
		kind = RVL_T_OUT_WOULD_REFUSE;
	else if (d.action == ACTION_PROTECT)
		kind = demands_encryption(d.services) ? RVL_T_OUT_WOULD_ENCRYPT : RVL_T_OUT_WOULD_AUTHENTICATE;
	else
		return;
	add_amount(skb, app, kind, guarded ? octets_of_frame(skb, h) : octets_of_packet(skb, h), h);
}

/* What was asked for the first fragment of a datagram, which has its ports. The host sends it before the others. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, RVL_ASKED);
	__type(key, struct rvl_asked_key);
	__type(value, __u32);
} asked SEC(".maps");

static __always_inline void asked_key(struct rvl_asked_key *key, __u16 app, const struct headers *h)
{
	__builtin_memset(key, 0, sizeof(*key));
	__builtin_memcpy(key->source, &h->source, 16);
	__builtin_memcpy(key->destination, &h->destination, 16);
	key->id = h->id;
	key->app = app;
	key->protocol = h->protocol;
}

/* The kind for a fragment: that of the first one. Of a later one whose first is not known, the least that is claimed. */
static __noinline __u16 asked_of_fragment(__u16 app, __u16 kind, const struct headers *h)
{
	struct rvl_asked_key key;
	__u32 value = kind, *first;

	if (!h)
		return kind;
	asked_key(&key, app, h);
	if (!h->later_fragment) {
		bpf_map_update_elem(&asked, &key, &value, BPF_ANY);
		return kind;
	}
	first = bpf_map_lookup_elem(&asked, &key);
	return first ? *first : RVL_T_OUT_AUTHENTICATED;
}

/*
 * What the data path is asked to make of a packet to this network of the application's. A later fragment has no ports:
 * asked_of_fragment knows what was asked for the first one.
 */
static __always_inline __u16 asked_of_ports(const struct rvl_config *cfg, const struct rvl_network *network, __u16 app,
					    __u8 required, const struct headers *h)
{
	struct live_flow flow;
	struct decision d;
	__u16 kind;

	d = demand(decide_at(network, h->protocol, h->source_port, h->destination_port), required);
	switch (d.action) {
	case ACTION_PROTECT:
		kind = demands_encryption(d.services) ? RVL_T_OUT_ENCRYPTED : RVL_T_OUT_AUTHENTICATED;
		if (!limits_on_sent(cfg) || d.level == RVL_MANDATORY)
			return kind;
		leaving_flow(&flow, app, h);
		return live_covers(&flow) ? kind : kind | ASKED_CLEAR;
	case ACTION_NO_ITEM:
	case ACTION_UNTRUSTED:
		return RVL_T_OUT_REFUSED;
	case ACTION_NEVER:
		/* It comes back and is counted when it leaves. */
		return RVL_T_KINDS | ASKED_CLEAR;
	default:
		return RVL_T_KINDS;
	}
}

static __noinline __u16 asked_of(const struct rvl_config *cfg, const struct rvl_network *network, __u16 app, __u8 required,
				 const struct headers *h)
{
	__u16 kind;

	if (h->later_fragment)
		return asked_of_fragment(app, 0, h);
	kind = asked_of_ports(cfg, network, app, required, h);
	return h->fragment ? asked_of_fragment(app, kind, h) : kind;
}

#endif
