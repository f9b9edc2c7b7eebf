/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The few kernel types that the programs look into, each with only the fields they read, so that a build needs
 * neither bpftool nor the build machine's BTF. Offsets are relocated when the object is loaded (CO-RE); a field
 * that is missing in the running kernel is a load error that names it.
 */
#ifndef RVL_VMLINUX_H
#define RVL_VMLINUX_H

typedef signed char __s8;
typedef unsigned char __u8;
typedef short __s16;
typedef unsigned short __u16;
typedef int __s32;
typedef unsigned int __u32;
typedef long long __s64;
typedef unsigned long long __u64;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u64 __be64;
typedef __u32 __wsum;
typedef _Bool bool;
enum { false = 0, true = 1 };

/* The user-space ABI of linux/bpf.h. */

struct bpf_spin_lock {
	__u32 val;
};

enum bpf_map_type {
	BPF_MAP_TYPE_HASH = 1,
	BPF_MAP_TYPE_ARRAY = 2,
	BPF_MAP_TYPE_PERCPU_HASH = 5,
	BPF_MAP_TYPE_PERCPU_ARRAY = 6,
	BPF_MAP_TYPE_LRU_HASH = 9,
	BPF_MAP_TYPE_LPM_TRIE = 11,
	BPF_MAP_TYPE_REUSEPORT_SOCKARRAY = 20,
	BPF_MAP_TYPE_SK_STORAGE = 24,
	BPF_MAP_TYPE_RINGBUF = 27,
	BPF_MAP_TYPE_TASK_STORAGE = 29,
};

enum {
	BPF_ANY = 0,
	BPF_NOEXIST = 1,
};

enum {
	BPF_F_NO_PREALLOC = 1,
	BPF_F_CLONE = 1 << 9,
	BPF_F_MMAPABLE = 1 << 10,
};

#define EEXIST 17
#define BPF_LOCAL_STORAGE_GET_F_CREATE 1ULL
#define BPF_F_CURRENT_NETNS (-1L)
#define BPF_F_ADJ_ROOM_FIXED_GSO 1ULL
#define BPF_ADJ_ROOM_MAC 1
#define BPF_HDR_START_MAC 0
#define BPF_HDR_START_NET 1
#define TCP_ESTABLISHED 1
#define TCP_SYN_SENT 2
#define TCP_FIN_WAIT1 4
#define TCP_FIN_WAIT2 5
#define TCP_CLOSE 7
#define TCP_CLOSE_WAIT 8
#define TCP_LISTEN 10
#define TCP_CLOSING 11
#define BPF_SOCK_OPS_TCP_CONNECT_CB 3
#define BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB 5
#define BPF_SOCK_OPS_STATE_CB 10
#define BPF_SOCK_OPS_TCP_LISTEN_CB 11
#define BPF_SOCK_OPS_RTO_CB_FLAG 1
#define BPF_SOCK_OPS_STATE_CB_FLAG 4
#define BPF_SOCK_OPS_RTT_CB_FLAG 8

enum tcx_action_base {
	TCX_NEXT = -1,
	TCX_PASS = 0,
	TCX_DROP = 2,
	TCX_REDIRECT = 7,
};

struct bpf_sock {
	__u32 bound_dev_if;
	__u32 family;
	__u32 type;
	__u32 protocol;
	__u32 mark;
	__u32 priority;
	__u32 src_ip4;
	__u32 src_ip6[4];
	__u32 src_port;
	__be16 dst_port;
	__u16 : 16;
	__u32 dst_ip4;
	__u32 dst_ip6[4];
	__u32 state;
	__s32 rx_queue_mapping;
};

#define RVL_CTX_POINTER(type, name)                                                                                  \
	union {                                                                                                      \
		type name;                                                                                           \
		__u64 : 64;                                                                                          \
	} __attribute__((aligned(8)))

struct __sk_buff {
	__u32 len;
	__u32 pkt_type;
	__u32 mark;
	__u32 queue_mapping;
	__u32 protocol;
	__u32 vlan_present;
	__u32 vlan_tci;
	__u32 vlan_proto;
	__u32 priority;
	__u32 ingress_ifindex;
	__u32 ifindex;
	__u32 tc_index;
	__u32 cb[5];
	__u32 hash;
	__u32 tc_classid;
	__u32 data;
	__u32 data_end;
	__u32 napi_id;
	__u32 family;
	__u32 remote_ip4;
	__u32 local_ip4;
	__u32 remote_ip6[4];
	__u32 local_ip6[4];
	__u32 remote_port;
	__u32 local_port;
	__u32 data_meta;
	RVL_CTX_POINTER(void *, flow_keys);
	__u64 tstamp;
	__u32 wire_len;
	__u32 gso_segs;
	RVL_CTX_POINTER(struct bpf_sock *, sk);
	__u32 gso_size;
};

struct sk_reuseport_md {
	RVL_CTX_POINTER(void *, data);
	RVL_CTX_POINTER(void *, data_end);
	__u32 len;
	__u32 eth_protocol;
	__u32 ip_protocol;
	__u32 bind_inany;
	__u32 hash;
};

enum sk_action {
	SK_DROP = 0,
	SK_PASS = 1,
};

#define BPF_F_RECOMPUTE_CSUM 1

struct bpf_fib_lookup {
	__u8 family;
	__u8 l4_protocol;
	__be16 sport;
	__be16 dport;
	__u16 tot_len;
	__u32 ifindex; /* in: where the packet came from; out: where it goes */
	__be32 flowinfo;
	__u32 source[4];
	__u32 destination[4];
	__u32 table;
	__u8 addresses[12];
};

struct bpf_sock_addr {
	__u32 user_family;
	__u32 user_ip4;
	__u32 user_ip6[4];
	__u32 user_port;
	__u32 family;
	__u32 type;
	__u32 protocol;
	__u32 msg_src_ip4;
	__u32 msg_src_ip6[4];
	RVL_CTX_POINTER(struct bpf_sock *, sk);
};

struct bpf_sock_ops {
	__u32 op;
	union {
		__u32 args[4];
		__u32 reply;
		__u32 replylong[4];
	};
	__u32 family;
	__u32 remote_ip4;
	__u32 local_ip4;
	__u32 remote_ip6[4];
	__u32 local_ip6[4];
	__u32 remote_port;
	__u32 local_port;
	__u32 is_fullsock;
	__u32 snd_cwnd;
	__u32 srtt_us;
	__u32 bpf_sock_ops_cb_flags;
	__u32 state;
	__u32 rtt_min;
	__u32 snd_ssthresh;
	__u32 rcv_nxt;
	__u32 snd_nxt;
	__u32 snd_una;
	__u32 mss_cache;
	__u32 ecn_flags;
	__u32 rate_delivered;
	__u32 rate_interval_us;
	__u32 packets_out;
	__u32 retrans_out;
	__u32 total_retrans;
	__u32 segs_in;
	__u32 data_segs_in;
	__u32 segs_out;
	__u32 data_segs_out;
	__u32 lost_out;
	__u32 sacked_out;
	__u32 sk_txhash;
	__u64 bytes_received;
	__u64 bytes_acked;
	RVL_CTX_POINTER(struct bpf_sock *, sk);
};

struct bpf_sockopt {
	RVL_CTX_POINTER(struct bpf_sock *, sk);
	RVL_CTX_POINTER(void *, optval);
	RVL_CTX_POINTER(void *, optval_end);
	__s32 level;
	__s32 optname;
	__s32 optlen;
	__s32 retval;
};

struct bpf_sock_tuple {
	union {
		struct {
			__be32 saddr;
			__be32 daddr;
			__be16 sport;
			__be16 dport;
		} ipv4;
		struct {
			__be32 saddr[4];
			__be32 daddr[4];
			__be16 sport;
			__be16 dport;
		} ipv6;
	};
};

/* Kernel types, relocated. */
#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

typedef struct {
	int counter;
} atomic_t;

struct super_block {
	__u32 s_dev;
	unsigned long s_magic;
};

typedef struct {
	__u32 val;
} kuid_t;

struct inode {
	unsigned short i_mode;
	kuid_t i_uid;
	struct super_block *i_sb;
	unsigned long i_ino;
	__u32 i_generation;
	unsigned int i_nlink;
	atomic_t i_writecount;
	__s64 i_ctime_sec;
	__u32 i_ctime_nsec;
};

/* Before 6.11, and before 6.6. */
struct timespec64 {
	__s64 tv_sec;
	long tv_nsec;
};

struct btrfs_root {
	__u32 anon_dev;
};

struct btrfs_inode {
	struct btrfs_root *root;
	struct inode vfs_inode;
};

struct inode___nested {
	struct timespec64 __i_ctime;
};

struct inode___plain {
	struct timespec64 i_ctime;
};

struct qstr {
	const unsigned char *name;
};

struct dentry {
	struct dentry *d_parent;
	struct qstr d_name;
	struct inode *d_inode;
};

struct path {
	struct dentry *dentry;
};

struct file {
	struct inode *f_inode;
	struct path f_path;
};

struct mm_struct {
	struct file *exe_file;
};

struct user_namespace {
	struct user_namespace *parent;
	int level;
	kuid_t owner;
};

struct cred {
	kuid_t uid;
	struct user_namespace *user_ns;
};

struct css_set;

/* The state of bpf_repeat(), on the stack of a program. */
struct bpf_iter_num {
	__u64 __opaque[1];
};

/* Where a thread is in a call of 32 bits is said in `status` on x86, in `flags` elsewhere. */
struct thread_info {
	unsigned long flags;
	__u32 status;
};

struct task_struct {
	struct thread_info thread_info;
	unsigned int flags;
	int pid;
	int tgid;
	struct task_struct *real_parent;
	struct task_struct *group_leader;
	__u64 start_boottime;
	struct mm_struct *mm;
	const struct cred *cred;
	struct css_set *cgroups;
	char comm[16];
};

struct linux_binprm {
	struct file *file;
};

struct kernfs_node {
	__u64 id;
};

struct cgroup;

struct cgroup_subsys_state {
	struct cgroup *cgroup;
	struct cgroup_subsys_state *parent;
};

struct cgroup_root {
	int hierarchy_id;
};

struct cgroup {
	struct cgroup_subsys_state self;
	int level;
	struct kernfs_node *kn;
	struct cgroup_root *root;
	struct cgroup *ancestors[];
};

struct css_set {
	struct cgroup *dfl_cgrp;
};

struct sock_cgroup_data {
	struct cgroup *cgroup;
};

struct net {
	__u64 net_cookie;
};

typedef struct {
	struct net *net;
} possible_net_t;

struct in6_addr {
	union {
		__u8 u6_addr8[16];
		__be32 u6_addr32[4];
	} in6_u;
};

struct sock_common {
	__be32 skc_daddr;
	__be32 skc_rcv_saddr;
	__be16 skc_dport;
	__u16 skc_num;
	unsigned short skc_family;
	volatile unsigned char skc_state;
	unsigned char skc_ipv6only : 1;
	int skc_bound_dev_if;
	possible_net_t skc_net;
	struct in6_addr skc_v6_daddr;
	struct in6_addr skc_v6_rcv_saddr;
};

struct socket;

typedef struct {
	int owned;
} socket_lock_t;

struct sock {
	struct sock_common __sk_common;
	socket_lock_t sk_lock;
	struct socket *sk_socket;
	int sk_write_pending;
	__u32 sk_mark;
	__u16 sk_type;
	__u16 sk_protocol;
	__u8 sk_kern_sock : 1;
	struct sock_cgroup_data sk_cgrp_data;
};

struct sk_buff {
	__u8 ip_summed : 2;
	__u16 csum_start;
	__u16 csum_offset;
	__u16 network_header;
	__u16 mac_header;
};

struct socket {
	struct sock *sk;
	struct file *file;
};

struct inet_sock {
	struct sock sk;
};

struct udp_sock {
	__u8 encap_type;
};

struct mptcp_sock {
	struct inet_sock sk;
};

struct inet_connection_sock {
	struct inet_sock icsk_inet;
};

struct tcp_sock {
	struct inet_connection_sock inet_conn;
	__u8 bpf_sock_ops_cb_flags;
	bool is_mptcp;
	__u32 write_seq;
	__u32 snd_una;
};

struct inet_timewait_sock {
	__u32 tw_mark;
};

struct tcp_timewait_sock {
	struct inet_timewait_sock tw_sk;
};

struct seq_file;

struct bpf_iter_meta {
	struct seq_file *seq;
	__u64 session_id;
	__u64 seq_num;
};

struct bpf_iter__task {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
};

struct bpf_iter__task_file {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
	__u32 fd;
	struct file *file;
};

struct bpf_iter__tcp {
	struct bpf_iter_meta *meta;
	struct sock_common *sk_common;
	__u32 uid;
};

#pragma clang attribute pop

#endif
