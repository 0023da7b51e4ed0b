// SPDX-License-Identifier: Apache-2.0
#include "target/probe_site.h"

#include <utility>

namespace gcause {

void place(ProbeSite& site, const ElfFile& elf, std::uint64_t address) {
  site.point = choose_probe_point(elf.machine(), address, elf.bytes_at(address, kPrologueBytes));
  site.file_offset = elf.file_offset(site.point.address).value_or(0);
}

ProbeSite make_site(const MappedObject& object, ProbeKind kind, CallShape shape, std::string symbol,
                    std::uint64_t address) {
  ProbeSite site{kind, shape, object.path, object.open_path, std::move(symbol), {}, 0};
  place(site, object.elf, address);
  return site;
}

}  // namespace gcause
