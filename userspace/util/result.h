// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cassert>
#include <string>
#include <utility>
#include <variant>

namespace gcause {

/// A recoverable failure, told to the person who reads it: what failed, on which file or PID, and
/// why; then what to do about it. The command line prints the two as two lines.
struct Error {
  std::string what;
  std::string cure;
};

/// The value of success where there is nothing to return.
struct Ok {};

/// Either a value or an `Error`; the shape of std::expected, which C++20 does not have.
/// Reading the value of a failed result is a broken invariant and aborts.
template <typename T = Ok>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::move(value)) {}
  Result(Error error) : state_(std::move(error)) {}

  explicit operator bool() const { return std::holds_alternative<T>(state_); }

  T& operator*() & { return std::get<T>(state_); }
  const T& operator*() const& { return std::get<T>(state_); }
  T&& operator*() && { return std::get<T>(std::move(state_)); }
  T* operator->() { return &std::get<T>(state_); }
  const T* operator->() const { return &std::get<T>(state_); }

  const Error& error() const& { return std::get<Error>(state_); }
  Error&& error() && { return std::get<Error>(std::move(state_)); }

 private:
  std::variant<T, Error> state_;
};

}  // namespace gcause
