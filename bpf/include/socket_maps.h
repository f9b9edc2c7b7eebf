/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Maps about outer packets that arrive, which the programs of frames.bpf.c share with those of sockmon.bpf.c. */
#ifndef RVL_SOCKET_MAPS_H
#define RVL_SOCKET_MAPS_H

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct rvl_split);
} socket_split SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, RVL_SOCKET_QUEUES);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, struct rvl_kernel_queue);
} socket_queues SEC(".maps");

/* The classes of inbound associations; 0: the outer header says it. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, RVL_LIVE_SAS);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct rvl_sa_name);
	__type(value, __u32);
} sa_classes SEC(".maps");

/* The UDP port of ESP in network order, where outer packets come as frames. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} frame_port SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, RVL_COUNTER_SLOTS); /* room for more counters under one ABI */
	__type(key, __u32);
	__type(value, __u64);
} counters SEC(".maps");

static __always_inline void count(enum rvl_counter counter)
{
	__u32 key = counter;
	__u64 *value = bpf_map_lookup_elem(&counters, &key);

	if (value)
		(*value)++;
}

#endif
