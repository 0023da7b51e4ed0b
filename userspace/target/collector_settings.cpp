// SPDX-License-Identifier: Apache-2.0
#include "target/collector_settings.h"

#include <time.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include "util/clock.h"

namespace gcause {
namespace {

constexpr std::size_t kMostInterpreters = 64;
constexpr std::size_t kGenerationBytes = 24;  // struct gc_generation: head 16, threshold, count
constexpr std::size_t kMostStateBytes = 256;  ///< of _gc_runtime_state up to the permanent head
constexpr std::uint64_t kLinkFlags = 3;       // _gc_prev and _gc_next keep flags in these bits
constexpr int kWalks = 3;
constexpr Ns kReadingShare = 20;         ///< one part of this many goes into readings
constexpr Ns kSavedTime = 10 * kSecond;  ///< whose share may be spent at once

/// What this thread has spent: a busy machine does not make a reading dearer.
Ns cpu_time() { return read_clock(CLOCK_THREAD_CPUTIME_ID); }

/// Words of the target's memory, read by pages. Objects of one list lie near each other in the
/// order of the list, so few pages are enough.
class PagedWords {
 public:
  explicit PagedWords(Memory& memory) : memory_(memory), pages_(kPages) {}

  std::optional<std::uint64_t> word(std::uint64_t address) {
    if (address % sizeof(std::uint64_t) != 0) return std::nullopt;
    const auto number = address / kPageBytes;
    auto& page = pages_[number % kPages];
    if (!page) page = std::make_unique_for_overwrite<Page>();
    if (page->number != number) {
      page->number = memory_.read(number * kPageBytes, page->bytes) ? number : kNone;
      if (page->number == kNone) return std::nullopt;
    }
    std::uint64_t word;
    std::memcpy(&word, page->bytes.data() + address % kPageBytes, sizeof word);
    return word;
  }

 private:
  static constexpr std::uint64_t kPageBytes = 4096;
  static constexpr std::size_t kPages = 1024;
  static constexpr std::uint64_t kNone = ~std::uint64_t{0};

  struct Page {
    std::uint64_t number = kNone;
    std::array<std::uint8_t, kPageBytes> bytes;
  };

  Memory& memory_;
  std::vector<std::unique_ptr<Page>> pages_;
};

template <typename T>
T at(const std::uint8_t* bytes, std::size_t offset) {
  T value;
  std::memcpy(&value, bytes + offset, sizeof value);
  return value;
}

}  // namespace

std::optional<std::int64_t> count_objects(Memory& memory, std::uint64_t head,
                                          const WalkLimits& limits) {
  constexpr std::uint64_t kStepsBetweenClocks = 4096;
  const auto first = memory.value<std::uint64_t>(head);
  if (!first) return std::nullopt;
  if ((*first & ~kLinkFlags) == head) return 0;
  PagedWords words(memory);
  const Ns deadline = cpu_time() + limits.time;
  std::uint64_t before = head;
  std::uint64_t object = *first & ~kLinkFlags;
  for (std::uint64_t count = 0; count <= limits.objects; ++count) {
    // PyGC_Head: _gc_next, _gc_prev.
    const auto previous = words.word(object + 8);
    if (!previous || (*previous & ~kLinkFlags) != before) return std::nullopt;
    if (object == head) return static_cast<std::int64_t>(count);
    if (count % kStepsBetweenClocks == 0 && cpu_time() > deadline) return std::nullopt;
    const auto next = words.word(object);
    if (!next) return std::nullopt;
    before = object;
    object = *next & ~kLinkFlags;
  }
  return std::nullopt;
}

std::optional<SettingsWatch::Glance> SettingsWatch::glance(std::int64_t interpreter,
                                                           std::uint64_t gc) {
  std::uint8_t bytes[kMostStateBytes];
  const std::size_t size = layout_.gc_permanent + 16;
  if (size > sizeof bytes || layout_.gc_enabled + 4 > size ||
      layout_.gc_generations + 3 * kGenerationBytes > size || !memory_->read(gc, {bytes, size})) {
    return std::nullopt;
  }
  Glance glance = {interpreter, gc + layout_.gc_permanent, {}, {}};
  const auto enabled = at<std::int32_t>(bytes, layout_.gc_enabled);
  if (enabled != 0 && enabled != 1) return std::nullopt;
  glance.state.enabled = enabled == 1;
  for (std::size_t i = 0; i < 3 && layout_.gc_generations != 0; ++i) {
    const auto generation = layout_.gc_generations + i * kGenerationBytes;
    glance.state.thresholds[i] = at<std::int32_t>(bytes, generation + 16);
    glance.counts[i] = at<std::int32_t>(bytes, generation + 20);
  }
  if (layout_.flags & LAYOUT_FREE_THREADED) return glance;  // which has no lists of objects
  for (std::size_t i = 0; i < 2; ++i) {
    glance.state.frozen_ends[i] = at<std::uint64_t>(bytes, layout_.gc_permanent + i * 8);
    // The interpreter has not been set up yet.
    if (glance.state.frozen_ends[i] == 0) return std::nullopt;
  }
  return glance;
}

std::vector<SettingsWatch::Glance> SettingsWatch::glances() {
  std::vector<Glance> found;
  auto interpreter = memory_->value<std::uint64_t>(runtime_ + layout_.runtime_interpreters);
  if (layout_.runtime_gc != 0) {
    if (interpreter && *interpreter != 0) {
      if (auto one = glance(0, runtime_ + layout_.runtime_gc)) found.push_back(*one);
    }
    return found;
  }
  for (std::size_t i = 0; i < kMostInterpreters && interpreter && *interpreter != 0; ++i) {
    const auto id = memory_->value<std::int64_t>(*interpreter + layout_.interpreter_id);
    const auto next = memory_->value<std::uint64_t>(*interpreter + layout_.interpreter_next);
    const bool repeats = std::ranges::any_of(
        found, [&](const Glance& other) { return id && other.interpreter == *id; });
    if (!id || *id < 0 || repeats) break;
    if (auto one = glance(*id, *interpreter + layout_.interpreter_gc)) found.push_back(*one);
    interpreter = next;
  }
  return found;
}

CollectorSettings SettingsWatch::full(const Glance& glance) {
  CollectorSettings gc;
  gc.enabled = glance.state.enabled;
  if (layout_.gc_generations != 0) {
    gc.thresholds.assign(glance.state.thresholds.begin(), glance.state.thresholds.end());
    gc.counts.assign(glance.counts.begin(), glance.counts.end());
  }
  if (!(layout_.flags & LAYOUT_FREE_THREADED)) {
    // A walk that meets a change of the list is worth another.
    const Ns deadline = cpu_time() + limits_.time;
    for (int i = 0; i < kWalks && !gc.frozen && cpu_time() < deadline; ++i) {
      gc.frozen = count_objects(*memory_, glance.frozen_head, limits_);
    }
  }
  return gc;
}

std::vector<SettingsReading> SettingsWatch::look(Ns now) {
  std::vector<SettingsReading> readings;
  const auto finalizing = memory_->value<std::uint64_t>(runtime_ + layout_.runtime_finalizing);
  // A runtime that ends takes its collectors apart, which is no setting.
  if (finalizing != std::uint64_t{0}) return readings;
  const auto present = glances();
  std::erase_if(known_, [&](const auto& known) {
    return std::ranges::none_of(
        present, [&](const Glance& glance) { return glance.interpreter == known.first; });
  });
  const bool may_read = now >= next_reading_;
  for (const auto& glance : present) {
    const auto known = known_.find(glance.interpreter);
    const bool is_new = known == known_.end();
    const bool changed = is_new || known->second.state != glance.state;
    if (!may_read || (!changed && known->second.settled)) continue;
    const Ns begin = cpu_time();
    const auto gc = full(glance);
    next_reading_ =
        std::max(next_reading_, now - kSavedTime) + (cpu_time() - begin) * kReadingShare;
    const bool differs = is_new || known->second.gc.enabled != gc.enabled ||
                         known->second.gc.thresholds != gc.thresholds ||
                         known->second.gc.frozen != gc.frozen;
    known_.insert_or_assign(glance.interpreter, Known{glance.state, gc, !changed});
    if (differs) readings.push_back({glance.interpreter, gc});
  }
  return readings;
}

}  // namespace gcause
