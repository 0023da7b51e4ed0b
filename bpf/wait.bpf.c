// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0

/*
 * When a thread that has read asks for more, when it sleeps for the interpreter lock before, and when one
 * that writes wakes from a wait: all by the switches of the scheduler.
 */

#include "syscalls.bpf.h"

#define TASK_RUNNING 0

static __always_inline void emit_wait(struct task_struct *task, u16 flags)
{
	struct wait_record *record = bpf_ringbuf_reserve(&records, sizeof(*record), 0);

	if (!record) {
		count_loss(LOSS_RING_FULL);
		return;
	}
	record->run_delay_us = 0;
	if (run_delay_us(task, &record->run_delay_us))
		flags |= WAIT_HAS_RUN_DELAY;
	record->reserved = 0;
	fill_header(&record->header, sizeof(*record), RECORD_WAIT, flags, ids_of(task),
		    bpf_ktime_get_ns());
	bpf_ringbuf_submit(record, wake_flags());
}

static __always_inline bool is_near(u64 one, u64 other)
{
	return one - other + LOCK_SPAN < 2 * LOCK_SPAN;
}

/* Counts a vote for a depth; whether it is the one that has most. */
static __always_inline bool vote(struct lock_depth *depth, s64 bytes, bool counts)
{
	if (depth->bytes == bytes && depth->votes) {
		if (counts && depth->votes < LOCK_VOTES)
			depth->votes++;
		return true;
	}
	if (!counts)
		return false;
	if (depth->votes) {
		depth->votes--;
		return false;
	}
	depth->bytes = bytes;
	depth->votes = 1;
	return true;
}

/* Whether a thread that has just read sleeps for the interpreter lock: it does so in the same function. */
static __always_inline bool is_first_sleep(struct thread *thread, struct task_struct *task,
					   struct pt_regs *regs, bool at_once)
{
	u32 pid = ids_of(task).pid;
	struct target *target = bpf_map_lookup_elem(&targets, &pid);
	struct lock_depth *depth;

	if (!target)
		return false;
	depth = &target->lock_depths[thread->read_layer == READ_BY_TLS];
	if (!vote(depth, thread->read_stack - PT_REGS_SP(regs), at_once))
		return false;
	target->lock_address = SYSCALL_ARGUMENT_1(regs);
	return true;
}

/*
 * And whether it still does: in the same frame, or in its neighbour, that sleeps on the mutex. The futexes of
 * a lock are neighbours, too.
 */
static __always_inline bool is_next_sleep(const struct thread *thread, struct pt_regs *regs, u64 cpu)
{
	u64 stack = PT_REGS_SP(regs);

	return is_near(SYSCALL_ARGUMENT_1(regs), thread->lock_address) &&
	       (stack == thread->lock_stack ||
		(cpu < LOCK_SOON_NS && is_near(stack, thread->lock_stack)));
}

/*
 * A thread that has read blocks in something other than a wait. CPython sleeps 5 ms at a time for its
 * lock, and those sleeps are one wait. Before the first it may sleep for a moment on the mutex that guards
 * the lock, or on something else, which says nothing.
 */
static __always_inline void blocks_for_lock(struct thread *thread, struct task_struct *task,
					    struct pt_regs *regs)
{
	u64 now = bpf_ktime_get_ns();
	u64 cpu = cpu_time_of(task, now) - thread->lock_cpu;

	if (thread->lock != LOCK_POSSIBLE)
		return;
	if (SYSCALL_NUMBER(regs) != NR_FUTEX || cpu > LOCK_AT_MOST_NS) {
		thread->lock = LOCK_OVER;
		return;
	}
	if (!thread->lock_begin_ns) {
		if (!is_first_sleep(thread, task, regs, cpu < LOCK_AT_ONCE_NS))
			return;
		thread->lock_begin_ns = now;
		thread->lock_address = SYSCALL_ARGUMENT_1(regs);
		thread->lock_stack = PT_REGS_SP(regs);
	} else if (!is_next_sleep(thread, regs, cpu)) {
		thread->lock = LOCK_OVER;
		return;
	}
	thread->lock = LOCK_ASLEEP;
}

/*
 * A thread that writes sleeps in something other than a wait. Where that is a lock, another thread may
 * have given it something to write, or have kept it from writing: what it had is not known any more. The
 * interpreter lock gives nothing.
 */
static __always_inline void forget_wake(struct thread *thread, struct task_struct *task,
					struct pt_regs *regs)
{
	s64 number = SYSCALL_NUMBER(regs);
	u32 pid = ids_of(task).pid;
	struct target *target;

	if (!thread->woke_ns || !is_sleep(number, regs) || thread->lock == LOCK_ASLEEP)
		return;
	target = bpf_map_lookup_elem(&targets, &pid);
	if (number == NR_FUTEX && target && is_near(SYSCALL_ARGUMENT_1(regs), target->lock_address))
		return;
	thread->woke_ns = 0;
}

/*
 * When a thread blocks in a call that waits for more, it has asked for more. Probes on these calls
 * would cost a trap each; a thread that does not block reads at once, and that is seen.
 */
static __always_inline void blocks(struct thread *thread, struct task_struct *task)
{
	struct pt_regs *regs = (struct pt_regs *)bpf_task_pt_regs(task);
	s64 number = SYSCALL_NUMBER(regs);

	if (!is_wait(number, regs)) {
		blocks_for_lock(thread, task, regs);
		if (thread->writes)
			forget_wake(thread, task, regs);
		return;
	}
	thread->idle = thread->writes;
	thread->lock = LOCK_OVER;
	if (!thread->owes_wait)
		return;
	thread->owes_wait = 0;
	emit_wait(task, is_read(number) && !thread->tls_depth ? WAIT_IN_READ : 0);
}

static __always_inline void wakes(struct thread *thread, struct task_struct *task)
{
	u64 now = bpf_ktime_get_ns();
	struct lock_waited_record *record;

	if (thread->idle) {
		thread->idle = 0;
		thread->woke_ns = now;
		return;
	}
	thread->lock = LOCK_POSSIBLE;
	thread->lock_cpu = cpu_time_of(task, now);
	record = bpf_ringbuf_reserve(&records, sizeof(*record), 0);
	if (!record) {
		count_loss(LOSS_RING_FULL);
		return;
	}
	fill_header(&record->header, sizeof(*record), RECORD_LOCK_WAITED, 0, ids_of(task), now);
	record->begin_ns = thread->lock_begin_ns;
	bpf_ringbuf_submit(record, wake_flags());
}

static __noinline int switched_away(struct task_struct *task)
{
	u32 key = task->pid;
	struct thread *thread = bpf_map_lookup_elem(&threads, &key);

	if (thread && (thread->owes_wait || thread->writes) && active &&
	    task->__state != TASK_RUNNING)
		blocks(thread, task);
	return 0;
}

static __noinline int switched_to(struct task_struct *task)
{
	u32 key = task->pid;
	struct thread *thread = bpf_map_lookup_elem(&threads, &key);

	if (thread && (thread->idle || thread->lock == LOCK_ASLEEP) && active)
		wakes(thread, task);
	return 0;
}

SEC("?tp_btf/sched_switch")
int BPF_PROG(thread_switched, bool preempted, struct task_struct *previous, struct task_struct *next)
{
	if (!preempted && filter_has(maybe_thread, previous->pid))
		switched_away(previous);
	if (filter_has(maybe_thread, next->pid))
		switched_to(next);
	return 0;
}
