/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The one contract between the BPF programs and user space (crates/sockmon/src/abi.rs mirrors it; a test compares
 * the two through the object's BTF). docs/design/0002 says what the fields mean.
 *
 * Change anything here that a pinned map of an older daemon would show, and raise RVL_ABI.
 */
#ifndef RVL_ABI_H
#define RVL_ABI_H

#define RVL_ABI 8

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
#define RVL_MARK_SERVICES 24 /* AUTHENTICATED and ENCRYPTED, as a shift for the two lower bits of rvl_item.services */
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
#define RVL_AGGREGATES 64 /* classes */
#define RVL_TUN_QUEUES 16
#define RVL_SOCKET_QUEUES 17 /* for outer packets by class, and for what names no association */
#define RVL_SOCKETS_OF_QUEUES 256
#define RVL_SPLIT_APPS 1024 /* applications that rules of classes name */
#define RVL_RESERVED_FLOWS 16384 /* reserved, at most */
#define RVL_SHAPES 8 /* sets of open fields of reserved flows: source port, destination port, DSCP */
#define RVL_ANY_DSCP 255 /* a DSCP has six bits */
#define RVL_SPLIT_WORDS 6 /* of the key of the hash: an address, an application, and one more */
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

/*
 * rvl_item.services, wire::Services of user space: what a packet has had is one of four values, each at least as good as the one before:
 * 0, AUTHENTICATED, CUSTOM (authenticated, and encrypted under a cipher of one's own), ALL. What is demanded is AUTHENTICATED or ALL, with
 * NAMED where the item names a suite of a cipher of one's own. Compared by enough() (services.h) and nowhere else.
 */
#define RVL_SERVICE_AUTHENTICATED 1
#define RVL_SERVICE_CUSTOM 2
#define RVL_SERVICE_ENCRYPTED 2 /* a bit of what is demanded */
#define RVL_SERVICE_ALL 3
#define RVL_SERVICE_NAMED 4

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
 * Counters. build.rs reads this table too: the second column is the name that user space shows, the third says whether the counter counts
 * what was refused (REFUSAL) or anything else (EVENT), the last says what it means.
 * Order is ABI: append only. The number of a counter goes into an octet of rvl_event and between RVL_T_REASON and RVL_T_WOULD_REASON.
 */
#define RVL_COUNTER_SLOTS 256
#define RVL_COUNTERS(X) \
	X(STAMPED, sockets_stamped, EVENT, "A socket got the mark of its application.") \
	X(RESTAMPED, sockets_restamped, EVENT, "A socket changed hands and got the stricter application's mark.") \
	X(REDIRECTED, egress_redirected, EVENT, "A packet was sent to the TUN instead of the uplink.") \
	X(RECORDED, tun_recorded, EVENT, "A packet reached the TUN with its record.") \
	X(STRIPPED, tun_stripped, EVENT, "A packet from the daemon was marked and handed to the host.") \
	X(PROVEN, ingress_proven, EVENT, "A packet was accepted since it came protected as the policy demands.") \
	X(CONNECT_UNTRUSTED, connect_untrusted, REFUSAL, "connect() to an untrusted network: EPERM.") \
	X(CONNECT_NO_ITEM, connect_no_item, REFUSAL, "connect() to ports that no item of the protection covers: EPERM.") \
	X(SENDMSG_UNTRUSTED, sendmsg_untrusted, REFUSAL, "sendmsg() to an untrusted network: EPERM.") \
	X(SENDMSG_NO_ITEM, sendmsg_no_item, REFUSAL, "sendmsg() to ports that no item of the protection covers: EPERM.") \
	X(INCOMPARABLE, handover_incomparable, REFUSAL, "A socket of an application that neither is stricter than the other: EPERM.") \
	X(SETSOCKOPT_MARK, setsockopt_mark, REFUSAL, "A program tried to set the mark of a socket: EPERM.") \
	X(STAMP_FAILED, stamp_failed, REFUSAL, "A socket could not be stamped and was refused.") \
	X(EGRESS_UNGUARDED, egress_unguarded, REFUSAL, "A packet of a policed program to a device that is not guarded: EPERM.") \
	X(EGRESS_UNTRUSTED, egress_untrusted, REFUSAL, "A packet to an untrusted network.") \
	X(EGRESS_NO_TUN, egress_no_tun, REFUSAL, "A packet that must be protected, and no TUN to take it.") \
	X(EGRESS_SOURCE_ROUTE, egress_source_route, REFUSAL, "A packet with a source route, or that a route wraps in another one: its real destination is unknown.") \
	X(EGRESS_MALFORMED, egress_malformed, REFUSAL, "A packet of a policed program with headers that cannot be read.") \
	X(INGRESS_NO_PROOF, ingress_no_proof, REFUSAL, "A clear packet for a socket whose policy demands protection.") \
	X(INGRESS_STICKY, ingress_sticky, REFUSAL, "A clear packet where protection is optional, but an association serves its flow.") \
	X(INGRESS_SERVICES, ingress_services, REFUSAL, "A protected packet whose association gives less than the policy demands.") \
	X(INGRESS_OTHER_APP, ingress_other_app, REFUSAL, "A protected packet whose association is bound to another application.") \
	X(INGRESS_UNTRUSTED, ingress_untrusted, REFUSAL, "A packet from an untrusted network.") \
	X(INGRESS_NO_ITEM, ingress_no_item, REFUSAL, "A packet for ports that no item of the protection covers.") \
	X(INGRESS_UNEXPECTED_PROOF, ingress_unexpected_proof, REFUSAL, "A protected packet for a socket whose answer would leave in clear.") \
	X(INGRESS_MALFORMED, ingress_malformed, REFUSAL, "A packet for a policed program with headers that cannot be read.") \
	X(ICMP_PROTECTED, icmp_protected, REFUSAL, "A clear ICMP error that quotes a protected flow.") \
	X(ICMP_UNREADABLE, icmp_unreadable, REFUSAL, "A clear ICMP error whose quote cannot be read.") \
	X(TUN_UNSTAMPED, tun_unstamped, REFUSAL, "A packet without a stamp on its way into the TUN.") \
	X(TUN_NO_ROOM, tun_no_room, REFUSAL, "A packet that has no room for its record.") \
	X(TUN_NO_RECORD, tun_no_record, REFUSAL, "A packet came out of the TUN without a record.") \
	X(TUN_NO_PROOF, tun_no_proof, REFUSAL, "A packet came out of the TUN without proof of protection.") \
	X(TUN_FRAGMENT, tun_fragment, REFUSAL, "A fragment came out of the TUN.") \
	X(TUN_MALFORMED, tun_malformed, REFUSAL, "A packet came out of the TUN with headers that cannot be read.") \
	X(EVENTS_LOST, events_lost, EVENT, "A refusal that was counted but had no room in the log's queue.") \
	X(REQUIRED, sockets_required, EVENT, "A program asked for protection on its own socket.") \
	X(SOCKOPT_WEAKER, sockopt_weaker, REFUSAL, "A program asked for less on its socket than policy or an earlier request demands: EPERM.") \
	X(MIRRORED, enc_mirrored, EVENT, "A protected packet was shown in clear on the enc device.") \
	X(GATEWAY_FORWARDED, gateway_forwarded, EVENT, "A packet from a network behind this gateway was sent to the TUN.") \
	X(GATEWAY_ARRIVED, gateway_arrived, EVENT, "A clear packet for a network behind this gateway was sent to the TUN for rules to decide.") \
	X(GATEWAY_MALFORMED, gateway_malformed, REFUSAL, "A packet to be forwarded with headers that cannot be read.") \
	X(GATEWAY_SOURCE_ROUTE, gateway_source_route, REFUSAL, "A packet to be forwarded with a source route, whose real destination is unknown.") \
	X(GATEWAY_UNSEEN, gateway_unseen, REFUSAL, "A packet that this gateway forwards was about to leave without having been looked at.") \
	X(GATEWAY_UNPROVEN, gateway_unproven, REFUSAL, "A clear packet was about to reach a network behind this gateway without having been looked at.") \
	X(GATEWAY_FRAGMENT_OVER, gateway_fragment_over, REFUSAL, "A fragment to be forwarded whose time to live is over, which could be joined with others that have time left.") \
	X(SOCKET_EVENTS, socket_events, EVENT, "What a socket did was told, for an entry of its own.") \
	X(SOCKET_EVENTS_LOST, socket_events_lost, REFUSAL, "What a socket did could not be told: its packets have no entry.") \
	X(EGRESS_GUARD, egress_guard, REFUSAL, "A packet that no block decides about, for a network that `guard` closes.") \
	X(EGRESS_DISGUISED, egress_disguised, REFUSAL, "A frame by a packet socket that carries IP under the name of another protocol.") \
	X(SETSOCKOPT_BYPASS, setsockopt_bypass, REFUSAL, "A program tried to send frames past the programs on the device (PACKET_QDISC_BYPASS, XDP_TX_RING): EPERM.") \
	X(EXECUTABLE_NEW, executables_new, EVENT, "A new file of a program that the policy names was executed, and known at once.") \
	X(EXECUTABLE_NO_ROOM, executables_no_room, REFUSAL, "A new file of a program that the policy names had no room in the table: its process is refused every peer.") \
	X(CLAIMED, connections_claimed, EVENT, "A connection became that of the program that sends on it, which is another one than its listener's.") \
	X(TRAFFIC_LOST, traffic_lost, EVENT, "A packet is missing among what `stats --per-app` shows: there are too many applications.") \
	X(DNS_TOLD, dns_answers, EVENT, "An answer of the DNS that a program got was told, for names in the policy.") \
	X(DNS_UNASKED, dns_unasked, EVENT, "A message like an answer of the DNS came to a socket that had not asked.") \
	X(DNS_LOST, dns_answers_lost, EVENT, "An answer of the DNS could not be told: its addresses are learned later.") \
	X(EGRESS_LIMITED, egress_limited, REFUSAL, "A packet in clear beyond what `limit clear` lets its application send.") \
	X(FLOWS_LOST, flows_lost, EVENT, "A packet whose flow found no room in the table of flows.") \
	X(EXECUTABLE_UNVERIFIED, executables_unverified, REFUSAL, "A file was executed that is not known to have the digest that the policy asks for: its process is refused every peer.") \
	X(SOCKOPT_OFF, sockopt_off, REFUSAL, "A program asked for protection on its own socket, which the configuration does not allow: EACCES.") \
	X(GATEWAY_ICMP, gateway_icmp, REFUSAL, "An ICMP error for this gateway from a network behind it, of a type that the configuration does not accept.") \
	X(EGRESS_UNCLAIMED, egress_unclaimed, REFUSAL, "Data of which nobody knows what process has sent it: on a connection that came in, or by a session of L2TP.") \
	X(EVENTS_LEFT_OUT, events_left_out, EVENT, "A refusal, or a file that was executed, that was counted but not told: there were many of the same.") \
	X(INGRESS_COPY, ingress_copy, EVENT, "A raw socket was not shown its copy of an ESP or AH packet that came for the daemon: no refusal, what is inside reaches its own socket.") \
	X(EGRESS_GROUP, egress_group, REFUSAL, "A packet to a multicast group that must be protected, and no association with the group: EPERM. Add one with `ravelin sa add`.") \
	X(INGRESS_TAGGED, ingress_tagged, EVENT, "A frame with a VLAN tag behind a priority tag (VLAN 0), which the kernel would take off unseen, was dropped.") \
	X(INGRESS_LIMITED, ingress_limited, REFUSAL, "A packet in clear beyond what `limit accept` lets its application hear of one source.") \
	X(EGRESS_FOREIGN, egress_foreign, REFUSAL, "A packet with another host's address as its source, to which policy lets nothing go in clear: EPERM.") \
	X(ICMP_REDIRECT, icmp_redirect, REFUSAL, "A redirect that arrived in clear.") \
	X(TUN_FOREIGN_ANSWER, tun_foreign_answer, REFUSAL, "An answer to a program that sent from another host's address: it would have gone there in clear.") \
	X(TUN_UNSEEN, tun_unseen, REFUSAL, "A frame that a socket handed to the TUN past the program in front of it: its record could be anybody's.") \
	X(INGRESS_UNCLAIMED, ingress_unclaimed, REFUSAL, "Data for an SCTP socket of which nobody knows whose it is. It arrives again when its program has sent.") \
	X(RECORDS_MISSING, records_missing, REFUSAL, "A process of which the kernel kept no record, so that what it has run before is not known: it must not send. Start it again.") \
	X(L2TP, l2tp_refused, REFUSAL, "A program of policy asked the kernel for a session of L2TP, whose packets are no socket's of its own: EPERM. Use its daemon without kernel sessions.") \
	X(TUN_QUEUE_FULL, tun_queue_full, REFUSAL, "A packet beyond what the kernel queue of its class holds. `ravelin qos show` has the count of each queue.") \
	X(SOCKET_QUEUE_FULL, socket_queue_full, REFUSAL, "An outer packet beyond what the socket of its class holds. `ravelin qos show` has the count of each queue.")

enum rvl_counter {
#define X(id, name, kind, text) RVL_C_##id,
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
	__u8 services; /* RVL_SERVICE_* */
	__u8 level;
	__u8 protocol; /* 0: every one; both ICMPs are 1 */
	__u8 aggregate; /* the class that it gives its packets; 0: none */
};

struct rvl_protection {
	__u32 count;
	__u32 zero;
	__u64 terms; /* digest of what the kernel half does not look at: suites, what becomes of packets meanwhile */
	struct rvl_item items[RVL_ITEMS];
};

/* Queues of the TUN for one class: users are spread over them. */
struct rvl_share {
	__u8 first;
	__u8 count;
};

/* How packets are split among the queues of the TUN, by their class (class.h). */
struct rvl_split {
	__u64 seed[RVL_SPLIT_WORDS]; /* of the hash of users, secret */
	__u32 queues; /* attached to the TUN; 0: nothing is split or counted */
	__u8 of_dscp[RVL_AGGREGATES]; /* the class where no item gives one */
	struct rvl_share of[RVL_AGGREGATES];
	__u32 apps; /* that have classes of their own, in `split_apps` */
};

/* The class of each DSCP of one application. */
struct rvl_app_classes {
	__u8 of_dscp[RVL_AGGREGATES];
};

/* A reserved flow (reserved.h), by what its inner packets show. */
struct rvl_reserved_key {
	__u8 destination[16];
	__u16 source_port; /* 0: any */
	__u16 destination_port; /* 0: any */
	__u8 protocol;
	__u8 dscp; /* RVL_ANY_DSCP: any */
	__u8 zero[2];
};

/* What is reserved for it, and when the packets so far are used up at its rate. */
struct rvl_reserved {
	__u64 until; /* nanoseconds, monotonic */
	__u64 ns_per_1024; /* nanoseconds that 1024 octets take at its rate */
	__u64 burst_ns; /* nanoseconds that its burst takes at its rate */
	__u32 least; /* octets that each packet counts as at least */
	__u8 aggregate;
	__u8 zero[3];
};

/* The number of reserved flows with each set of open fields. */
struct rvl_shapes {
	__u32 all;
	__u32 flows[RVL_SHAPES];
};

/*
 * A queue of the TUN or of sockets, in memory that its reader shares: it writes `taken`, `gone` and `limit`, the kernel half the rest. What
 * arrived was lost, is gone, was taken, or waits.
 */
struct rvl_kernel_queue {
	__u64 arrived; /* packets; a super-packet for the TUN is one, a run of joined datagrams is as many as it has */
	__u64 lost; /* beyond the limit */
	__u64 taken;
	__u64 limit; /* packets that may wait; 0: none is counted */
	__u64 gone; /* counted as arrived, and never found in the queue */
	__u64 zero[3];
};

/* An inbound association, by what its outer packets show. */
struct rvl_sa_name {
	__be32 spi;
	__u8 source[16]; /* in the common space; zero: of any sender */
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
	__u8 required; /* services that the program asked for, as in rvl_item, never NAMED */
	__u8 in_force; /* services of the last packet that arrived, as counted_for() counts them */
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
