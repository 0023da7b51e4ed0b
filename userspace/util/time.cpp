// SPDX-License-Identifier: Apache-2.0
#include "util/time.h"

#include <array>
#include <cstddef>
#include <optional>

namespace gcause {
namespace {

// Wide enough for 2^64 of the largest unit, so that one comparison at the end finds every overflow.
__extension__ using Wide = unsigned __int128;

constexpr Wide kLimit = Wide{1} << 62;

struct Unit {
  std::string_view name;
  std::uint64_t ns;
};

constexpr std::array<Unit, 6> kInputUnits{{
    {"us", 1'000},
    {"ms", 1'000'000},
    {"s", 1'000'000'000},
    {"m", 60'000'000'000},
    {"h", 3'600'000'000'000},
    {"", 1'000'000'000},
}};

// "min" and not "m", which a reader may take for metres or for milliseconds.
constexpr std::array<Unit, 6> kOutputUnits{{
    {"ns", 1},
    {"us", 1'000},
    {"ms", 1'000'000},
    {"s", 1'000'000'000},
    {"min", 60'000'000'000},
    {"h", 3'600'000'000'000},
}};

bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// Removes the leading digits of `text` and returns them.
std::string_view take_digits(std::string_view& text) {
  std::size_t length = 0;
  while (length < text.size() && is_digit(text[length])) ++length;
  const std::string_view digits = text.substr(0, length);
  text.remove_prefix(length);
  return digits;
}

/// The value of `digits`, or any value of at least 2^62 if it is larger than that.
Wide to_number(std::string_view digits) {
  Wide value = 0;
  for (const char c : digits) {
    value = value * 10 + static_cast<unsigned>(c - '0');
    if (value >= kLimit) return kLimit;
  }
  return value;
}

std::optional<std::uint64_t> unit_of(std::string_view name) {
  for (const Unit& unit : kInputUnits) {
    if (unit.name == name) return unit.ns;
  }
  return std::nullopt;
}

Error refuse(std::string_view text, std::string_view why) {
  // A duration is short; whatever else was typed or pasted must not fill the screen.
  constexpr std::size_t kShown = 40;
  std::string shown(text.substr(0, kShown));
  for (char& c : shown) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  }
  if (text.size() > kShown) shown += "...";
  return Error{"bad time '" + shown + "': " + std::string(why),
               "give a positive number with us, ms, s, m or h, without a space, such as 100ms or "
               "1.5s; a bare number is seconds"};
}

/// `value` / `unit` with `decimals` digits behind the point, rounded half up, in units of the last
/// digit.
std::uint64_t scaled(std::uint64_t value, std::uint64_t unit, int decimals) {
  Wide wide = value;
  for (int i = 0; i < decimals; ++i) wide *= 10;
  return static_cast<std::uint64_t>((wide + unit / 2) / unit);
}

std::string with_point(std::uint64_t digits, int decimals) {
  std::string text = std::to_string(digits);
  if (decimals > 0) text.insert(text.size() - static_cast<std::size_t>(decimals), 1, '.');
  return text;
}

}  // namespace

Result<Ns> parse_duration(std::string_view text) {
  std::string_view rest = text;
  const std::string_view whole = take_digits(rest);
  if (whole.empty()) return refuse(text, "it does not begin with a digit");

  std::string_view fraction;
  if (!rest.empty() && rest.front() == '.') {
    rest.remove_prefix(1);
    fraction = take_digits(rest);
    if (fraction.empty()) return refuse(text, "no digit follows the point");
  }
  const std::optional<std::uint64_t> unit = unit_of(rest);
  if (!unit) return refuse(text, "the number is not followed by a known unit");

  // Below 10^-18 of the largest unit nothing reaches a nanosecond.
  fraction = fraction.substr(0, 18);
  Wide divisor = 1;
  for (std::size_t i = 0; i < fraction.size(); ++i) divisor *= 10;
  const Wide ns = to_number(whole) * *unit + to_number(fraction) * *unit / divisor;
  if (ns == 0) return refuse(text, "it is less than a nanosecond");
  if (ns >= kLimit) return refuse(text, "it is too long");
  return static_cast<Ns>(ns);
}

std::string format_duration(Ns duration) {
  if (duration == 0) return "0 ms";
  const std::string sign = duration < 0 ? "-" : "";
  // Negated as unsigned: the smallest Ns has no positive counterpart.
  const std::uint64_t value =
      duration < 0 ? -static_cast<std::uint64_t>(duration) : static_cast<std::uint64_t>(duration);

  if (value < 1'000) return sign + std::to_string(value) + " ns";
  for (std::size_t i = 1; i < kOutputUnits.size(); ++i) {
    const Unit& unit = kOutputUnits[i];
    for (int decimals = 2; decimals >= 0; --decimals) {
      const std::uint64_t digits = scaled(value, unit.ns, decimals);
      const bool last = i + 1 == kOutputUnits.size() && decimals == 0;
      if (digits < 1'000 || last) {
        return sign + with_point(digits, decimals) + " " + std::string(unit.name);
      }
    }
  }
  return {};  // Not reached: the last unit takes every value.
}

}  // namespace gcause
