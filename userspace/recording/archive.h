// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstring>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

namespace gcause {

// Fixed-width little-endian fields, strings and lists with a 32-bit length in front. Writer and
// Reader offer the same call, so that each event lists its fields once (timeline_fields.h).

class Writer {
 public:
  template <typename T>
  Writer& operator()(const T& value) {
    put(value);
    return *this;
  }

  /// Whether to go on with fields that a later version added: a writer writes them all.
  bool more() const { return true; }

  const std::vector<std::uint8_t>& bytes() const { return bytes_; }

 private:
  template <typename T>
  void put(const T& value) {
    if constexpr (std::is_enum_v<T>) {
      put(static_cast<std::underlying_type_t<T>>(value));
    } else if constexpr (std::is_class_v<T>) {
      fields(*this, const_cast<T&>(value));
    } else {
      static_assert(std::is_integral_v<T>);
      const auto word = static_cast<std::uint64_t>(value);
      for (std::size_t i = 0; i < sizeof(T); ++i) {
        bytes_.push_back(static_cast<std::uint8_t>(word >> (8 * i)));
      }
    }
  }
  void put(const std::string& text) {
    put(static_cast<std::uint32_t>(text.size()));
    bytes_.insert(bytes_.end(), text.begin(), text.end());
  }
  template <typename T>
  void put(const std::optional<T>& value) {
    put(value.has_value());
    if (value) put(*value);
  }
  template <typename T>
  void put(const std::vector<T>& list) {
    put(static_cast<std::uint32_t>(list.size()));
    for (const auto& item : list) (*this)(item);
  }
  void put(const std::map<std::string, bool>& map) {
    put(static_cast<std::uint32_t>(map.size()));
    for (const auto& [key, value] : map) (*this)(key)(value);
  }

  std::vector<std::uint8_t> bytes_;
};

/// Reads what Writer wrote. Bytes are hostile: a read past the end gives zeros and makes `ok`
/// false.
class Reader {
 public:
  explicit Reader(std::span<const std::uint8_t> bytes) : bytes_(bytes) {}

  template <typename T>
  Reader& operator()(T& value) {
    get(value);
    return *this;
  }

  /// Whether fields that a later version added to the event are there.
  bool more() const { return at_ < bytes_.size(); }

  /// Everything was there. Bytes left over are fields of a later version and do no harm.
  bool ok() const { return ok_; }

 private:
  template <typename T>
  void get(T& value) {
    if constexpr (std::is_enum_v<T>) {
      std::underlying_type_t<T> raw{};
      get(raw);
      if (raw >= value_count(T{})) {
        ok_ = false;
        raw = 0;
      }
      value = static_cast<T>(raw);
    } else if constexpr (std::is_class_v<T>) {
      fields(*this, value);
    } else {
      static_assert(std::is_integral_v<T>);
      std::uint64_t word = 0;
      for (std::size_t i = 0; i < sizeof(T); ++i) word |= std::uint64_t{next()} << (8 * i);
      value = static_cast<T>(word);
    }
  }
  void get(std::string& text) {
    std::uint32_t length = 0;
    get(length);
    if (length > bytes_.size() - at_) {
      ok_ = false;
      return;
    }
    text.assign(reinterpret_cast<const char*>(bytes_.data()) + at_, length);
    at_ += length;
  }
  template <typename T>
  void get(std::optional<T>& value) {
    bool present = false;
    get(present);
    value.reset();
    if (present) get(value.emplace());
  }
  template <typename T>
  void get(std::vector<T>& list) {
    std::uint32_t count = 0;
    get(count);
    list.clear();
    while (ok_ && count-- > 0) (*this)(list.emplace_back());
  }
  void get(std::map<std::string, bool>& map) {
    std::uint32_t count = 0;
    get(count);
    while (ok_ && count-- > 0) {
      std::string key;
      bool value = false;
      (*this)(key)(value);
      map[key] = value;
    }
  }

  std::uint8_t next() {
    if (at_ >= bytes_.size()) {
      ok_ = false;
      return 0;
    }
    return bytes_[at_++];
  }

  std::span<const std::uint8_t> bytes_;
  std::size_t at_ = 0;
  bool ok_ = true;
};

}  // namespace gcause
