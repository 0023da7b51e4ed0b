// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0

/* Looks for a thread among those that CPython knows. */

#include "python.bpf.h"

#define MAX_THREAD_STEPS 512 /* thread states that are looked at for one thread */

#define MAX_INTERPRETERS 64

/* Not static, so that the verifier looks at each loop once. */
__noinline u64 find_thread_state(struct target *target, u64 id)
{
	u64 interpreter, state;

	if (!target)
		return 0;
	interpreter = read_word(target->runtime + target->layout.runtime_interpreters);
	state = interpreter ? read_word(interpreter + target->layout.interpreter_threads) : 0;
	for (int i = 0; i < MAX_THREAD_STEPS && interpreter; i++) {
		if (!state) {
			interpreter = read_word(interpreter + target->layout.interpreter_next);
			state = interpreter
				    ? read_word(interpreter + target->layout.interpreter_threads)
				    : 0;
			continue;
		}
		if (read_word(state + target->layout.thread_native_id) == id)
			return state;
		state = read_word(state + target->layout.thread_next);
	}
	return 0;
}

__noinline int is_thread_state(struct target *target, u64 state)
{
	u64 interpreter, wanted;

	if (!target)
		return 0;
	wanted = read_word(state + target->layout.thread_interpreter);
	interpreter = read_word(target->runtime + target->layout.runtime_interpreters);
	for (int i = 0; i < MAX_INTERPRETERS && interpreter && wanted; i++) {
		if (interpreter == wanted)
			return 1;
		interpreter = read_word(interpreter + target->layout.interpreter_next);
	}
	return 0;
}
