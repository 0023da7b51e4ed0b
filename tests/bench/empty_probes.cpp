// SPDX-License-Identifier: Apache-2.0
//
// Puts an empty uprobe and an empty uretprobe on the instruction that gcause probes at the entry of a
// process's collector, says so on standard output, and takes them out again when standard input ends:
// what a pair of probes costs before its programs do anything.
//
//     empty_probes PID

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <linux/bpf.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "target/procfs.h"
#include "target/target.h"
#include "util/fd.h"

namespace {

using gcause::Fd;

/// A program that returns 0.
Fd load_empty() {
  bpf_insn code[2] = {};
  code[0].code = BPF_ALU64 | BPF_MOV | BPF_K;
  code[1].code = BPF_JMP | BPF_EXIT;
  LIBBPF_OPTS(bpf_prog_load_opts, options);
  options.expected_attach_type = BPF_TRACE_UPROBE_MULTI;
  return Fd(::bpf_prog_load(BPF_PROG_TYPE_KPROBE, "empty", "GPL", code, 2, &options));
}

Fd attach(const Fd& program, const gcause::ProbeSite& site, std::uint32_t pid, bool is_return) {
  const unsigned long offset = site.file_offset;
  LIBBPF_OPTS(bpf_link_create_opts, options);
  options.uprobe_multi.path = site.open_path.c_str();
  options.uprobe_multi.offsets = &offset;
  options.uprobe_multi.cnt = 1;
  options.uprobe_multi.pid = pid;
  options.uprobe_multi.flags = is_return ? BPF_F_UPROBE_MULTI_RETURN : 0;
  return Fd(::bpf_link_create(program.get(), 0, BPF_TRACE_UPROBE_MULTI, &options));
}

}  // namespace

int main(int argc, char** argv) {
  const auto pid = argc == 2 ? static_cast<std::uint32_t>(std::atoi(argv[1])) : 0;
  const auto target = gcause::describe_target(gcause::Procfs(), pid);
  if (!target) {
    std::fprintf(stderr, "empty_probes: %s\n", target.error().what.c_str());
    return 1;
  }
  std::vector<Fd> held;
  for (const auto& site : target->sites) {
    if (site.kind != gcause::ProbeKind::collector) continue;
    for (const bool is_return : {false, true}) {
      Fd program = load_empty();
      Fd link = attach(program, site, pid, is_return);
      if (!program || !link) {
        std::perror("empty_probes: cannot attach");
        return 1;
      }
      held.push_back(std::move(program));
      held.push_back(std::move(link));
    }
    std::printf("%s %s\n", site.symbol.c_str(), site.point.instruction.c_str());
  }
  if (held.empty()) {
    std::fprintf(stderr, "empty_probes: the collector has no bracket here\n");
    return 1;
  }
  std::puts("ready");
  std::fflush(stdout);
  char byte;
  while (::read(STDIN_FILENO, &byte, 1) > 0) {
  }
  return 0;
}
