// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "recording/timeline.h"
#include "target/code_range.h"
#include "target/elf_file.h"
#include "target/layout.h"
#include "target/procfs.h"
#include "target/prologue.h"
#include "util/result.h"

namespace gcause {

/// What a probe listens to; each has its own BPF programs.
enum class ProbeKind : std::uint8_t {
  collector,       ///< bracket around the collector function: entry and return
  collector_usdt,  ///< the USDT pair gc__start, gc__done
  tls_call,        ///< entry and return; `detail` says which call
  tls_free,        ///< entry
  libc_call,       ///< entry and return of a libc call that moves bytes: the fallback for sockets
  read_return,     ///< return of a libc call that reads a socket
  world_stop,      ///< entry of the function that stops the world of a free-threaded build
  world_start,     ///< entry of the one that lets it go on
};

/// Which signature a probed function has; the loader turns it into the attach cookie.
enum class CallShape : std::uint8_t {
  none,
  tls_read,
  tls_read_ex,
  tls_write,
  tls_write_ex,
  libc_read,
  libc_read_message,
  libc_read_vector,
  libc_write,
  libc_write_message,
  libc_write_vector,
};

struct ProbeSite {
  ProbeKind kind;
  CallShape shape = CallShape::none;
  std::string object;     ///< path as the target sees it
  std::string open_path;  ///< path under which this process reaches the same file
  std::string symbol;
  ProbePoint point;           ///< address 0 for USDT: libbpf finds its sites
  std::uint64_t file_offset;  ///< of the probed instruction
  /// File offsets of every instruction that leaves the function. Where it is not empty, the end is
  /// taken there and not by a return probe, which a seccomp filter may not survive.
  std::vector<std::uint64_t> exits = {};
  /// Where the function's code lies, first the part that it is entered at; only of collectors.
  std::vector<CodeRange> ranges = {};
};

/// One way to the collector that was tried, for the doctor.
struct CollectorWay {
  CollectorMethod method;
  bool found;
  std::string result;  ///< what was found, or why nothing was
};

/// One process, described: what it is and where its probes go. Nothing has been attached yet.
struct Target {
  std::uint32_t pid;
  std::uint64_t start_ticks;
  std::string exe;
  bool filtered_by_seccomp = false;  ///< any of its threads: a return probe may kill it
  std::string python_object;
  std::optional<std::uint32_t> python_hex;  ///< PY_VERSION_HEX; only major and minor may be set
  std::optional<std::string> python_version;
  std::optional<bool> free_threaded;
  std::uint64_t runtime_address = 0;    ///< of _PyRuntime in the process; 0 if not known
  std::uint64_t code_type_address = 0;  ///< of PyCode_Type in the process; 0 if not known
  std::optional<python_layout> layout;
  CollectorMethod collector_method;
  std::vector<CollectorWay> collector_ways;  ///< every way that was tried, in order
  std::string collector_object;
  std::string collector_symbol;
  std::uint64_t collector_address;
  std::vector<TlsLibrary> tls;
  std::vector<ProbeSite> sites;
  /// To be attached as well once the process is seen to block in socket reads: only then the return
  /// of the call may be much later than the kernel's part of it.
  std::vector<ProbeSite> blocking_sites;
  std::set<std::string> known_objects;  ///< paths of the mapped files that were looked into
  std::vector<std::string> notes;       ///< what will not be seen, and why; for the doctor
};

class CollectorCache;

struct DescribeOptions {
  CollectorCache* cache =
      nullptr;            ///< of this session: the next process of a Python costs no search
  bool all_ways = false;  ///< tries every way to the collector, for the doctor
};

/// Describes a process. Fails where there is no such process, no right to look at it, no CPython
/// in it, or no way to its collector.
Result<Target> describe_target(const Procfs& procfs, std::uint32_t pid,
                               const DescribeOptions& options = {});

/// The exported functions that a site stands for which sits in what they all call; just the site,
/// where it is in a function of its own. For those who cannot use the shared one. `elf` is the
/// site's object.
std::vector<ProbeSite> exported_sites(const ElfFile& elf, const ProbeSite& site);

/// The probe sites of libraries that are mapped in `pid` now and were not when `known` was made.
std::vector<ProbeSite> sites_of_new_objects(const Procfs& procfs, std::uint32_t pid, Target& known);

}  // namespace gcause
