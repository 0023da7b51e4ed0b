// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0

/* Fork, exec and exit of the targets, and the settings that all programs share. */

#include "state.bpf.h"

char LICENSE[] SEC("license") = "GPL";

const volatile struct gcause_settings settings;
volatile u32 active;
volatile u32 library_changes;
volatile u64 maybe_target[FILTER_WORDS];
volatile u64 maybe_thread[FILTER_WORDS];
volatile u64 maybe_socket[FILTER_WORDS];

static __always_inline bool is_target(u32 pid)
{
	return bpf_map_lookup_elem(&targets, &pid) != NULL;
}

SEC("?tp_btf/sched_process_exit")
int BPF_PROG(process_exit, struct task_struct *task)
{
	struct ids ids = ids_of(task);
	u32 key = BPF_CORE_READ(task, pid);

	if (!active || !is_target(ids.pid))
		return 0;
	bpf_map_delete_elem(&threads, &key);
	/* The last thread to leave ends the process, whichever it is. */
	if (BPF_CORE_READ(task, signal, live.counter) == 0)
		emit_bare(RECORD_PROCESS_EXIT, 0, ids, bpf_ktime_get_ns());
	return 0;
}

SEC("?tp_btf/sched_process_fork")
int BPF_PROG(process_fork, struct task_struct *parent, struct task_struct *child)
{
	struct process_fork_record *record;
	struct ids parent_ids = ids_of(parent);
	struct ids child_ids;

	if (!active || !is_target(parent_ids.pid))
		return 0;
	child_ids = ids_of(child);
	if (child_ids.pid == parent_ids.pid) /* a thread */
		return 0;
	record = bpf_ringbuf_reserve(&records, sizeof(*record), 0);
	if (!record) {
		count_loss(LOSS_RING_FULL);
		return 0;
	}
	fill_header(&record->header, sizeof(*record), RECORD_PROCESS_FORK, 0, parent_ids,
		    bpf_ktime_get_ns());
	record->child = child_ids.pid;
	record->reserved = 0;
	bpf_ringbuf_submit(record, wake_flags());
	return 0;
}

SEC("?tp_btf/sched_process_exec")
int BPF_PROG(process_exec, struct task_struct *task)
{
	struct ids ids = ids_of(task);

	if (active && is_target(ids.pid))
		emit_bare(RECORD_PROCESS_EXEC, 0, ids, bpf_ktime_get_ns());
	return 0;
}

/*
 * The dynamic linker is about to map libraries, or has mapped them, and none of their code has run yet.
 * User space looks what is new; a record that is thrown away wakes it.
 */
SEC("?uprobe")
int libraries_changed(struct pt_regs *ctx)
{
	void *wake;

	__sync_fetch_and_add(&library_changes, 1);
	if (!active)
		return 0;
	wake = bpf_ringbuf_reserve(&records, sizeof(u64), 0);
	if (wake)
		bpf_ringbuf_discard(wake, BPF_RB_FORCE_WAKEUP);
	return 0;
}
