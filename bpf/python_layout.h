/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
#ifndef GCAUSE_PYTHON_LAYOUT_H
#define GCAUSE_PYTHON_LAYOUT_H

/*
 * Where one CPython keeps what gcause reads of it: offsets in bytes. User space fills it, from a table
 * by version and from _Py_DebugOffsets; the kernel side reads along it. The includer provides the
 * fixed-width types.
 */

/* How a code object maps instructions to lines. */
enum line_table {
	LINES_NOT_KNOWN = 0,
	LINES_LNOTAB = 1, /* 3.8, 3.9: co_lnotab, Objects/lnotab_notes.txt */
	LINES_LINETABLE = 2, /* 3.10: co_linetable of PEP 626 */
	LINES_LOCATIONS = 3, /* from 3.11: Objects/locations.md */
};

enum layout_flags {
	LAYOUT_STATS_POINTER = 1, /* gc_stats holds the address of struct gc_stats (3.15) */
	LAYOUT_FREE_THREADED = 2,
};

struct python_layout {
	u32 flags; /* enum layout_flags */
	u32 version; /* PY_VERSION_HEX */

	/* _PyRuntimeState */
	u32 runtime_finalizing; /* non-zero there while the runtime ends */
	u32 runtime_interpreters; /* interpreters.head */
	u32 runtime_thread; /* gilstate.tstate_current; 0 from 3.12 on */
	u32 runtime_gc; /* 3.8, which has one collector for all interpreters; else 0 */

	/* PyInterpreterState */
	u32 interpreter_next;
	u32 interpreter_id; /* s64 */
	u32 interpreter_threads; /* head of the list */
	u32 interpreter_gc; /* 0 in 3.8 */
	u32 interpreter_gil; /* pointer, the same where a lock is shared: ceval.gil; 0 before 3.12 */

	/* PyThreadState */
	u32 thread_next;
	u32 thread_interpreter;
	u32 thread_native_id; /* unsigned long, as gettid() gives it; 0 before 3.11 */
	u32 thread_status; /* u32 of bit fields; 0 before 3.12 */
	u32 thread_frame; /* the running frame, or its _PyCFrame */
	u32 cframe_frame; /* 3.11, 3.12: current_frame in _PyCFrame */
	u32 thread_has_cframe; /* bool */
	/* Where a collection waits for the eval breaker: it is no longer there once it has begun. */
	u32 thread_eval_breaker; /* u64 with gc_scheduled_bit, from 3.13 on; else 0 */
	u32 gc_scheduled_bit; /* _PY_GC_SCHEDULED_BIT */
	u32 interpreter_gc_scheduled; /* int, ceval.gc_scheduled of 3.12; else 0 */

	/* struct _gc_runtime_state */
	u32 gc_enabled; /* int */
	u32 gc_collecting; /* int: a collection is on */
	u32 gc_generations; /* 0, if not known; 3 of {head 16, threshold int, count int}: 24 bytes each */
	u32 gc_permanent; /* permanent_generation, whose list of objects gc.freeze() fills */
	u32 gc_stats; /* 3 of {collections, collected, uncollectable}: s64 each; or a pointer, see flags */
	/* struct gc_stats: per generation a ring of records, and behind it the index of the latest */
	u32 stats_ring[3]; /* collections in the first record of the ring */
	u32 stats_index[3]; /* s8 */
	u32 stats_record; /* bytes of a record */

	/* PyFrameObject before 3.11, then _PyInterpreterFrame */
	u32 frame_previous;
	u32 frame_code; /* from 3.14 on with tag bits in the lowest 3 */
	u32 frame_instruction; /* f_lasti (int) before 3.11, then a pointer */
	u32 frame_owner; /* s8; 0 where there is none */
	u32 frame_owner_shim; /* frames of this owner or a higher one run no Python code */
	u32 frame_tlbc_index; /* s32; free-threaded from 3.14 on, else 0 */

	/* PyCodeObject */
	u32 code_file;
	u32 code_name;
	u32 code_lines; /* bytes object; which, says line_table */
	u32 code_first_line; /* int */
	u32 code_bytes; /* the code itself, which frame_instruction points into; 0 before 3.11 */
	u32 code_tlbc; /* pointer to {size, entries[]} of thread-local copies of the code; else 0 */
	u32 instruction_unit; /* bytes that 1 of f_lasti means, before 3.11 */
	u32 line_table; /* enum line_table */

	/* PyObject, PyBytesObject, PyASCIIObject */
	u32 object_type;
	u32 bytes_size;
	u32 bytes_data;
	u32 unicode_length;
	u32 unicode_state; /* u32 of bit fields: kind (3 bits), compact, ascii from unicode_kind_shift on */
	u32 unicode_kind_shift;
	u32 unicode_ascii_size; /* sizeof(PyASCIIObject) */
	u32 unicode_compact_size; /* sizeof(PyCompactUnicodeObject) */
};

#endif
