// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The kernel half of Ravelin: one object, whose programs share the maps. docs/design/0002 is the contract.
 *
 *   record.h  what is known of a process
 *   subject.h which application a process is
 *   task.h    exec, fork, new control groups: what a process has run and where it is
 *   stamp.h   what a call comes to: a stamp, a refusal
 *   sctp.h    whose an accepted SCTP socket is
 *   cgroup.h  calls on sockets
 *   subflow.h which MPTCP connection a TCP socket is a subflow of
 *   note.h    what is noted of a connection that came in
 *   writer.h  who writes on one
 *   guard.h   packets that sockets send: guard
 *   proof.h   packets that come for sockets: proof
 *   announce.h what sockets do, for the paper's own translation
 *   names.h   answers of the DNS, for networks that are names
 *   option.h  the socket API
 *   security.h calls that no cgroup hook sees
 *   sender.h  who sends, by the call
 *   link.h    what programs on devices ask of a frame first
 *   device.h  packets: steer, record
 *   class.h   the queue of the TUN for a packet's class
 *   kernel_queue.h room in the queue of a class, and the queue of an outer packet
 *   socket_class.h the socket for an outer packet's class
 *   icmp.h    ICMP errors that arrive in clear
 *   bystander.h packets that no socket of an application sends
 *   encap.h   what a UDP socket's encapsulation would take unseen
 *   flows.h   the same packets, flow by flow
 *   traffic.h what each application's packets came to
 *   limit.h   how much an application may send in clear
 *   user.h    whose socket it is, where rules name users
 *   gateway.h packets on their way through this host
 *   adopt.h   iterators: what is older than we are
 */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_core_read.h>

typedef __u32 uint32_t;
typedef __u64 uint64_t;
extern void *bpf_rdonly_cast(const void *obj, __u32 type) __ksym;
extern void *bpf_cast_to_kern_ctx(void *ctx) __ksym;
#include "ravelin.h"
#include "abi.h"
#include "services.h"
#include "mark.h"
#include "maps.h"
#include "record.h"
#include "subject.h"
#include "identity.h"
#include "packet.h"
#include "verdict.h"
#include "task.h"
#include "user.h"
#include "limit.h"
#include "flows.h"
#include "traffic.h"
#include "subflow.h"
#include "note.h"
#include "announce.h"
#include "names.h"
#include "stamp.h"
#include "sctp.h"
#include "cgroup.h"
#include "writer.h"
#include "guard.h"
#include "proof.h"
#include "option.h"
#include "link.h"
#include "kernel_queue.h"
#include "reserved.h"
#include "class.h"
#include "gateway.h"
#include "bystander.h"
#include "icmp.h"
#include "encap.h"
#include "socket_class.h"
#include "device.h"
#include "adopt.h"
#include "sender.h"
#include "security.h"

/* Never called: names the types that only pointers reach, so that the object's BTF has them for crates/sockmon/tests/suite/abi.rs. */
int contract(struct rvl_event *a, struct rvl_record *b, struct rvl_file_report *c, struct rvl_socket_report *d,
	     struct rvl_socket_event *e)
{
	return 0;
}

int more_contract(struct rvl_task_report *a)
{
	return 0;
}

int public_contract(struct ravelin_state *a, struct ravelin_defaults *b, struct rvl_answer *c)
{
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
