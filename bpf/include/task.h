/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Programs that keep task_id: exec replaces the identity, fork hands it on. */
#ifndef RVL_TASK_H
#define RVL_TASK_H

/* Runs behind the point of no return and before the new image's first instruction: no socket call can race it. */
SEC("tp_btf/sched_process_exec")
int task_exec(__u64 *ctx)
{
	struct task_struct *task = (struct task_struct *)ctx[0];
	struct linux_binprm *program = (struct linux_binprm *)ctx[2];
	struct rvl_identity id = {};
	struct rvl_identity *known;

	if (!identity_of_file(program->file, &id)) {
		bpf_task_storage_delete(&task_id, task);
		return 0;
	}
	/* The new image's thread is the leader by now. */
	known = bpf_task_storage_get(&task_id, task, &id, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (known)
		*known = id;
	return 0;
}

/* Runs in the parent before the child is woken. */
SEC("tp_btf/sched_process_fork")
int task_fork(__u64 *ctx)
{
	struct task_struct *parent = (struct task_struct *)ctx[0];
	struct task_struct *child = (struct task_struct *)ctx[1];
	struct rvl_identity id = {};
	struct rvl_identity *known;

	if (child->pid != child->tgid)
		return 0;
	known = bpf_task_storage_get(&task_id, parent->group_leader, 0, 0);
	if (known)
		id = *known;
	else if (!identity_of_image(parent, &id))
		return 0;
	bpf_task_storage_get(&task_id, child, &id, BPF_LOCAL_STORAGE_GET_F_CREATE);
	return 0;
}

#endif
