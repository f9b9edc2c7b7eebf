/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The record of a task: in its storage, where every kind of program of ours reaches that; elsewhere in a table by the task's
 * address (docs/design/0002). In the table, too, where the kernel gives no storage: it makes none while a thread is interrupted in making
 * one on the same processor (preempt=full), which any user may bring about.
 */
#ifndef RVL_RECORD_H
#define RVL_RECORD_H

/* Written by user space before the programs are loaded: the verifier does not look at what the other value would run. */
const volatile __u32 tasks_have_storage SEC(".rodata.tasks") = 1;

static __always_inline struct rvl_task *record_of(struct task_struct *task)
{
	__u64 address = (__u64)task;
	struct rvl_task *stored;

	if (tasks_have_storage) {
		stored = bpf_task_storage_get(&tasks, task, 0, 0);
		if (stored)
			return stored;
	}
	return bpf_map_lookup_elem(&records, &address);
}

/* The record in a task's storage: the one that is there, or a copy of this one. Null: there is no storage to be had. */
static __always_inline struct rvl_task *store_record(struct task_struct *task, struct rvl_task *record)
{
	return tasks_have_storage ? bpf_task_storage_get(&tasks, task, record, BPF_LOCAL_STORAGE_GET_F_CREATE) : 0;
}

/* Write the record of a task that has none. A record that another program wrote meanwhile stays. */
static __always_inline void keep_record(struct task_struct *task, struct rvl_task *record)
{
	__u64 address = (__u64)task;

	if (!store_record(task, record))
		bpf_map_update_elem(&records, &address, record, BPF_NOEXIST);
}

/* The same of a task that has just been made: what is there under its address is of one that is gone. None: it has no record. */
static __always_inline void begin_record(struct task_struct *task, struct rvl_task *record)
{
	__u64 address = (__u64)task;

	struct rvl_task *stored;

	if (!record) {
		bpf_map_delete_elem(&records, &address);
		return;
	}
	stored = store_record(task, record);
	if (stored)
		*stored = *record;
	else
		bpf_map_update_elem(&records, &address, record, BPF_ANY);
}

/* Not every kind of program may ask for the user and the name of the calling thread (Linux 6.12 has it not, 6.18 has); each may read them. */
static __always_inline __u32 current_user(void)
{
	return BPF_CORE_READ(bpf_get_current_task_btf(), cred, uid.val);
}

static __always_inline void current_name(__u8 name[16])
{
	__builtin_memset(name, 0, 16);
	bpf_probe_read_kernel_str(name, 16, bpf_get_current_task_btf()->comm);
}

static __always_inline __u64 current_group(void)
{
	if (tasks_have_storage)
		return bpf_get_current_cgroup_id();
	return BPF_CORE_READ(bpf_get_current_task_btf(), cgroups, dfl_cgrp, kn, id);
}

/* Runs for every thread when nobody can meet it any more, before its memory is given back. */
SEC("tp_btf/sched_process_free")
int task_gone(__u64 *ctx)
{
	__u64 address = ctx[0];

	bpf_map_delete_elem(&records, &address);
	return 0;
}

#endif
