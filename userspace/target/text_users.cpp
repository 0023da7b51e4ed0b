// SPDX-License-Identifier: Apache-2.0
#include "target/text_users.h"

#include <algorithm>
#include <cstdio>

#include "target/code_scan.h"

namespace gcause {
namespace {

constexpr std::size_t kMaxCopies = 4;  // of one text: one as a rule

}  // namespace

std::vector<std::uint64_t> users_of(const CodeImage& image, std::string_view text) {
  const std::span bytes(reinterpret_cast<const std::uint8_t*>(text.data()), text.size());
  std::vector<std::uint64_t> users;
  for (const auto string : image.find(bytes, kMaxCopies)) {
    const auto references = references_to(image, string);
    users.insert(users.end(), references.begin(), references.end());
  }
  return users;
}

std::vector<CodeRange> stretches_of(const FunctionTable& table,
                                    std::span<const std::uint64_t> addresses) {
  std::vector<CodeRange> stretches;
  for (const auto address : addresses) {
    const auto stretch = table.containing(address);
    if (stretch && std::find(stretches.begin(), stretches.end(), *stretch) == stretches.end()) {
      stretches.push_back(*stretch);
    }
  }
  return stretches;
}

std::string hexadecimal(std::uint64_t address) {
  char text[24];
  std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(address));
  return text;
}

}  // namespace gcause
