// SPDX-License-Identifier: Apache-2.0
#include "target/debug_symbols.h"

#include <elfutils/libdwelf.h>
#include <elfutils/libdwfl.h>
#include <fcntl.h>
#include <gelf.h>
#include <linux/openat2.h>
#include <lzma.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

namespace gcause {
namespace {

// What a symbol table alone can need. A hostile archive of a kilobyte may unfold to gigabytes.
constexpr std::size_t kMaxUnpacked = std::size_t{64} << 20;
constexpr std::uint64_t kMaxUnpackMemory = std::uint64_t{128} << 20;

constexpr char kDebugDirectory[] = "/usr/lib/debug";

Error nothing(std::string why) {
  return Error{std::move(why), "install the debug symbols of this Python"};
}

/// The file's bytes of a section, without libelf's unpacking; empty if there is none.
std::span<const std::uint8_t> section_bytes(const ElfFile& elf, std::string_view name) {
  std::size_t names = 0;
  if (::elf_getshdrstrndx(elf.handle(), &names) != 0) return {};
  const auto image = elf.image();
  Elf_Scn* section = nullptr;
  while ((section = ::elf_nextscn(elf.handle(), section)) != nullptr) {
    GElf_Shdr header;
    if (!::gelf_getshdr(section, &header) || header.sh_type == SHT_NOBITS) continue;
    const char* found = ::elf_strptr(elf.handle(), names, header.sh_name);
    if (!found || name != found || header.sh_offset > image.size()) continue;
    return image.subspan(header.sh_offset,
                         std::min<std::uint64_t>(header.sh_size, image.size() - header.sh_offset));
  }
  return {};
}

/// An xz stream unpacked, or nothing if it is broken or too large.
std::optional<std::vector<std::uint8_t>> unpacked(std::span<const std::uint8_t> packed) {
  lzma_stream stream = LZMA_STREAM_INIT;
  const std::unique_ptr<lzma_stream, decltype(&::lzma_end)> ended(&stream, ::lzma_end);
  if (::lzma_stream_decoder(&stream, kMaxUnpackMemory, 0) != LZMA_OK) return std::nullopt;
  std::vector<std::uint8_t> bytes(std::min(kMaxUnpacked, 8 * packed.size() + 4096));
  stream.next_in = packed.data();
  stream.avail_in = packed.size();
  stream.next_out = bytes.data();
  stream.avail_out = bytes.size();
  for (;;) {
    const auto state = ::lzma_code(&stream, LZMA_FINISH);
    const std::size_t written = bytes.size() - stream.avail_out;
    if (state == LZMA_STREAM_END) {
      bytes.resize(written);
      return bytes;
    }
    if (state != LZMA_OK || stream.avail_out != 0 || bytes.size() >= kMaxUnpacked) {
      return std::nullopt;
    }
    bytes.resize(std::min(kMaxUnpacked, 2 * bytes.size()));
    stream.next_out = bytes.data() + written;
    stream.avail_out = bytes.size() - written;
  }
}

/// Opens a regular file below `root` as a process with that root would: the target chooses what
/// lies there, so links must not lead out of it, and a pipe must not be waited for.
Fd open_below(const Fd& root, const std::string& path) {
  open_how how = {};
  how.flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;
  how.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS;
  Fd fd(static_cast<int>(::syscall(SYS_openat2, root.get(), path.c_str(), &how, sizeof how)));
  struct ::stat status;
  if (!fd || ::fstat(fd.get(), &status) != 0 || !S_ISREG(status.st_mode)) return Fd();
  return fd;
}

std::string build_id_path(const std::vector<std::uint8_t>& build_id) {
  std::string path = std::string(kDebugDirectory) + "/.build-id/";
  for (std::size_t i = 0; i < build_id.size(); ++i) {
    char text[4];
    std::snprintf(text, sizeof text, i == 0 ? "%02x/" : "%02x", build_id[i]);
    path += text;
  }
  return path + ".debug";
}

/// Where gdb and elfutils look, too (gdb's manual, "Separate Debug Files").
std::vector<std::string> candidates(const ElfFile& elf, const std::vector<std::uint8_t>& build_id,
                                    const std::string& seen_path) {
  std::vector<std::string> paths{build_id_path(build_id)};
  GElf_Word checksum = 0;
  const char* link = ::dwelf_elf_gnu_debuglink(elf.handle(), &checksum);
  if (link && !std::strchr(link, '/') && seen_path.starts_with('/')) {
    const auto folder = seen_path.substr(0, seen_path.rfind('/') + 1);
    paths.push_back(folder + link);
    paths.push_back(folder + ".debug/" + link);
    paths.push_back(kDebugDirectory + folder + link);
  }
  return paths;
}

std::optional<DebugFile> in_root(const ElfFile& elf, const std::vector<std::uint8_t>& build_id,
                                 const std::string& seen_path, const std::string& root) {
  const Fd directory(::open(root.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!directory) return std::nullopt;
  for (const auto& path : candidates(elf, build_id, seen_path)) {
    auto fd = open_below(directory, path);
    if (!fd) continue;
    auto file = ElfFile::open(std::move(fd), path);
    if (file && file->build_id() == build_id) return DebugFile{path, *std::move(file)};
  }
  return std::nullopt;
}

struct DwflCloser {
  void operator()(Dwfl* dwfl) const { ::dwfl_end(dwfl); }
};
struct Freer {
  void operator()(char* text) const { std::free(text); }
};

/// By elfutils, which asks the servers that DEBUGINFOD_URLS names. Without it this is not called:
/// to load the client costs tens of milliseconds.
std::optional<DebugFile> from_server(const ElfFile& elf, const std::vector<std::uint8_t>& build_id,
                                     const std::string& seen_path) {
  // An absolute path alone: what lies beside the target's binary was looked at with more care.
  char directory[] = "/usr/lib/debug";
  char* path = directory;
  Dwfl_Callbacks callbacks = {};
  callbacks.find_elf = ::dwfl_build_id_find_elf;
  callbacks.find_debuginfo = ::dwfl_standard_find_debuginfo;
  callbacks.debuginfo_path = &path;
  const std::unique_ptr<Dwfl, DwflCloser> dwfl(::dwfl_begin(&callbacks));
  Fd fd(::fcntl(elf.fd(), F_DUPFD_CLOEXEC, 0));
  if (!dwfl || !fd) return std::nullopt;
  ::dwfl_report_begin(dwfl.get());
  auto* module = ::dwfl_report_elf(dwfl.get(), "python", seen_path.c_str(), fd.get(), 0, true);
  if (!module) return std::nullopt;
  (void)fd.release();  // libdwfl closes it now
  ::dwfl_report_end(dwfl.get(), nullptr, nullptr);
  void** user = nullptr;
  const char* name =
      ::dwfl_module_info(module, &user, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr);
  GElf_Addr bias = 0;
  if (!::dwfl_module_getelf(module, &bias)) return std::nullopt;
  char* found_name = nullptr;
  Fd found(::dwfl_standard_find_debuginfo(module, user, name, 0, seen_path.c_str(), nullptr, 0,
                                          &found_name));
  const std::unique_ptr<char, Freer> owned(found_name);
  if (!found) return std::nullopt;
  const std::string shown = found_name ? found_name : "a debug file of a debuginfod server";
  auto file = ElfFile::open(std::move(found), shown);
  if (!file || file->build_id() != build_id) return std::nullopt;
  return DebugFile{shown, *std::move(file)};
}

}  // namespace

Result<DebugFile> mini_debug_info(const ElfFile& elf) {
  const auto packed = section_bytes(elf, ".gnu_debugdata");
  if (packed.empty()) return nothing("no MiniDebugInfo");
  auto bytes = unpacked(packed);
  if (!bytes) return nothing("MiniDebugInfo that cannot be unpacked");
  auto file = ElfFile::from_memory(*std::move(bytes), "MiniDebugInfo");
  if (!file) return nothing("MiniDebugInfo that is no ELF file");
  return DebugFile{"MiniDebugInfo", *std::move(file)};
}

Result<DebugFile> separate_debug_file(const ElfFile& elf, const std::string& seen_path,
                                      const std::string& root) {
  const auto build_id = elf.build_id();
  if (build_id.size() < 2) return nothing("no build-id to find a debug file by");
  if (auto file = in_root(elf, build_id, seen_path, root.empty() ? "/" : root)) {
    return *std::move(file);
  }
  if (!root.empty()) {
    if (auto file = in_root(elf, build_id, seen_path, "/")) return *std::move(file);
  }
  const char* servers = std::getenv("DEBUGINFOD_URLS");
  if (servers && *servers && elf.fd() >= 0) {
    if (auto file = from_server(elf, build_id, seen_path)) return *std::move(file);
  }
  return nothing("no debug file " + build_id_path(build_id));
}

}  // namespace gcause
