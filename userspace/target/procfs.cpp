// SPDX-License-Identifier: Apache-2.0
#include "target/procfs.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <set>
#include <span>
#include <sstream>

#include "target/process_memory.h"
#include "util/fd.h"

namespace gcause {
namespace {

Result<std::string> read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  if (in) text << in.rdbuf();
  if (!in || text.str().empty()) {
    return Error{"cannot read " + path + ": " + std::strerror(errno ? errno : ESRCH),
                 "check that the process exists, and run gcause as root or with CAP_SYS_PTRACE"};
  }
  return text.str();
}

/// Fields of /proc/PID/stat from the state on: the command before it may hold any character.
Result<std::vector<std::string>> stat_fields(const std::string& path) {
  auto text = read_file(path);
  if (!text) return text.error();
  const auto close = text->rfind(')');
  std::vector<std::string> fields;
  if (close != std::string::npos) {
    std::istringstream rest(text->substr(close + 1));
    for (std::string field; rest >> field;) fields.push_back(field);
  }
  if (fields.size() < 20) return Error{path + " is not in the form of proc(5)", "report this"};
  return fields;
}

/// "Name:\tvalue" of a status file: the value.
std::optional<std::string> field_of(const std::string& path, std::string_view name) {
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) {
    if (!line.starts_with(name) || line.size() <= name.size() || line[name.size()] != ':') continue;
    const auto value = line.find_first_not_of(" \t", name.size() + 1);
    return value == std::string::npos ? std::string() : line.substr(value);
  }
  return std::nullopt;
}

bool parse_hex(const std::string& text, std::uint64_t& value) {
  return std::from_chars(text.data(), text.data() + text.size(), value, 16).ec == std::errc();
}

/// "fe:01" of a line of maps: major and minor number, hexadecimal.
bool parse_device(const std::string& text, std::uint64_t& device) {
  const auto colon = text.find(':');
  std::uint64_t major = 0, minor = 0;
  if (colon == std::string::npos || !parse_hex(text.substr(0, colon), major) ||
      !parse_hex(text.substr(colon + 1), minor)) {
    return false;
  }
  device = makedev(static_cast<unsigned>(major), static_cast<unsigned>(minor));
  return true;
}

/// The path with the newlines that maps writes as \012. A name may hold these four characters as
/// well, so both have to be tried.
std::string with_newlines(std::string path) {
  for (auto at = path.find("\\012"); at != std::string::npos; at = path.find("\\012", at + 1)) {
    path.replace(at, 4, "\n");
  }
  return path;
}

/// Up to `count` bytes of a file at `offset`; empty where they cannot be read.
std::vector<std::uint8_t> read_at(const std::string& path, std::uint64_t offset,
                                  std::size_t count) {
  const Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  std::vector<std::uint8_t> bytes(count);
  const auto got = ::pread(fd.get(), bytes.data(), count, static_cast<off_t>(offset));
  bytes.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
  return bytes;
}

/// Whether `memory` is the code of `file` but for the breakpoints of uprobes, which the kernel
/// writes into the pages of the process: an int3, or, from Linux 6.18 on, a call in the place of a
/// nop of five bytes.
bool same_code(const std::vector<std::uint8_t>& file, const std::vector<std::uint8_t>& memory) {
  constexpr std::array<std::uint8_t, 5> kNop5 = {0x0f, 0x1f, 0x44, 0x00, 0x00};
  if (file.size() != memory.size()) return false;
  for (std::size_t i = 0; i < file.size(); ++i) {
    if (file[i] == memory[i] || memory[i] == 0xcc) continue;
    const auto rest = std::span(file).subspan(i);
    if (memory[i] != 0xe8 || rest.size() < kNop5.size() ||
        !std::equal(kNop5.begin(), kNop5.end(), rest.begin())) {
      return false;
    }
    i += kNop5.size() - 1;
  }
  return true;
}

/// "begin-end perms offset dev inode path"; false where the line is not of an executable file.
bool parse_mapping(const std::string& line, Mapping& mapping) {
  // Most lines are not: they cost no more than this.
  const auto space = line.find(' ');
  if (space == std::string::npos || line.size() < space + 4 || line[space + 3] != 'x') return false;
  std::istringstream in(line);
  std::string range, permissions, offset, device;
  if (!(in >> range >> permissions >> offset >> device >> mapping.inode)) return false;
  std::getline(in >> std::ws, mapping.path);
  const auto dash = range.find('-');
  if (dash == std::string::npos || permissions.size() < 3 || permissions[2] != 'x') return false;
  if (mapping.inode == 0 || mapping.path.empty() || mapping.path[0] != '/') return false;
  return parse_device(device, mapping.device) && parse_hex(range.substr(0, dash), mapping.begin) &&
         parse_hex(range.substr(dash + 1), mapping.end) && parse_hex(offset, mapping.offset);
}

}  // namespace

bool Procfs::alive(std::uint32_t pid) const {
  auto fields = stat_fields(of(pid) + "/stat");
  return fields && (*fields)[0] != "Z" && (*fields)[0] != "X";
}

Result<std::uint64_t> Procfs::start_ticks(std::uint32_t pid) const {
  auto fields = stat_fields(of(pid) + "/stat");
  if (!fields) return fields.error();
  // Field 22 of proc(5) is starttime; the state, field 3, is the first here.
  return std::strtoull((*fields)[19].c_str(), nullptr, 10);
}

Result<std::string> Procfs::exe(std::uint32_t pid) const {
  char target[4096];
  const auto length = ::readlink((of(pid) + "/exe").c_str(), target, sizeof target);
  if (length < 0) {
    return Error{"cannot read " + of(pid) + "/exe: " + std::strerror(errno),
                 errno == EACCES || errno == EPERM
                     ? "run gcause as root, or give it CAP_SYS_PTRACE"
                     : "check that the process exists and is no kernel thread"};
  }
  return std::string(target, static_cast<std::size_t>(length));
}

Result<std::vector<Mapping>> Procfs::executable_mappings(std::uint32_t pid) const {
  auto text = read_file(of(pid) + "/maps");
  if (!text) return text.error();
  std::vector<Mapping> mappings;
  std::set<std::pair<std::uint64_t, std::string>> seen;
  std::istringstream lines(*text);
  for (std::string line; std::getline(lines, line);) {
    Mapping mapping;
    if (parse_mapping(line, mapping) && seen.emplace(mapping.inode, mapping.path).second) {
      mappings.push_back(std::move(mapping));
    }
  }
  return mappings;
}

std::uint64_t Procfs::code_bytes(std::uint32_t pid) const {
  // fs/proc/task_mmu.c, task_mem(): the executable's code, and all other executable mappings, in kB.
  std::ifstream in(of(pid) + "/status");
  std::uint64_t kilobytes = 0;
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("VmExe:") || line.starts_with("VmLib:")) {
      kilobytes += std::strtoull(line.c_str() + 6, nullptr, 10);
    }
    if (line.starts_with("VmLib:")) break;
  }
  return kilobytes * 1024;
}

std::vector<std::string> Procfs::candidates(std::uint32_t pid, const Mapping& mapping) const {
  const auto root = of(pid) + "/root";
  std::vector<std::string> paths;
  for (const auto& path : {mapping.path, with_newlines(mapping.path)}) {
    paths.push_back(root + path);
    paths.push_back(root_ + "/self/root" + path);
    // In another mount namespace, and chrooted in there.
    char target[4096];
    const auto length = ::readlink(root.c_str(), target, sizeof target);
    const std::string_view prefix(target, length > 1 ? static_cast<std::size_t>(length) : 0);
    if (!prefix.empty() && path.starts_with(prefix)) {
      paths.push_back(root + path.substr(prefix.size()));
    }
  }
  return paths;
}

bool Procfs::same_content(std::uint32_t pid, const Mapping& mapping,
                          const std::string& path) const {
  // Enough to tell two makes of a library apart; more would be paged in for the target.
  constexpr std::size_t kCompared = 1 << 20;
  const auto count = std::min<std::uint64_t>(kCompared, mapping.end - mapping.begin);
  const auto file = read_at(path, mapping.offset, count);
  if (file.empty()) return false;
  if (root_ != "/proc") {  // recorded
    return same_code(file, read_at(of(pid) + "/mem", mapping.begin, file.size()));
  }
  std::vector<std::uint8_t> memory(file.size());
  return ProcessMemory(pid).read(mapping.begin, memory) && same_code(file, memory);
}

Result<std::string> Procfs::open_path(std::uint32_t pid, const Mapping& mapping) const {
  std::vector<std::string> same_inode;
  for (const auto& path : candidates(pid, mapping)) {
    struct stat info = {};
    if (::stat(path.c_str(), &info) != 0 || info.st_ino != mapping.inode) continue;
    if (info.st_dev == mapping.device) return path;
    same_inode.push_back(path);
  }
  char range[64];
  std::snprintf(range, sizeof range, "%llx-%llx", static_cast<unsigned long long>(mapping.begin),
                static_cast<unsigned long long>(mapping.end));
  const auto itself = of(pid) + "/map_files/" + range;
  struct stat info = {};
  if (::stat(itself.c_str(), &info) == 0) return itself;
  const int error = errno;
  for (const auto& path : same_inode) {
    if (same_content(pid, mapping, path)) return path;
  }
  const auto what = "cannot open " + mapping.path + " of process " + std::to_string(pid);
  if (error == EPERM || error == EACCES) {
    return Error{
        what + ": it is no longer at this path, and opening the mapping itself is not allowed",
        // The folder of the mappings belongs to the user of the process alone.
        "run gcause as root, or give it CAP_CHECKPOINT_RESTORE as well, and "
        "CAP_DAC_READ_SEARCH for a process of another user; or restart the process"};
  }
  return Error{what + ": neither its root nor its mapping leads to the file that is in use",
               "give gcause CAP_SYS_PTRACE, and CAP_SYS_ADMIN if the file was replaced on disk"};
}

bool Procfs::filtered_by_seccomp(std::uint32_t pid) const {
  struct Closer {
    void operator()(DIR* folder) const { ::closedir(folder); }
  };
  const auto tasks = of(pid) + "/task";
  const std::unique_ptr<DIR, Closer> folder(::opendir(tasks.c_str()));
  for (const dirent* entry; folder && (entry = ::readdir(folder.get())) != nullptr;) {
    if (entry->d_name[0] == '.') continue;
    const auto mode = field_of(tasks + "/" + entry->d_name + "/status", "Seccomp");
    if (mode && *mode != "0") return true;
  }
  return false;
}

std::map<std::uint32_t, std::uint32_t> Procfs::threads_by_native_id(std::uint32_t pid) const {
  constexpr std::size_t kMost = 65'536;
  std::map<std::uint32_t, std::uint32_t> threads;
  std::error_code error;
  const auto tasks = of(pid) + "/task";
  for (std::filesystem::directory_iterator entry(tasks, error), end; !error && entry != end;
       entry.increment(error)) {
    // The numbers of the thread from the namespace of procfs down to its own.
    const auto numbers = field_of(entry->path() / "status", "NSpid");
    if (threads.size() == kMost) break;
    std::istringstream words(numbers.value_or(""));
    std::vector<std::uint32_t> all;
    for (std::uint32_t number; words >> number;) all.push_back(number);
    if (!all.empty()) threads[all.back()] = all.front();
  }
  return threads;
}

std::vector<std::uint32_t> Procfs::children(std::uint32_t pid) const {
  std::vector<std::uint32_t> pids;
  const auto task = of(pid) + "/task/" + std::to_string(pid) + "/children";
  std::ifstream in(task);
  for (std::uint32_t child; in >> child;) pids.push_back(child);
  return pids;
}

std::uint32_t Procfs::process_of(std::uint32_t id) const {
  const auto process = status_field(id, "Tgid");
  return process ? static_cast<std::uint32_t>(std::strtoul(process->c_str(), nullptr, 10)) : id;
}

std::optional<std::string> Procfs::status_field(std::uint32_t pid, std::string_view name) const {
  return field_of(of(pid) + "/status", name);
}

std::string Procfs::name_space(std::uint32_t pid, const std::string& kind) const {
  char target[128];
  const auto length = ::readlink((of(pid) + "/ns/" + kind).c_str(), target, sizeof target);
  return std::string(target, length > 0 ? static_cast<std::size_t>(length) : 0);
}

}  // namespace gcause
