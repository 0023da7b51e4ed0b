// SPDX-License-Identifier: Apache-2.0
#include "loader/loader.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>

#include "decode/kernel_abi.h"
#include "gcause.skel.h"
#include "loader/features.h"
#include "loader/libbpf_log.h"

namespace gcause {
namespace {

constexpr std::uint32_t kInitialPidNamespace = 0xEFFFFFFC;  // PROC_PID_INIT_INO, linux/proc_ns.h

struct LinkDeleter {
  void operator()(bpf_link* link) const { ::bpf_link__destroy(link); }
};
using Link = std::unique_ptr<bpf_link, LinkDeleter>;

struct SkeletonDeleter {
  void operator()(gcause_bpf* skeleton) const { gcause_bpf__destroy(skeleton); }
};

struct RingDeleter {
  void operator()(ring_buffer* ring) const { ::ring_buffer__free(ring); }
};

std::uint32_t own_pid_namespace() {
  struct stat info = {};
  if (::stat("/proc/self/ns/pid", &info) != 0) return 0;
  const auto inode = static_cast<std::uint32_t>(info.st_ino);
  return inode == kInitialPidNamespace ? 0 : inode;
}

std::uint64_t cookie_of(const ProbeSite& site) {
  switch (site.shape) {
    case CallShape::none:
      return 0;
    case CallShape::tls_read:
      return TLS_READ;
    case CallShape::tls_read_ex:
      return TLS_READ_EX;
    case CallShape::tls_write:
      return TLS_WRITE;
    case CallShape::tls_write_ex:
      return TLS_WRITE_EX;
    case CallShape::libc_read:
      return LIBC_READ;
    case CallShape::libc_read_message:
      return LIBC_READ_MESSAGE;
    case CallShape::libc_read_vector:
      return LIBC_READ_VECTOR;
    case CallShape::libc_write:
      return LIBC_WRITE;
    case CallShape::libc_write_message:
      return LIBC_WRITE_MESSAGE;
    case CallShape::libc_write_vector:
      return LIBC_WRITE_VECTOR;
  }
  return 0;
}

const char* loss_name(unsigned where) {
  switch (static_cast<loss>(where)) {
    case LOSS_RING_FULL:
      return "ring-buffer";
    case LOSS_SCRATCH_BUSY:
      return "scratch-buffers";
    case LOSS_THREADS_FULL:
      return "thread-table";
    case LOSS_SOCKETS_FULL:
      return "socket-table";
    case LOSS_PAYLOAD_UNREADABLE:
      return "payload";
    case LOSS_IO_URING:
      return "io-uring";
    case LOSS_COUNT:
      break;
  }
  return "unknown";
}

}  // namespace

struct Loader::Impl {
  std::unique_ptr<gcause_bpf, SkeletonDeleter> skeleton;
  std::unique_ptr<ring_buffer, RingDeleter> ring;
  std::vector<Link> host_links;
  std::map<std::uint32_t, std::vector<Link>> links;
  bool sockets_by_uprobe = false;
  bool multi = false;
  Ns trigger = 0;
  std::vector<std::byte>* drain_into = nullptr;

  /// The ring buffer's callback: it appends bytes and does nothing else.
  static int append(void* context, void* data, std::size_t size) {
    auto& into = *static_cast<Impl*>(context)->drain_into;
    const auto* bytes = static_cast<const std::byte*>(data);
    into.insert(into.end(), bytes, bytes + size);
    into.resize((into.size() + 7) & ~std::size_t{7});
    return 0;
  }

  struct Program {
    bpf_program* program;
    bool is_return;
  };

  /// The programs of one site; empty where this session sees the same thing in another way.
  std::vector<Program> programs_of(const ProbeSite& site) const {
    const auto& progs = skeleton->progs;
    switch (site.kind) {
      case ProbeKind::collector:
        return {{progs.collector_enter, false}, {progs.collector_return, true}};
      case ProbeKind::collector_usdt:
        return {};
      case ProbeKind::tls_call:
        return {{progs.tls_enter, false}, {progs.tls_return, true}};
      case ProbeKind::world_stop:
        return {{progs.world_stop, false}};
      case ProbeKind::world_start:
        return {{progs.world_start, false}};
      case ProbeKind::tls_free:
        return {{progs.tls_free, false}};
      case ProbeKind::library_load:
        return {{progs.libraries_changed, false}};
      case ProbeKind::read_return:
        if (sockets_by_uprobe) return {};
        return {{progs.read_return, true}};
      case ProbeKind::libc_call:
        if (sockets_by_uprobe) return {{progs.libc_enter, false}, {progs.libc_return, true}};
        return {};
    }
    return {};
  }

  /// What takes the place of the return program where a site has exits.
  bpf_program* exit_program(ProbeKind kind) const {
    return kind == ProbeKind::collector ? skeleton->progs.collector_exit : skeleton->progs.tls_exit;
  }

  static bpf_link* attach_multi(bpf_program* program, bool is_return, std::uint32_t pid,
                                const ProbeSite& site, std::uint64_t file_offset) {
    const unsigned long offset = file_offset;
    const __u64 cookie = cookie_of(site);
    LIBBPF_OPTS(bpf_uprobe_multi_opts, options);
    options.offsets = &offset;
    options.cookies = &cookie;
    options.cnt = 1;
    options.retprobe = is_return;
    return ::bpf_program__attach_uprobe_multi(program, static_cast<pid_t>(pid),
                                              site.open_path.c_str(), nullptr, &options);
  }

  /// Through a perf event: it works everywhere, but a task with perf events pays for each of them
  /// at every context switch.
  static bpf_link* attach_event(bpf_program* program, bool is_return, std::uint32_t pid,
                                const ProbeSite& site, std::uint64_t file_offset) {
    LIBBPF_OPTS(bpf_uprobe_opts, options);
    options.retprobe = is_return;
    options.bpf_cookie = cookie_of(site);
    return ::bpf_program__attach_uprobe_opts(program, static_cast<pid_t>(pid),
                                             site.open_path.c_str(), file_offset, &options);
  }

  Result<> attach_program(bpf_program* program, bool is_return, std::uint32_t pid,
                          const ProbeSite& site, std::uint64_t file_offset) {
    Link link(multi ? attach_multi(program, is_return, pid, site, file_offset)
                    : attach_event(program, is_return, pid, site, file_offset));
    if (!link) return failed(pid, site, errno);
    links[pid].push_back(std::move(link));
    return Ok{};
  }

  Result<> attach_uprobes(std::uint32_t pid, const ProbeSite& site) {
    for (const auto& [program, is_return] : programs_of(site)) {
      if (is_return && !site.exits.empty()) continue;
      auto attached = attach_program(program, is_return, pid, site, site.file_offset);
      if (!attached) return attached;
    }
    for (const auto offset : site.exits) {
      auto attached = attach_program(exit_program(site.kind), false, pid, site, offset);
      if (!attached) return attached;
    }
    return Ok{};
  }

  Result<> attach_usdt(std::uint32_t pid, const ProbeSite& site) {
    const std::pair<bpf_program*, const char*> pair[] = {
        {skeleton->progs.collector_start, "gc__start"},
        {skeleton->progs.collector_done, "gc__done"},
    };
    for (const auto& [program, name] : pair) {
      Link link(::bpf_program__attach_usdt(program, static_cast<pid_t>(pid), site.open_path.c_str(),
                                           "python", name, nullptr));
      if (!link) return failed(pid, site, errno);
      links[pid].push_back(std::move(link));
    }
    return Ok{};
  }

  Error failed(std::uint32_t pid, const ProbeSite& site, int error) const {
    std::string what = "cannot attach to " + site.symbol + " in " + site.object + " of process " +
                       std::to_string(pid) + ": " + std::strerror(error);
    if (error == ESRCH) return Error{what, "the process has ended; start it again"};
    if (error == EACCES && !multi) {
      return Error{what,
                   "where uprobe_multi is missing, some kernels want CAP_SYS_ADMIN for a probe: "
                   "run as root"};
    }
    return Error{what, error == EPERM || error == EACCES
                           ? "run as root, or give CAP_BPF, CAP_PERFMON and CAP_SYS_PTRACE"
                           : "gcause doctor -p " + std::to_string(pid) + " shows what was tried"};
  }
};

Loader::Loader(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Loader::~Loader() = default;

Result<std::unique_ptr<Loader>> Loader::make(const LoaderOptions& options) {
  collect_libbpf_warnings();
  auto impl = std::make_unique<Impl>();
  impl->skeleton.reset(gcause_bpf__open());
  if (!impl->skeleton) {
    return Error{std::string("cannot open the BPF object: ") + std::strerror(errno), "report this"};
  }
  auto& skeleton = *impl->skeleton;
  impl->trigger = options.trigger;
  impl->sockets_by_uprobe = !options.features.at("sock_length");
  skeleton.rodata->settings.pidns_inode = own_pid_namespace();
  skeleton.rodata->settings.wake_bytes = options.ring_bytes / 4;
  ::bpf_map__set_max_entries(skeleton.maps.records, options.ring_bytes);
  ::bpf_map__set_max_entries(skeleton.maps.scratches,
                             SCRATCH_SLOTS * static_cast<u32>(::libbpf_num_possible_cpus()));

  const auto& progs = skeleton.progs;
  std::vector<bpf_program*> host = {progs.process_exit, progs.process_fork, progs.process_exec};
  std::vector<bpf_program*> target = {
      progs.collector_enter, progs.collector_return, progs.collector_start,
      progs.collector_done,  progs.collector_exit,   progs.world_stop,
      progs.world_start,     progs.tls_enter,        progs.tls_return,
      progs.tls_exit,        progs.tls_free,         progs.libraries_changed};
  if (impl->sockets_by_uprobe) {
    target.insert(target.end(), {progs.libc_enter, progs.libc_return});
  } else {
    host.insert(host.end(), {progs.socket_received, progs.socket_sent});
    target.push_back(progs.read_return);
  }
  if (options.features.at("sched_switch")) host.push_back(progs.thread_switched);
  if (options.features.at("sk_data_ready")) {
    host.push_back(progs.socket_data_ready);
  } else if (options.features.at("tcp_probe")) {
    host.push_back(progs.segment_arrived);
  }
  if (options.features.at("inet_sock_set_state")) host.push_back(progs.socket_set_state);
  for (auto* list : {&host, &target}) {
    for (auto* program : *list) ::bpf_program__set_autoload(program, true);
  }
  impl->multi = options.features.at("uprobe_multi");
  if (impl->multi) {
    for (auto* program : target) {
      if (program != progs.collector_start && program != progs.collector_done) {
        ::bpf_program__set_expected_attach_type(program, BPF_TRACE_UPROBE_MULTI);
      }
    }
  }

  if (const int error = gcause_bpf__load(&skeleton)) {
    return Error{"cannot load the BPF programs into kernel " + kernel_release() + ": " +
                     std::strerror(-error) + "; " + first_libbpf_warning(),
                 "run as root or with CAP_BPF and CAP_PERFMON; lockdown must not be "
                 "'confidentiality'; gcause doctor shows what this kernel has"};
  }
  for (auto* program : host) {
    Link link(::bpf_program__attach(program));
    if (!link) {
      return Error{std::string("cannot attach ") + ::bpf_program__name(program) + ": " +
                       std::strerror(errno),
                   "gcause doctor shows what this kernel has; --without switches a feature off"};
    }
    impl->host_links.push_back(std::move(link));
  }
  impl->ring.reset(
      ::ring_buffer__new(::bpf_map__fd(skeleton.maps.records), Impl::append, impl.get(), nullptr));
  if (!impl->ring) {
    return Error{std::string("cannot map the ring buffer: ") + std::strerror(errno),
                 "a smaller --ring-size may fit"};
  }
  return std::unique_ptr<Loader>(new Loader(std::move(impl)));
}

Result<> Loader::refresh(const Target& target) {
  ::target settings = {};
  settings.runtime = target.runtime_address;
  settings.code_type = target.code_type_address;
  settings.trigger_ns = static_cast<std::uint64_t>(impl_->trigger);
  // Everything is read from the runtime on: without its address the layout is of no use.
  if (target.layout && target.runtime_address != 0) {
    settings.flags = TARGET_HAS_LAYOUT;
    settings.layout = *target.layout;
    if (!target.generations_checked) settings.layout.gc_generations = 0;
  }
  for (const auto& site : target.sites) {
    if (site.kind == ProbeKind::world_stop) settings.flags |= TARGET_WORLD_PROBED;
  }
  impl_->skeleton->bss->maybe_target[FILTER_WORD(target.pid)] |= FILTER_BIT(target.pid);
  if (::bpf_map__update_elem(impl_->skeleton->maps.targets, &target.pid, sizeof target.pid,
                             &settings, sizeof settings, BPF_ANY) != 0) {
    return Error{
        "cannot follow process " + std::to_string(target.pid) + ": " + std::strerror(errno),
        "at most " + std::to_string(MAX_TARGETS) + " processes can be followed"};
  }
  return Ok{};
}

Result<> Loader::attach(const Target& target) {
  if (auto told = refresh(target); !told) return told;
  return attach_sites(target, target.sites);
}

Result<> Loader::attach_sites(const Target& target, const std::vector<ProbeSite>& sites) {
  for (const auto& site : sites) {
    auto attached = site.kind == ProbeKind::collector_usdt
                        ? impl_->attach_usdt(target.pid, site)
                        : impl_->attach_uprobes(target.pid, site);
    if (!attached) return attached;
  }
  return Ok{};
}

void Loader::detach(std::uint32_t pid) {
  ::bpf_map__delete_elem(impl_->skeleton->maps.targets, &pid, sizeof pid, 0);
  impl_->links.erase(pid);
}

std::uint32_t Loader::library_changes() const { return impl_->skeleton->bss->library_changes; }

void Loader::activate() { impl_->skeleton->bss->active = 1; }

int Loader::poll_fd() const { return ::ring_buffer__epoll_fd(impl_->ring.get()); }

void Loader::drain(std::vector<std::byte>& records) {
  impl_->drain_into = &records;
  ::ring_buffer__consume(impl_->ring.get());
  impl_->drain_into = nullptr;
}

void Loader::set_streaming(std::uint32_t pid, std::uint64_t connection, bool reads, bool writes) {
  const connection_key key = {connection, pid, 0};
  const auto value = static_cast<u8>((reads ? STREAMING_READ : 0) | (writes ? STREAMING_WRITE : 0));
  auto* map = impl_->skeleton->maps.streaming;
  if (value != 0) {
    (void)::bpf_map__update_elem(map, &key, sizeof key, &value, sizeof value, BPF_ANY);
  } else {
    (void)::bpf_map__delete_elem(map, &key, sizeof key, 0);
  }
}

LossCounters Loader::losses() const {
  LossCounters counters;
  std::vector<std::uint64_t> per_cpu(static_cast<std::size_t>(::libbpf_num_possible_cpus()));
  for (std::uint32_t where = 0; where < LOSS_COUNT; ++where) {
    if (::bpf_map__lookup_elem(impl_->skeleton->maps.losses, &where, sizeof where, per_cpu.data(),
                               per_cpu.size() * sizeof per_cpu[0], 0) != 0) {
      continue;
    }
    std::uint64_t sum = 0;
    for (const auto count : per_cpu) sum += count;
    counters[loss_name(where)] = sum;
  }
  return counters;
}

}  // namespace gcause
