/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
#ifndef GCAUSE_PYTHON_BPF_H
#define GCAUSE_PYTHON_BPF_H

/* What is read of CPython's own state, along the layout that user space found out. */

#include "state.bpf.h"

/* A word of the target; 0, if it cannot be read. */
static __always_inline u64 read_word(u64 address)
{
	u64 word = 0;

	bpf_probe_read_user(&word, sizeof(word), (const void *)address);
	return word;
}

static __always_inline s32 read_int(u64 address)
{
	s32 value = 0;

	bpf_probe_read_user(&value, sizeof(value), (const void *)address);
	return value;
}

/* The thread's number in the innermost PID namespace, which is the target's. */
static __always_inline u64 native_id(struct thread *thread)
{
	if (!thread->native_id) {
		struct task_struct *task = bpf_get_current_task_btf();
		struct pid *pid = task->thread_pid;
		u32 level = pid->level;
		struct upid upid = {};

		if (level < 32)
			bpf_core_read(&upid, sizeof(upid), &pid->numbers[level]);
		thread->native_id = upid.nr;
	}
	return thread->native_id;
}

/*
 * The PyThreadState of the thread that the target knows as `id`, among those of all interpreters; 0, if
 * it is not found (python.bpf.c).
 */
u64 find_thread_state(struct target *target, u64 id);

/* Whether what may be a PyThreadState belongs to an interpreter of the runtime (python.bpf.c). */
int is_thread_state(struct target *target, u64 state);

/*
 * Finds out the thread's PyThreadState and interpreter. `hint`, which may be anything, is taken if it
 * is a state, also one that names another thread: in 3.12 a thread runs the state that another made.
 * Without it the thread's own state is looked for. Up to 3.11 one lock guards all interpreters, and
 * the runtime names the state of the thread that holds it.
 */
static __always_inline void find_python(struct thread *thread, struct target *target, u64 hint)
{
	const struct python_layout *layout = &target->layout;
	u64 state = thread->python;
	u64 interpreter;

	if (layout->runtime_thread) {
		state = read_word(target->runtime + layout->runtime_thread);
	} else {
		u64 id = native_id(thread);

		if (hint && is_thread_state(target, hint))
			state = hint;
		else if (!state || read_word(state + layout->thread_native_id) != id)
			state = find_thread_state(target, id);
	}
	thread->python = state;
	interpreter = state ? read_word(state + layout->thread_interpreter) : 0;
	if (interpreter != thread->interpreter) {
		thread->interpreter = interpreter;
		thread->interpreter_id =
		    interpreter ? read_word(interpreter + layout->interpreter_id) : 0;
	}
}

static __always_inline u64 gc_state_of(struct thread *thread, struct target *target)
{
	if (target->layout.runtime_gc)
		return target->runtime + target->layout.runtime_gc;
	return thread->interpreter ? thread->interpreter + target->layout.interpreter_gc : 0;
}

/* Reads the counters of the three generations; false, if it cannot be done. */
static __always_inline bool read_counters(struct target *target, u64 gc_state,
					  struct gc_counters counters[3])
{
	const struct python_layout *layout = &target->layout;
	u64 stats = gc_state + layout->gc_stats;

	if (!(layout->flags & LAYOUT_STATS_POINTER))
		return bpf_probe_read_user(counters, 3 * sizeof(*counters), (const void *)stats) ==
		       0;
	stats = read_word(stats);
	for (int i = 0; i < 3; i++) {
		u8 index = 0;

		if (bpf_probe_read_user(&index, sizeof(index),
					(const void *)(stats + layout->stats_index[i])) ||
		    bpf_probe_read_user(&counters[i], sizeof(*counters),
					(const void *)(stats + layout->stats_ring[i] +
						       index * layout->stats_record)))
			return false;
	}
	return true;
}

/*
 * Why a collection begins, as the collector's state tells. The first generation's count above its
 * threshold starts one; from 3.12 on it is put off to the next look at the eval breaker, and what
 * stands there is taken back just before. So a count above the threshold with the request still
 * standing is a collection that the program asked for meanwhile.
 */
static __always_inline u32 reason_of(struct thread *thread, struct target *target, u64 gc_state)
{
	const struct python_layout *layout = &target->layout;
	struct {
		s32 threshold;
		s32 count;
	} young = {};

	if (!layout->gc_generations)
		return 0;
	if (!read_int(gc_state + layout->gc_enabled))
		return COLLECTION_MANUAL;
	bpf_probe_read_user(&young, sizeof(young),
			    (const void *)(gc_state + layout->gc_generations + 16));
	if (young.threshold == 0 || young.count <= young.threshold)
		return COLLECTION_MANUAL;
	if (layout->thread_eval_breaker &&
	    read_word(thread->python + layout->thread_eval_breaker) & layout->gc_scheduled_bit)
		return COLLECTION_MANUAL;
	if (layout->interpreter_gc_scheduled &&
	    read_int(thread->interpreter + layout->interpreter_gc_scheduled))
		return COLLECTION_MANUAL;
	return COLLECTION_AUTOMATIC;
}

/* Emits where in the program the running collection was started (trigger.bpf.c). */
__hidden int emit_trigger(struct thread *thread, struct target *target, u64 now);

#endif
