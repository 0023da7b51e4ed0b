/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
#ifndef GCAUSE_EVENTS_H
#define GCAUSE_EVENTS_H

/*
 * The contract between the kernel side and user space: every byte that crosses the ring buffer is
 * one of these records. Kinds are append-only and keep their values. The includer provides the
 * fixed-width types (vmlinux.h in BPF, the typedefs of decode in user space).
 *
 * Times are ns of CLOCK_MONOTONIC. "pid" is the process (tgid) and "tid" the thread, both as
 * numbered in the PID namespace of gcause.
 */

enum record_kind {
	RECORD_COLLECTION_BEGIN = 1,
	RECORD_COLLECTION_END = 2,
	RECORD_IO = 3,
	RECORD_ARRIVAL = 4,
	RECORD_WAIT = 5,
	RECORD_SOCKET_SEEN = 6,
	RECORD_SOCKET_CLOSED = 7,
	RECORD_TLS_FREED = 8,
	RECORD_PROCESS_EXIT = 9,
	RECORD_PROCESS_FORK = 10,
	RECORD_PROCESS_EXEC = 11,
	RECORD_READ_RETURNED = 12,
	RECORD_TRIGGER = 13,
	RECORD_WORLD_STOPPING = 14,
	RECORD_WORLD_STARTED = 15,
	RECORD_LOCK_WAITED = 16,
	RECORD_TLS_CALLER = 17,
};

struct record_header {
	u32 size; /* bytes of the whole record, this header included */
	u16 kind; /* enum record_kind */
	u16 flags; /* meaning by kind; 0 if none */
	u32 pid;
	u32 tid; /* 0, if no thread of the target was running */
	u64 ns; /* when it happened; for a bracket or a call, its end */
};

/* RECORD_COLLECTION_BEGIN is a bare header. */

enum collection_flags {
	COLLECTION_HAS_STATS = 1, /* generation, collected, uncollectable are known */
	COLLECTION_IDLE = 2, /* the collector's own counters did not move: no collection */
	COLLECTION_HAS_CPU = 4,
	COLLECTION_HAS_INTERPRETER = 8,
	COLLECTION_AUTOMATIC = 16, /* one of the three, or none where the reason is not known */
	COLLECTION_MANUAL = 32,
	COLLECTION_SHUTDOWN = 64,
};

struct collection_end_record {
	struct record_header header;
	u64 begin_ns;
	u64 cpu_ns; /* of this thread inside the bracket */
	s64 collected; /* objects */
	s64 uncollectable; /* objects */
	s32 generation; /* 0 to 2; -1, if not known */
	u32 interpreter; /* PyInterpreterState.id, see COLLECTION_HAS_INTERPRETER */
};

/*
 * The Python frame in which a collection was started, read when the collection was over and just before
 * its RECORD_COLLECTION_END, on the same thread and with the same time. All of it is the target's word.
 */
struct trigger_record {
	struct record_header header;
	s64 instruction; /* bytes from the start of the code; below 0 or beyond it: not running yet */
	s32 first_line; /* co_firstlineno */
	u16 line_table; /* enum line_table, of what lines hold */
	u16 reserved;
	/* three texts follow each other; a text longer than its limit is left out: length 0 */
	u16 file_length; /* bytes */
	u16 function_length; /* bytes */
	u16 lines_length; /* bytes */
	u8 file_kind; /* bytes per character: 1, 2 or 4; 0: ASCII */
	u8 function_kind;
	/* u8 file[file_length], function[function_length], lines[lines_length] */
};

#define TRIGGER_TEXT 1024 /* bytes of a file's or function's name, at most */
#define TRIGGER_LINES 16384 /* bytes of a line table, at most */

/*
 * RECORD_WORLD_STOPPING is a bare header: a thread asked all threads of its interpreter to stop.
 * RECORD_WORLD_STARTED is its end: they may run again. Free-threaded builds only.
 */
enum world_flags {
	WORLD_IN_COLLECTION = 1, /* the thread was inside of the collector */
	WORLD_HAS_CPU = 4,
	WORLD_HAS_INTERPRETER = 8,
};

struct world_started_record {
	struct record_header header;
	u64 begin_ns;
	u64 cpu_ns; /* of the thread that had stopped the others */
	u32 interpreter;
	u32 reserved;
};

enum io_flags {
	IO_WRITE = 1, /* otherwise a read */
	IO_TLS = 2, /* seen in the TLS library; otherwise in a socket call */
	IO_HAS_SEQUENCE = 4,
	IO_LAST = 8, /* no further piece of this call follows */
	IO_INSIDE_TLS = 16, /* a socket call that the TLS library made: never any payload */
	IO_HAS_RUN_DELAY = 32,
	IO_HAS_WAKE = 64, /* of a write, see since_wake_us */
};

/* One read or write, or a piece of one that is longer than IO_PIECE. */
struct io_record {
	struct record_header header;
	u64 begin_ns; /* the call was entered; 0, if unknown */
	u64 connection; /* SSL object for IO_TLS, else the socket's cookie */
	u64 socket; /* cookie; 0, if unknown */
	s64 result; /* bytes that the whole call moved; 0 at end of file, -errno: sockets only */
	union {
		u32 sequence_end; /* of a read: TCP sequence number behind the bytes of the whole call */
		/*
		 * Of a write: us since the thread woke from its last wait, 2^32 - 1 at most. Then it had
		 * nothing to do, so what it writes came of what woke it, or came later.
		 */
		u32 since_wake_us;
	};
	u32 offset; /* of payload in the bytes of the call */
	u32 length; /* of payload; 0 where it was not copied */
	/* us for which this thread was ever runnable without a CPU, modulo 2^32; see IO_HAS_RUN_DELAY */
	u32 run_delay_us;
	/* u8 payload[length] */
};

struct arrival_record {
	struct record_header header;
	u64 socket; /* cookie */
	u32 sequence_end; /* TCP sequence number behind the newest readable byte */
	u32 reserved;
};

enum wait_flags {
	WAIT_IN_READ = 1, /* it blocks in a socket read, not in a poll */
	WAIT_HAS_RUN_DELAY = 2,
};

/* A bare header in captures that were made before WAIT_HAS_RUN_DELAY. */
struct wait_record {
	struct record_header header;
	u32 run_delay_us; /* as in io_record */
	u32 reserved;
};

struct socket_seen_record {
	struct record_header header;
	u64 socket; /* cookie */
	u16 family; /* AF_INET, AF_INET6, AF_UNIX */
	u16 remote_port; /* host byte order; 0 for AF_UNIX */
	u32 sequence_end; /* TCP: behind the newest byte that had arrived by then; else 0 */
	u8 remote_address[16]; /* network byte order; the first 4 bytes for AF_INET */
};

enum socket_closed_flags {
	SOCKET_CLOSED_BY_PROCESS = 1, /* nothing can be read from it any more */
	SOCKET_CLOSED_BY_PEER = 2, /* its FIN came: what has arrived can be read, nothing will follow */
};

struct socket_closed_record {
	struct record_header header;
	u64 socket; /* cookie */
	s32 error; /* errno left on the socket; 0, if none */
	u32 reserved;
};

struct tls_freed_record {
	struct record_header header;
	u64 connection; /* SSL object */
};

/*
 * A socket read that a tracepoint saw in the kernel returned to the program at header.ns. The way out
 * of the kernel takes microseconds as a rule, but milliseconds where the machine is a guest that its
 * host holds back, or the program's code has to be paged in.
 */
struct read_returned_record {
	struct record_header header;
	u64 read_ns; /* header.ns of the io_record that is meant */
};

/*
 * A thread that had read slept for a lock at once: CPython lets go of its own around the call, and takes
 * it again before the program goes on. It woke at header.ns; a further record with the same begin says
 * that it had woken too early and slept on.
 */
struct lock_waited_record {
	struct record_header header;
	u64 begin_ns;
};

#define TLS_CALLER_STACK 64 /* words */

/*
 * The first call on a socket that moved what looks like a TLS record, outside of the calls of a TLS library
 * that is probed: whose code it was. Return addresses are among what the stack holds.
 */
struct tls_caller_record {
	struct record_header header;
	u64 socket; /* cookie */
	s32 fd; /* as the process numbers it; -1, if the system call names none */
	u32 reserved;
	u64 code; /* address behind the system call */
	u64 stack[TLS_CALLER_STACK]; /* from its top on; 0 where it could not be read */
};

/* RECORD_PROCESS_EXIT and RECORD_PROCESS_EXEC are bare headers. */

struct process_fork_record {
	struct record_header header; /* of the parent */
	u32 child; /* pid */
	u32 reserved;
};

/* Where a record can be lost. One counter each, per CPU, in the map "losses". */
enum loss {
	LOSS_RING_FULL = 0,
	LOSS_SCRATCH_BUSY = 1, /* every buffer of this CPU was in use by a preempted program */
	LOSS_THREADS_FULL = 2,
	LOSS_SOCKETS_FULL = 3,
	LOSS_PAYLOAD_UNREADABLE = 4, /* not resident, or too many pieces */
	LOSS_IO_URING = 5, /* a read or write whose buffer no system call names */
	LOSS_COUNT = 6,
};

#define IO_PIECE 16384 /* bytes of payload in one record, at most */

#ifdef __cplusplus
#define GCAUSE_ASSERT static_assert
#else
#define GCAUSE_ASSERT _Static_assert
#endif
GCAUSE_ASSERT(sizeof(struct record_header) == 24, "record_header");
GCAUSE_ASSERT(sizeof(struct collection_end_record) == 64, "collection_end_record");
GCAUSE_ASSERT(sizeof(struct trigger_record) == 48, "trigger_record");
GCAUSE_ASSERT(sizeof(struct world_started_record) == 48, "world_started_record");
GCAUSE_ASSERT(sizeof(struct io_record) == 72, "io_record");
GCAUSE_ASSERT(sizeof(struct arrival_record) == 40, "arrival_record");
GCAUSE_ASSERT(sizeof(struct wait_record) == 32, "wait_record");
GCAUSE_ASSERT(sizeof(struct socket_seen_record) == 56, "socket_seen_record");
GCAUSE_ASSERT(sizeof(struct socket_closed_record) == 40, "socket_closed_record");
GCAUSE_ASSERT(sizeof(struct tls_freed_record) == 32, "tls_freed_record");
GCAUSE_ASSERT(sizeof(struct read_returned_record) == 32, "read_returned_record");
GCAUSE_ASSERT(sizeof(struct lock_waited_record) == 32, "lock_waited_record");
GCAUSE_ASSERT(sizeof(struct tls_caller_record) == 560, "tls_caller_record");
GCAUSE_ASSERT(sizeof(struct process_fork_record) == 32, "process_fork_record");

#endif
