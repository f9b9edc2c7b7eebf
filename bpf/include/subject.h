/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Which application a process is (docs/design/0012). Its executable names a list of choices; the first whose qualifiers
 * (ancestor, user, control group) fit decides. User space has merged every list: what names the executable, then what names
 * none. The same order as policy::Subjects::choose, from the same lists; crates/sockmon/tests/suite/subjects.rs compares the two.
 */
#ifndef RVL_SUBJECT_H
#define RVL_SUBJECT_H

/*
 * The functions that are not static take addresses as numbers and read what is there by helpers: so the verifier looks at each
 * of them once, and not once more for every way that leads to it. A pointer that is read through a pointer of the kernel's own
 * types costs it a search of all types of the kernel, a millisecond, each time it comes by.
 */

#define BTRFS_SUPER_MAGIC 0x9123683e

/*
 * The number of the device, as stat gives it. The inodes of btrfs have numbers and generations of their own in each subvolume, and any user
 * may make one; its number is the kernel's choice. False: it cannot be read, since btrfs came into the kernel after this program.
 */
static __always_inline bool read_device(const struct inode *inode, __u32 *device)
{
	const struct btrfs_inode *own = 0;
	const struct btrfs_root *subvolume = 0;

	*device = BPF_CORE_READ(inode, i_sb, s_dev);
	if (BPF_CORE_READ(inode, i_sb, s_magic) != BTRFS_SUPER_MAGIC)
		return true;
	if (!bpf_core_field_exists(own->vfs_inode) || !bpf_core_field_exists(subvolume->anon_dev))
		return false;
	own = (const void *)inode - bpf_core_field_offset(own->vfs_inode);
	*device = BPF_CORE_READ(own, root, anon_dev);
	return *device;
}

/* False: there is no file that could be known again. 0 is a number like any other: a file system in user space gives what numbers it likes. */
static __always_inline bool read_identity(const struct inode *inode, struct rvl_identity *id)
{
	if (!inode || !read_device(inode, &id->device))
		return false;
	id->inode = BPF_CORE_READ(inode, i_ino);
	id->generation = BPF_CORE_READ(inode, i_generation);
	return true;
}

/* In i_ctime_nsec: somebody has seen it, so that the next change gets another time (6.13). */
#define CTIME_SEEN 0x80000000u
#define SECOND 1000000000ull

/* When the file or what is said of it was changed last: no process can set this time. */
static __always_inline __u64 version_of(const struct inode *inode)
{
	const struct inode___nested *nested = (const void *)inode;
	const struct inode___plain *plain = (const void *)inode;

	if (bpf_core_field_exists(inode->i_ctime_sec))
		return BPF_CORE_READ(inode, i_ctime_sec) * SECOND +
		       (BPF_CORE_READ(inode, i_ctime_nsec) & ~CTIME_SEEN);
	if (bpf_core_field_exists(nested->__i_ctime))
		return BPF_CORE_READ(nested, __i_ctime.tv_sec) * SECOND + BPF_CORE_READ(nested, __i_ctime.tv_nsec);
	return BPF_CORE_READ(plain, i_ctime.tv_sec) * SECOND + BPF_CORE_READ(plain, i_ctime.tv_nsec);
}

/* The list of a place (a file name in a directory) that policy names. */
static __always_inline __u32 *place_of(const struct file *file)
{
	const struct dentry *entry = BPF_CORE_READ(file, f_path.dentry);
	struct rvl_place place = {};
	long size;

	if (!entry || !read_identity(BPF_CORE_READ(entry, d_parent, d_inode), &place.directory))
		return 0;
	size = bpf_probe_read_kernel_str(place.name, sizeof(place.name), BPF_CORE_READ(entry, d_name.name));
	/* A name that does not fit is that of no place. */
	if (size <= 1 || size >= (long)sizeof(place.name))
		return 0;
	return bpf_map_lookup_elem(&places, &place);
}

/*
 * Whether a file at a place is another name (a hard link) of a file of somebody else's, in a directory that others than root may write to.
 * The same rule as foreign_file of places.rs.
 */
static __always_inline bool is_anothers(const struct file *file, const struct inode *inode)
{
	const struct inode *directory;
	__u32 owner;

	if (BPF_CORE_READ(inode, i_nlink) < 2)
		return false;
	directory = BPF_CORE_READ(file, f_path.dentry, d_parent, d_inode);
	owner = BPF_CORE_READ(directory, i_uid.val);
	if (!owner && !(BPF_CORE_READ(directory, i_mode) & 022))
		return false;
	return BPF_CORE_READ(inode, i_uid.val) != owner;
}

/* When all that was told of executables is paid for, on whatever processor; two at once may tell of one too many. */
__u64 executables_told;

/* As of refused calls (traffic.h), no more is told than somebody can read; user space goes by the counter as well. */
static __always_inline bool is_time_to_tell(void)
{
	__u64 now = bpf_ktime_get_ns(), paid = executables_told;

	if (paid < now)
		paid = now;
	if (paid - now > (RVL_CALLS_AT_ONCE - 1) * RVL_CALL_EVERY)
		return false;
	executables_told = paid + RVL_CALL_EVERY;
	return true;
}

static __always_inline void tell_of_executable(const struct rvl_identity *id, __u8 counter)
{
	struct rvl_event *event;

	count(counter);
	if (!is_time_to_tell()) {
		count(RVL_C_EVENTS_LEFT_OUT);
		return;
	}
	event = bpf_ringbuf_reserve(&events, sizeof(*event), 0);
	if (!event) {
		count(RVL_C_EVENTS_LOST);
		return;
	}
	__builtin_memset(event, 0, sizeof(*event));
	event->pid = bpf_get_current_pid_tgid() >> 32;
	event->uid = current_user();
	event->hook = RVL_HOOK_EXECUTE;
	event->counter = counter;
	__builtin_memcpy(event->addr, id, sizeof(*id));
	current_name(event->comm);
	bpf_ringbuf_submit(event, 0);
}

/* In a scope of its own, so that its stack is that of place_of once more. */
static __always_inline long enter_executable(const struct rvl_identity *identity, __u32 list)
{
	struct rvl_executable found = { .list = list };

	return bpf_map_update_elem(&executables, identity, &found, BPF_NOEXIST);
}

/*
 * What a file is to policy. A file that nobody knows, at a place that policy names, has come there since policy was loaded: it
 * is what policy means from its first instruction. Where no file can be read, nobody knows what runs: it must not send.
 */
__noinline int identify(__u64 address, struct rvl_task *out)
{
	const struct file *file = (const struct file *)address;
	const struct inode *inode;
	__u32 *place;
	long error;

	if (!out)
		return 0;
	out->list = RVL_LIST_REFUSED;
	if (!file)
		return 0;
	inode = BPF_CORE_READ(file, f_inode);
	if (!read_identity(inode, &out->identity))
		return 0;
	out->list = RVL_LIST_ANY;
	out->version = version_of(inode);
	if (bpf_map_lookup_elem(&executables, &out->identity))
		return 0;
	place = place_of(file);
	if (!place) {
		/* Deleted, or never in a directory: memfd, O_TMPFILE. */
		if (!BPF_CORE_READ(inode, i_nlink))
			out->list = RVL_LIST_ANONYMOUS;
		return 0;
	}
	/* What is said of the place is not said of this file. Nor is the file entered: by its other name it is what it was. */
	if (is_anothers(file, inode)) {
		out->list = RVL_LIST_REFUSED;
		return 0;
	}
	error = enter_executable(&out->identity, *place);
	if (!error) {
		tell_of_executable(&out->identity, RVL_C_EXECUTABLE_NEW);
	} else if (error != -EEXIST) {
		/* Nobody must take it for an unknown program. */
		out->list = RVL_LIST_REFUSED;
		tell_of_executable(&out->identity, RVL_C_EXECUTABLE_NO_ROOM);
	}
	return 0;
}

#define PF_KTHREAD 0x00200000u

/* False: a thread of the kernel's own, or a task that has given its image back. */
static __always_inline bool identify_image(struct task_struct *task, struct rvl_task *out)
{
	struct mm_struct *mm = BPF_CORE_READ(task, mm);

	if (!mm || BPF_CORE_READ(task, flags) & PF_KTHREAD)
		return false;
	identify((__u64)BPF_CORE_READ(mm, exe_file), out);
	return true;
}

/* Make it the record of a process whose ancestors are not known. Its descendants' are not either. No file is on device 0. */
static __always_inline void lose_ancestors(struct rvl_task *task)
{
	__builtin_memset(&task->identity, 0, sizeof(task->identity));
	task->list = RVL_LIST_REFUSED;
}

/* Whether a process was made when task_fork was there to give it a record. */
static __always_inline bool must_have_record(struct task_struct *task)
{
	__u32 key = 0;
	__u64 *since = bpf_map_lookup_elem(&records_since, &key);

	return since && *since && BPF_CORE_READ(task, group_leader, start_boottime) > *since;
}

/*
 * What a process without a record is. One that is older than task_fork is what it runs: nothing else is known of it. A younger one had a
 * record, or the kernel had no room for it: what it has run before is lost, and what it runs a process can change (PR_SET_MM_MAP), so it
 * must not send. False: as identify_image.
 */
static __always_inline bool identify_unrecorded(struct task_struct *task, struct rvl_task *out)
{
	if (!identify_image(task, out))
		return false;
	if (must_have_record(task)) {
		lose_ancestors(out);
		count(RVL_C_RECORDS_MISSING);
	}
	return true;
}

/*
 * The number of a process's list. A file at a pinned place counts for what policy says of it if it was executed as user space
 * hashed it. Nobody can write to it while it runs, so that this stays true for the process, whatever becomes of the time.
 */
__noinline __u32 number_of_list(struct rvl_task *known, __u32 half)
{
	struct rvl_executable *executable;
	struct rvl_list *list;
	__u32 number, key;

	if (!known)
		return RVL_LIST_REFUSED;
	executable = bpf_map_lookup_elem(&executables, &known->identity);
	if (!executable)
		return known->list;
	number = executable->list;
	key = half + number;
	list = bpf_map_lookup_elem(&lists, &key);
	if (!list || !list->pinned)
		return number;
	if (executable->version && executable->version == known->version)
		known->verified = 1;
	return executable->version && known->verified ? number : RVL_LIST_REFUSED;
}

/* The list of a process under the policy in force. */
static __always_inline struct rvl_list *list_of(const struct rvl_config *cfg, struct rvl_task *known)
{
	/* Even and odd generations each have a half. */
	__u32 half = (cfg->generation & 1) * RVL_LISTS;
	__u32 key = half + number_of_list(known, half);

	return bpf_map_lookup_elem(&lists, &key);
}

/* Whether a control group (its address) is that of this slot or below. */
static __always_inline bool in_group(__u64 own, __u32 slot)
{
	struct rvl_group *group = bpf_map_lookup_elem(&groups, &slot);
	const struct cgroup *at = (const struct cgroup *)own;
	const struct cgroup *above = 0;
	__u64 up;

	/* There is none of this path: nobody is in it. */
	if (!group || !group->id || !own || BPF_CORE_READ(at, level) < (int)group->level)
		return false;
	up = own + bpf_core_field_offset(at->ancestors) + 8 * (__u64)group->level;
	if (bpf_probe_read_kernel(&above, sizeof(above), (const void *)up) || !above)
		return false;
	return BPF_CORE_READ(above, kn, id) == group->id;
}

/* The kernel nests user namespaces 33 deep. */
#define USER_NAMESPACES 40

/*
 * The user of the initial namespace who stands behind a process (the address of its credentials): who made the outermost user
 * namespace that it is in. In his own, a user takes what numbers /etc/subuid gives him. Where root made it, as for a container, and
 * in the initial namespace, it is the process's own user.
 */
__noinline __u32 user_behind(__u64 address)
{
	const struct cred *cred = (const struct cred *)address;
	const struct user_namespace *at;
	__u32 own, owner;
	int level = 0;

	if (!cred)
		return 0;
	own = BPF_CORE_READ(cred, uid.val);
	at = BPF_CORE_READ(cred, user_ns);
	for (int i = 0; i < USER_NAMESPACES; i++) {
		level = at ? BPF_CORE_READ(at, level) : 0;
		if (level <= 1)
			break;
		at = BPF_CORE_READ(at, parent);
	}
	if (level != 1)
		return own;
	owner = BPF_CORE_READ(at, owner.val);
	return owner ? owner : own;
}

/* What a process is asked for by qualifiers, beside its ancestors. */
struct asked {
	__u64 group;
	__u32 user;
	__u32 behind;
};

static __always_inline bool is_user(const struct rvl_choice *choice, __u32 user)
{
	return user >= choice->first_user && user <= choice->last_user;
}

/* The first choice that fits, else what the list ends with. */
__noinline int choose(const struct rvl_list *list, const struct asked *of, __u64 ancestors)
{
	struct rvl_choice *choice;
	__u32 key, i;

	if (!list || !of)
		return 0;
	bpf_for(i, 0, RVL_LIST_CHOICES) {
		if (i >= list->count)
			break;
		key = list->first + i;
		choice = bpf_map_lookup_elem(&choices, &key);
		if (!choice)
			break;
		if (choice->from && !(ancestors >> ((choice->from - 1) & 63) & 1))
			continue;
		if (!is_user(choice, of->user) && !is_user(choice, of->behind))
			continue;
		if (choice->group && !in_group(of->group, choice->group))
			continue;
		return choice->app;
	}
	return list->app;
}

/* The application of a task that has this record; 0: no policy speaks for it. */
static __always_inline __u16 app_of(const struct rvl_config *cfg, struct task_struct *task, struct rvl_task *known)
{
	struct rvl_list *list = list_of(cfg, known);
	struct asked of = {};

	if (!list)
		return 0;
	if (!list->count)
		return list->app;
	of.group = (__u64)BPF_CORE_READ(task, cgroups, dfl_cgrp);
	of.user = BPF_CORE_READ(task, cred, uid.val);
	of.behind = user_behind((__u64)BPF_CORE_READ(task, cred));
	return choose(list, &of, known->ancestors);
}

/*
 * The application of the calling process; threads, io_uring workers included, share their leader's record. Where that is missing,
 * identify_unrecorded decides, once: no record must not mean no policy. The kernel's own threads have no image and no policy.
 */
__noinline int app_of_current(const struct rvl_config *cfg)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct task_struct *leader = task->group_leader;
	struct rvl_task *known = record_of(leader);
	struct rvl_task image = {};

	if (!cfg)
		return 0;
	if (known)
		return app_of(cfg, task, known);
	if (!identify_unrecorded(task, &image))
		return 0;
	keep_record(leader, &image);
	return app_of(cfg, task, &image);
}

#endif
