// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstring>
#include <map>
#include <vector>

#include "target/process_memory.h"

namespace gcause {

/// Memory of 8-byte words; pages with no word in them cannot be read.
class FakeMemory : public Memory {
 public:
  bool read(std::uint64_t address, std::span<std::uint8_t> into) override {
    ++reads;
    for (std::size_t i = 0; i < into.size(); ++i) {
      const auto page = pages_.find((address + i) / 4096);
      if (page == pages_.end()) return false;
      into[i] = page->second[(address + i) % 4096];
    }
    return true;
  }

  template <typename T>
  void put(std::uint64_t address, T value) {
    std::uint8_t bytes[sizeof value];
    std::memcpy(bytes, &value, sizeof value);
    for (std::size_t i = 0; i < sizeof value; ++i) {
      auto& page = pages_[(address + i) / 4096];
      page.resize(4096);
      page[(address + i) % 4096] = bytes[i];
    }
  }

  void link(std::uint64_t from, std::uint64_t to, std::uint64_t flags = 0) {
    put(from, to);
    put(to + 8, from | flags);
  }

  int reads = 0;

 private:
  std::map<std::uint64_t, std::vector<std::uint8_t>> pages_;
};

}  // namespace gcause
