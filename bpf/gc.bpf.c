// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0

/* The collector: its begin and end, by a bracket around the function or by its USDT probes. */

#include "state.bpf.h"
#include <bpf/usdt.bpf.h>

/*
 * The CPU time of this thread so far. The sum lags by up to a tick, so the running slice is added;
 * the offset between the two clocks cancels in the difference of two calls.
 */
static __always_inline u64 cpu_time(u64 now)
{
	struct task_struct *task = (struct task_struct *)bpf_get_current_task();

	return BPF_CORE_READ(task, se.sum_exec_runtime) + now - BPF_CORE_READ(task, se.exec_start);
}

static __always_inline void begin(struct thread *thread, struct ids ids, u64 now)
{
	thread->gc_begin_ns = now;
	thread->gc_begin_cpu = cpu_time(now);
	emit_bare(RECORD_COLLECTION_BEGIN, 0, ids, now);
}

static __always_inline void end(struct thread *thread, struct ids ids, u64 now, u16 flags,
				s32 generation, s64 collected, s64 uncollectable)
{
	struct collection_end_record *record;

	record = bpf_ringbuf_reserve(&records, sizeof(*record), 0);
	if (!record) {
		count_loss(LOSS_RING_FULL);
		return;
	}
	fill_header(&record->header, sizeof(*record), RECORD_COLLECTION_END,
		    flags | COLLECTION_HAS_CPU, ids, now);
	record->begin_ns = thread->gc_begin_ns;
	record->cpu_ns = cpu_time(now) - thread->gc_begin_cpu;
	record->collected = collected;
	record->uncollectable = uncollectable;
	record->generation = generation;
	record->interpreter = 0;
	bpf_ringbuf_submit(record, wake_flags());
}

/* Where the interpreter keeps generation_stats; 0, if its layout is not known. */
static __always_inline u64 stats_address(u32 pid, u64 thread_state)
{
	struct target *target = bpf_map_lookup_elem(&targets, &pid);
	u64 interpreter = 0;

	if (!target || !(target->flags & TARGET_HAS_LAYOUT))
		return 0;
	if (bpf_probe_read_user(&interpreter, sizeof(interpreter),
				(const void *)(thread_state + target->layout.thread_interpreter)))
		return 0;
	return interpreter + target->layout.interpreter_gc + target->layout.gc_stats;
}

SEC("?uprobe")
int BPF_UPROBE(collector_enter, u64 thread_state)
{
	struct ids ids;
	struct thread *thread;

	if (!active)
		return 0;
	thread = this_thread();
	if (!thread || thread->gc_depth++)
		return 0;
	ids = current_ids();
	thread->gc_stats = stats_address(ids.pid, thread_state);
	if (thread->gc_stats &&
	    bpf_probe_read_user(thread->gc_counters, sizeof(thread->gc_counters),
				(const void *)thread->gc_stats))
		thread->gc_stats = 0;
	begin(thread, ids, bpf_ktime_get_ns());
	return 0;
}

static __always_inline int collector_ended(void)
{
	u64 now = bpf_ktime_get_ns();
	struct thread *thread;
	u64 after[9];
	u16 flags = 0;
	s32 generation = -1;
	s64 collected = 0;
	s64 uncollectable = 0;

	if (!active)
		return 0;
	thread = this_thread();
	if (!thread || !thread->gc_depth || --thread->gc_depth)
		return 0;
	if (thread->gc_stats &&
	    bpf_probe_read_user(after, sizeof(after), (const void *)thread->gc_stats) == 0) {
		flags = COLLECTION_HAS_STATS | COLLECTION_IDLE;
		for (int i = 0; i < 3; i++) {
			if (after[3 * i] != thread->gc_counters[3 * i]) {
				flags = COLLECTION_HAS_STATS;
				generation = i;
				collected = after[3 * i + 1] - thread->gc_counters[3 * i + 1];
				uncollectable = after[3 * i + 2] - thread->gc_counters[3 * i + 2];
			}
		}
	}
	end(thread, current_ids(), now, flags, generation, collected, uncollectable);
	return 0;
}

SEC("?uretprobe")
int BPF_URETPROBE(collector_return)
{
	return collector_ended();
}

/* At an instruction that leaves the function, where a return probe might kill the process. */
SEC("?uprobe")
int collector_exit(struct pt_regs *ctx)
{
	return collector_ended();
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
	begin(thread, current_ids(), bpf_ktime_get_ns());
	return 0;
}

SEC("?usdt")
int BPF_USDT(collector_done, s64 collected)
{
	u64 now = bpf_ktime_get_ns();
	struct thread *thread;

	if (!active)
		return 0;
	thread = this_thread();
	if (!thread || !thread->gc_depth)
		return 0;
	thread->gc_depth = 0;
	/* The probe hands over the sum of collected and uncollectable objects. */
	end(thread, current_ids(), now, COLLECTION_HAS_STATS, thread->gc_generation, collected, 0);
	return 0;
}
