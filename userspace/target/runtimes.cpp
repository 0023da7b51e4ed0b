// SPDX-License-Identifier: Apache-2.0
#include "target/runtimes.h"

#include <fcntl.h>
#include <gelf.h>

#include <algorithm>
#include <array>
#include <memory>

#include "util/fd.h"

namespace gcause {
namespace {

struct Row {
  std::string_view prefix;  ///< of the file's name
  std::string_view ending;  ///< what may follow: "" nothing, "*" anything, "1" a version
  OtherRuntime runtime;
};

constexpr std::string_view kFollows = "gcause follows CPython 3.8 to 3.15";

constexpr OtherRuntime kPyPy = {
    "PyPy", "PYPYLOG=gc:- makes PyPy log its collections; gcause follows CPython 3.8 to 3.15"};
constexpr OtherRuntime kOldPython = {"a CPython older than 3.7", kFollows};
constexpr OtherRuntime kGraal = {"GraalPy", "gcause follows CPython 3.8 to 3.15"};
constexpr OtherRuntime kMicroPython = {"MicroPython", kFollows};
constexpr OtherRuntime kJava = {
    "a Java virtual machine (Java, Jython and others)",
    "java -Xlog:gc logs its collections; gcause follows CPython 3.8 to 3.15"};
constexpr OtherRuntime kNode = {
    "Node.js", "node --trace-gc logs its collections; gcause follows CPython 3.8 to 3.15"};
constexpr OtherRuntime kDeno = {
    "Deno", "deno run --v8-flags=--trace-gc logs its collections; gcause follows CPython"};
constexpr OtherRuntime kBun = {"Bun", kFollows};
constexpr OtherRuntime kRuby = {
    "Ruby", "GC::Profiler of Ruby times its collections; gcause follows CPython 3.8 to 3.15"};
constexpr OtherRuntime kDotnet = {
    ".NET", "dotnet-trace collects its events; gcause follows CPython 3.8 to 3.15"};
constexpr OtherRuntime kGo = {
    "Go", "GODEBUG=gctrace=1 makes it log its collections; gcause follows CPython 3.8 to 3.15"};
constexpr OtherRuntime kPhp = {"PHP", kFollows};
constexpr OtherRuntime kErlang = {"Erlang", kFollows};
constexpr OtherRuntime kJulia = {"Julia", kFollows};
constexpr OtherRuntime kPerl = {"Perl", kFollows};

constexpr std::array kRows = {
    Row{"libpypy", "*", kPyPy},
    Row{"pypy", "1", kPyPy},
    Row{"libpythonvm.so", "*", kGraal},
    Row{"graalpy", "1", kGraal},
    Row{"libpython2.", "*", kOldPython},
    Row{"python2", "1", kOldPython},
    Row{"libpython3.0", "*", kOldPython},
    Row{"libpython3.1.", "*", kOldPython},
    Row{"libpython3.2", "*", kOldPython},
    Row{"libpython3.3", "*", kOldPython},
    Row{"libpython3.4", "*", kOldPython},
    Row{"libpython3.5", "*", kOldPython},
    Row{"libpython3.6", "*", kOldPython},
    Row{"python3.4", "", kOldPython},
    Row{"python3.5", "", kOldPython},
    Row{"python3.6", "", kOldPython},
    Row{"micropython", "", kMicroPython},
    Row{"libjvm.so", "", kJava},
    Row{"libnode.so", "*", kNode},
    Row{"node", "", kNode},
    Row{"nodejs", "", kNode},
    Row{"deno", "", kDeno},
    Row{"bun", "", kBun},
    Row{"libruby", "*", kRuby},
    Row{"ruby", "1", kRuby},
    Row{"libcoreclr.so", "", kDotnet},
    Row{"dotnet", "", kDotnet},
    Row{"libmonosgen-", "*", kDotnet},
    Row{"mono-sgen", "", kDotnet},
    Row{"libphp", "*", kPhp},
    Row{"php", "1", kPhp},
    Row{"php-fpm", "1", kPhp},
    Row{"beam.smp", "", kErlang},
    Row{"libjulia.so", "*", kJulia},
    Row{"perl", "1", kPerl},
};

/// The name of the file itself: maps says so where it was deleted.
std::string_view file_name(std::string_view path) {
  constexpr std::string_view kDeleted = " (deleted)";
  if (path.ends_with(kDeleted)) path.remove_suffix(kDeleted.size());
  return path.substr(path.rfind('/') + 1);
}

bool matches(const Row& row, std::string_view name) {
  if (!name.starts_with(row.prefix)) return false;
  const auto rest = name.substr(row.prefix.size());
  if (row.ending == "*") return true;
  if (row.ending.empty()) return rest.empty();
  return rest.find_first_not_of("0123456789.-c") == std::string_view::npos;
}

/// Go's linker leaves a section of this name in every program, also in a stripped one
/// (cmd/link/internal/ld/data.go).
bool is_go_program(const std::string& path) {
  struct Closer {
    void operator()(Elf* elf) const { ::elf_end(elf); }
  };
  ::elf_version(EV_CURRENT);
  const Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  const std::unique_ptr<Elf, Closer> elf(fd ? ::elf_begin(fd.get(), ELF_C_READ_MMAP, nullptr)
                                            : nullptr);
  std::size_t names = 0;
  if (!elf || ::elf_getshdrstrndx(elf.get(), &names) != 0) return false;
  Elf_Scn* section = nullptr;
  while ((section = ::elf_nextscn(elf.get(), section)) != nullptr) {
    GElf_Shdr header;
    if (!::gelf_getshdr(section, &header)) continue;
    const char* name = ::elf_strptr(elf.get(), names, header.sh_name);
    if (name && std::string_view(name) == ".go.buildinfo") return true;
  }
  return false;
}

}  // namespace

const OtherRuntime* other_runtime_of(std::string_view path, const std::string& open_path) {
  const auto name = file_name(path);
  const auto row = std::find_if(kRows.begin(), kRows.end(),
                                [&](const Row& candidate) { return matches(candidate, name); });
  if (row != kRows.end()) return &row->runtime;
  return is_go_program(open_path) ? &kGo : nullptr;
}

}  // namespace gcause
