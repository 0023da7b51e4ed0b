/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
#ifndef GCAUSE_SYSCALLS_BPF_H
#define GCAUSE_SYSCALLS_BPF_H

/* The system call that a task is in: its number and arguments, as saved at its entry. */

#include "state.bpf.h"

#if defined(__TARGET_ARCH_x86)
#define NR_READ 0
#define NR_WRITE 1
#define NR_READV 19
#define NR_WRITEV 20
#define NR_SENDTO 44
#define NR_RECVFROM 45
#define NR_SENDMSG 46
#define NR_RECVMSG 47
#define NR_POLL 7
#define NR_SELECT 23
#define NR_NANOSLEEP 35
#define NR_SENDFILE 40
#define NR_FUTEX 202
#define NR_CLOCK_NANOSLEEP 230
#define NR_EPOLL_WAIT 232
#define NR_PSELECT6 270
#define NR_PPOLL 271
#define NR_SPLICE 275
#define NR_EPOLL_PWAIT 281
#define NR_EPOLL_PWAIT2 441
#define SYSCALL_NUMBER(regs) ((regs)->orig_ax)
#define SYSCALL_ARGUMENT_1(regs) ((regs)->di)
#define SYSCALL_ARGUMENT_2(regs) ((regs)->si)
#define SYSCALL_ARGUMENT_3(regs) ((regs)->dx)
#elif defined(__TARGET_ARCH_arm64)
#define NR_READ 63
#define NR_WRITE 64
#define NR_READV 65
#define NR_WRITEV 66
#define NR_SENDTO 206
#define NR_RECVFROM 207
#define NR_SENDMSG 211
#define NR_RECVMSG 212
#define NR_POLL -1 /* arm64 has only the calls with a signal mask */
#define NR_SELECT -2
#define NR_EPOLL_WAIT -3
#define NR_SENDFILE 71
#define NR_PSELECT6 72
#define NR_PPOLL 73
#define NR_SPLICE 76
#define NR_FUTEX 98
#define NR_NANOSLEEP 101
#define NR_CLOCK_NANOSLEEP 115
#define NR_EPOLL_PWAIT 22
#define NR_EPOLL_PWAIT2 441
#define SYSCALL_NUMBER(regs) ((regs)->syscallno)
#define SYSCALL_ARGUMENT_1(regs) ((regs)->orig_x0)
#define SYSCALL_ARGUMENT_2(regs) ((regs)->regs[1])
#define SYSCALL_ARGUMENT_3(regs) ((regs)->regs[2])
#else
#error "the numbers of the socket calls are not known for this architecture"
#endif

static __always_inline u32 libc_call_of(u64 number)
{
	switch (number) {
	case NR_READ:
	case NR_RECVFROM:
		return LIBC_READ;
	case NR_RECVMSG:
		return LIBC_READ_MESSAGE;
	case NR_READV:
		return LIBC_READ_VECTOR;
	case NR_WRITE:
	case NR_SENDTO:
		return LIBC_WRITE;
	case NR_SENDMSG:
		return LIBC_WRITE_MESSAGE;
	case NR_WRITEV:
		return LIBC_WRITE_VECTOR;
	default:
		return 0;
	}
}

/* Their bytes come from a file or a pipe: nothing is lost where no buffer is named. */
static __always_inline bool is_bufferless(u64 number)
{
	return number == NR_SENDFILE || number == NR_SPLICE;
}

/* A wait for something to come; a select of no descriptors is how CPython slept up to 3.10. */
static __always_inline bool is_wait(s64 number, struct pt_regs *regs)
{
	switch (number) {
	case NR_SELECT:
	case NR_PSELECT6:
		return SYSCALL_ARGUMENT_1(regs) != 0;
	case NR_READ:
	case NR_READV:
	case NR_RECVFROM:
	case NR_RECVMSG:
	case NR_POLL:
	case NR_PPOLL:
	case NR_EPOLL_WAIT:
	case NR_EPOLL_PWAIT:
	case NR_EPOLL_PWAIT2:
		return true;
	default:
		return false;
	}
}

static __always_inline bool is_sleep(s64 number, struct pt_regs *regs)
{
	return number == NR_FUTEX || number == NR_NANOSLEEP || number == NR_CLOCK_NANOSLEEP ||
	       ((number == NR_SELECT || number == NR_PSELECT6) && !is_wait(number, regs));
}

static __always_inline bool is_read(s64 number)
{
	u32 call = libc_call_of(number);

	return call == LIBC_READ || call == LIBC_READ_MESSAGE || call == LIBC_READ_VECTOR;
}

#endif
