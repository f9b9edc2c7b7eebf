/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Programs that keep `tasks` and `groups`: exec replaces the identity, fork hands it on, both remember what was run before; a
 * control group that policy names is known before anybody can be in it.
 */
#ifndef RVL_TASK_H
#define RVL_TASK_H

/* traffic.h */
static bool add_reason(__u16 app, __u16 reason, bool is_call);

/* The images that policy speaks of (`from`) and that are behind a process once it has left what it runs now. */
static __always_inline __u64 lineage(const struct rvl_config *cfg, struct rvl_task *known)
{
	struct rvl_list *list = list_of(cfg, known);

	return (known->ancestors | (list ? list->bits : 0)) & cfg->ancestors;
}

static __always_inline bool has_lost_ancestors(const struct rvl_task *task)
{
	return task->list == RVL_LIST_REFUSED && !task->identity.device;
}

/*
 * Runs in the thread that executes, while it is still what it was. The record is the leader's; any thread may execute, and by
 * task_exec it has become the leader and the former one is gone. From Linux 6.9 on.
 */
SEC("tp_btf/sched_prepare_exec")
int task_prepare(__u64 *ctx)
{
	struct task_struct *task = (struct task_struct *)ctx[0];
	struct rvl_task before = {};
	struct rvl_task *known;

	known = record_of(task->group_leader);
	if (known && task == task->group_leader)
		return 0;
	if (known)
		before = *known;
	else if (!identify_unrecorded(task, &before))
		return 0;
	keep_record(task, &before);
	return 0;
}

/* Runs behind the point of no return and before the new image's first instruction: no socket call can race it. */
SEC("tp_btf/sched_process_exec")
int task_exec(__u64 *ctx)
{
	struct task_struct *task = (struct task_struct *)ctx[0];
	struct linux_binprm *program = (struct linux_binprm *)ctx[2];
	const struct rvl_config *cfg = configuration();
	struct rvl_task next = {};
	struct rvl_task *known;
	__u32 number;

	if (!cfg)
		return 0;
	identify((__u64)BPF_CORE_READ(program, file), &next);
	number = number_of_list(&next, (cfg->generation & 1) * RVL_LISTS);
	/* Any user may do this as often as he likes: it has the measure of refused calls, under the application of what must not send. */
	if (number == RVL_LIST_REFUSED && next.list != RVL_LIST_REFUSED) {
		if (add_reason(RVL_APP_REFUSED, RVL_T_REASON + RVL_C_EXECUTABLE_UNVERIFIED, true))
			tell_of_executable(&next.identity, RVL_C_EXECUTABLE_UNVERIFIED);
		else
			count(RVL_C_EXECUTABLE_UNVERIFIED);
	}
	/* The new image's thread is the leader by now. */
	known = record_of(task);
	if (known) {
		next.ancestors = lineage(cfg, known);
		if (cfg->ancestors && has_lost_ancestors(known))
			lose_ancestors(&next);
		*known = next;
		return 0;
	}
	/* Another thread than the leader executed, and nobody has kept what the process ran before: `from` cannot be answered. */
	if (cfg->ancestors && (int)ctx[1] != task->pid)
		lose_ancestors(&next);
	keep_record(task, &next);
	return 0;
}

/* Runs in the parent before the child is woken. */
SEC("tp_btf/sched_process_fork")
int task_fork(__u64 *ctx)
{
	struct task_struct *parent = (struct task_struct *)ctx[0];
	struct task_struct *child = (struct task_struct *)ctx[1];
	const struct rvl_config *cfg = configuration();
	struct rvl_task next = {};
	struct rvl_task *known;
	__u64 *since;
	__u32 key = 0;

	if (!cfg || child->pid != child->tgid)
		return 0;
	since = bpf_map_lookup_elem(&records_since, &key);
	if (since && !*since)
		*since = bpf_ktime_get_boot_ns();
	known = record_of(parent->group_leader);
	if (known) {
		next = *known;
	} else if (!identify_unrecorded(parent, &next)) {
		begin_record(child, 0);
		return 0;
	}
	next.ancestors = lineage(cfg, &next);
	begin_record(child, &next);
	return 0;
}

/* Runs before the directory of the new group is to be seen, so before a process can enter. */
SEC("tp_btf/cgroup_mkdir")
int group_made(__u64 *ctx)
{
	struct cgroup *made = (struct cgroup *)ctx[0];
	struct rvl_group_path path = {};
	struct rvl_group *group;
	long size;
	__u32 *slot;

	/* The other hierarchies are of cgroup v1. */
	if (made->root->hierarchy_id)
		return 0;
	size = bpf_probe_read_kernel_str(path.text, sizeof(path.text), (void *)ctx[1]);
	if (size <= 1 || size >= (long)sizeof(path.text))
		return 0;
	slot = bpf_map_lookup_elem(&group_paths, &path);
	if (!slot)
		return 0;
	group = bpf_map_lookup_elem(&groups, slot);
	if (!group)
		return 0;
	/* The number of the one before is never given again. */
	group->id = 0;
	group->level = made->level;
	group->id = made->kn->id;
	return 0;
}

#endif
