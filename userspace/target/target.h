// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "recording/timeline.h"
#include "target/layout.h"
#include "target/probe_site.h"
#include "target/procfs.h"
#include "target/tls_sites.h"
#include "util/result.h"

namespace gcause {

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
  bool generations_checked = false;  ///< that the layout's gc_generations hold in this process
  CollectorMethod collector_method;
  std::vector<CollectorWay> collector_ways;  ///< every way that was tried, in order
  std::string collector_object;
  std::string collector_symbol;
  std::uint64_t collector_address;
  /// Copies of TLS libraries. Those that cannot be probed are looked for with `all_ways` only.
  std::vector<TlsObject> tls;
  std::vector<ProbeSite> sites;
  /// To be attached as well once the process is seen to block in socket reads: only then the return
  /// of the call may be much later than the kernel's part of it.
  std::vector<ProbeSite> blocking_sites;
  std::set<FileKey> known_objects;  ///< the mapped files that were looked into
  std::uint64_t code_bytes = 0;     ///< Procfs::code_bytes before the mappings were read
  std::vector<std::string> notes;   ///< what will not be seen, and why; for the doctor
};

/// Whether a mapped file is among the TLS libraries of `target`.
bool is_known_tls(const Target& target, const Mapping& mapping);

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

/// Looks where the generations of the collector are, for a process whose interpreter was not set up
/// when it was described; sets `generations_checked` once that is known.
void check_generations(Target& target);

/// The probe sites of libraries that are mapped now and were not when `target` was made or last
/// asked. They are entered in it.
std::vector<ProbeSite> sites_of_new_objects(const Procfs& procfs, Target& target);

/// The probe sites of a TLS library that its symbols do not name, in a file that `target` has
/// mapped; entered in it. Empty if there is none that can be found.
std::vector<ProbeSite> sites_in_code(const Procfs& procfs, const Mapping& mapping, Target& target);

}  // namespace gcause
