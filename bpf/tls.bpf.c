// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0

/* Reads and writes of OpenSSL and its kin: the plaintext, when the call returns. */

#include "state.bpf.h"

SEC("?uprobe")
int BPF_UPROBE(tls_enter, u64 connection, u64 buffer, u64 length, u64 done)
{
	struct thread *thread;

	if (!active)
		return 0;
	thread = this_thread();
	if (!thread || thread->tls_depth++)
		return 0;
	thread->lock = LOCK_OVER;
	thread->read_stack = PT_REGS_SP(ctx);
	thread->tls_begin_ns = bpf_ktime_get_ns();
	thread->tls_sent_ns = 0;
	thread->tls_connection = connection;
	thread->tls_buffer = buffer;
	thread->tls_length = length;
	thread->tls_done = done;
	return 0;
}

/*
 * Bytes that an SSL_write_ex took: all, unless partial writes are allowed. What both calls share has
 * flags in the place of the pointer from OpenSSL 3.2 on; they are no address, and then it is all.
 */
static __always_inline u64 tls_written(const struct thread *thread)
{
	u64 done = 0;

	if (bpf_probe_read_user(&done, sizeof(done), (const void *)thread->tls_done) || !done ||
	    done > thread->tls_length)
		return thread->tls_length;
	return done;
}

static __always_inline int tls_ended(u64 call, int result)
{
	bool write = call == TLS_WRITE || call == TLS_WRITE_EX;
	u64 now = bpf_ktime_get_ns();
	struct thread *thread;
	struct io io = {};

	if (!active)
		return 0;
	thread = this_thread();
	if (!thread || !thread->tls_depth || --thread->tls_depth)
		return 0;
	/* A call that wants more, or finds the end, hands nothing over. */
	if (result <= 0)
		return 0;
	io.result = result;
	if (call == TLS_WRITE_EX)
		io.result = tls_written(thread);
	if (call == TLS_READ_EX &&
	    bpf_probe_read_user(&io.result, sizeof(io.result), (const void *)thread->tls_done)) {
		count_loss(LOSS_PAYLOAD_UNREADABLE);
		return 0;
	}
	if (!write)
		has_read(thread, READ_BY_TLS, now);
	io.ids = current_ids();
	/* A write is over when the socket has the bytes: who waits for them may get the CPU before we do. */
	io.ns = write && thread->tls_sent_ns ? thread->tls_sent_ns : now;
	io.begin_ns = thread->tls_begin_ns;
	io.connection = thread->tls_connection;
	io.flags = IO_TLS | (write ? IO_WRITE : 0);
	io.base = thread->tls_buffer;
	limit_capture(&io);
	if (write)
		has_written(thread, &io);
	emit_io(&io);
	return 0;
}

SEC("?uretprobe")
int BPF_URETPROBE(tls_return, int result)
{
	return tls_ended(bpf_get_attach_cookie(ctx), result);
}

/* At an instruction that leaves the function, where a return probe might kill the process. */
SEC("?uprobe")
int tls_exit(struct pt_regs *ctx)
{
	return tls_ended(bpf_get_attach_cookie(ctx), (int)PT_REGS_RC(ctx));
}

SEC("?uprobe")
int BPF_UPROBE(tls_free, u64 connection)
{
	struct tls_freed_record *record;

	if (!active)
		return 0;
	record = bpf_ringbuf_reserve(&records, sizeof(*record), 0);
	if (!record) {
		count_loss(LOSS_RING_FULL);
		return 0;
	}
	fill_header(&record->header, sizeof(*record), RECORD_TLS_FREED, 0, current_ids(),
		    bpf_ktime_get_ns());
	record->connection = connection;
	bpf_ringbuf_submit(record, wake_flags());
	return 0;
}
