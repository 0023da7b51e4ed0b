// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "target/target.h"
#include "util/result.h"
#include "util/time.h"

namespace gcause {

/// Records lost so far, by the place at which they were lost.
using LossCounters = std::map<std::string, std::uint64_t>;

struct LoaderOptions {
  std::map<std::string, bool> features;
  std::uint32_t ring_bytes = 4 << 20;  ///< a power of two
  Ns trigger = kMillisecond;           ///< a pause of at least this length has its trigger read
};

/// The kernel side, loaded. The only user of libbpf; everything is detached when it goes, also when
/// the process is killed, as the kernel then closes the links.
class Loader {
 public:
  /// Loads the programs that `options.features` allow. Nothing is attached yet.
  static Result<std::unique_ptr<Loader>> make(const LoaderOptions& options);
  ~Loader();

  /// Puts the probes of one process in. They stay silent until `activate`.
  Result<> attach(const Target& target);

  /// Takes over what has been found out since about a process that is followed already.
  Result<> refresh(const Target& target);

  /// Puts more probes into a process that is followed already.
  Result<> attach_sites(const Target& target, const std::vector<ProbeSite>& sites);

  /// Takes the probes of a process out again.
  void detach(std::uint32_t pid);

  /// From here on records flow.
  void activate();

  /// How often processes with a `library_load` site have loaded or released libraries, modulo 2^32.
  /// A change also wakes who waits for `poll_fd`.
  std::uint32_t library_changes() const;

  /// A descriptor that is readable when much is waiting in the ring buffer.
  int poll_fd() const;

  /// Appends all waiting records to `records`, each at a multiple of 8 bytes.
  void drain(std::vector<std::byte>& records);

  /// In which directions this connection carries an event stream now. In one in which it does not,
  /// only the first bytes of each message are copied.
  void set_streaming(std::uint32_t pid, std::uint64_t connection, bool reads, bool writes);

  LossCounters losses() const;

 private:
  struct Impl;
  explicit Loader(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace gcause
