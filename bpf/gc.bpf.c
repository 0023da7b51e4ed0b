// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0

/*
 * The collector: its begin and end, by a bracket around the function or by its USDT probes; and the
 * stopped world of free-threaded builds.
 */

#include "python.bpf.h"
#include <bpf/usdt.bpf.h>

static __always_inline struct target *target_of(u32 pid)
{
	return bpf_map_lookup_elem(&targets, &pid);
}

static __always_inline void begin(struct thread *thread, u64 hint)
{
	struct ids ids = current_ids();
	struct target *target = target_of(ids.pid);
	u64 now;

	thread->gc_state = 0;
	thread->gc_reason = 0;
	thread->gc_world_stops = 0;
	if (target && target->flags & TARGET_HAS_LAYOUT) {
		u64 state;

		find_python(thread, target, hint);
		state = gc_state_of(thread, target);
		if (state && read_counters(target, state, thread->gc_before)) {
			thread->gc_state = state;
			thread->gc_reason = reason_of(thread, target, state);
		}
	}
	now = bpf_ktime_get_ns();
	thread->gc_begin_ns = now;
	thread->gc_begin_cpu = cpu_time(now);
	emit_bare(RECORD_COLLECTION_BEGIN, 0, ids, now);
}

/* What the counters say of the collection that is over. */
static __always_inline void compare_counters(struct thread *thread, struct target *target,
					     struct collection_end_record *record)
{
	struct gc_counters after[3];
	u16 flags = COLLECTION_HAS_STATS | COLLECTION_HAS_INTERPRETER | thread->gc_reason;

	if (!read_counters(target, thread->gc_state, after))
		return;
	record->interpreter = thread->interpreter_id;
	record->header.flags |= flags | COLLECTION_IDLE;
	for (int i = 0; i < 3; i++) {
		const struct gc_counters *before = &thread->gc_before[i];

		if (after[i].collections == before->collections)
			continue;
		record->header.flags &= ~COLLECTION_IDLE;
		record->generation = i;
		record->collected = after[i].collected - before->collected;
		record->uncollectable = after[i].uncollectable - before->uncollectable;
	}
	/*
	 * Without the lock another thread's collection may end just here and move the counters; a
	 * collection of this thread has stopped the world.
	 */
	if (target->flags & TARGET_WORLD_PROBED && !thread->gc_world_stops)
		record->header.flags |= COLLECTION_IDLE;
	/* The runtime's end collects the oldest generation. */
	if (record->generation == 2 &&
	    read_word(target->runtime + target->layout.runtime_finalizing)) {
		record->header.flags &= ~(COLLECTION_AUTOMATIC | COLLECTION_MANUAL);
		record->header.flags |= COLLECTION_SHUTDOWN;
	}
}

/*
 * `usdt`: the probe named the generation at its begin, and `sum` is collected and uncollectable
 * together; where the counters can be read, they know better.
 */
static __always_inline void end(struct thread *thread, u64 now, bool usdt, s64 sum)
{
	struct ids ids = current_ids();
	struct target *target = target_of(ids.pid);
	struct collection_end_record record = {};

	fill_header(&record.header, sizeof(record), RECORD_COLLECTION_END, COLLECTION_HAS_CPU, ids,
		    now);
	record.begin_ns = thread->gc_begin_ns;
	record.cpu_ns = cpu_time(now) - thread->gc_begin_cpu;
	record.generation = -1;
	if (target && thread->gc_state)
		compare_counters(thread, target, &record);
	if (usdt && record.generation < 0) {
		record.header.flags |= COLLECTION_HAS_STATS;
		record.header.flags &= ~COLLECTION_IDLE;
		record.generation = thread->gc_generation;
		record.collected = sum;
	}
	if (target && thread->gc_state && !(record.header.flags & COLLECTION_IDLE) &&
	    now - thread->gc_begin_ns >= target->trigger_ns)
		emit_trigger(thread, target, now);
	if (bpf_ringbuf_output(&records, &record, sizeof(record), wake_flags()))
		count_loss(LOSS_RING_FULL);
}

SEC("?uprobe")
int BPF_UPROBE(collector_enter, u64 first)
{
	u64 stack = PT_REGS_SP(ctx);
	struct thread *thread;

	if (!active)
		return 0;
	thread = this_thread();
	if (!thread)
		return 0;
	/* A collector that was left without a return, by longjmp or with its stack, is over. */
	if (thread->gc_depth && stack > thread->gc_stack)
		thread->gc_depth = 0;
	if (thread->gc_depth++)
		return 0;
	thread->gc_stack = stack;
	begin(thread, first);
	return 0;
}

static __always_inline int collector_left(void)
{
	u64 now = bpf_ktime_get_ns();
	struct thread *thread;

	if (!active)
		return 0;
	thread = this_thread();
	if (!thread || !thread->gc_depth || --thread->gc_depth)
		return 0;
	end(thread, now, false, 0);
	return 0;
}

SEC("?uretprobe")
int collector_return(struct pt_regs *ctx)
{
	return collector_left();
}

/* The same at an instruction that leaves the function, where a return probe would be in danger. */
SEC("?uprobe")
int collector_exit(struct pt_regs *ctx)
{
	return collector_left();
}

SEC("?usdt")
int BPF_USDT(collector_start, int generation)
{
	struct thread *thread;

	if (!active)
		return 0;
	thread = this_thread();
	if (!thread)
		return 0;
	thread->gc_generation = generation;
	thread->gc_depth = 1;
	begin(thread, 0);
	return 0;
}

SEC("?usdt")
int BPF_USDT(collector_done, s64 sum)
{
	u64 now = bpf_ktime_get_ns();
	struct thread *thread;

	if (!active)
		return 0;
	thread = this_thread();
	if (!thread || !thread->gc_depth)
		return 0;
	thread->gc_depth = 0;
	end(thread, now, true, sum);
	return 0;
}

/* A thread asks all others of its interpreter to stop, and waits until they have. */
SEC("?uprobe")
int world_stop(struct pt_regs *ctx)
{
	struct thread *thread;
	u64 now;

	if (!active)
		return 0;
	thread = this_thread();
	if (!thread || thread->world_begin_ns)
		return 0;
	thread->gc_world_stops++;
	now = bpf_ktime_get_ns();
	thread->world_begin_ns = now;
	thread->world_begin_cpu = cpu_time(now);
	emit_bare(RECORD_WORLD_STOPPING, thread->gc_depth ? WORLD_IN_COLLECTION : 0, current_ids(),
		  now);
	return 0;
}

SEC("?uprobe")
int world_start(struct pt_regs *ctx)
{
	struct world_started_record record = {};
	struct ids ids = current_ids();
	struct target *target;
	struct thread *thread;
	u64 now;

	if (!active)
		return 0;
	thread = this_thread();
	if (!thread || !thread->world_begin_ns)
		return 0;
	now = bpf_ktime_get_ns();
	fill_header(&record.header, sizeof(record), RECORD_WORLD_STARTED, WORLD_HAS_CPU, ids, now);
	if (thread->gc_depth)
		record.header.flags |= WORLD_IN_COLLECTION;
	record.begin_ns = thread->world_begin_ns;
	record.cpu_ns = cpu_time(now) - thread->world_begin_cpu;
	thread->world_begin_ns = 0;
	target = target_of(ids.pid);
	if (target && target->flags & TARGET_HAS_LAYOUT) {
		find_python(thread, target, 0);
		if (thread->interpreter) {
			record.header.flags |= WORLD_HAS_INTERPRETER;
			record.interpreter = thread->interpreter_id;
		}
	}
	if (bpf_ringbuf_output(&records, &record, sizeof(record), wake_flags()))
		count_loss(LOSS_RING_FULL);
	return 0;
}
