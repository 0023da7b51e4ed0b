/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
#ifndef GCAUSE_STATE_BPF_H
#define GCAUSE_STATE_BPF_H

/* State and helpers that the programs of all signals share. */

#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>
#include "events.h"
#include "config.h"

extern const volatile struct gcause_settings settings;
extern volatile u32 active; /* 0 until every probe is in: attached is not active */
extern volatile u32 library_changes; /* how often libraries came or went in targets */

/*
 * Which keys may be in the maps of targets, threads and sockets. Some programs run for every socket
 * and every switch of the host, nearly always for one that nobody follows: a bit of these says so
 * for less than a look-up costs. A bit that is set stays set; then the look-up decides. User space
 * sets those of targets. A page each, as what these programs touch has to fit in the TLB of others.
 */
extern volatile u64 maybe_target[FILTER_WORDS]; /* by process, as in ids */
extern volatile u64 maybe_thread[FILTER_WORDS]; /* by thread, in the initial namespace */
extern volatile u64 maybe_socket[FILTER_WORDS]; /* by the kernel's hash of the connection */

static __always_inline bool filter_has(const volatile u64 *words, u32 number)
{
	return words[FILTER_WORD(number)] & FILTER_BIT(number);
}

static __always_inline void filter_add(volatile u64 *words, u32 number)
{
	__sync_fetch_and_or(&words[FILTER_WORD(number)], FILTER_BIT(number));
}

/* struct gc_generation_stats of CPython. */
struct gc_counters {
	s64 collections;
	s64 collected;
	s64 uncollectable;
};

enum read_layer {
	READ_BY_SOCKET = 0,
	READ_BY_TLS = 1,
};

/* A wait for the interpreter lock, as it follows on a read. */
enum lock_state {
	LOCK_OVER = 0, /* the thread went on, or has not read */
	LOCK_POSSIBLE = 1,
	LOCK_ASLEEP = 2,
};

/* What a thread of a target is in the middle of. */
struct thread {
	/* CPython: addresses in the target; 0, if not known */
	u64 python; /* PyThreadState */
	u64 interpreter; /* PyInterpreterState */
	u64 native_id; /* as gettid() gives it to the target */
	u32 interpreter_id;
	/* the collector */
	u32 gc_depth;
	u64 gc_begin_ns;
	u64 gc_begin_cpu;
	u64 gc_stack; /* stack pointer at the entry: a later entry further up found no return */
	u64 gc_state; /* struct _gc_runtime_state; 0, if not known: then no counters are compared */
	struct gc_counters gc_before[3];
	u32 gc_reason; /* enum collection_flags */
	s32 gc_generation; /* as USDT names it */
	u32 gc_world_stops; /* in this collection */
	u32 reserved;
	/* a stopped world */
	u64 world_begin_ns; /* 0: none */
	u64 world_begin_cpu;
	/* a TLS call */
	u64 tls_begin_ns;
	u64 tls_sent_ns; /* a socket took bytes in it; 0: none did */
	u64 tls_connection;
	u64 tls_buffer;
	u64 tls_length;
	u64 tls_done; /* address at which an _ex call leaves its length */
	u32 tls_depth;
	/* the next entry into a blocking call is the start of a wait */
	u32 owes_wait;
	u32 lock; /* enum lock_state */
	u64 lock_begin_ns; /* of the first sleep; 0: none yet */
	u64 lock_address; /* of its futex */
	u64 lock_stack; /* stack pointer in the last sleep */
	u64 read_stack; /* and in the read before */
	u32 read_layer; /* index into lock_depths */
	u32 reserved2;
	u64 lock_cpu; /* CPU time of the thread when it had read, or woke */
	/* what may have given a thread that writes something to write */
	u32 writes; /* it has written: its waits are followed */
	u32 idle; /* it is in a wait */
	u64 woke_ns; /* from the last one; 0, if not known, or it slept in another way since */
	/* the socket read that was traced last, until it is seen to return */
	u64 read_ns;
	/* a socket call bracketed by uprobes */
	u64 libc_begin_ns;
	u64 libc_address;
	u64 libc_count;
	u32 libc_call;
	s32 libc_fd;
};

struct followed_socket {
	u64 cookie;
	u32 pid;
	u32 reserved;
};

struct scratch_slot {
	u32 busy;
	u32 reserved;
	union {
		struct {
			struct io_record record;
			u8 payload[IO_PIECE];
		};
		struct {
			struct trigger_record trigger;
			u8 text[2 * TRIGGER_TEXT + TRIGGER_LINES];
		};
	};
};

/* Connections that user space knows to carry an event stream now: enum streaming_flags. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, MAX_CONNECTIONS);
	__type(key, struct connection_key);
	__type(value, u8);
} streaming __weak SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, MAX_CONNECTIONS);
	__type(key, struct connection_key);
	__type(value, struct copied_bytes);
} copied __weak SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4 << 20);
} records __weak SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, LOSS_COUNT);
	__type(key, u32);
	__type(value, u64);
} losses __weak SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_TARGETS);
	__type(key, u32);
	__type(value, struct target);
} targets __weak SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_THREADS);
	__type(key, u32);
	__type(value, struct thread);
} threads __weak SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, MAX_SOCKETS);
	__type(key, u64);
	__type(value, struct followed_socket);
} sockets __weak SEC(".maps");

/* SCRATCH_SLOTS for each CPU; a per-CPU map takes no values of this size. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, SCRATCH_SLOTS);
	__type(key, u32);
	__type(value, struct scratch_slot);
} scratches __weak SEC(".maps");

static __always_inline void count_loss(u32 where)
{
	u64 *count = bpf_map_lookup_elem(&losses, &where);

	if (count)
		__sync_fetch_and_add(count, 1);
}

/* The reader looks several times a second by itself; it is woken only when much is waiting. */
static __always_inline u64 wake_flags(void)
{
	if (bpf_ringbuf_query(&records, BPF_RB_AVAIL_DATA) >= settings.wake_bytes)
		return BPF_RB_FORCE_WAKEUP;
	return BPF_RB_NO_WAKEUP;
}

struct ids {
	u32 pid;
	u32 tid;
};

/* The number of a struct pid in gcause's PID namespace; 0, if it has none there. */
static __always_inline u32 number_in_our_namespace(struct pid *pid)
{
	u32 level = BPF_CORE_READ(pid, level);

	for (u32 i = 0; i < 8 && i <= level; i++) {
		struct upid upid;

		if (bpf_core_read(&upid, sizeof(upid), &pid->numbers[i]))
			return 0;
		if (BPF_CORE_READ(upid.ns, ns.inum) == settings.pidns_inode)
			return upid.nr;
	}
	return 0;
}

static __always_inline struct ids ids_of(struct task_struct *task)
{
	struct ids ids;

	if (settings.pidns_inode == 0) {
		ids.pid = BPF_CORE_READ(task, tgid);
		ids.tid = BPF_CORE_READ(task, pid);
	} else {
		ids.pid = number_in_our_namespace(BPF_CORE_READ(task, group_leader, thread_pid));
		ids.tid = number_in_our_namespace(BPF_CORE_READ(task, thread_pid));
	}
	return ids;
}

static __always_inline struct ids current_ids(void)
{
	if (settings.pidns_inode == 0) {
		u64 both = bpf_get_current_pid_tgid();
		struct ids ids = { .pid = both >> 32, .tid = (u32)both };

		return ids;
	}
	return ids_of((struct task_struct *)bpf_get_current_task());
}

static __always_inline void fill_header(struct record_header *header, u32 size, u16 kind, u16 flags,
					struct ids ids, u64 ns)
{
	header->size = size;
	header->kind = kind;
	header->flags = flags;
	header->pid = ids.pid;
	header->tid = ids.tid;
	header->ns = ns;
}

static __always_inline void emit_bare(u16 kind, u16 flags, struct ids ids, u64 ns)
{
	struct record_header *record = bpf_ringbuf_reserve(&records, sizeof(*record), 0);

	if (!record) {
		count_loss(LOSS_RING_FULL);
		return;
	}
	fill_header(record, sizeof(*record), kind, flags, ids, ns);
	bpf_ringbuf_submit(record, wake_flags());
}

/* This thread's state, made at need. The caller has made sure that it belongs to a target. */
static __always_inline struct thread *this_thread(void)
{
	static const struct thread fresh;
	u32 key = (u32)bpf_get_current_pid_tgid();
	struct thread *thread = bpf_map_lookup_elem(&threads, &key);

	if (thread)
		return thread;
	filter_add(maybe_thread, key);
	bpf_map_update_elem(&threads, &key, &fresh, BPF_NOEXIST);
	thread = bpf_map_lookup_elem(&threads, &key);
	if (!thread)
		count_loss(LOSS_THREADS_FULL);
	return thread;
}

/* One call that moved bytes, from wherever it was seen. */
struct io {
	struct ids ids;
	u64 ns;
	u64 begin_ns;
	u64 connection;
	u64 socket;
	s64 result;
	u32 sequence_end; /* or since_wake_us */
	u16 flags;
	u64 base; /* the buffer, if vector is 0 */
	u64 vector; /* address of an array of struct iovec */
	u32 vector_length;
	s32 fd; /* that the call was made on; -1: it names none */
	u32 capture; /* bytes to copy, at most */
	u32 run_delay_us; /* emit_io fills it */
	/* where emit_io is: the caller leaves these zero */
	u32 offset; /* bytes of the call that were copied */
	u32 vector_index;
	u64 left; /* bytes at base that were not copied */
};

/* Whether user space has asked for all of what the connection moves in the direction of this call. */
static __always_inline bool wants_all(const struct io *io, const struct connection_key *key)
{
	u8 *directions = bpf_map_lookup_elem(&streaming, key);

	return directions && *directions & (io->flags & IO_WRITE ? STREAMING_WRITE : STREAMING_READ);
}

/*
 * The first bytes of a message are copied, a request as an answer; the rest only if it has turned out to
 * be an event stream by then, and is just told otherwise. Neither a download nor an upload, of a client
 * or of a server, costs the target or the ring buffer more. A message is what a connection moves in one
 * direction until it moves something in the other.
 */
static __always_inline void limit_capture(struct io *io)
{
	struct connection_key key = { .connection = io->connection, .pid = io->ids.pid };
	u64 bytes = io->result > 0 ? io->result : 0;
	bool write = io->flags & IO_WRITE;
	struct copied_bytes fresh = { .read = write ? 0 : bytes, .written = write ? bytes : 0 };
	struct copied_bytes *so_far;
	u64 before;

	io->capture = MAX_PIECES * IO_PIECE;
	so_far = bpf_map_lookup_elem(&copied, &key);
	if (!so_far) {
		bpf_map_update_elem(&copied, &key, &fresh, BPF_ANY);
		return;
	}
	before = write ? so_far->written : so_far->read;
	if (before > UNASKED_COPY && !wants_all(io, &key)) {
		io->capture = 0;
		bytes = 0;
	}
	so_far->read = write ? 0 : before + bytes;
	so_far->written = write ? before + bytes : 0;
}

/*
 * The CPU time of a task that runs, so far. The sum lags by up to a tick, so the running slice is added;
 * the offset between the two clocks cancels in the difference of two calls.
 */
static __always_inline u64 cpu_time_of(struct task_struct *task, u64 now)
{
	return task->se.sum_exec_runtime + now - task->se.exec_start;
}

static __always_inline u64 cpu_time(u64 now)
{
	return cpu_time_of(bpf_get_current_task_btf(), now);
}

/* A read of this thread brought something: it will ask for more, and may have to wait for a lock first. */
static __always_inline void has_read(struct thread *thread, u32 layer, u64 now)
{
	thread->owes_wait = 1;
	thread->read_layer = layer;
	thread->lock = LOCK_POSSIBLE;
	thread->lock_begin_ns = 0;
	thread->lock_cpu = cpu_time(now);
}

/*
 * This thread has written: its waits are followed from now on, as they say what it can have had to write.
 * The next one is told where this was a part of a stream.
 */
static __always_inline void has_written(struct thread *thread, struct io *io)
{
	struct connection_key key = { .connection = io->connection, .pid = io->ids.pid };

	thread->writes = 1;
	if (wants_all(io, &key))
		thread->owes_wait = 1;
	if (thread->woke_ns) {
		u64 us = (io->ns - thread->woke_ns) / 1000;

		io->sequence_end = us < ~0U ? us : ~0U;
		io->flags |= IO_HAS_WAKE;
	}
}

/*
 * How long the task was ever runnable without a CPU. The scheduler adds to it when the task gets one, so it
 * is whole for a task that runs. False on a kernel without CONFIG_SCHED_INFO, which has no such sum.
 */
static __always_inline bool run_delay_us(struct task_struct *task, u32 *us)
{
	if (!bpf_core_field_exists(task->sched_info.run_delay))
		return false;
	*us = task->sched_info.run_delay / 1000;
	return true;
}

/*
 * Uprobe programs can be preempted (kernel commit 8c7dcb84e3b7 runs them without disabling
 * preemption), so a per-CPU buffer may be in use by another thread. Each has a flag, taken and
 * given back atomically.
 */
static __always_inline struct scratch_slot *take_scratch(void)
{
	u32 first = bpf_get_smp_processor_id() * SCRATCH_SLOTS;

	for (u32 i = 0; i < SCRATCH_SLOTS; i++) {
		u32 key = first + i;
		struct scratch_slot *slot = bpf_map_lookup_elem(&scratches, &key);

		if (slot && __sync_val_compare_and_swap(&slot->busy, 0, 1) == 0)
			return slot;
	}
	count_loss(LOSS_SCRATCH_BUSY);
	return NULL;
}

static __always_inline void give_back_scratch(struct scratch_slot *slot)
{
	__sync_val_compare_and_swap(&slot->busy, 1, 0);
}

/* Emits `io` as one or more records (io.bpf.c). */
__hidden int emit_io(struct io *io);

#endif
