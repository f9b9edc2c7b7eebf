// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Asks the kernel half's own `decide` and `refuses_clear`, in its own maps, about one flow: for tests/suite/agree.rs, by BPF_PROG_TEST_RUN. Question and
 * answer are the packet: programs of type syscall may sleep, and such must not look up longest prefixes.
 */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_core_read.h>

typedef __u32 uint32_t;
typedef __u64 uint64_t;
#include "abi.h"
#include "maps.h"
#include "packet.h"
#include "verdict.h"

struct question {
	__u8 ethernet[16]; /* what a test run wants in front */
	__u8 peer[16];
	__u16 app;
	__u16 local;
	__u16 remote;
	__u8 protocol;
	/* The answer. */
	__u8 action;
	__u8 services;
	__u8 level;
	__u8 answered;
	__u8 refuses; /* clear text that arrives */
	__u8 this_host[16];
	__u8 observed; /* not acted on */
	__u8 zero;
};

SEC("tc")
int ask(struct __sk_buff *skb)
{
	struct question *q = (void *)(long)skb->data;
	const struct rvl_config *cfg = configuration();
	struct live_flow flow = {};
	struct decision d;

	if (!cfg || (void *)(q + 1) > (void *)(long)skb->data_end)
		return 1;
	__builtin_memcpy(&flow.peer, q->peer, 16);
	__builtin_memcpy(&flow.local, q->this_host, 16);
	flow.app = q->app;
	flow.local_port = q->local;
	flow.remote_port = q->remote;
	flow.protocol = q->protocol;
	d = decide(cfg, q->app, &flow.peer, q->protocol, q->local, q->remote);
	q->refuses = refuses_clear(&d, &flow);
	q->observed = d.would != 0;
	if (d.would)
		d = decision_in(d.would, d.protection, q->protocol, q->local, q->remote);
	q->action = d.action;
	q->services = d.services;
	q->level = d.level;
	q->answered = 1;
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
