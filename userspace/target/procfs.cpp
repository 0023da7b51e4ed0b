// SPDX-License-Identifier: Apache-2.0
#include "target/procfs.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <set>
#include <sstream>

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

bool parse_hex(const std::string& text, std::uint64_t& value) {
  return std::from_chars(text.data(), text.data() + text.size(), value, 16).ec == std::errc();
}

/// "begin-end perms offset dev inode path"; false where the line is not of an executable file.
bool parse_mapping(const std::string& line, Mapping& mapping) {
  std::istringstream in(line);
  std::string range, permissions, offset, device;
  if (!(in >> range >> permissions >> offset >> device >> mapping.inode)) return false;
  std::getline(in >> std::ws, mapping.path);
  const auto dash = range.find('-');
  if (dash == std::string::npos || permissions.size() < 3 || permissions[2] != 'x') return false;
  if (mapping.inode == 0 || mapping.path.empty() || mapping.path[0] != '/') return false;
  return parse_hex(range.substr(0, dash), mapping.begin) &&
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

Result<std::string> Procfs::open_path(std::uint32_t pid, const Mapping& mapping) const {
  char range[64];
  std::snprintf(range, sizeof range, "%llx-%llx", static_cast<unsigned long long>(mapping.begin),
                static_cast<unsigned long long>(mapping.end));
  for (const auto& path :
       {of(pid) + "/root" + mapping.path, of(pid) + "/map_files/" + std::string(range)}) {
    struct stat info = {};
    if (::stat(path.c_str(), &info) == 0 && info.st_ino == mapping.inode) return path;
  }
  return Error{"cannot open " + mapping.path + " of process " + std::to_string(pid) +
                   ": neither its root nor its mapping leads to the file that is in use",
               "give gcause CAP_SYS_PTRACE, and CAP_SYS_ADMIN if the file was replaced on disk"};
}

std::vector<std::uint32_t> Procfs::children(std::uint32_t pid) const {
  std::vector<std::uint32_t> pids;
  const auto task = of(pid) + "/task/" + std::to_string(pid) + "/children";
  std::ifstream in(task);
  for (std::uint32_t child; in >> child;) pids.push_back(child);
  return pids;
}

std::uint32_t Procfs::process_of(std::uint32_t id) const {
  std::ifstream in(of(id) + "/status");
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("Tgid:")) {
      return static_cast<std::uint32_t>(std::strtoul(line.c_str() + 5, nullptr, 10));
    }
  }
  return id;
}

}  // namespace gcause
