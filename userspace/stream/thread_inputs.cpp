// SPDX-License-Identifier: Apache-2.0
#include "stream/thread_inputs.h"

#include <algorithm>

namespace gcause {

void ThreadInputs::add(std::uint64_t connection, const Input& input) {
  if (connection != newest_) other_input_ = newest_input_;
  newest_ = connection;
  newest_input_ = input;
  if (connections_.size() == kMaxConnections && !connections_.contains(connection)) {
    std::erase_if(connections_, [&](const auto& entry) { return entry.second.run != run_; });
    if (connections_.size() == kMaxConnections) connections_.clear();
  }
  auto& [run, inputs] = connections_[connection];
  if (run != run_) inputs.clear();
  run = run_;
  if (inputs.size() == kMaxInputs) inputs.erase(inputs.begin());
  inputs.push_back(input);
}

std::optional<ThreadInputs::Input> ThreadInputs::first_after(std::uint64_t connection,
                                                             Ns since) const {
  const auto found = connections_.find(connection);
  if (found == connections_.end() || found->second.run != run_) return std::nullopt;
  const auto& inputs = found->second.inputs;
  const auto input =
      std::ranges::find_if(inputs, [&](const Input& candidate) { return candidate.at > since; });
  if (input == inputs.end()) return std::nullopt;
  return *input;
}

std::vector<std::uint64_t> ThreadInputs::read_after(Ns since, std::size_t most) const {
  std::vector<std::uint64_t> found;
  for (const auto& [id, connection] : connections_) {
    if (connection.run == run_ && connection.inputs.back().at > since) found.push_back(id);
  }
  std::ranges::sort(found);
  if (found.size() > most) found.resize(most);
  return found;
}

std::optional<ThreadInputs::Input> InputMatch::find(const ThreadInputs& inputs,
                                                    Ns chunk_before) const {
  std::uint32_t most = 0;
  std::optional<ThreadInputs::Input> best;
  for (const auto& candidate : candidates_) {
    if (candidate.fits < most || 2 * candidate.fits < candidate.tries) continue;
    const auto input = inputs.first_after(candidate.connection, chunk_before);
    if (!input) continue;
    best = candidate.fits > most ? input : std::nullopt;
    most = candidate.fits;
  }
  return best;
}

void InputMatch::wrote(const ThreadInputs& inputs, std::uint64_t own, Ns chunk_before) {
  if (chunks_ < kTries || candidates_.empty()) {
    for (const auto id : inputs.read_after(chunk_before, kMaxCandidates)) {
      const auto known = std::ranges::find(candidates_, id, &Candidate::connection);
      if (id == own || known != candidates_.end() || candidates_.size() == kMaxCandidates) continue;
      candidates_.push_back({id});
    }
  }
  ++chunks_;
  const auto fits = [&](const Candidate& candidate) {
    return inputs.first_after(candidate.connection, chunk_before).has_value();
  };
  // Several chunks may become of one input: the later ones say nothing.
  if (std::ranges::none_of(candidates_, fits)) return;
  for (auto& candidate : candidates_) {
    candidate.fits += fits(candidate);
    ++candidate.tries;
  }
  std::erase_if(candidates_, [](const Candidate& candidate) {
    return candidate.tries >= kTries && 2 * candidate.fits < candidate.tries;
  });
}

}  // namespace gcause
