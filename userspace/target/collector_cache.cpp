// SPDX-License-Identifier: Apache-2.0
#include "target/collector_cache.h"

#include <algorithm>

namespace gcause {
namespace {

constexpr std::size_t kMaxEntries = 64;
constexpr std::size_t kMaxCode = 64 << 10;  // of one stretch; collectors have some 5 KiB

}  // namespace

bool CollectorCache::holds(const Entry& entry, const CollectorSearch& search) {
  if (entry.file_size != search.elf.image().size() || entry.prefer_usdt != search.prefer_usdt ||
      entry.all_ways != search.all_ways) {
    return false;
  }
  const bool same_code = std::all_of(entry.code.begin(), entry.code.end(), [&](const Code& code) {
    return search.elf.bytes_at(code.address, code.bytes.size()) == code.bytes;
  });
  if (!same_code) return false;
  return entry.found.method != CollectorMethod::usdt ||
         (search.elf.has_usdt("python", "gc__start") && search.elf.has_usdt("python", "gc__done"));
}

std::optional<std::vector<CollectorCache::Code>> CollectorCache::code_of(
    const CollectorSearch& search, const FoundCollector& found) {
  std::vector<Code> code;
  for (const auto* list : {&found.functions, &found.world_stops, &found.world_starts}) {
    for (const auto& function : *list) {
      // Without its extent a function cannot be compared.
      if (function.ranges.empty()) return std::nullopt;
      for (const auto& range : function.ranges) {
        if (range.size() > kMaxCode) return std::nullopt;
        auto bytes = search.elf.bytes_at(range.begin, range.size());
        if (bytes.size() != range.size()) return std::nullopt;
        code.push_back({range.begin, std::move(bytes)});
      }
    }
  }
  return code;
}

FoundCollector CollectorCache::find(const CollectorSearch& search) {
  const auto build_id = search.elf.build_id();
  const auto known = entries_.find(build_id);
  if (known != entries_.end() && holds(known->second, search)) {
    ++hits_;
    return known->second.found;
  }
  auto found = find_collector_functions(search);
  if (build_id.empty() || !found.method) return found;
  if (auto code = code_of(search, found)) {
    if (entries_.size() >= kMaxEntries) entries_.clear();
    entries_.insert_or_assign(build_id, Entry{search.elf.image().size(), search.prefer_usdt,
                                              search.all_ways, *std::move(code), found});
  }
  return found;
}

}  // namespace gcause
