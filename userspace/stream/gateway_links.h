// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <unordered_map>
#include <vector>

#include "recording/timeline.h"

namespace gcause {

/// Says which chunk that a process has read is the one that it passes on with a chunk that it
/// writes. Stands between the connections and the timeline, and fills in `source` of written
/// chunks; where it is known when the source arrived, that is when the written chunk did.
///
/// A chunk with the same data is the source, whichever thread read it: a stream that was found so
/// stays the source of the written one. Where the program changes the data, nothing but time tells.
/// Then the source is a stream that was asked for after the request for the written one had been
/// read, and the thread that writes has read a chunk of it since its last chunk of the written
/// stream; where there is such, since it last waited. Of several streams it is the one of which
/// that held most often, and has held at least every other time. Of several chunks it is the first
/// that was not passed on of those between which the thread did not wait: what had queued behind a
/// pause comes so.
class GatewayLinks : public TimelineConsumer {
 public:
  explicit GatewayLinks(TimelineConsumer& timeline) : timeline_(timeline) {}

  /// The process is a server: what it reads from now on may be passed on. Nothing is kept of what
  /// others read.
  void serves(std::uint32_t pid) { processes_.try_emplace(pid); }

  /// The thread has blocked in a wait for more.
  void waited(std::uint32_t pid, std::uint32_t tid);

  void consume(const TimelineEvent& event) override;

  void process_ended(std::uint32_t pid) { processes_.erase(pid); }

 private:
  /// Chunks that are kept of a stream, and of those that somebody has passed on, or that lie before
  /// such; streams that are kept behind their end; streams among which the source is looked for.
  static constexpr std::size_t kMaxChunks = 256, kKeptChunks = 32, kKeptEnded = 64,
                               kMaxCandidates = 64;
  /// Chunks of a stream by which it has shown that it passes on what it read, or does not.
  static constexpr std::uint32_t kTries = 4;

  struct Chunk {
    std::uint32_t index;
    std::uint32_t tid;
    Ns read;
    std::optional<Ns> arrival;
    std::uint64_t likeness;
    std::uint64_t run;   ///< of its thread, between two waits
    bool taken = false;  ///< it is the source of some written chunk
  };

  struct ReadStream {
    Ns asked = 0;                    ///< its request was written; where unknown: it began
    bool over = false;               ///< it has ended
    std::uint32_t taken_to = 0;      ///< index behind the last chunk that was passed on
    std::uint64_t passed_on_as = 0;  ///< the written stream that surely comes from it
    std::vector<Chunk> chunks = {};  ///< the newest
  };

  /// A stream that may be the source of a written one.
  struct Candidate {
    std::uint64_t stream;
    std::uint32_t next = 0;   ///< index of the first chunk that was not passed on
    std::uint32_t tries = 0;  ///< written chunks for which it was looked at
    std::uint32_t fits = 0;   ///< those before which a new chunk of it was read
  };

  struct WrittenStream {
    Ns asked = 0;  ///< its request was read; 0 where unknown
    std::uint32_t chunks = 0;
    Ns last = 0;                                 ///< its newest chunk was written
    std::optional<ChunkPlace> last_source = {};  ///< of that chunk
    bool sure = false;                           ///< `source` has given the same data
    Candidate source = {};                       ///< used where it is sure
    std::vector<Candidate> candidates = {};      ///< used otherwise
  };

  struct Process {
    std::map<std::uint64_t, ReadStream> read;
    std::unordered_map<std::uint64_t, WrittenStream> written;
    std::deque<std::uint64_t> ended;  ///< those of `read` that are over, the oldest first
    std::unordered_map<std::uint32_t, std::uint64_t> runs;  ///< by thread
  };

  struct Found {
    std::uint64_t stream = 0;
    Chunk* chunk = nullptr;  ///< none: not found
  };

  void began(const StreamBegan& event);
  void ended(const StreamEnded& event);
  static void keep(Process& process, ReadStream& stream, const ChunkRead& event);
  static ChunkRead passed_on(Process& process, WrittenStream& written, const ChunkRead& event);
  static Found find_equal(Process& process, const WrittenStream& written, const ChunkRead& event);
  static void set_sure(Process& process, WrittenStream& written, std::uint64_t id,
                       const Found& found);
  static Found find_likely(Process& process, WrittenStream& written, std::uint32_t tid);
  static Found find_among_candidates(Process& process, WrittenStream& written, std::uint32_t tid,
                                     bool in_this_run);
  static void add_candidates(const Process& process, WrittenStream& written);
  static Chunk* first_new(ReadStream& stream, std::uint32_t next, std::optional<std::uint32_t> tid);

  TimelineConsumer& timeline_;
  std::unordered_map<std::uint32_t, Process> processes_;  ///< servers, by pid
};

}  // namespace gcause
