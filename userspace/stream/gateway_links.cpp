// SPDX-License-Identifier: Apache-2.0
#include "stream/gateway_links.h"

#include <algorithm>
#include <tuple>
#include <variant>

namespace gcause {

void GatewayLinks::consume(const TimelineEvent& event) {
  if (const auto* stream = std::get_if<StreamBegan>(&event)) {
    began(*stream);
  } else if (const auto* over = std::get_if<StreamEnded>(&event)) {
    ended(*over);
  } else if (const auto* chunk = std::get_if<ChunkRead>(&event)) {
    if (const auto found = processes_.find(chunk->pid); found != processes_.end()) {
      auto& process = found->second;
      if (const auto source = process.read.find(chunk->stream); source != process.read.end()) {
        keep(process, source->second, *chunk);
      } else if (const auto written = process.written.find(chunk->stream);
                 written != process.written.end()) {
        return timeline_.consume(passed_on(process, written->second, *chunk));
      }
    }
  }
  timeline_.consume(event);
}

void GatewayLinks::waited(std::uint32_t pid, std::uint32_t tid) {
  const auto found = processes_.find(pid);
  if (found != processes_.end()) ++found->second.runs[tid];
}

void GatewayLinks::began(const StreamBegan& event) {
  const auto process = processes_.find(event.pid);
  if (process == processes_.end()) return;
  if (event.direction == StreamDirection::read) {
    process->second.read[event.id].asked = event.request_end.value_or(event.begin);
  } else {
    process->second.written[event.id].asked = event.request_end.value_or(0);
  }
}

/// What was read last may be passed on a little later, so some streams are kept.
void GatewayLinks::ended(const StreamEnded& event) {
  const auto found = processes_.find(event.pid);
  if (found == processes_.end()) return;
  auto& process = found->second;
  if (const auto written = process.written.find(event.id); written != process.written.end()) {
    const auto source = process.read.find(written->second.source.stream);
    if (source != process.read.end()) source->second.passed_on_as = 0;
    process.written.erase(written);
  } else if (const auto read = process.read.find(event.id); read != process.read.end()) {
    read->second.over = true;
    process.ended.push_back(event.id);
    if (process.ended.size() <= kKeptEnded) return;
    process.read.erase(process.ended.front());
    process.ended.pop_front();
  }
}

void GatewayLinks::keep(Process& process, ReadStream& stream, const ChunkRead& event) {
  auto& chunks = stream.chunks;
  const auto is_one_too_many = [&] {
    return chunks.size() >= kMaxChunks ||
           (chunks.size() >= kKeptChunks && chunks.front().index < stream.taken_to);
  };
  while (is_one_too_many()) chunks.erase(chunks.begin());
  chunks.push_back(
      {event.index, event.tid, event.read, event.arrival, event.likeness, process.runs[event.tid]});
}

/// The written chunk with what its source says.
ChunkRead GatewayLinks::passed_on(Process& process, WrittenStream& written,
                                  const ChunkRead& event) {
  auto found = find_equal(process, written, event);
  if (found.chunk) {
    set_sure(process, written, event.stream, found);
  } else {
    found = find_likely(process, written, event.tid);
  }
  auto chunk = event;
  if (found.chunk) {
    found.chunk->taken = true;
    auto& taken_to = process.read.at(found.stream).taken_to;
    taken_to = std::max(taken_to, found.chunk->index + 1);
    chunk.source = ChunkPlace{found.stream, found.chunk->index};
    if (found.chunk->arrival) chunk.arrival = found.chunk->arrival;
  } else if (event.read == written.last) {
    // One chunk that was read became several of one write.
    chunk.source = written.last_source;
  }
  ++written.chunks;
  written.last = event.read;
  written.last_source = chunk.source;
  return chunk;
}

/// A chunk with the same data: of the stream that has given such before, or else of any. Chunks
/// that the same thread has read come first, then streams that are no other's source, then the
/// chunk that was read first.
GatewayLinks::Found GatewayLinks::find_equal(Process& process, const WrittenStream& written,
                                             const ChunkRead& event) {
  const auto equal_in = [&](ReadStream& stream, std::uint32_t next) -> Chunk* {
    const auto found = std::ranges::find_if(stream.chunks, [&](const Chunk& chunk) {
      return chunk.index >= next && chunk.likeness == event.likeness && chunk.read >= written.asked;
    });
    return found == stream.chunks.end() ? nullptr : &*found;
  };
  if (!written.sure && written.chunks >= kTries) return {};
  if (const auto source = process.read.find(written.source.stream);
      written.sure && source != process.read.end()) {
    if (auto* chunk = equal_in(source->second, written.source.next)) {
      return {source->first, chunk};
    }
  }
  Found best;
  std::tuple<bool, bool, Ns, std::uint64_t> best_rank;
  for (auto& [id, stream] : process.read) {
    if (written.sure && id == written.source.stream) continue;
    auto* chunk = equal_in(stream, 0);
    if (!chunk) continue;
    const std::tuple rank{chunk->tid != event.tid, stream.passed_on_as != 0, chunk->read, id};
    if (best.chunk && best_rank < rank) continue;
    best = {id, chunk};
    best_rank = rank;
  }
  return best;
}

void GatewayLinks::set_sure(Process& process, WrittenStream& written, std::uint64_t id,
                            const Found& found) {
  if (written.sure && written.source.stream != found.stream) {
    const auto before = process.read.find(written.source.stream);
    if (before != process.read.end()) before->second.passed_on_as = 0;
  }
  process.read.at(found.stream).passed_on_as = id;
  written.sure = true;
  written.source = {found.stream, found.chunk->index + 1};
  written.candidates.clear();
}

/// The first chunk from `next` on of the newest run in which such were read; only of thread `tid`
/// where one is named.
GatewayLinks::Chunk* GatewayLinks::first_new(ReadStream& stream, std::uint32_t next,
                                             std::optional<std::uint32_t> tid) {
  const auto is_new = [&](const Chunk& chunk) {
    return chunk.index >= next && (!tid || chunk.tid == *tid);
  };
  Chunk* found = nullptr;
  for (auto it = stream.chunks.rbegin(); it != stream.chunks.rend() && is_new(*it); ++it) {
    if (found && (it->run != found->run || it->tid != found->tid)) break;
    found = &*it;
  }
  return found;
}

/// The chunk that stands to reason where the data are no help.
GatewayLinks::Found GatewayLinks::find_likely(Process& process, WrittenStream& written,
                                              std::uint32_t tid) {
  if (written.sure) {
    // A chunk that the program changed, or made itself: what it was made of may yet be passed on.
    const auto source = process.read.find(written.source.stream);
    if (source == process.read.end()) return {};
    auto* chunk = first_new(source->second, written.source.next, std::nullopt);
    if (!chunk || chunk->read <= written.last) return {};
    return {source->first, chunk};
  }
  add_candidates(process, written);
  // What was read since the thread last waited comes first: the rest had been dealt with.
  auto found = find_among_candidates(process, written, tid, true);
  if (!found.chunk) found = find_among_candidates(process, written, tid, false);
  return found;
}

GatewayLinks::Found GatewayLinks::find_among_candidates(Process& process, WrittenStream& written,
                                                        std::uint32_t tid, bool in_this_run) {
  const auto fitting = [&](const Candidate& candidate) -> Chunk* {
    const auto stream = process.read.find(candidate.stream);
    if (stream == process.read.end() || stream->second.passed_on_as != 0) return nullptr;
    auto* chunk = first_new(stream->second, candidate.next, tid);
    return chunk && (!in_this_run || chunk->run == process.runs[tid]) ? chunk : nullptr;
  };
  const bool any = std::ranges::any_of(written.candidates, fitting);
  if (!any && in_this_run) return {};
  Candidate* best = nullptr;
  Chunk* best_chunk = nullptr;
  std::tuple<std::uint32_t, bool, bool, Ns> best_rank;
  for (auto& candidate : written.candidates) {
    ++candidate.tries;
    auto* chunk = fitting(candidate);
    if (!chunk) continue;
    const auto& stream = process.read.at(candidate.stream);
    ++candidate.fits;
    candidate.next = stream.chunks.back().index + 1;
    if (2 * candidate.fits < candidate.tries) continue;
    const std::tuple rank{~candidate.fits, stream.over, chunk->taken, chunk->read};
    if (best && best_rank <= rank) continue;
    best = &candidate;
    best_chunk = chunk;
    best_rank = rank;
  }
  if (!best) return {};
  best->next = best_chunk->index + 1;
  return {best->stream, best_chunk};
}

/// Candidates are the streams that are read when the written one begins, and later ones only when
/// all of them are over.
void GatewayLinks::add_candidates(const Process& process, WrittenStream& written) {
  const bool any_left = std::ranges::any_of(written.candidates, [&](const Candidate& candidate) {
    const auto stream = process.read.find(candidate.stream);
    return stream != process.read.end() && !stream->second.over;
  });
  if (any_left && written.chunks >= kTries) return;
  for (const auto& [id, stream] : process.read) {
    if (written.candidates.size() == kMaxCandidates) return;
    if (stream.asked < written.asked) continue;
    if (std::ranges::find(written.candidates, id, &Candidate::stream) == written.candidates.end()) {
      written.candidates.push_back({id});
    }
  }
}

}  // namespace gcause
