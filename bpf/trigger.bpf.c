// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0

/*
 * Where in the Python program a collection was started: the innermost frame that runs Python code,
 * read on its own thread, so that it cannot change meanwhile. Nothing is believed: each address is
 * only read from, each length is bounded, and what does not look like a code object ends the
 * reading.
 */

#include "python.bpf.h"

#define MAX_SHIM_FRAMES 8 /* frames that run no Python code on top of the one that does */
#define POINTER_TAGS 7ULL

struct frame {
	u64 address;
	u64 code;
};

static __always_inline u64 top_frame(const struct python_layout *layout, u64 state)
{
	u64 frame = read_word(state + layout->thread_frame);

	if (layout->thread_has_cframe && frame)
		frame = read_word(frame + layout->cframe_frame);
	return frame;
}

/* The innermost frame with a code object; its address is 0, if there is none near the top. */
static __always_inline struct frame python_frame(struct target *target, u64 state)
{
	const struct python_layout *layout = &target->layout;
	struct frame frame = { .address = top_frame(layout, state) };

	for (int i = 0; i < MAX_SHIM_FRAMES && frame.address; i++) {
		u8 owner = 0;

		if (layout->frame_owner)
			bpf_probe_read_user(&owner, sizeof(owner),
					    (const void *)(frame.address + layout->frame_owner));
		if (!layout->frame_owner || owner < layout->frame_owner_shim) {
			frame.code = read_word(frame.address + layout->frame_code) & ~POINTER_TAGS;
			if (frame.code &&
			    read_word(frame.code + layout->object_type) == target->code_type)
				return frame;
		}
		frame.address = read_word(frame.address + layout->frame_previous);
	}
	frame.address = 0;
	return frame;
}

/* How far into its code the frame is, bytes. */
static __always_inline s64 instruction_of(const struct python_layout *layout, struct frame frame)
{
	u64 start = frame.code + layout->code_bytes;

	if (!layout->code_bytes)
		return (s64)read_int(frame.address + layout->frame_instruction) *
		       layout->instruction_unit;
	if (layout->code_tlbc) {
		/* Each thread runs a copy of the code of its own; the first is the code itself. */
		u64 copies = read_word(frame.code + layout->code_tlbc);
		u32 index = read_int(frame.address + layout->frame_tlbc_index);

		if (copies && index < 65536)
			start = read_word(copies + sizeof(u64) + index * sizeof(u64));
	}
	return read_word(frame.address + layout->frame_instruction) - start;
}

struct text {
	u64 address;
	u32 length; /* bytes; 0, if it cannot be read */
	u8 kind;    /* bytes per character; 0: ASCII */
};

static __always_inline struct text text_of(const struct python_layout *layout, u64 object)
{
	struct text text = {};
	u64 length = read_word(object + layout->unicode_length);
	u32 state = (u32)read_int(object + layout->unicode_state) >> layout->unicode_kind_shift;
	u32 kind = state & 7;
	bool compact = state & 8;
	bool ascii = state & 16;

	if (!object || !compact || (kind != 1 && kind != 2 && kind != 4) || length > TRIGGER_TEXT)
		return text;
	text.length = length * kind;
	text.kind = ascii ? 0 : kind;
	text.address = object + (ascii ? layout->unicode_ascii_size : layout->unicode_compact_size);
	return text;
}

/* Copies `length` bytes behind the `used` ones; the number that `used` is then. */
static __always_inline u32 append(struct scratch_slot *slot, u32 used, u64 address, u32 length,
				  u32 most)
{
	if (length == 0 || length > most || used > 2 * TRIGGER_TEXT)
		return used;
	barrier_var(length);
	if (length > TRIGGER_LINES)
		return used;
	if (bpf_probe_read_user(&slot->text[used], length, (const void *)address))
		return used;
	return used + length;
}

static __always_inline u32 fill_trigger(struct scratch_slot *slot, struct target *target,
					struct frame frame)
{
	const struct python_layout *layout = &target->layout;
	struct trigger_record *record = &slot->trigger;
	struct text file = text_of(layout, read_word(frame.code + layout->code_file));
	struct text function = text_of(layout, read_word(frame.code + layout->code_name));
	u64 lines = read_word(frame.code + layout->code_lines);
	u64 lines_size = read_word(lines + layout->bytes_size);
	u32 used, before;

	used = append(slot, 0, file.address, file.length, TRIGGER_TEXT);
	record->file_length = used;
	record->file_kind = file.kind;
	before = used;
	used = append(slot, used, function.address, function.length, TRIGGER_TEXT);
	record->function_length = used - before;
	record->function_kind = function.kind;
	before = used;
	if (lines && lines_size <= TRIGGER_LINES)
		used = append(slot, used, lines + layout->bytes_data, lines_size, TRIGGER_LINES);
	record->lines_length = used - before;
	record->line_table = layout->line_table;
	record->reserved = 0;
	record->first_line = read_int(frame.code + layout->code_first_line);
	record->instruction = instruction_of(layout, frame);
	return used;
}

__hidden int emit_trigger(struct thread *thread, struct target *target, u64 now)
{
	struct scratch_slot *slot;
	struct frame frame;
	u32 used, size;

	if (!target->code_type || !thread->python)
		return 0;
	frame = python_frame(target, thread->python);
	if (!frame.address)
		return 0;
	slot = take_scratch();
	if (!slot)
		return 0;
	used = fill_trigger(slot, target, frame);
	size = sizeof(slot->trigger) + used;
	fill_header(&slot->trigger.header, size, RECORD_TRIGGER, 0, current_ids(), now);
	barrier_var(size);
	if (size <= sizeof(slot->trigger) + sizeof(slot->text) &&
	    bpf_ringbuf_output(&records, &slot->trigger, size, wake_flags()))
		count_loss(LOSS_RING_FULL);
	give_back_scratch(slot);
	return 0;
}
