// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "util/time.h"

namespace gcause {

/// What one thread has read lately, by connection. Reads between which it did not wait are one run:
/// what had queued behind a pause comes in one.
class ThreadInputs {
 public:
  struct Input {
    Ns at;                      ///< the read returned
    std::optional<Ns> arrival;  ///< of its first byte
  };

  /// The thread has waited: what it reads from now on is another run.
  void waited() { ++run_; }

  void add(std::uint64_t connection, const Input& input);

  /// The newest input that does not come from `connection`.
  std::optional<Input> newest_but(std::uint64_t connection) const {
    return connection == newest_ ? other_input_ : newest_input_;
  }

  /// The first input of the connection that was read after `since`, in the run that goes on. What
  /// was read before the last wait had been dealt with.
  std::optional<Input> first_after(std::uint64_t connection, Ns since) const;

  /// The connections that have such, at most `most`, by their numbers.
  std::vector<std::uint64_t> read_after(Ns since, std::size_t most) const;

 private:
  /// Connections, and inputs of one run, that are kept.
  static constexpr std::size_t kMaxConnections = 1024, kMaxInputs = 64;

  struct Connection {
    std::uint64_t run = 0;
    std::vector<Input> inputs = {};
  };

  std::uint64_t run_ = 1;
  std::unordered_map<std::uint64_t, Connection> connections_;
  std::uint64_t newest_ = 0;           ///< the connection of `newest_input_`
  std::optional<Input> newest_input_;  ///< of all
  std::optional<Input> other_input_;   ///< of all connections but that
};

/// Finds the connection whose inputs become the chunks of a stream that a thread writes, where the
/// thread reads many: it is the one of which most often something was read since the chunk before.
class InputMatch {
 public:
  /// What the thread has read of that connection since the chunk before, and since it last waited,
  /// the first of it; nothing, where no connection has come up for half of the chunks, or two
  /// equally often.
  std::optional<ThreadInputs::Input> find(const ThreadInputs& inputs, Ns chunk_before) const;

  /// A chunk was written. `own` is the connection of the stream itself.
  void wrote(const ThreadInputs& inputs, std::uint64_t own, Ns chunk_before);

 private:
  /// The connections are looked for at the first chunks.
  static constexpr std::uint32_t kTries = 4;
  static constexpr std::size_t kMaxCandidates = 64;

  struct Candidate {
    std::uint64_t connection;
    std::uint32_t fits = 0;
    std::uint32_t tries = 0;
  };

  std::uint32_t chunks_ = 0;
  std::vector<Candidate> candidates_;
};

}  // namespace gcause
