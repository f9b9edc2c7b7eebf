/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The one contract between the BPF programs and user space (crates/sockmon/src/abi.rs mirrors it; a test compares
 * the two through the object's BTF). docs/design/0002 says what the fields mean.
 *
 * Change anything here that a pinned map of an older daemon would show, and raise RVL_ABI.
 */
#ifndef RVL_ABI_H
#define RVL_ABI_H

#define RVL_ABI 7

/*
 * The mark. Outbound: application, STAMPED, and in the bits of the services what the socket asked for beyond policy
 * (socket mark). Inbound: application and the proof (skb mark).
 */
#define RVL_MARK_APP 0x0000ffffu
#define RVL_MARK_STAMPED 0x00010000u
#define RVL_MARK_AUTHENTICATED 0x01000000u
#define RVL_MARK_ENCRYPTED 0x02000000u
#define RVL_MARK_PROOF 0x80000000u
/*
 * Not of a socket: a packet on its way through a gateway, to the engine only. Believed where the packet has an ingress
 * interface, which none of a socket has.
 */
#define RVL_MARK_FORWARDED 0x00020000u
#define RVL_MARK_ARRIVED 0x00040000u /* beside FORWARDED: it came in clear from outside */
/* In a record only, beside STAMPED: the lower half of the cookie is the user that owns the socket, the upper its cookie's lower half. */
#define RVL_MARK_USER 0x00080000u
#define RVL_MARK_SERVICES 24 /* AUTHENTICATED and ENCRYPTED, as a shift for the bits of rvl_item.services */
#define RVL_MARK_PROVEN (RVL_MARK_AUTHENTICATED | RVL_MARK_ENCRYPTED | RVL_MARK_PROOF)
#define RVL_MARK_OURS (RVL_MARK_APP | RVL_MARK_STAMPED | RVL_MARK_PROVEN)
/* A mark is ours only if one of these is set: other users of marks keep the low bits for themselves. */
#define RVL_MARK_CLAIM (RVL_MARK_STAMPED | RVL_MARK_PROOF)

/* In `applications`: what nobody's policy decides about. No application has this number. */
#define RVL_APP_GUARD 0xfffe

/* Where the fields lie in marks of sockets and packets (mark.h). */
struct rvl_layout {
	__u32 ours; /* RVL_MARK_OURS */
	__u8 standard; /* as RVL_MARK_*: the rest is not looked at */
	__u8 app_shift;
	__u8 app_bits;
	__u8 flags[6]; /* bit numbers, in the order of RVL_MARK_FLAGS */
	__u8 zero[3];
};

#define RVL_ITEMS 32
/* What policies have in common is there once, and during a load what is new beside what goes: docs/design/0019. */
#define RVL_PROTECTIONS 32768
#define RVL_NETWORKS 2097152
#define RVL_APP_NUMBERS 65536 /* in `applications`, of each generation */
#define RVL_APPS 16384
#define RVL_EXECUTABLES 32768
#define RVL_PLACES 32768
#define RVL_LISTS 32768 /* of each generation; those of even and odd ones have a half each */
#define RVL_CHOICES 65536 /* of each generation */
#define RVL_LIST_CHOICES 32
#define RVL_ANCESTORS 64
#define RVL_GROUPS 256
#define RVL_GROUP_PATH 256
#define RVL_PLACE_NAME 64
#define RVL_ORDERS 131072
#define RVL_LIVE_SAS 131072 /* as many as there are inbound associations */
#define RVL_LIVE_EACH 7 /* so that a node of the table takes 256 octets */
#define RVL_LIVE_ALL 255
#define RVL_UPLINKS 256
#define RVL_INSIDES 256
#define RVL_SPANS 131072
#define RVL_LOCALS 65536
#define RVL_LISTENERS 4096
#define RVL_USERS 65536
#define RVL_ENDPOINTS 8192
#define RVL_OWNERS 8192
#define RVL_NAME 128
#define RVL_RECORDS 262144 /* processes without storage of their own */
#define RVL_EVENTS_SIZE (256 * 1024)
#define RVL_SOCKET_EVENTS_SIZE (512 * 1024)
#define RVL_ANNOUNCED 8192
#define RVL_TRAFFIC 131072
#define RVL_LIMITS 32768 /* of two generations */
/* Limits on what each source sends in clear: applications, sets of sources of each and sources in a set. One set more holds the rest. */
#define RVL_ACCEPTS 1024
#define RVL_SOURCE_SETS 64
#define RVL_SOURCE_EACH 8
#define RVL_FLOWS 65536
#define RVL_ASKED 1024 /* datagrams that leave in fragments, at once */

/* Lists that no executable has: of programs that policy does not name, of executables without a name, of what must not send. */
#define RVL_LIST_ANY 0
#define RVL_LIST_ANONYMOUS 1
#define RVL_LIST_REFUSED 2
#define RVL_LIST_FIRST 3

/* The application of RVL_LIST_REFUSED: every peer is untrusted. */
#define RVL_APP_REFUSED 65535
#define RVL_QUESTIONS 4096
#define RVL_ANSWERS_SIZE (512 * 1024)
#define RVL_ANSWER 1232 /* octets of a DNS message that are looked at: what RFC 9715 has servers send at most */

/* rvl_network.class */
#define RVL_TRUSTED 1
#define RVL_UNTRUSTED 2
#define RVL_PROTECTED 3

/* value of `spans`: forwarded packets with a peer of the prefix need no look by the engine */
#define RVL_BYPASS_OUT 1
#define RVL_BYPASS_IN 2

/* rvl_item.level */
#define RVL_MANDATORY 1
#define RVL_OPTIONAL 2
#define RVL_ACCEPT_ONLY 3
#define RVL_NEVER 4 /* clear, without services */

/* value of `order` for two tables, bits: which are at least as strict as the other */
#define RVL_ORDER_HIGH 1 /* that with the higher number */
#define RVL_ORDER_LOW 2
/* value of `order` for two applications, whatever their tables */
#define RVL_ORDER_REFUSE 0
#define RVL_ORDER_TO 1   /* re-stamp */
#define RVL_ORDER_FROM 2 /* keep */
/* in rvl_order_key.low: applications of a generation, not tables */
#define RVL_ORDER_APPS 0x80000000u
#define RVL_ORDER_GENERATION 16 /* where the generation is then */
/* Numbers of tables: 0 is that of nobody's policy, no network. */
#define RVL_TABLE_LAST 0x7fffffffu

/* Bits of rvl_item.services */
#define RVL_SERVICE_AUTHENTICATED 1
#define RVL_SERVICE_ENCRYPTED 2

/*
 * rvl_traffic_key.kind. Out: left in clear; was handed to the data path to be authenticated or encrypted; was refused; came back from
 * the data path and left in clear after all (not among CLEAR). In: as it arrived.
 */
#define RVL_T_OUT_CLEAR 0
#define RVL_T_OUT_AUTHENTICATED 1
#define RVL_T_OUT_ENCRYPTED 2
#define RVL_T_OUT_REFUSED 3
#define RVL_T_OUT_RETURNED 4
#define RVL_T_IN_CLEAR 5
#define RVL_T_IN_AUTHENTICATED 6
#define RVL_T_IN_ENCRYPTED 7
#define RVL_T_IN_REFUSED 8
/* In an observed network, beside CLEAR: what would have become of it. */
#define RVL_T_OUT_WOULD_REFUSE 9
#define RVL_T_OUT_WOULD_AUTHENTICATE 10
#define RVL_T_OUT_WOULD_ENCRYPT 11
#define RVL_T_IN_WOULD_REFUSE 12
#define RVL_T_KINDS 13
/* And so many were refused for each reason: this and the counter's number. `octets` is then until when what was told of counts, nanoseconds. */
#define RVL_T_REASON 256
/* The same of calls that would have been refused in an observed network. */
#define RVL_T_WOULD_REASON 512

/* rvl_config.limits: where the count of applications with a limit on what they accept begins */
#define RVL_LIMITS_ACCEPT 16

/* rvl_config.flows: of applications; of programs without policy too */
#define RVL_FLOWS_APPS 1
#define RVL_FLOWS_ALL 2

/* rvl_flow.begun and rvl_flow.ended */
#define RVL_FLOW_OUT 1
#define RVL_FLOW_IN 2
#define RVL_FLOW_RESET 4

/* rvl_event.hook */
#define RVL_HOOK_CONNECT 1
#define RVL_HOOK_SENDMSG 2
#define RVL_HOOK_BIND 3
#define RVL_HOOK_LISTEN 4
#define RVL_HOOK_SETSOCKOPT 5
#define RVL_HOOK_REQUIRE 6
#define RVL_HOOK_EXECUTE 7 /* an executable that came to a place since policy was loaded, or that is not as pinned; addr is its identity */
/* Packets, of no process: the peer's address and port. */
#define RVL_HOOK_OUT 8
#define RVL_HOOK_IN 9
#define RVL_HOOK_CREATE 10 /* a call again: socket */
#define RVL_HOOK_OBSERVED 0x80 /* a bit beside: it was not refused, but would have been */

/* rvl_socket_event.call */
#define RVL_CALL_LISTEN 1
#define RVL_CALL_ACCEPT 2
#define RVL_CALL_CONNECT 3
#define RVL_CALL_RECVFROM 4
#define RVL_CALL_SENDTO 5
#define RVL_CALL_CLOSE 6
#define RVL_CALL_TIME_WAIT 7

/*
 * Counters. build.rs reads this table too, so the second column is the name that user space shows.
 * Order is ABI: append only. The number of a counter goes into an octet of rvl_event and between RVL_T_REASON and RVL_T_WOULD_REASON.
 */
#define RVL_COUNTER_SLOTS 256
#define RVL_COUNTERS(X)                                                                                              \
	X(STAMPED, sockets_stamped)                                                                                  \
	X(RESTAMPED, sockets_restamped)                                                                              \
	X(REDIRECTED, egress_redirected)                                                                             \
	X(RECORDED, tun_recorded)                                                                                    \
	X(STRIPPED, tun_stripped)                                                                                    \
	X(PROVEN, ingress_proven)                                                                                    \
	X(CONNECT_UNTRUSTED, connect_untrusted)                                                                      \
	X(CONNECT_NO_ITEM, connect_no_item)                                                                          \
	X(SENDMSG_UNTRUSTED, sendmsg_untrusted)                                                                      \
	X(SENDMSG_NO_ITEM, sendmsg_no_item)                                                                          \
	X(INCOMPARABLE, handover_incomparable)                                                                       \
	X(SETSOCKOPT_MARK, setsockopt_mark)                                                                          \
	X(STAMP_FAILED, stamp_failed)                                                                                \
	X(EGRESS_UNGUARDED, egress_unguarded)                                                                        \
	X(EGRESS_UNTRUSTED, egress_untrusted)                                                                        \
	X(EGRESS_NO_TUN, egress_no_tun)                                                                              \
	X(EGRESS_SOURCE_ROUTE, egress_source_route)                                                                  \
	X(EGRESS_MALFORMED, egress_malformed)                                                                        \
	X(INGRESS_NO_PROOF, ingress_no_proof)                                                                        \
	X(INGRESS_STICKY, ingress_sticky)                                                                            \
	X(INGRESS_SERVICES, ingress_services)                                                                        \
	X(INGRESS_OTHER_APP, ingress_other_app)                                                                      \
	X(INGRESS_UNTRUSTED, ingress_untrusted)                                                                      \
	X(INGRESS_NO_ITEM, ingress_no_item)                                                                          \
	X(INGRESS_UNEXPECTED_PROOF, ingress_unexpected_proof)                                                        \
	X(INGRESS_MALFORMED, ingress_malformed)                                                                      \
	X(ICMP_PROTECTED, icmp_protected)                                                                            \
	X(ICMP_UNREADABLE, icmp_unreadable)                                                                          \
	X(TUN_UNSTAMPED, tun_unstamped)                                                                              \
	X(TUN_NO_ROOM, tun_no_room)                                                                                  \
	X(TUN_NO_RECORD, tun_no_record)                                                                              \
	X(TUN_NO_PROOF, tun_no_proof)                                                                                \
	X(TUN_FRAGMENT, tun_fragment)                                                                                \
	X(TUN_MALFORMED, tun_malformed)                                                                              \
	X(EVENTS_LOST, events_lost)                                                                                  \
	X(REQUIRED, sockets_required)                                                                                \
	X(SOCKOPT_WEAKER, sockopt_weaker)                                                                            \
	X(MIRRORED, enc_mirrored)                                                                                    \
	X(GATEWAY_FORWARDED, gateway_forwarded)                                                                      \
	X(GATEWAY_ARRIVED, gateway_arrived)                                                                          \
	X(GATEWAY_MALFORMED, gateway_malformed)                                                                      \
	X(GATEWAY_SOURCE_ROUTE, gateway_source_route)                                                                \
	X(GATEWAY_UNSEEN, gateway_unseen)                                                                            \
	X(GATEWAY_UNPROVEN, gateway_unproven)                                                                        \
	X(GATEWAY_FRAGMENT_OVER, gateway_fragment_over)                                                              \
	X(SOCKET_EVENTS, socket_events)                                                                              \
	X(SOCKET_EVENTS_LOST, socket_events_lost)                                                                    \
	X(EGRESS_GUARD, egress_guard)                                                                                \
	X(EGRESS_DISGUISED, egress_disguised)                                                                        \
	X(SETSOCKOPT_BYPASS, setsockopt_bypass)                                                                      \
	X(EXECUTABLE_NEW, executables_new)                                                                           \
	X(EXECUTABLE_NO_ROOM, executables_no_room)                                                                   \
	X(CLAIMED, connections_claimed)                                                                              \
	X(TRAFFIC_LOST, traffic_lost)                                                                                \
	X(DNS_TOLD, dns_answers)                                                                                     \
	X(DNS_UNASKED, dns_unasked)                                                                                  \
	X(DNS_LOST, dns_answers_lost)                                                                                \
	X(EGRESS_LIMITED, egress_limited)                                                                            \
	X(FLOWS_LOST, flows_lost)                                                                                    \
	X(EXECUTABLE_UNVERIFIED, executables_unverified)                                                             \
	X(SOCKOPT_OFF, sockopt_off)                                                                                  \
	X(GATEWAY_ICMP, gateway_icmp)                                                                                \
	X(EGRESS_UNCLAIMED, egress_unclaimed)                                                                \
	X(EVENTS_LEFT_OUT, events_left_out)                                                                          \
	X(INGRESS_COPY, ingress_copy)                                                                                \
	X(EGRESS_GROUP, egress_group)                                                                                \
	X(INGRESS_TAGGED, ingress_tagged)                                                                            \
	X(INGRESS_LIMITED, ingress_limited)                                                                          \
	X(EGRESS_FOREIGN, egress_foreign)                                                                            \
	X(ICMP_REDIRECT, icmp_redirect)                                                                              \
	X(TUN_FOREIGN_ANSWER, tun_foreign_answer)                                                                    \
	X(TUN_UNSEEN, tun_unseen)                                                                                    \
	X(INGRESS_UNCLAIMED, ingress_unclaimed)                                                                      \
	X(RECORDS_MISSING, records_missing)                                                                          \
	X(L2TP, l2tp_refused)

enum rvl_counter {
#define X(id, name) RVL_C_##id,
	RVL_COUNTERS(X)
#undef X
	RVL_COUNTER_COUNT,
};

struct rvl_config {
	__u32 abi;
	/* 0: no policy yet; else 1 to 254. One octet, so that no reader can see half of an update. */
	__u32 generation;
	__u64 netns; /* cookie of the network namespace that is guarded */
	__u64 exempt; /* cgroup whose sockets are the daemon's own */
	__u64 cgroup; /* cgroup the hooks are attached to */
	__u32 tun;
	__u32 enc; /* device that gets a copy of every protected packet in clear; 0: nobody listens */
	/* Entries are made socket by socket, so sockets are told of; milliseconds until a datagram socket's flow is again. 0: not */
	__u32 per_socket;
	__u32 guards; /* how many networks nothing unpoliced may leave for; they are under RVL_APP_GUARD */
	__u32 lists; /* in use: 0 to lists - 1 */
	__u32 mark; /* bits of a mark that are ours: those that the programs were loaded with */
	__u64 ancestors; /* bits of rvl_task.ancestors that stand for an image */
	__u64 fresh; /* of these, the ones that no process has yet: for adopt_tasks */
	__u32 observe; /* answers of the DNS are told of */
	__u32 limits; /* how many applications have a limit on what they send in clear; from bit RVL_LIMITS_ACCEPT on: on what they accept */
	__u32 flows; /* whose flows are counted: RVL_FLOWS_* */
	__u32 no_requests; /* 1: programs may not ask for protection on their own sockets */
};

/* An executable as the kernel knows it. The generation tells a new file from an old one with the same number. */
struct rvl_identity {
	__u64 inode;
	__u32 device;
	__u32 generation;
};

/* Its list. Where that is pinned, it is for processes that executed the file as it was when user space hashed it. */
struct rvl_executable {
	__u32 list;
	__u32 zero;
	__u64 version; /* change time of that file, nanoseconds; 0: its digest is none of those that policy names, or not known */
	__u8 digest[32]; /* user space's own note: what it found */
};

/* What a process runs and has run. */
struct rvl_task {
	struct rvl_identity identity;
	__u64 ancestors; /* a bit for each image of `from` that it or its ancestors ran before */
	__u64 version; /* change time of the file when it was executed */
	__u32 list; /* RVL_LIST_*, where policy does not name the identity */
	__u32 verified; /* that was the version that user space hashed */
};

struct rvl_place {
	struct rvl_identity directory;
	__u8 name[RVL_PLACE_NAME];
};

/* The choices of one executable, in order, up to the first that fits every process: that is `app` (0: no policy). */
struct rvl_list {
	__u64 bits; /* what it is as an ancestor */
	__u64 place; /* hash of the path that it is for; 0: not in use */
	__u32 first; /* in `choices` */
	__u16 count;
	__u16 app;
	__u32 pinned; /* RVL_LIST_REFUSED speaks for files that are not verified */
	__u32 zero;
};

struct rvl_choice {
	__u32 first_user;
	__u32 last_user;
	__u16 app;
	__u16 group; /* slot; 0: any */
	__u8 from; /* number of the bit + 1; 0: any */
	__u8 zero[3];
};

struct rvl_group {
	__u64 id; /* 0: there is none of this path now */
	__u32 level;
	__u32 zero;
};

struct rvl_group_path {
	__u8 text[RVL_GROUP_PATH]; /* from the root of the hierarchy */
};

/*
 * A table is the networks of a policy: equal ones are one table. Its number means the same as long as it is there, and no
 * generation that is in force loses one.
 */
struct rvl_network_key {
	__u32 prefixlen; /* 32 + prefix length in the common space */
	__u32 table;
	__u8 addr[16];
};

struct rvl_network {
	__u8 class;
	__u8 would; /* of a trusted network that is observed: the class that is not acted on; 0: it is not observed */
	__u8 zero[2];
	__u32 protection;
};

struct rvl_item {
	__u16 local_first;
	__u16 local_last;
	__u16 remote_first;
	__u16 remote_last;
	__u8 services; /* 1 authenticated, 2 encrypted */
	__u8 level;
	__u8 protocol; /* 0: every one; both ICMPs are 1 */
	__u8 zero;
};

struct rvl_protection {
	__u32 count;
	__u32 zero;
	__u64 terms; /* digest of what the kernel half does not look at: suites, what becomes of packets meanwhile */
	struct rvl_item items[RVL_ITEMS];
};

struct rvl_order_key {
	__u32 low; /* the table with the lower number; or RVL_ORDER_APPS, generation and the application that has the socket */
	__u32 high; /* that with the higher number; or the application of the program */
};

struct rvl_peer_key {
	__u32 prefixlen;
	__u8 addr[16];
};

/* Flows of a peer that an inbound association serves. Its addresses are the key's. */
struct rvl_live_selector {
	__u8 local[16];
	__u16 local_first; /* ports */
	__u16 local_last;
	__u16 remote_first;
	__u16 remote_last;
	__u16 app; /* 0: of every one */
	__u8 protocol; /* 0: every one */
	__u8 local_len; /* of the prefix `local`, in the common space */
};

struct rvl_live {
	__u32 count; /* RVL_LIVE_ALL: every flow */
	struct rvl_live_selector of[RVL_LIVE_EACH];
};

/* Users that rules of the SPD name: numbers with a prefix in common, in network order. */
struct rvl_user_key {
	__u32 prefixlen;
	__u8 user[4];
};

/* A listening socket, so that iter/tcp can name the application of a connection nobody has accepted yet. */
struct rvl_listener_key {
	__u8 addr[16];
	__u16 port;
	__u16 zero;
};

/* A port at which SCTP listens, of one network namespace, and what the listener is stamped with. */
struct rvl_endpoint_key {
	__u64 netns; /* its cookie */
	__u8 addr[16]; /* this host's */
	__u32 device; /* that the listener is bound to: another program may listen at the same address by another one */
	__u16 port; /* in host order */
	__u16 zero;
};

struct rvl_endpoint {
	__u16 app;
	__u8 required;
	__u8 zero;
};

/* The name of an application; the daemon's own note, so that numbers stay the same over its restarts. */
struct rvl_name {
	__u8 text[RVL_NAME]; /* ends with a zero octet */
};

/* What a socket is stamped with. */
struct rvl_socket {
	__u64 netns;
	__u16 app; /* 0: stamped for `required` only */
	__u8 required; /* services that the program asked for, as in rvl_item */
	__u8 in_force; /* services of the last packet that arrived */
	__u16 was; /* of RVL_APP_REFUSED: whose it was before; 0: nobody's */
	__u16 unclaimed; /* 1: a connection with its listener's stamp, that no process has sent on yet */
	__u64 proven; /* packets that arrived with proof */
};

struct rvl_event {
	__u32 pid;
	__u32 uid;
	__u16 app;
	__u16 port;
	__u8 family;
	__u8 protocol;
	__u8 hook;
	__u8 counter;
	__u8 addr[16];
	__u8 comm[16];
};

/* What an application did with a socket; addresses in the common space, ports in host order. */
struct rvl_socket_event {
	__u64 cookie;
	__u64 time; /* monotonic clock, nanoseconds */
	__u16 app;
	__u16 local_port;
	__u16 remote_port;
	__u8 protocol;
	__u8 call;
	__u8 local[16];
	__u8 remote[16];
};

struct rvl_announced_key {
	__u64 cookie;
	__u8 local[16];
	__u8 remote[16];
	__u16 local_port;
	__u16 remote_port;
	__u8 protocol;
	__u8 call;
	__u16 zero;
};

/* A datagram that leaves in fragments. The ends are in the common space. */
struct rvl_asked_key {
	__u8 source[16];
	__u8 destination[16];
	__u32 id;
	__u16 app;
	__u8 protocol;
	__u8 zero;
};

/* Packets of an application, by what they were; octets from the IP header on, as on the wire. */
struct rvl_traffic_key {
	__u16 app;
	__u16 kind;
};

struct rvl_traffic {
	__u64 packets;
	__u64 octets;
};

/* A limit on what an application sends in clear. */
struct rvl_limit_key {
	__u16 generation;
	__u16 app;
};

struct rvl_limit {
	__u64 octets; /* a second, from the IP header on; 0: no limit */
	__u64 octets_ahead; /* nanoseconds that what was sent may be ahead of the rate */
	__u64 packets; /* a second; 0: no limit */
	__u64 packets_ahead;
};

/* When what an application sent in clear would have been sent at its limits. It outlasts generations. */
struct rvl_spent {
	struct bpf_spin_lock lock;
	__u32 zero;
	__u64 octets; /* nanoseconds of the monotonic clock */
	__u64 packets;
	__u64 octets_rate; /* the limits that this was reckoned with */
	__u64 packets_rate;
};

/* Sources of an application that send to it in clear, by a hash. */
struct rvl_source_key {
	__u16 app;
	__u16 set; /* RVL_SOURCE_SETS: all that have no place, in the first one */
};

/* When what a source has sent would have been sent at the limits: an IPv4 address, or the first 64 bits of an IPv6 one. */
struct rvl_source {
	__u64 high; /* of the common space, as on the wire */
	__u64 low;
	__u64 last; /* when it was last heard, nanoseconds of the monotonic clock; 0: the place is free */
	__u64 octets;
	__u64 packets;
	__u64 octets_rate; /* the limits that this was reckoned with */
	__u64 packets_rate;
};

struct rvl_sources {
	struct bpf_spin_lock lock;
	__u32 zero;
	__u64 seed; /* of the hash, the same for all sets of an application: nobody outside knows who shares a set */
	struct rvl_source of[RVL_SOURCE_EACH];
};

/* Addresses in the common space, ports in host order; a later fragment has none. */
struct rvl_flow_key {
	__u8 local[16];
	__u8 remote[16];
	__u16 local_port; /* 0 too where a call was refused: `local` is unspecified then */
	__u16 remote_port;
	__u16 app; /* 0: of a program without policy */
	__u8 protocol;
	__u8 zero;
};

struct rvl_flow {
	struct rvl_traffic kinds[RVL_T_KINDS];
	__u64 first; /* monotonic clock, nanoseconds */
	__u64 last;
	struct rvl_identity identity; /* what the process executes that was first seen sending */
	__u32 pid; /* of it; 0: none was */
	__u8 begun; /* who sent the first packet; 0: nobody knows */
	__u8 ended; /* TCP: who has said that it will send no more, and whether it was reset */
	__u16 zero;
	__u8 comm[16];
};

/* A question to the DNS that nobody has answered yet. */
struct rvl_question_key {
	__u64 cookie;
	__u8 server[16];
	__u16 number; /* of the message, as on the wire */
	__u16 zero[3];
};

/* An answer that a socket got. */
struct rvl_answer {
	__u64 cookie;
	__u16 app; /* 0: of a program without policy */
	__u16 length;
	__u32 zero;
	__u8 server[16];
	__u8 message[RVL_ANSWER];
};

/* The record in front of every packet on the TUN; the first octet is 0x40 or 0x60. */
struct rvl_record {
	__u8 version;
	__u8 magic[3]; /* RVL */
	__u32 mark;
	__u64 cookie;
};

/* What iter/task_file says of one open file: an executable of the reader's own, or a socket. */
struct rvl_file_report {
	__u32 pid;
	__u32 fd;
	struct rvl_identity identity;
	__s32 writers; /* below 0: none, and some process runs it */
	__u32 zero;
};

/* What iter/task says of one process. */
struct rvl_task_report {
	__u32 pid;
	__u32 uid;
	struct rvl_identity identity;
	__u64 ancestors;
	__u32 list;
	__u16 app;
	__u16 zero;
};

/* rvl_socket_report.stamped; UNSTAMPED of a socket with an application: it should be that one's, and has no room for a stamp */
#define RVL_UNSTAMPED 0
#define RVL_STAMPED 1
#define RVL_STAMPED_NOW 2
/* It has no stamp, and no hook of ours runs for it: policy does not reach it. */
#define RVL_UNWATCHED 3

struct rvl_socket_report {
	__u32 pid;
	__u32 fd;
	struct rvl_identity identity; /* of the process */
	__u64 cookie;
	__u64 netns;
	__u64 inode;
	__u32 mark;
	__u16 app;
	__u16 family;
	__u16 local_port;
	__u16 remote_port;
	__u8 protocol;
	__u8 state;
	__u8 stamped;
	__u8 required;
	__u8 local[16];
	__u8 remote[16];
	__u8 comm[16];
};

#endif
