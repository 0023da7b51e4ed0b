// SPDX-License-Identifier: Apache-2.0
#include "loader/features.h"

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <linux/capability.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <memory>

#include "loader/libbpf_log.h"
#include "util/fd.h"

namespace gcause {
namespace {

struct BtfDeleter {
  void operator()(btf* types) const { ::btf__free(types); }
};

/// A raw tracepoint that BTF describes can carry a tp_btf program.
bool has_tracepoint(const btf* types, const std::string& name) {
  return types &&
         ::btf__find_by_name_kind(types, ("btf_trace_" + name).c_str(), BTF_KIND_TYPEDEF) > 0;
}

/// Programs ask for the value that was given at attach (kernel commit 7adfc6c9b315).
bool has_attach_cookie() {
  return ::libbpf_probe_bpf_helper(BPF_PROG_TYPE_KPROBE, BPF_FUNC_get_attach_cookie, nullptr) == 1;
}

/// uprobe_multi links (kernel commit 89ae89f53d20) took the pid for a thread's until commit
/// 46ba0e49b642, which made this very call fail with EINVAL instead.
bool has_uprobe_multi() {
  const bpf_insn program[] = {
      {BPF_ALU64 | BPF_MOV | BPF_K, 0, 0, 0, 0},
      {BPF_JMP | BPF_EXIT, 0, 0, 0, 0},
  };
  LIBBPF_OPTS(bpf_prog_load_opts, load);
  load.expected_attach_type = BPF_TRACE_UPROBE_MULTI;
  const Fd loaded(::bpf_prog_load(BPF_PROG_TYPE_KPROBE, nullptr, "GPL", program, 2, &load));
  if (!loaded) return false;
  const unsigned long offset = 0;
  LIBBPF_OPTS(bpf_link_create_opts, link);
  link.uprobe_multi.path = "/";
  link.uprobe_multi.offsets = &offset;
  link.uprobe_multi.cnt = 1;
  link.uprobe_multi.pid = static_cast<__u32>(-1);
  const Fd created(::bpf_link_create(loaded.get(), -1, BPF_TRACE_UPROBE_MULTI, &link));
  return !created && errno == EINVAL;
}

std::uint64_t effective_capabilities() {
  __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct data[2] = {};
  if (::syscall(SYS_capget, &header, data) != 0) return 0;
  return static_cast<std::uint64_t>(data[1].effective) << 32 | data[0].effective;
}

}  // namespace

const std::vector<FeatureInfo>& known_features() {
  static const std::vector<FeatureInfo> features = {
      {"btf", "kernel types for the BPF programs", ""},
      {"uprobes", "probes in the target's functions", ""},
      {"ring_buffer", "records from the kernel in order", ""},
      {"attach_cookie", "one program for many probed functions", ""},
      {"sock_length", "reads and writes of sockets without a probe in the target",
       "probes on libc's calls: dearer, and blind to programs that bypass libc"},
      {"sk_data_ready", "when the kernel had a chunk ready: verdicts by arrival",
       "tcp_probe in its place"},
      {"tcp_probe", "the same where sk_data_ready is missing, for segments in order",
       "verdicts by overlap only, where sk_data_ready is missing, too"},
      {"sched_switch", "the moment at which a thread waits for more",
       "held times are counted up to the next read"},
      {"inet_sock_set_state", "the end of connections", "ends are seen by reads only"},
      {"uprobe_multi", "probes that cost nothing at context switches",
       "perf events: a little dearer for the target"},
      {kSurvivesSeccomp, "return probes in processes with a seccomp filter",
       "probes at each exit of a function, for such processes only"},
  };
  return features;
}

std::map<std::string, bool> detect_features(const std::set<std::string>& without) {
  collect_libbpf_warnings();
  const std::unique_ptr<btf, BtfDeleter> types(::btf__load_vmlinux_btf());
  std::map<std::string, bool> features = {
      {"btf", types != nullptr},
      {"uprobes", ::access("/sys/bus/event_source/devices/uprobe/type", R_OK) == 0},
      {"ring_buffer", ::libbpf_probe_bpf_map_type(BPF_MAP_TYPE_RINGBUF, nullptr) == 1},
      {"attach_cookie", has_attach_cookie()},
      {"sock_length", has_tracepoint(types.get(), "sock_recv_length") &&
                          has_tracepoint(types.get(), "sock_send_length")},
      {"sk_data_ready", has_tracepoint(types.get(), "sk_data_ready")},
      {"tcp_probe", has_tracepoint(types.get(), "tcp_probe")},
      {"sched_switch", has_tracepoint(types.get(), "sched_switch")},
      {"inet_sock_set_state", has_tracepoint(types.get(), "inet_sock_set_state")},
      {"uprobe_multi", has_uprobe_multi()},
  };
  for (const auto& name : without) features[name] = false;
  return features;
}

std::vector<CapabilityInfo> detect_capabilities() {
  const auto have = effective_capabilities();
  const auto has = [&](int capability) { return (have >> capability & 1) != 0; };
  const bool admin = has(CAP_SYS_ADMIN);
  return {
      {"CAP_BPF", "load BPF programs", true, has(CAP_BPF) || admin},
      {"CAP_PERFMON", "attach probes and read the target's memory in BPF", true,
       has(CAP_PERFMON) || admin},
      {"CAP_SYS_PTRACE", "look at processes of other users", false, has(CAP_SYS_PTRACE)},
      {"CAP_CHECKPOINT_RESTORE", "reach files that were deleted or replaced on disk while in use",
       false, has(CAP_CHECKPOINT_RESTORE) || admin},
      {"CAP_DAC_READ_SEARCH", "the same of processes of other users", false,
       has(CAP_DAC_READ_SEARCH) || has(CAP_DAC_OVERRIDE)},
  };
}

std::string lockdown() {
  std::ifstream in("/sys/kernel/security/lockdown");  // "none [integrity] confidentiality"
  std::string text;
  std::getline(in, text);
  const auto open = text.find('['), close = text.find(']');
  if (open == std::string::npos || close == std::string::npos || close < open) return {};
  return text.substr(open + 1, close - open - 1);
}

Result<> check_requirements(const std::map<std::string, bool>& features) {
  const auto missing = [&](const std::string& name) { return !features.at(name); };
  std::string lacking;
  for (const auto& capability : detect_capabilities()) {
    if (!capability.required || capability.present) continue;
    lacking += (lacking.empty() ? "" : ", ") + capability.name + " (to " + capability.what + ")";
  }
  if (!lacking.empty()) {
    return Error{"missing on kernel " + kernel_release() + ": " + lacking,
                 "run as root, or: setcap cap_bpf,cap_perfmon,cap_sys_ptrace+ep gcause"};
  }
  if (lockdown() == "confidentiality") {
    return Error{
        "this kernel is locked down: /sys/kernel/security/lockdown says confidentiality, "
        "so no BPF program may read memory",
        "boot with lockdown=integrity, or without lockdown"};
  }
  if (missing("btf")) {
    return Error{"this kernel gives no type information: /sys/kernel/btf/vmlinux cannot be read",
                 "use a kernel built with CONFIG_DEBUG_INFO_BTF=y (every current distribution)"};
  }
  if (missing("uprobes")) {
    return Error{"this kernel has no uprobes: /sys/bus/event_source/devices/uprobe is missing",
                 "use a kernel built with CONFIG_UPROBE_EVENTS=y, and mount sysfs on /sys"};
  }
  if (missing("ring_buffer") || missing("attach_cookie")) {
    return Error{"kernel " + kernel_release() + " has no " +
                     std::string(missing("ring_buffer") ? "BPF ring buffer" : "BPF attach cookie"),
                 "use Linux 5.15 or later"};
  }
  return Ok{};
}

std::string kernel_release() {
  utsname name = {};
  ::uname(&name);
  return name.release;
}

}  // namespace gcause
