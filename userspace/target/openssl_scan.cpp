// SPDX-License-Identifier: Apache-2.0
#include "target/openssl_scan.h"

#include <string_view>
#include <vector>

#include "target/code_image.h"
#include "target/code_scan.h"
#include "target/fragments.h"
#include "target/function_table.h"
#include "target/text_users.h"

namespace gcause {
namespace {

OpensslScan without_result(std::string why) { return {std::nullopt, std::move(why)}; }

/// The one function that the users of a text belong to.
std::optional<std::uint64_t> function_of(const std::vector<std::uint64_t>& users,
                                         const FunctionTable& table, const Fragments& fragments) {
  std::optional<std::uint64_t> found;
  for (const auto& stretch : stretches_of(table, users)) {
    const auto function = fragments.function_of(stretch.begin);
    if (!function || (found && *found != function->begin)) return std::nullopt;
    found = function->begin;
  }
  return found;
}

}  // namespace

OpensslScan scan_for_openssl(const ElfFile& elf) {
  std::string why;
  const auto image = CodeImage::make(elf, why);
  if (!image) return without_result(why);
  // The zero that ends them belongs to the texts.
  const auto readers = users_of(*image, {kOpensslRead, std::string_view(kOpensslRead).size() + 1});
  const auto writers =
      users_of(*image, {kOpensslWrite, std::string_view(kOpensslWrite).size() + 1});
  if (readers.empty() || writers.empty()) {
    return without_result("no code refers to the names that OpenSSL 3 gives its functions");
  }
  const auto table = FunctionTable::read(elf, *image, why);
  if (!table) return without_result(why);
  const auto flow = control_flow_of(*image, *table, why);
  if (!flow) return without_result(why);
  const Fragments fragments(*image, *table, *flow, {});
  const auto read = function_of(readers, *table, fragments);
  const auto write = function_of(writers, *table, fragments);
  if (!read || !write || *read == *write || !image->is_code(*read) || !image->is_code(*write)) {
    return without_result("it is not certain which functions read and write");
  }
  return {OpensslFunctions{*read, *write},
          std::string(kOpensslRead) + " at " + hexadecimal(*read) + ", " + kOpensslWrite + " at " +
              hexadecimal(*write)};
}

}  // namespace gcause
