// SPDX-License-Identifier: Apache-2.0
#include "loader/seccomp_feature.h"

#include <bpf/bpf.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/perf_event.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>

#include "target/procfs.h"
#include "util/fd.h"

namespace gcause {
namespace {

constexpr std::uint32_t kUretprobe = 335;  // __NR_uretprobe, arch/x86/entry/syscalls
constexpr std::uint32_t kUprobe = 336;     // __NR_uprobe, likewise: of optimized entry probes
constexpr const char* kProbes = "/sys/bus/event_source/devices/uprobe/";

/// The function that the child calls. It does something that no compiler takes out.
[[gnu::noinline]] void probed_function() { asm volatile("nop; nop; nop; nop; nop"); }

/// In the child, which has one thread and a copy of everything: nothing but system calls.
[[noreturn]] void call_under_filter(int go) {
  const std::array<sock_filter, 5> program = {{
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, kUretprobe, 1, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, kUprobe, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  }};
  const sock_fprog filter = {program.size(), const_cast<sock_filter*>(program.data())};
  char byte = 0;
  if (::read(go, &byte, 1) != 1) ::_exit(2);
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter, 0, 0) != 0) {
    ::_exit(3);
  }
  probed_function();
  ::_exit(0);
}

struct Place {
  std::string path;
  std::uint64_t offset;
};

/// Where the function stands in our own file. That is not /proc/self/exe where the dynamic linker
/// was called to run this program.
std::optional<Place> place_of_function() {
  const auto address = reinterpret_cast<std::uint64_t>(&probed_function);
  const auto self = static_cast<std::uint32_t>(::getpid());
  const Procfs procfs;
  const auto mappings = procfs.executable_mappings(self);
  if (!mappings) return std::nullopt;
  for (const auto& mapping : *mappings) {
    if (address < mapping.begin || address >= mapping.end) continue;
    const auto path = procfs.open_path(self, mapping);
    if (!path) return std::nullopt;
    return Place{*path, address - mapping.begin + mapping.offset};
  }
  return std::nullopt;
}

/// A return probe in one process that knows whether it fired; it is gone when the object is.
class ReturnProbe {
 public:
  /// As an uprobe_multi link, else as a perf event, which on some kernels takes CAP_SYS_ADMIN.
  /// errno tells why there is none.
  static std::optional<ReturnProbe> attach(pid_t pid, const Place& place) {
    ReturnProbe probe;
    if (probe.link(pid, place) || probe.open_event(pid, place)) return probe;
    return std::nullopt;
  }

  bool fired() const {
    std::uint64_t hits = 0;
    if (event_) return ::read(event_.get(), &hits, sizeof hits) == sizeof hits && hits > 0;
    const std::uint32_t key = 0;
    return ::bpf_map_lookup_elem(hits_.get(), &key, &hits) == 0 && hits > 0;
  }

 private:
  bool link(pid_t pid, const Place& place) {
    hits_ = Fd(::bpf_map_create(BPF_MAP_TYPE_ARRAY, nullptr, sizeof(std::uint32_t),
                                sizeof(std::uint64_t), 1, nullptr));
    // *hits = 1; return 0. The first instruction, a load of an immediate, takes two places.
    const bpf_insn program[] = {
        {BPF_LD | BPF_DW, BPF_REG_1, BPF_PSEUDO_MAP_VALUE, 0, hits_.get()},
        {0, 0, 0, 0, 0},
        {BPF_ST | BPF_MEM | BPF_DW, BPF_REG_1, 0, 0, 1},
        {BPF_ALU64 | BPF_MOV | BPF_K, BPF_REG_0, 0, 0, 0},
        {BPF_JMP | BPF_EXIT, 0, 0, 0, 0},
    };
    LIBBPF_OPTS(bpf_prog_load_opts, load);
    load.expected_attach_type = BPF_TRACE_UPROBE_MULTI;
    program_ = Fd(
        ::bpf_prog_load(BPF_PROG_TYPE_KPROBE, nullptr, "GPL", program, std::size(program), &load));
    if (!program_) return false;
    const unsigned long offset = place.offset;
    LIBBPF_OPTS(bpf_link_create_opts, options);
    options.uprobe_multi.path = place.path.c_str();
    options.uprobe_multi.offsets = &offset;
    options.uprobe_multi.cnt = 1;
    options.uprobe_multi.flags = BPF_F_UPROBE_MULTI_RETURN;
    options.uprobe_multi.pid = static_cast<__u32>(pid);
    link_ = Fd(::bpf_link_create(program_.get(), -1, BPF_TRACE_UPROBE_MULTI, &options));
    return static_cast<bool>(link_);
  }

  bool open_event(pid_t pid, const Place& place) {
    std::uint32_t type = 0;
    unsigned bit = 0;
    std::ifstream(std::string(kProbes) + "type") >> type;
    std::string format;  // "config:0"
    std::ifstream(std::string(kProbes) + "format/retprobe") >> format;
    if (const auto colon = format.find(':'); colon != std::string::npos) {
      bit = static_cast<unsigned>(std::strtoul(format.c_str() + colon + 1, nullptr, 10)) & 63;
    }
    perf_event_attr attributes = {};
    attributes.type = type;
    attributes.size = sizeof attributes;
    attributes.config = 1ULL << bit;
    attributes.config1 = reinterpret_cast<std::uint64_t>(place.path.c_str());
    attributes.config2 = place.offset;
    event_ = Fd(static_cast<int>(
        ::syscall(SYS_perf_event_open, &attributes, pid, -1, -1, PERF_FLAG_FD_CLOEXEC)));
    return static_cast<bool>(event_);
  }

  Fd hits_;
  Fd program_;
  Fd link_;
  Fd event_;
};

Error cannot(const std::string& why) {
  return Error{"cannot find out whether return probes survive a seccomp filter: " + why,
               "run gcause as root, or with CAP_BPF and CAP_PERFMON; --without uretprobe_seccomp "
               "does without them for such processes"};
}

}  // namespace

Result<bool> return_probes_survive_seccomp() {
  const auto place = place_of_function();
  if (!place) return cannot("this program does not find itself in /proc/self/maps");
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return cannot(std::strerror(errno));
  const Fd reading(ends[0]);
  Fd writing(ends[1]);
  const pid_t child = ::fork();
  if (child < 0) return cannot(std::strerror(errno));
  if (child == 0) {
    ::close(writing.get());
    call_under_filter(reading.get());
  }
  const auto probe = ReturnProbe::attach(child, *place);
  const int error = errno;
  if (probe) (void)!::write(writing.get(), "g", 1);
  writing = Fd();
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (!probe) return cannot(std::strerror(error));
  if (WIFSIGNALED(status)) return false;
  if (WEXITSTATUS(status) != 0) return cannot("a process cannot be given a seccomp filter here");
  if (!probe->fired()) return cannot("the probe did not fire");
  return true;
}

}  // namespace gcause
