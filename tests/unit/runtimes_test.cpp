// SPDX-License-Identifier: Apache-2.0
#include "target/runtimes.h"

#include <catch2/catch_test_macros.hpp>
#include <string>

namespace gcause {
namespace {

std::string name_of(const std::string& path) {
  const auto* runtime = other_runtime_of(path, "/nonexistent");
  return runtime ? std::string(runtime->name) : "";
}

TEST_CASE("runtimes are known by the names of their files") {
  CHECK(name_of("/opt/pypy3.11-v7.3.20/bin/pypy3.11") == "PyPy");
  CHECK(name_of("/usr/lib/libpypy3.11-c.so") == "PyPy");
  CHECK(name_of("/usr/bin/pypy3.11-c") == "PyPy");
  CHECK(name_of("/opt/graalpy/lib/libpythonvm.so") == "GraalPy");
  CHECK(name_of("/usr/lib/jvm/lib/server/libjvm.so") ==
        "a Java virtual machine (Java, Jython and others)");
  CHECK(name_of("/usr/bin/node") == "Node.js");
  CHECK(name_of("/usr/lib/libnode.so.108") == "Node.js");
  CHECK(name_of("/usr/bin/ruby3.1") == "Ruby");
  CHECK(name_of("/usr/share/dotnet/shared/libcoreclr.so") == ".NET");
  CHECK(name_of("/usr/lib/libpython2.7.so.1.0") == "a CPython older than 3.7");
  CHECK(name_of("/usr/lib/libpython3.6m.so.1.0") == "a CPython older than 3.7");
}

TEST_CASE("a file that was deleted keeps its name") {
  CHECK(name_of("/usr/bin/node (deleted)") == "Node.js");
}

TEST_CASE("every runtime has a cure") {
  for (const std::string path : {"/pypy3", "/node", "/bun", "/php8.2", "/beam.smp", "/perl"}) {
    const auto* runtime = other_runtime_of(path, "/nonexistent");
    REQUIRE(runtime);
    CHECK_FALSE(runtime->cure.empty());
  }
}

TEST_CASE("names that only look alike, and CPython's own, are none of them") {
  for (const std::string path :
       {"/usr/bin/python3.11", "/usr/bin/python3.10", "/usr/lib/libpython3.13t.so.1.0",
        "/usr/lib/libpython3.10.so.1.0", "/usr/bin/noded", "/usr/bin/rubygems", "/usr/bin/perldoc",
        "/usr/bin/phpunit", "/usr/lib/libc.so.6", "/srv/app/node_modules", ""}) {
    CAPTURE(path);
    CHECK(name_of(path).empty());
  }
}

}  // namespace
}  // namespace gcause
