// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdlib>
#include <utility>
#include <vector>

namespace gcause {

/// First in, first out, for queues of which there are thousands and most are empty: std::deque of
/// libstdc++ holds 576 bytes before it holds anything, and this one nothing. Pushing and popping
/// cost constant time on average; pushing moves elements.
template <typename T>
class Queue {
 public:
  using const_iterator = typename std::vector<T>::const_iterator;
  using iterator = typename std::vector<T>::iterator;

  bool empty() const { return head_ == elements_.size(); }
  std::size_t size() const { return elements_.size() - head_; }

  iterator begin() { return elements_.begin() + static_cast<std::ptrdiff_t>(head_); }
  iterator end() { return elements_.end(); }
  const_iterator begin() const { return elements_.begin() + static_cast<std::ptrdiff_t>(head_); }
  const_iterator end() const { return elements_.end(); }

  /// Of a queue that is not empty.
  T& front() { return elements_[head_]; }
  const T& front() const { return elements_[head_]; }
  T& back() { return elements_.back(); }
  const T& back() const { return elements_.back(); }

  /// The element that `index` others are in front of. Aborts where there is none.
  T& operator[](std::size_t index) { return elements_[place(index)]; }
  const T& operator[](std::size_t index) const { return elements_[place(index)]; }

  void push_back(T element) {
    // Without room the elements move anyway: the popped ones go first where they are the half.
    if (elements_.size() == elements_.capacity() && head_ > 0 && 2 * head_ >= elements_.size()) {
      elements_.erase(elements_.begin(), begin());
      head_ = 0;
    }
    elements_.push_back(std::move(element));
  }

  /// Of a queue that is not empty. A queue that has become empty keeps room for few elements.
  void pop_front() {
    elements_[head_] = T();
    if (++head_ < elements_.size()) return;
    head_ = 0;
    if (elements_.capacity() * sizeof(T) > kKept) {
      elements_ = {};
    } else {
      elements_.clear();
    }
  }

  void clear() {
    elements_ = {};
    head_ = 0;
  }

 private:
  static constexpr std::size_t kKept = 256;  ///< bytes

  std::size_t place(std::size_t index) const {
    if (index >= size()) std::abort();
    return head_ + index;
  }

  std::vector<T> elements_;  ///< those before `head_` are popped
  std::size_t head_ = 0;
};

}  // namespace gcause
