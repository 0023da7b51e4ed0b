// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0

/* Copies the bytes of a call into records that are as long as their payload, and no longer. */

#include "state.bpf.h"

static __always_inline void fill_io(struct io_record *record, const struct io *io, u32 offset,
				    u32 length, u16 extra_flags)
{
	fill_header(&record->header, sizeof(*record) + length, RECORD_IO, io->flags | extra_flags,
		    io->ids, io->ns);
	record->begin_ns = io->begin_ns;
	record->connection = io->connection;
	record->socket = io->socket;
	record->result = io->result;
	record->sequence_end = io->sequence_end;
	record->offset = offset;
	record->length = length;
	record->run_delay_us = io->run_delay_us;
}

/* A record without payload: what is said is the call itself, or that its bytes are missing. */
static __always_inline void emit_io_bare(const struct io *io, u32 offset)
{
	struct io_record *record = bpf_ringbuf_reserve(&records, sizeof(*record), 0);

	if (!record) {
		count_loss(LOSS_RING_FULL);
		return;
	}
	fill_io(record, io, offset, 0, IO_LAST);
	bpf_ringbuf_submit(record, wake_flags());
}

/* Copies one piece out; false, if it is lost. */
static __always_inline bool emit_piece(const struct io *io, u32 length, u16 extra_flags)
{
	struct scratch_slot *slot = take_scratch();
	bool ok = false;

	if (!slot)
		return false;
	if (length > IO_PIECE)
		length = IO_PIECE;
	barrier_var(length);
	if (length <= IO_PIECE &&
	    bpf_probe_read_user(slot->payload, length, (const void *)io->base) == 0) {
		fill_io(&slot->record, io, io->offset, length, extra_flags);
		ok = bpf_ringbuf_output(&records, &slot->record, sizeof(slot->record) + length,
					wake_flags()) == 0;
		if (!ok)
			count_loss(LOSS_RING_FULL);
	} else {
		count_loss(LOSS_PAYLOAD_UNREADABLE);
	}
	give_back_scratch(slot);
	return ok;
}

static __always_inline u32 wanted(const struct io *io)
{
	return io->result < io->capture ? io->result : io->capture;
}

/*
 * One step: the next buffer of the vector, or the next piece of the buffer. Returns 0 when there is
 * no further step. Not static, so that the verifier looks at it once, and not once for every way
 * through the loop that calls it.
 */
__noinline int emit_step(struct io *io)
{
	u32 length;

	if (!io)
		return 0;
	if (io->left == 0) {
		struct iovec entry;

		if (io->vector_index >= io->vector_length ||
		    bpf_probe_read_user(
			&entry, sizeof(entry),
			(const void *)(io->vector + io->vector_index * sizeof(entry))))
			return 0;
		io->vector_index++;
		io->base = (u64)entry.iov_base;
		io->left = entry.iov_len;
		return 1;
	}
	length = wanted(io) - io->offset;
	if (length > io->left)
		length = io->left;
	if (length > IO_PIECE)
		length = IO_PIECE;
	if (!emit_piece(io, length, io->offset + length == wanted(io) ? IO_LAST : 0))
		return 0;
	io->offset += length;
	io->base += length;
	io->left -= length;
	return io->offset < wanted(io);
}

__hidden int emit_io(struct io *io)
{
	if (run_delay_us(bpf_get_current_task_btf(), &io->run_delay_us))
		io->flags |= IO_HAS_RUN_DELAY;
	if (io->result <= 0 || io->capture == 0) {
		emit_io_bare(io, 0);
		return 0;
	}
	if (io->base)
		io->left = ~0ULL;
	for (int i = 0; i < MAX_PIECES && emit_step(io); i++)
		;
	if (io->offset < wanted(io))
		emit_io_bare(io, io->offset);
	return 0;
}
