/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Limits on what an application sends in clear, and on what each source sends to it in clear (docs/design/0020): a leaky bucket as a time
 * (GCRA), for octets and for packets. What is over is dropped where it would leave, or where it would go to the engine only to come back in
 * clear; of what arrives, in front of its socket.
 */
#ifndef RVL_LIMIT_H
#define RVL_LIMIT_H

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, RVL_LIMITS);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct rvl_limit_key);
	__type(value, struct rvl_limit);
} limits SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, RVL_APPS);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, __u32);
	__type(value, struct rvl_spent);
} spent SEC(".maps");

/* How many applications have a limit on what they send in clear, and on what they accept so. */
static __always_inline __u16 limits_on_sent(const struct rvl_config *cfg)
{
	return cfg->limits;
}

static __always_inline __u16 limits_on_accepted(const struct rvl_config *cfg)
{
	return cfg->limits >> RVL_LIMITS_ACCEPT;
}

/* What `amount` takes at `rate` a second, rounded up: the limit is never exceeded by rounding. */
static __always_inline __u64 time_of(__u64 amount, __u64 rate)
{
	return rate ? (amount * SECOND + rate - 1) / rate : 0;
}

/* When the next may be sent at the rate, seen from now. A new rate waits for an old one no longer than its burst lasts. */
static __always_inline __u64 ahead_of(__u64 *until, __u64 *counted, __u64 rate, __u64 most, __u64 now)
{
	if (*counted != rate) {
		*counted = rate;
		if (*until > now + most)
			*until = now + most;
	}
	return *until > now ? *until : now;
}

/*
 * Whether an application may send this in clear, which is then counted. What is larger than the burst passes where all before it is paid for, and
 * what follows waits the longer: a super-packet is never starved.
 * A global function: the verifier proves it once for each program.
 */
__noinline int within_limit(__u32 generation, __u32 app, __u32 packets, __u32 octets)
{
	struct rvl_limit_key key = { .generation = generation, .app = app };
	struct rvl_limit *found = bpf_map_lookup_elem(&limits, &key);
	__u64 now, octets_take, packets_take, octets_from, packets_from;
	struct rvl_limit limit;
	struct rvl_spent *sum;
	int passes = 0;

	if (!found)
		return 1;
	sum = bpf_map_lookup_elem(&spent, &app);
	/* User space makes it before the limit. */
	if (!sum)
		return 0;
	limit = *found;
	octets_take = time_of(octets, limit.octets);
	packets_take = time_of(packets, limit.packets);
	now = bpf_ktime_get_ns();
	bpf_spin_lock(&sum->lock);
	octets_from = ahead_of(&sum->octets, &sum->octets_rate, limit.octets, limit.octets_ahead, now);
	packets_from = ahead_of(&sum->packets, &sum->packets_rate, limit.packets, limit.packets_ahead, now);
	if ((octets_from == now || octets_from + octets_take <= now + limit.octets_ahead) &&
	    (packets_from == now || packets_from + packets_take <= now + limit.packets_ahead)) {
		passes = 1;
		sum->octets = octets_from + octets_take;
		sum->packets = packets_from + packets_take;
	}
	bpf_spin_unlock(&sum->lock);
	return passes;
}

/* The same for each source of what an application accepts in clear; user space makes all sets of an application before its limit. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 2 * RVL_ACCEPTS);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct rvl_limit_key);
	__type(value, struct rvl_limit);
} accepts SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 2 * RVL_ACCEPTS * (RVL_SOURCE_SETS + 1));
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct rvl_source_key);
	__type(value, struct rvl_sources);
} sources SEC(".maps");

/* A source that was heard within this time keeps its place, however many others come. */
#define SOURCE_KEPT (10 * SECOND)

/* The finaliser of MurmurHash3. */
static __always_inline __u64 mixed(__u64 hash)
{
	hash = (hash ^ hash >> 33) * 0xff51afd7ed558ccdull;
	hash = (hash ^ hash >> 33) * 0xc4ceb9fe1a85ec53ull;
	return hash ^ hash >> 33;
}

/* Not to be told from outside without the seed. */
static __always_inline __u32 set_of_source(__u64 seed, __u64 high, __u64 low)
{
	return mixed(mixed(seed ^ high) ^ low) % RVL_SOURCE_SETS;
}

/* Whether a source may send so much now, which is then counted. Under the lock of its set. */
static __always_inline int spend(struct rvl_source *source, const struct rvl_limit *limit, __u64 octets, __u64 packets, __u64 now)
{
	__u64 octets_from = ahead_of(&source->octets, &source->octets_rate, limit->octets, limit->octets_ahead, now);
	__u64 packets_from = ahead_of(&source->packets, &source->packets_rate, limit->packets, limit->packets_ahead, now);

	source->last = now;
	if ((octets_from != now && octets_from + octets > now + limit->octets_ahead) ||
	    (packets_from != now && packets_from + packets > now + limit->packets_ahead))
		return 0;
	source->octets = octets_from + octets;
	source->packets = packets_from + packets;
	return 1;
}

/*
 * Whether an application may accept this from its source in clear, which is then counted. A source has a place of its own as long as it is
 * heard, and loses it to none that comes later; those that find no place have one together. So an application hears from all sources, forged
 * ones too, at most as much as RVL_SOURCE_SETS * RVL_SOURCE_EACH + 1 of them may send.
 * A global function: the verifier proves it once for each program.
 */
__noinline int source_within_limit(__u32 generation, __u32 app, __u32 packets, __u32 octets, const struct address *source)
{
	struct rvl_limit_key key = { .generation = generation, .app = app };
	struct rvl_source_key place = { .app = app, .set = RVL_SOURCE_SETS };
	struct rvl_limit *found = bpf_map_lookup_elem(&accepts, &key);
	__u64 now, high, low, octets_take, packets_take;
	struct rvl_sources *rest, *set;
	__u32 own = RVL_SOURCE_EACH, empty = RVL_SOURCE_EACH;
	struct rvl_limit limit;
	int passes = 0;

	if (!found)
		return 1;
	rest = bpf_map_lookup_elem(&sources, &place);
	if (!rest || !source)
		return 0;
	high = source->halves[0];
	/* Who has an IPv6 address has its whole /64. */
	low = high || source->words[2] != bpf_htonl(0xffff) ? 0 : source->halves[1];
	place.set = set_of_source(rest->seed, high, low);
	set = bpf_map_lookup_elem(&sources, &place);
	if (!set)
		return 0;
	limit = *found;
	octets_take = time_of(octets, limit.octets);
	packets_take = time_of(packets, limit.packets);
	now = bpf_ktime_get_ns();
	bpf_spin_lock(&set->lock);
	for (__u32 i = 0; i < RVL_SOURCE_EACH; i++) {
		const struct rvl_source *at = &set->of[i];

		if (at->last && at->high == high && at->low == low)
			own = i;
		/* What it sent must be paid for, or it would be a new one with all of its burst. */
		else if (!at->last || (at->last + SOURCE_KEPT <= now && at->octets <= now && at->packets <= now))
			empty = i;
	}
	if (own == RVL_SOURCE_EACH && empty < RVL_SOURCE_EACH) {
		own = empty;
		set->of[own].high = high;
		set->of[own].low = low;
		set->of[own].octets = 0;
		set->of[own].packets = 0;
	}
	if (own < RVL_SOURCE_EACH)
		passes = spend(&set->of[own], &limit, octets_take, packets_take, now);
	bpf_spin_unlock(&set->lock);
	if (own < RVL_SOURCE_EACH)
		return passes;
	bpf_spin_lock(&rest->lock);
	passes = spend(&rest->of[0], &limit, octets_take, packets_take, now);
	bpf_spin_unlock(&rest->lock);
	return passes;
}

#endif
