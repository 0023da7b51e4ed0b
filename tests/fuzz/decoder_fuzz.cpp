// SPDX-License-Identifier: Apache-2.0
//
// The first byte says how many batches the rest is cut into, how wide the window is and whether
// records leave between batches. Each batch begins with any bytes, as a raw capture may. Payloads
// must be readable, and what was fed before `finish` leaves in the order of time.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <variant>
#include <vector>

#include "decode/decoder.h"

namespace {

using gcause::Event;
using gcause::Ns;

void require(bool condition) {
  if (!condition) std::abort();
}

/// When an event happened: for what has a beginning too, its end.
Ns time_of(const Event& event) {
  return std::visit(
      [](const auto& e) -> Ns {
        if constexpr (requires { e.end; }) {
          return e.end;
        } else if constexpr (requires { e.at; }) {
          return e.at;
        } else {
          return e.to;
        }
      },
      event);
}

class Checker {
 public:
  explicit Checker(bool in_order) : in_order_(in_order) {}

  void take(const Event& event) {
    require(!in_order_ || events_ == 0 || time_of(event) >= last_);
    last_ = time_of(event);
    ++events_;
    if (const auto* io = std::get_if<gcause::Io>(&event)) {
      for (const auto byte : io->payload) sum_ = sum_ + std::to_integer<unsigned>(byte);
    }
    if (const auto* end = std::get_if<gcause::CollectionEnd>(&event)) {
      require(!end->generation || (*end->generation >= 0 && *end->generation <= 2));
    }
    if (const auto* seen = std::get_if<gcause::SocketSeen>(&event)) require(!seen->peer.empty());
  }

  std::uint64_t events() const { return events_; }

 private:
  bool in_order_;
  Ns last_ = 0;
  std::uint64_t events_ = 0;
  volatile unsigned sum_ = 0;  ///< so that the payload is read
};

/// Half of all inputs have records of a known kind and of a size that fits: random ones are rare.
std::vector<std::byte> repaired(std::span<const std::byte> bytes) {
  std::vector<std::byte> records(bytes.begin(), bytes.end());
  for (std::size_t at = 0; at + 24 <= records.size();) {
    const auto extra = std::to_integer<std::size_t>(records[at]) % 80;
    const auto size = std::min(24 + extra, records.size() - at);
    records[at] = static_cast<std::byte>(size);
    records[at + 1] = records[at + 2] = records[at + 3] = std::byte{0};
    records[at + 4] = static_cast<std::byte>(1 + std::to_integer<unsigned>(records[at + 4]) % 17);
    records[at + 5] = std::byte{0};
    at += (size + 7) & ~std::size_t{7};
  }
  return records;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const unsigned rule = data[0];
  const auto bytes = std::as_bytes(std::span(data + 1, size - 1));
  const bool advance = (rule & 0x10) != 0;
  Checker checker(!advance);
  gcause::Decoder decoder([&](const Event& event) { checker.take(event); },
                          (rule & 0x20) != 0 ? 0 : Ns{1} << 30);
  const std::size_t batch = std::max<std::size_t>(1, bytes.size() / (1 + rule % 16));
  for (std::size_t at = 0; at < bytes.size(); at += batch) {
    const auto part = bytes.subspan(at, std::min(batch, bytes.size() - at));
    if ((rule & 0x40) != 0) {
      decoder.feed(repaired(part));
    } else {
      decoder.feed(part);
    }
    if (advance) {
      decoder.advance((rule & 0x80) != 0 ? std::optional<Ns>(Ns{1} << 40) : std::nullopt);
    }
  }
  decoder.finish();
  require(decoder.events() == checker.events());
  require(decoder.events() + decoder.malformed() <= bytes.size());
  return 0;
}
