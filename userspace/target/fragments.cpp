// SPDX-License-Identifier: Apache-2.0
#include "target/fragments.h"

#include <algorithm>
#include <map>
#include <set>

namespace gcause {
namespace {

constexpr unsigned kFewestBranches = 3;    // less than that many may be chance
constexpr unsigned kOwnerPercent = 60;     // of the branches, to be the owner
constexpr unsigned kMostVotes = 10'000;    // far more than a function has branches
constexpr std::size_t kMaxFragments = 16;  // of one function: compilers make one, optimizers a few
constexpr std::size_t kMaxCallees = 256;

}  // namespace

bool Fragments::is_called(const CodeRange& stretch) const {
  if (std::binary_search(entries_.begin(), entries_.end(), stretch.begin)) return true;
  return std::find(flow_.called.begin(), flow_.called.end(), stretch.begin) != flow_.called.end();
}

std::optional<Fragments::Owner> Fragments::likely_owner(const CodeRange& stretch) const {
  std::map<std::uint64_t, Owner> owners;
  unsigned all = 0;
  const auto vote = [&](std::uint64_t address, bool leaving) {
    const auto other = table_.containing(address);
    if (!other || *other == stretch) return;
    // A jump to the first instruction of another function is a tail call.
    if (leaving && address == other->begin) return;
    if (table_.begins_in_mid_function(other->begin)) return;
    ++owners.try_emplace(other->begin, Owner{*other, 0, 0}).first->second.branches;
    ++all;
  };
  for (const auto& jump : flow_.jumps) {
    if (all >= kMostVotes) break;
    const bool into = stretch.contains(jump.target);
    const bool out_of = stretch.contains(jump.source);
    if (into && !out_of) vote(jump.source, false);
    if (out_of && !into) vote(jump.target, true);
  }
  std::optional<Owner> best;
  for (const auto& [begin, owner] : owners) {
    if (!best || owner.branches > best->branches) best = owner;
  }
  if (best) best->all = all;
  return best;
}

std::optional<CodeRange> Fragments::function_of(const CodeRange& stretch) const {
  const bool mid_function = table_.begins_in_mid_function(stretch.begin);
  if (!mid_function && is_called(stretch)) return stretch;
  const auto owner = likely_owner(stretch);
  if (mid_function) return owner ? std::optional(owner->function) : std::nullopt;
  if (owner && owner->branches >= kFewestBranches &&
      owner->branches * 100 >= owner->all * kOwnerPercent) {
    return owner->function;
  }
  return stretch;
}

std::optional<CodeRange> Fragments::function_of(std::uint64_t address) const {
  const auto stretch = table_.containing(address);
  return stretch ? function_of(*stretch) : std::nullopt;
}

std::vector<CodeRange> Fragments::ranges_of(const CodeRange& function) const {
  std::vector<CodeRange> ranges{function};
  std::set<std::uint64_t> tried{function.begin};
  for (const auto& branch : branches_of(image_, function)) {
    if (branch.call || function.contains(branch.target)) continue;
    const auto other = table_.containing(branch.target);
    if (!other || !tried.insert(other->begin).second) continue;
    if (tried.size() > kMaxFragments) break;
    if (function_of(*other) == function) ranges.push_back(*other);
  }
  return ranges;
}

std::vector<CodeRange> Fragments::callees_of(const CodeRange& function) const {
  std::vector<CodeRange> callees;
  for (const auto& branch : branches_of(image_, function)) {
    if (callees.size() >= kMaxCallees) break;
    const auto callee = table_.containing(branch.target);
    if (!callee || callee->begin != branch.target || *callee == function) continue;
    if (std::find(callees.begin(), callees.end(), *callee) == callees.end()) {
      callees.push_back(*callee);
    }
  }
  return callees;
}

}  // namespace gcause
