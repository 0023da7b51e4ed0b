// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0

/*
 * Socket calls of the targets, and the arrival of their data.
 *
 * First choice: the tracepoints sock_recv_length and sock_send_length (kernel commit 6e6eda44b939)
 * fire in the calling thread when the bytes are in its buffer; the buffer's address stands in the
 * arguments of the system call that the thread is in. No probe in the process, whatever libc it
 * has. Fallback: uprobe and uretprobe on libc's functions.
 */

#include "syscalls.bpf.h"
#include <bpf/bpf_endian.h>

#define AF_UNIX 1
#define AF_INET 2
#define AF_INET6 10
#define SOCK_STREAM 1
#define MSG_PEEK 2
#define S_IFMT 00170000
#define S_IFSOCK 0140000

#define EINTR 4
#define EAGAIN 11
#define ERESTARTSYS 512

/* What the programs need of a socket. */
struct socket_facts {
	u64 cookie;
	u32 copied; /* TCP sequence number behind the bytes that the program has read */
	u16 family;
	u16 type;
	u8 state;
};

static __always_inline bool is_stream(const struct socket_facts *facts)
{
	return (facts->family == AF_INET || facts->family == AF_INET6 ||
		facts->family == AF_UNIX) &&
	       facts->type == SOCK_STREAM;
}

static __always_inline bool is_tcp(u16 family)
{
	return family != AF_UNIX;
}

/*
 * A read that takes the last bytes and finds the peer's FIN behind them takes that, too: the FIN has a
 * sequence number, and is no byte.
 */
static __always_inline u32 data_copied(u32 copied_seq, u32 rcv_nxt, u8 state)
{
	bool has_fin = state == TCP_CLOSE_WAIT || state == TCP_LAST_ACK || state == TCP_CLOSING;

	return has_fin && copied_seq == rcv_nxt ? copied_seq - 1 : copied_seq;
}

static __always_inline void emit_socket_seen(struct sock *sk, const struct socket_facts *facts,
					     struct ids ids, u64 now)
{
	struct socket_seen_record *record = bpf_ringbuf_reserve(&records, sizeof(*record), 0);

	if (!record) {
		count_loss(LOSS_RING_FULL);
		return;
	}
	fill_header(&record->header, sizeof(*record), RECORD_SOCKET_SEEN, 0, ids, now);
	record->socket = facts->cookie;
	record->family = facts->family;
	record->remote_port = bpf_ntohs(BPF_CORE_READ(sk, __sk_common.skc_dport));
	record->sequence_end = BPF_CORE_READ((struct tcp_sock *)sk, rcv_nxt);
	__builtin_memset(record->remote_address, 0, sizeof(record->remote_address));
	if (facts->family == AF_INET)
		bpf_core_read(record->remote_address, 4, &sk->__sk_common.skc_daddr);
	else
		bpf_core_read(record->remote_address, 16, &sk->__sk_common.skc_v6_daddr);
	bpf_ringbuf_submit(record, wake_flags());
}

/* Whether the bytes of a call begin as a TLS record does (RFC 8446, section 5.1). */
static __always_inline bool begins_tls_record(const struct io *io)
{
	u64 base = io->base;
	struct iovec first;
	u8 head[3];

	if (!base && io->vector_length &&
	    !bpf_probe_read_user(&first, sizeof(first), (const void *)io->vector))
		base = (u64)first.iov_base;
	if (!base || bpf_probe_read_user(head, sizeof(head), (const void *)base))
		return false;
	return head[0] >= 20 && head[0] <= 24 && head[1] == 3 && head[2] <= 4;
}

static __always_inline void emit_tls_caller(const struct io *io, const struct socket_facts *facts)
{
	struct tls_caller_record *record = bpf_ringbuf_reserve(&records, sizeof(*record), 0);
	struct pt_regs *regs;
	const void *top;

	if (!record) {
		count_loss(LOSS_RING_FULL);
		return;
	}
	fill_header(&record->header, sizeof(*record), RECORD_TLS_CALLER, 0, io->ids, io->ns);
	record->socket = facts->cookie;
	record->fd = io->fd;
	record->reserved = 0;
	regs = (struct pt_regs *)bpf_task_pt_regs(bpf_get_current_task_btf());
	record->code = PT_REGS_IP(regs);
	top = (const void *)PT_REGS_SP(regs);
	/* A thread that has called little may have less than that: what is not read is zeros. */
	if (bpf_probe_read_user(record->stack, sizeof(record->stack), top))
		bpf_probe_read_user(record->stack, sizeof(record->stack) / 4, top);
	bpf_ringbuf_submit(record, wake_flags());
}

/*
 * The first call of a target on a TCP socket: from here on its arrivals and its end are followed. True
 * for that first call.
 */
static __always_inline bool follow(struct sock *sk, const struct socket_facts *facts,
				   struct ids ids, u64 now)
{
	u64 key = (u64)sk;
	struct followed_socket *known = bpf_map_lookup_elem(&sockets, &key);
	struct followed_socket fresh = { .cookie = facts->cookie, .pid = ids.pid };

	if (known && known->cookie == facts->cookie)
		return false;
	filter_add(maybe_socket, BPF_CORE_READ(sk, __sk_common.skc_hash));
	if (facts->state != TCP_CLOSE && bpf_map_update_elem(&sockets, &key, &fresh, BPF_ANY))
		count_loss(LOSS_SOCKETS_FULL);
	emit_socket_seen(sk, facts, ids, now);
	return true;
}

/* Where the bytes of the current system call are; false, if it is none that names a buffer. */
static __always_inline bool find_buffer(struct io *io, u32 call, u64 address, u64 count)
{
	struct user_msghdr message;

	switch (call) {
	case LIBC_READ:
	case LIBC_WRITE:
		io->base = address;
		return true;
	case LIBC_READ_MESSAGE:
	case LIBC_WRITE_MESSAGE:
		if (bpf_probe_read_user(&message, sizeof(message), (const void *)address))
			return false;
		io->vector = (u64)message.msg_iov;
		io->vector_length = message.msg_iovlen;
		return true;
	case LIBC_READ_VECTOR:
	case LIBC_WRITE_VECTOR:
		io->vector = address;
		io->vector_length = count;
		return true;
	default:
		return false;
	}
}

static __always_inline bool is_try_again(s64 result)
{
	return result == -EAGAIN || result == -EINTR || result <= -ERESTARTSYS;
}

/*
 * What is common to both ways: `io` has ids, ns, begin_ns, result, flags and its buffer. Without a
 * buffer the record says that bytes moved which could not be copied.
 */
static __always_inline void finish_call(struct io *io, struct thread *thread, struct sock *sk,
					const struct socket_facts *facts)
{
	bool write = io->flags & IO_WRITE;

	if (is_tcp(facts->family) && follow(sk, facts, io->ids, io->ns) && !thread->tls_depth &&
	    begins_tls_record(io))
		emit_tls_caller(io, facts);
	io->connection = facts->cookie;
	io->socket = facts->cookie;
	if (thread->tls_depth) {
		if (write && io->result > 0)
			thread->tls_sent_ns = io->ns;
		/* Of those only the failures are told: the library's own call says nothing of them. */
		if (write && io->result > 0)
			return;
		io->flags |= IO_INSIDE_TLS;
		io->capture = 0;
	} else {
		limit_capture(io);
		if (write) {
			has_written(thread, io);
		} else if (io->result > 0) {
			has_read(thread, READ_BY_SOCKET, io->ns);
			thread->read_ns = io->ns;
		}
	}
	if (!write && is_tcp(facts->family)) {
		io->sequence_end = facts->copied;
		io->flags |= IO_HAS_SEQUENCE;
	}
	emit_io(io);
}

/* Of this thread, if it belongs to a target: most threads of the host do not. */
static __always_inline struct thread *target_thread(struct ids ids)
{
	u32 key = (u32)bpf_get_current_pid_tgid();
	struct thread *thread = bpf_map_lookup_elem(&threads, &key);

	if (thread)
		return thread;
	return bpf_map_lookup_elem(&targets, &ids.pid) ? this_thread() : NULL;
}

/*
 * Some programs here run for every socket call, arrival and switch of the host. All that most of them do is
 * a look at a filter: what follows stands in functions of their own, so that this is a few instructions in
 * one place, which the load of others does not have to fetch.
 */
static __always_inline bool may_be_targets(void)
{
	return filter_has(maybe_target, current_ids().pid) && active;
}

static __noinline int traced_call(struct sock *sk, int result, u16 flags)
{
	struct socket_facts facts = {};
	struct ids ids = current_ids();
	struct tcp_sock *tcp;
	struct thread *thread;
	struct pt_regs *regs;
	struct io io = {};
	u32 call;

	io.ids = ids;
	thread = target_thread(ids);
	if (!thread)
		return 0;
	thread->lock = LOCK_OVER; /* whoever makes a call has the lock, or had it just now */
	if (is_try_again(result))
		return 0;
	/* The tracepoint hands over a typed pointer: plain loads, where helpers would cost more. */
	facts.family = sk->__sk_common.skc_family;
	facts.type = sk->sk_type;
	facts.state = sk->__sk_common.skc_state;
	if (!is_stream(&facts))
		return 0;
	facts.cookie = bpf_get_socket_cookie(sk);
	tcp = is_tcp(facts.family) ? bpf_skc_to_tcp_sock(sk) : NULL;
	if (tcp)
		facts.copied = data_copied(tcp->copied_seq, tcp->rcv_nxt, facts.state);
	io.ns = bpf_ktime_get_ns();
	io.result = result;
	io.flags = flags;
	regs = (struct pt_regs *)bpf_task_pt_regs(bpf_get_current_task_btf());
	if (!thread->tls_depth)
		thread->read_stack = PT_REGS_SP(regs);
	call = libc_call_of(SYSCALL_NUMBER(regs));
	io.fd = call ? (s32)SYSCALL_ARGUMENT_1(regs) : -1;
	if (!find_buffer(&io, call, SYSCALL_ARGUMENT_2(regs), SYSCALL_ARGUMENT_3(regs))) {
		if (!call && !is_bufferless(SYSCALL_NUMBER(regs)))
			count_loss(LOSS_IO_URING);
		io.base = 0;
	}
	finish_call(&io, thread, sk, &facts);
	return 0;
}

SEC("?tp_btf/sock_recv_length")
int BPF_PROG(socket_received, struct sock *sk, int result, int flags)
{
	if (!may_be_targets() || flags & MSG_PEEK)
		return 0;
	return traced_call(sk, result, 0);
}

SEC("?tp_btf/sock_send_length")
int BPF_PROG(socket_sent, struct sock *sk, int result, int flags)
{
	if (!may_be_targets())
		return 0;
	return traced_call(sk, result, IO_WRITE);
}

static __always_inline void emit_arrival(const struct followed_socket *socket, u32 sequence_end)
{
	struct arrival_record *record = bpf_ringbuf_reserve(&records, sizeof(*record), 0);
	struct ids ids = {};

	if (!record) {
		count_loss(LOSS_RING_FULL);
		return;
	}
	ids.pid = socket->pid;
	fill_header(&record->header, sizeof(*record), RECORD_ARRIVAL, 0, ids, bpf_ktime_get_ns());
	record->socket = socket->cookie;
	record->sequence_end = sequence_end;
	record->reserved = 0;
	bpf_ringbuf_submit(record, wake_flags());
}

static __noinline int data_ready(struct sock *sk)
{
	u64 key = (u64)sk;
	struct followed_socket *socket = bpf_map_lookup_elem(&sockets, &key);
	struct tcp_sock *tcp;

	if (!socket || !active)
		return 0;
	tcp = bpf_skc_to_tcp_sock(sk);
	if (tcp)
		emit_arrival(socket, tcp->rcv_nxt);
	return 0;
}

SEC("?tp_btf/sk_data_ready")
int BPF_PROG(socket_data_ready, struct sock *sk)
{
	if (filter_has(maybe_socket, sk->__sk_common.skc_hash))
		data_ready(sk);
	return 0;
}

/*
 * The fallback: a segment is about to be taken in. What it carries can be read once it joins what came
 * before; a segment that fills a hole makes later ones readable, too, which are told only by the next.
 */
SEC("?tp_btf/tcp_probe")
int BPF_PROG(segment_arrived, struct sock *sk, const struct sk_buff *skb)
{
	u64 key = (u64)sk;
	struct followed_socket *socket;
	struct tcp_skb_cb segment = {};
	struct tcp_sock *tcp;

	if (!filter_has(maybe_socket, sk->__sk_common.skc_hash))
		return 0;
	socket = bpf_map_lookup_elem(&sockets, &key);
	if (!socket || !active)
		return 0;
	tcp = bpf_skc_to_tcp_sock(sk);
	if (!tcp || bpf_core_read(&segment, sizeof(segment), &skb->cb))
		return 0;
	if ((s32)(segment.seq - tcp->rcv_nxt) <= 0 && (s32)(segment.end_seq - tcp->rcv_nxt) > 0)
		emit_arrival(socket, segment.end_seq);
	return 0;
}

SEC("?tp_btf/inet_sock_set_state")
int BPF_PROG(socket_set_state, const struct sock *sk, const int old_state, const int new_state)
{
	u64 key = (u64)sk;
	struct followed_socket *socket;
	struct socket_closed_record *record;
	struct ids ids = {};
	u16 flags;

	if (new_state != TCP_CLOSE && new_state != TCP_CLOSE_WAIT)
		return 0;
	socket = bpf_map_lookup_elem(&sockets, &key);
	if (!socket)
		return 0;
	record = bpf_ringbuf_reserve(&records, sizeof(*record), 0);
	if (record) {
		if (new_state == TCP_CLOSE_WAIT)
			flags = SOCKET_CLOSED_BY_PEER;
		else
			flags = BPF_CORE_READ(sk, sk_socket) ? 0 : SOCKET_CLOSED_BY_PROCESS;
		ids.pid = socket->pid;
		fill_header(&record->header, sizeof(*record), RECORD_SOCKET_CLOSED, flags, ids,
			    bpf_ktime_get_ns());
		record->socket = socket->cookie;
		record->error = BPF_CORE_READ(sk, sk_err);
		record->reserved = 0;
		bpf_ringbuf_submit(record, wake_flags());
	} else {
		count_loss(LOSS_RING_FULL);
	}
	if (new_state == TCP_CLOSE)
		bpf_map_delete_elem(&sockets, &key);
	return 0;
}

/* The stream socket behind a descriptor of the current process; NULL, if it is something else. */
static __always_inline struct sock *socket_of(int fd)
{
	struct task_struct *task = (struct task_struct *)bpf_get_current_task();
	struct fdtable *table = BPF_CORE_READ(task, files, fdt);
	struct file **slots = BPF_CORE_READ(table, fd);
	struct file *file = NULL;
	struct socket *socket;
	struct sock *sk;

	if (fd < 0 || (u32)fd >= BPF_CORE_READ(table, max_fds))
		return NULL;
	if (bpf_core_read(&file, sizeof(file), &slots[fd]) || !file)
		return NULL;
	if ((BPF_CORE_READ(file, f_inode, i_mode) & S_IFMT) != S_IFSOCK)
		return NULL;
	socket = BPF_CORE_READ(file, private_data);
	sk = BPF_CORE_READ(socket, sk);
	return sk;
}

/* Only in processes that block in reads; see WAIT_IN_READ. */
SEC("?uretprobe")
int BPF_URETPROBE(read_return)
{
	u64 now = bpf_ktime_get_ns();
	u32 key = (u32)bpf_get_current_pid_tgid();
	struct thread *thread = bpf_map_lookup_elem(&threads, &key);
	struct read_returned_record *record;

	if (!active || !thread || !thread->read_ns)
		return 0;
	record = bpf_ringbuf_reserve(&records, sizeof(*record), 0);
	if (record) {
		fill_header(&record->header, sizeof(*record), RECORD_READ_RETURNED, 0,
			    current_ids(), now);
		record->read_ns = thread->read_ns;
		bpf_ringbuf_submit(record, wake_flags());
	} else {
		count_loss(LOSS_RING_FULL);
	}
	thread->read_ns = 0;
	thread->lock_cpu = cpu_time(now);
	return 0;
}

SEC("?uprobe")
int BPF_UPROBE(libc_enter, int fd, u64 address, u64 count)
{
	u64 call = bpf_get_attach_cookie(ctx);
	struct thread *thread;

	if (!active)
		return 0;
	thread = this_thread();
	if (!thread)
		return 0;
	thread->lock = LOCK_OVER;
	if (!thread->tls_depth)
		thread->read_stack = PT_REGS_SP(ctx);
	thread->libc_begin_ns = bpf_ktime_get_ns();
	thread->libc_call = call;
	thread->libc_fd = fd;
	thread->libc_address = address;
	thread->libc_count = count;
	return 0;
}

SEC("?uretprobe")
int BPF_URETPROBE(libc_return, s64 result)
{
	u64 now = bpf_ktime_get_ns();
	struct thread *thread;
	struct io io = {};
	struct socket_facts facts = {};
	struct sock *sk;
	u32 call;

	if (!active)
		return 0;
	thread = this_thread();
	if (!thread || !thread->libc_call)
		return 0;
	call = thread->libc_call;
	thread->libc_call = 0;
	/* libc returns -1 and leaves the reason in errno, which is not read: most often EAGAIN. */
	if (result < 0)
		return 0;
	sk = socket_of(thread->libc_fd);
	if (!sk)
		return 0;
	facts.family = BPF_CORE_READ(sk, __sk_common.skc_family);
	facts.type = BPF_CORE_READ(sk, sk_type);
	facts.state = BPF_CORE_READ(sk, __sk_common.skc_state);
	if (!is_stream(&facts))
		return 0;
	facts.copied = data_copied(BPF_CORE_READ((struct tcp_sock *)sk, copied_seq),
				   BPF_CORE_READ((struct tcp_sock *)sk, rcv_nxt), facts.state);
	/* The address stands for the cookie: nothing here may make one. It is unique while open. */
	facts.cookie = BPF_CORE_READ(sk, __sk_common.skc_cookie.counter);
	if (!facts.cookie)
		facts.cookie = (u64)sk;
	io.ids = current_ids();
	io.ns = now;
	io.begin_ns = thread->libc_begin_ns;
	io.result = result;
	io.flags = call >= LIBC_WRITE ? IO_WRITE : 0;
	io.fd = thread->libc_fd;
	find_buffer(&io, call, thread->libc_address, thread->libc_count);
	finish_call(&io, thread, sk, &facts);
	return 0;
}
