// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <elf.h>

#include <catch2/catch_test_macros.hpp>
#include <cstdint>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "target/layout.h"
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

/// The layout of CPython 3.12.1 on x86-64.
inline python_layout layout_3_12() {
  std::string why;
  const auto layout = layout_of_version(0x030c01f0, EM_X86_64, why);
  REQUIRE(layout);
  return *layout;
}

}  // namespace gcause
