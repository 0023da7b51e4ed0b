// SPDX-License-Identifier: Apache-2.0
#include "target/procfs.h"

#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

namespace gcause {
namespace {

using Catch::Matchers::ContainsSubstring;

// 100 is a Python process, 101 a zombie (and a thread of 100), 102 has files that make no sense,
// 103 empty ones. 104 and 105 map a file whose device is told differently.
const std::string kRoot = GCAUSE_TEST_DATA "/data/proc";

Procfs recorded() { return Procfs(kRoot); }

Mapping mapping_of(const std::string& path) {
  const auto mappings = recorded().executable_mappings(100);
  REQUIRE(mappings);
  for (const auto& mapping : *mappings) {
    if (mapping.path == path) return mapping;
  }
  FAIL("no mapping of " << path);
  return {};
}

TEST_CASE("the mappings of executable files, once each, in the order of addresses") {
  const auto mappings = recorded().executable_mappings(100);
  REQUIRE(mappings);
  std::vector<std::string> paths;
  for (const auto& mapping : *mappings) paths.push_back(mapping.path);
  CHECK(paths == std::vector<std::string>{"/usr/bin/python3.11", "/usr/lib/libssl.so.3",
                                          "/opt/my app/lib ext.so",
                                          "/usr/lib/libgone.so.1 (deleted)",
                                          "/memfd:doublemapper (deleted)", "/usr/lib/libonlyx.so"});
}

TEST_CASE("of a file the first executable mapping counts, not a mapping of its data") {
  const auto python = mapping_of("/usr/bin/python3.11");
  CHECK(python.begin == 0x555555559000);
  CHECK(python.end == 0x5555559ab000);
  CHECK(python.offset == 0x5000);
  CHECK(python.inode == 1100);
  CHECK(mapping_of("/usr/lib/libssl.so.3").begin == 0x7f0000100000);
}

TEST_CASE("the bytes of all code, the executable's and the libraries'") {
  CHECK(recorded().code_bytes(100) == (4424 + 7016) * 1024);
  CHECK(recorded().code_bytes(999) == 0);
}

TEST_CASE("lines that make no sense are passed over") {
  const auto mappings = recorded().executable_mappings(102);
  REQUIRE(mappings);
  REQUIRE(mappings->size() == 1);
  CHECK(mappings->at(0).path == "/e");
}

TEST_CASE("a process that is not there has no mappings") {
  const auto mappings = recorded().executable_mappings(999);
  REQUIRE_FALSE(mappings);
  CHECK_THAT(mappings.error().what, ContainsSubstring("/999/maps"));
  CHECK_FALSE(mappings.error().cure.empty());
}

TEST_CASE("the start time stands behind a command of any characters") {
  const auto ticks = recorded().start_ticks(100);  // its command is "py) (S 1 2 (x) "
  REQUIRE(ticks);
  CHECK(*ticks == 987'654'321);
}

TEST_CASE("a stat that makes no sense is an error") {
  CHECK_FALSE(recorded().start_ticks(102));
  CHECK_FALSE(recorded().start_ticks(103));
  CHECK_FALSE(recorded().start_ticks(999));
}

TEST_CASE("a process lives until it is a zombie") {
  CHECK(recorded().alive(100));
  CHECK_FALSE(recorded().alive(101));
  CHECK_FALSE(recorded().alive(102));
  CHECK_FALSE(recorded().alive(999));
}

TEST_CASE("the executable is told as the process sees it") {
  const auto exe = recorded().exe(100);
  REQUIRE(exe);
  CHECK(*exe == "/usr/bin/python3.11 (deleted)");
  const auto missing = recorded().exe(101);
  REQUIRE_FALSE(missing);
  CHECK_THAT(missing.error().what, ContainsSubstring("/101/exe"));
  CHECK_FALSE(missing.error().cure.empty());
}

/// The mapping with the identity that this file has on the machine of the test.
Mapping as_file(Mapping mapping, const std::string& path) {
  struct stat info = {};
  REQUIRE(::stat(path.c_str(), &info) == 0);
  mapping.inode = info.st_ino;
  mapping.device = info.st_dev;
  return mapping;
}

TEST_CASE("a file is opened through the root of its process") {
  for (const std::string path : {"/usr/lib/libssl.so.3", "/opt/my app/lib ext.so"}) {
    const auto mapping = as_file(mapping_of(path), kRoot + "/100/root" + path);
    const auto open = recorded().open_path(100, mapping);
    REQUIRE(open);
    CHECK(*open == kRoot + "/100/root" + path);
  }
}

TEST_CASE("a deleted file is opened by its mapping") {
  const auto path = kRoot + "/100/map_files/7f0000300000-7f0000310000";
  const auto open =
      recorded().open_path(100, as_file(mapping_of("/usr/lib/libgone.so.1 (deleted)"), path));
  REQUIRE(open);
  CHECK(*open == path);
}

TEST_CASE("a file that was replaced on disk is not taken for the one in use") {
  const auto path = kRoot + "/100/root/usr/lib/libssl.so.3";
  auto mapping = as_file(mapping_of("/usr/lib/libssl.so.3"), path);
  SECTION("another inode") { mapping.inode += 1; }
  SECTION("the same inode of another file system, and no memory to compare it with") {
    mapping.device += 1;
  }
  const auto open = recorded().open_path(100, mapping);
  REQUIRE_FALSE(open);
  CHECK_THAT(open.error().what, ContainsSubstring("/usr/lib/libssl.so.3"));
  CHECK_THAT(open.error().cure, ContainsSubstring("CAP_SYS_PTRACE"));
}

TEST_CASE("a file told to be on another device is taken if it is what the process has mapped") {
  const std::string path = "/opt/my app/lib ext.so";
  auto mapping = as_file(mapping_of(path), kRoot + "/104/root" + path);
  mapping.device += 1;
  mapping.begin = 0;  // The recorded memory begins at address 0.
  mapping.end = 4096;
  mapping.offset = 0;
  const auto same = recorded().open_path(104, mapping);
  REQUIRE(same);
  CHECK(*same == kRoot + "/104/root" + path);
  const auto other = recorded().open_path(105, mapping);  // Its memory holds another instruction.
  CHECK_FALSE(other);
}

TEST_CASE("the device of a mapping is that of its line") {
  CHECK(mapping_of("/usr/bin/python3.11").device == makedev(0xfe, 1));
}

// Made here, as not everything that carries source files around takes a name with a newline.
TEST_CASE("a path with a newline is opened, and so is one that only looks so") {
  char folder[] = "/tmp/gcause-test-XXXXXX";
  REQUIRE(::mkdtemp(folder));
  const std::string opt = std::string(folder) + "/7/root/opt";
  std::filesystem::create_directories(opt);
  const std::pair<std::string, std::string> files[] = {{"two\\012lines", "two\nlines"},
                                                       {"four\\012letters", "four\\012letters"}};
  for (const auto& [told, name] : files) {
    std::ofstream(std::string(folder) + "/7/maps")
        << "7f0000100000-7f0000120000 r-xp 0001c000 fe:01 1200    /opt/" << told << "\n";
    std::ofstream(opt + "/" + name) << told;
    const Procfs procfs(folder);
    const auto mappings = procfs.executable_mappings(7);
    REQUIRE(mappings);
    REQUIRE(mappings->size() == 1);
    CHECK(mappings->at(0).path == "/opt/" + told);
    const auto open = procfs.open_path(7, as_file(mappings->at(0), opt + "/" + name));
    REQUIRE(open);
    CHECK(*open == opt + "/" + name);
  }
  std::filesystem::remove_all(folder);
}

TEST_CASE("a seccomp filter of any thread counts") {
  CHECK_FALSE(recorded().filtered_by_seccomp(104));
  CHECK(recorded().filtered_by_seccomp(105));  // its second thread has one
  CHECK_FALSE(recorded().filtered_by_seccomp(999));
}

TEST_CASE("the children of a process") {
  CHECK(recorded().children(100) == std::vector<std::uint32_t>{201, 202, 4'000'000});
  CHECK(recorded().children(101).empty());
  CHECK(recorded().children(999).empty());
}

TEST_CASE("a thread's process") {
  CHECK(recorded().process_of(101) == 100);
  CHECK(recorded().process_of(100) == 100);
  CHECK(recorded().process_of(102) == 102);
  CHECK(recorded().process_of(999) == 999);
}

TEST_CASE("the real /proc is understood") {
  const Procfs procfs;
  const auto self = static_cast<std::uint32_t>(::getpid());
  CHECK(procfs.alive(self));
  CHECK(procfs.start_ticks(self));
  const auto mappings = procfs.executable_mappings(self);
  REQUIRE(mappings);
  REQUIRE_FALSE(mappings->empty());
  const auto exe = procfs.exe(self);
  REQUIRE(exe);
  CHECK(mappings->front().path == *exe);
  CHECK(procfs.open_path(self, mappings->front()));
}

TEST_CASE("a real file that is told on another device is known by what is mapped of it") {
  const Procfs procfs;
  const auto self = static_cast<std::uint32_t>(::getpid());
  const auto mappings = procfs.executable_mappings(self);
  REQUIRE(mappings);
  auto mapping = mappings->front();
  mapping.device += 1;
  mapping.end -= 4096;  // There is no mapping of just this range in map_files.
  const auto open = procfs.open_path(self, mapping);
  REQUIRE(open);
  CHECK(open->ends_with(mapping.path));
  mapping.offset += 4096;
  CHECK_FALSE(procfs.open_path(self, mapping));
}

}  // namespace
}  // namespace gcause
