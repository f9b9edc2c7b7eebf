/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Limits on what an application sends in clear (docs/design/0020): a leaky bucket as a time (GCRA), for octets and for packets.
 * What is over is dropped where it would leave, or where it would go to the engine only to come back in clear.
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

#endif
