/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The maps, all pinned by user space under /sys/fs/bpf/ravelin/INSTANCE, and the counters. */
#ifndef RVL_MAPS_H
#define RVL_MAPS_H

#include "socket_maps.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct rvl_config);
} config SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, RVL_EXECUTABLES);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct rvl_identity);
	__type(value, struct rvl_executable);
} executables SEC(".maps");

/* Where executables are that policy names, whether or not there is one: file name in a directory -> list. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, RVL_PLACES);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct rvl_place);
	__type(value, __u32);
} places SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 2 * RVL_LISTS);
	__type(key, __u32);
	__type(value, struct rvl_list);
} lists SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 2 * RVL_CHOICES);
	__type(key, __u32);
	__type(value, struct rvl_choice);
} choices SEC(".maps");

/* Which image a bit of rvl_task.ancestors stands for, by the hash of what policy calls it; if it is in rvl_config.ancestors. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, RVL_ANCESTORS);
	__type(key, __u32);
	__type(value, __u64);
} ancestors SEC(".maps");

/* Control groups that policy names. Slot 0 is not used. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, RVL_GROUPS);
	__type(key, __u32);
	__type(value, struct rvl_group);
} groups SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, RVL_GROUPS);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct rvl_group_path);
	__type(value, __u32);
} group_paths SEC(".maps");

/* The table of each application, for even and odd generations. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 2 * RVL_APP_NUMBERS);
	__type(key, __u32);
	__type(value, __u32);
} applications SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(max_entries, RVL_NETWORKS);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct rvl_network_key);
	__type(value, struct rvl_network);
} networks SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, RVL_PROTECTIONS);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, __u32);
	__type(value, struct rvl_protection);
} protections SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, RVL_ORDERS);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct rvl_order_key);
	__type(value, __u8);
} order SEC(".maps");

/* What inbound associations serve, by peer; an entry has the selectors of the shorter prefixes around it too. */
struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(max_entries, RVL_LIVE_SAS);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct rvl_peer_key);
	__type(value, struct rvl_live);
} live_sa SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct rvl_split);
} split SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, RVL_SPLIT_APPS);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, __u32);
	__type(value, struct rvl_app_classes);
} split_apps SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, RVL_RESERVED_FLOWS);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct rvl_reserved_key);
	__type(value, struct rvl_reserved);
} reserved_flows SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct rvl_shapes);
} reserved_shapes SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, RVL_TUN_QUEUES);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, struct rvl_kernel_queue);
} tun_queues SEC(".maps");

/* The daemon's UDP sockets by queue; those of IPv6 behind those of IPv4. User space reads their cookies. */
struct {
	__uint(type, BPF_MAP_TYPE_REUSEPORT_SOCKARRAY);
	__uint(max_entries, 2 * RVL_SOCKET_QUEUES);
	__type(key, __u32);
	__type(value, __u64);
} udp_sockets SEC(".maps");

/* The queue that a socket belongs to, by its cookie. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, RVL_SOCKETS_OF_QUEUES);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, __u64);
	__type(value, __u32);
} socket_places SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, RVL_UPLINKS);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, __u32);
	__type(value, __u32);
} uplinks SEC(".maps");

/* Interfaces of the networks behind a gateway. Key 0 is there as long as this host is one. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, RVL_INSIDES);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, __u32);
	__type(value, __u32);
} insides SEC(".maps");

/* Peers of forwarded packets whose addresses alone say that a rule of the SPD bypasses them (RVL_BYPASS_*). */
struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(max_entries, RVL_SPANS);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct rvl_peer_key);
	__type(value, __u32);
} spans SEC(".maps");

/* Addresses of this host beside 127.0.0.0/8 and ::1: what may be the source of a packet on lo. */
struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(max_entries, RVL_LOCALS);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct rvl_peer_key);
	__type(value, __u32);
} locals SEC(".maps");

/* Users whose packets the rules of the SPD decide about, where no application's policy does. */
struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(max_entries, RVL_USERS);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct rvl_user_key);
	__type(value, __u32);
} users SEC(".maps");

/* The user of a connection by its cookie, for TIME_WAIT, which has no owner any more. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, RVL_OWNERS);
	__type(key, __u64);
	__type(value, __u32);
} owners SEC(".maps");

/* Who stands behind the user of a socket, where that is another one (user_behind). */
struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC | BPF_F_CLONE);
	__type(key, int);
	__type(value, __u32);
} behind SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, RVL_LISTENERS);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct rvl_listener_key);
	__type(value, __u32);
} listeners SEC(".maps");

/*
 * Listeners of SCTP by the address that an association is asked for at (sctp.h); application 0: nobody's. An entry that is pushed out closes,
 * and opens nothing.
 */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, RVL_ENDPOINTS);
	__type(key, struct rvl_endpoint_key);
	__type(value, struct rvl_endpoint);
} sctp_listeners SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, RVL_APPS);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, __u32);
	__type(value, struct rvl_name);
} names SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, RVL_EVENTS_SIZE);
} events SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct rvl_task);
} tasks SEC(".maps");

/*
 * The same by the address of the task, where programs on cgroups and devices do not reach a task's storage (Linux 6.12 has it not, 6.18 has).
 * task_gone takes an entry out before the address can be another task's.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, RVL_RECORDS);
	__type(key, __u64);
	__type(value, struct rvl_task);
} records SEC(".maps");

/* Since when each process that is made gets a record (task_fork), nanoseconds since the boot; 0: none has been made yet. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} records_since SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC | BPF_F_CLONE);
	__type(key, int);
	__type(value, struct rvl_socket);
} sockets SEC(".maps");

/* What is known of connections without a stamp; what has none of these is whose it is. */
#define NOTE_UNCLAIMED 0 /* no process has sent on it, or none is known that holds it: the first that sends decides; of SCTP: its listener is nobody's */
#define NOTE_SUSPECT 1 /* adoption has not met it in any table of descriptors yet */
#define NOTE_SEEN 2 /* it has */
#define NOTE_DECIDED 3 /* of an MPTCP connection, or of SCTP: whose it is, and its subflows, is what its own stamp says, no stamp being nobody's */
/* What else is not claimed yet (writer.h). */
#define NOTE_WRITTEN 4 /* and the writer's application in the upper half */
#define NOTE_HELD 5 /* what nobody is known to have written was refused: who only sends it on does not decide */
#define NOTE_CONFLICT 6 /* two have written of whom neither's policy is stricter */
#define NOTE_KIND 0xff
#define NOTE_WRITER 16

/* Connections that came to a listener without a stamp and that no process has sent on yet. Where there is a stamp, it says so. */
struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, __u32);
} unclaimed SEC(".maps");

_Static_assert(RVL_COUNTER_COUNT <= RVL_COUNTER_SLOTS, "an event has one octet for the number of a counter");

/* Of calls, one is told of in so many nanoseconds, and so many at once where there were none before (traffic.h). */
#define RVL_CALL_EVERY 31250000ull
#define RVL_CALLS_AT_ONCE 32

/* The configuration; an array slot is always there, but the verifier wants the check. */
static __always_inline struct rvl_config *configuration(void)
{
	__u32 key = 0;

	return bpf_map_lookup_elem(&config, &key);
}

/* The table of an application under a generation; 0: none, as if it had no policy. */
static __always_inline __u32 table_of(__u32 generation, __u16 app)
{
	__u32 key = (generation & 1) * RVL_APP_NUMBERS + app;
	__u32 *table = bpf_map_lookup_elem(&applications, &key);

	return table ? *table : 0;
}

#endif
