/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
#ifndef GCAUSE_CONFIG_H
#define GCAUSE_CONFIG_H

#include "python_layout.h"

/* Settings and per-process knowledge that user space hands to the kernel side. */

/* Read-only data: set before load, so that the verifier prunes what is not used. */
struct gcause_settings {
	u32 pidns_inode; /* of gcause's PID namespace; 0, if that is the initial one */
	u32 wake_bytes; /* unread bytes at which the reader is woken early */
};

enum target_flags {
	TARGET_HAS_LAYOUT = 1, /* otherwise collections are timed, and nothing is read of CPython */
	TARGET_WORLD_PROBED = 2, /* stops of the world are seen: each collection makes one at least */
};

/*
 * How much further down on the stack a thread sleeps for the interpreter lock than it had made its read,
 * by majority of those that slept at once. Both are called by one C function of CPython, so this is one
 * number for a kind of read and a build. The kernel side's own.
 */
struct lock_depth {
	s64 bytes;
	u32 votes;
	u32 reserved;
};

/* One followed process: the value of the map "targets", keyed by pid. */
struct target {
	u64 runtime; /* address of _PyRuntime in the process; 0, if not known */
	u64 code_type; /* address of PyCode_Type; 0, if not known: then nothing is said of triggers */
	u64 trigger_ns; /* a pause of at least this length has its trigger read */
	struct lock_depth lock_depths[2]; /* for reads of sockets, and of TLS libraries */
	u64 lock_address; /* of the futex of the last sleep for the interpreter lock; 0: none yet */
	u32 flags; /* enum target_flags */
	struct python_layout layout;
};

/* A connection of a process, as io_record names it: key of the maps "streaming" and "copied". */
struct connection_key {
	u64 connection;
	u32 pid;
	u32 reserved;
};

/* Value of the map "streaming": in which directions all that a connection moves is copied. */
enum streaming_flags {
	STREAMING_READ = 1,
	STREAMING_WRITE = 2,
};

/* Value of the map "copied": bytes in each direction since there were some in the other one. */
struct copied_bytes {
	u64 read;
	u64 written;
};

/* Attach cookies: what the probed function is. */
enum libc_call {
	LIBC_READ = 1, /* (fd, buffer, length, ...): read, recv, recvfrom */
	LIBC_READ_MESSAGE = 2, /* (fd, struct msghdr *): recvmsg */
	LIBC_READ_VECTOR = 3, /* (fd, struct iovec *, count): readv */
	LIBC_WRITE = 4,
	LIBC_WRITE_MESSAGE = 5,
	LIBC_WRITE_VECTOR = 6,
};

enum tls_call {
	TLS_READ = 1, /* (ssl, buffer, int length) -> bytes */
	TLS_READ_EX = 2, /* (ssl, buffer, size_t length, size_t *done) -> 1 or less */
	TLS_WRITE = 3,
	TLS_WRITE_EX = 4,
};

#define MAX_TARGETS 1024
#define FILTER_WORDS 512 /* of 64 bits; a power of two */
#define FILTER_WORD(number) (((number) >> 6) & (FILTER_WORDS - 1))
#define FILTER_BIT(number) (1ULL << ((number) & 63))
#define MAX_THREADS 8192
#define MAX_SOCKETS 16384
#define MAX_CONNECTIONS 16384
#define MAX_PIECES 24 /* of one call: 16 of IO_PIECE are the 256 KiB that asyncio reads at most */
#define UNASKED_COPY 262144 /* bytes of a message that are copied before it is known what it is */
#define SCRATCH_SLOTS 4
/*
 * CPU time of a thread from its read to the sleep for the interpreter lock, and from a wake-up to the next
 * one: where nothing comes between, where little does, and at most, on a machine whose host takes its CPUs
 * away in between.
 */
#define LOCK_AT_ONCE_NS 50000
#define LOCK_SOON_NS 2000000
#define LOCK_AT_MOST_NS 50000000
#define LOCK_VOTES 32 /* at most */
#define LOCK_SPAN 256 /* bytes that hold the futexes of a lock, and the frames of those who sleep on them */

GCAUSE_ASSERT(sizeof(struct gcause_settings) == 8, "gcause_settings");
GCAUSE_ASSERT(sizeof(struct target) == 68 + sizeof(struct python_layout), "target");
GCAUSE_ASSERT(sizeof(struct connection_key) == 16, "connection_key");
GCAUSE_ASSERT(sizeof(struct copied_bytes) == 16, "copied_bytes");

#endif
