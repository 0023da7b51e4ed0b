// SPDX-License-Identifier: Apache-2.0
#include "sink/output.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <string>
#include <utility>

#include "sink/progress.h"
#include "sink_test_support.h"

namespace gcause {
namespace {

using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::StartsWith;

TEST_CASE("what is written arrives, across the edges of the buffer") {
  const test::TempFolder folder;
  auto output = Output::open(folder.file("out"));
  REQUIRE(output);
  std::string expected;
  for (const std::size_t size : {0, 1, 65'535, 2, 65'536, 65'537, 300'000, 7}) {
    const std::string part(size, static_cast<char>('a' + size % 26));
    output->write(part);
    expected += part;
  }
  REQUIRE(output->finish());
  CHECK(test::read_file(folder.file("out")) == expected);
}

TEST_CASE("bytes reach the file when flushed, not before") {
  const test::TempFolder folder;
  auto output = Output::open(folder.file("out"));
  REQUIRE(output);
  output->write("line\n");
  CHECK(test::read_file(folder.file("out")).empty());
  output->flush();
  CHECK(test::read_file(folder.file("out")) == "line\n");
  CHECK(output->finish());
}

TEST_CASE("a moved output writes on") {
  const test::TempFolder folder;
  auto opened = Output::open(folder.file("out"));
  REQUIRE(opened);
  opened->write("one ");
  Output output = *std::move(opened);
  output.write("two");
  REQUIRE(output.finish());
  CHECK(test::read_file(folder.file("out")) == "one two");
}

TEST_CASE("opening empties what was there") {
  const test::TempFolder folder;
  for (const std::string text : {"long text", "new"}) {
    auto output = Output::open(folder.file("out"));
    REQUIRE(output);
    output->write(text);
    REQUIRE(output->finish());
  }
  CHECK(test::read_file(folder.file("out")) == "new");
}

TEST_CASE("a full disk is an error of finish") {
  if (::access("/dev/full", W_OK) != 0) SKIP("no /dev/full");
  auto output = Output::open("/dev/full");
  REQUIRE(output);
  output->write("x");
  CHECK_FALSE(output->failed());
  output->flush();
  CHECK(output->failed());
  output->write("dropped");
  const Result<> finished = output->finish();
  REQUIRE_FALSE(finished);
  CHECK(finished.error().what == "cannot write /dev/full: No space left on device");
  CHECK_THAT(finished.error().cure, ContainsSubstring("free some space"));
}

TEST_CASE("a place that cannot be written fails at open") {
  const test::TempFolder folder;
  SECTION("missing folder") {
    const std::string path = folder.file("missing/out.jsonl");
    const auto output = Output::open(path);
    REQUIRE_FALSE(output);
    CHECK(output.error().what == "cannot write " + path + ": No such file or directory");
    CHECK(output.error().cure == "create the folder first: " + folder.file("missing"));
  }
  SECTION("a folder") {
    const auto output = Output::open(folder.file(""));
    REQUIRE_FALSE(output);
    CHECK_THAT(output.error().what, StartsWith("cannot write "));
    CHECK_THAT(output.error().cure, ContainsSubstring("-o FILE"));
  }
  SECTION("a place that takes no files, not even from root") {
    const auto output = Output::open("/proc/gcause-out");
    REQUIRE_FALSE(output);
    CHECK_THAT(output.error().what, StartsWith("cannot write /proc/gcause-out: "));
  }
  SECTION("no name") {
    const auto output = Output::open("");
    REQUIRE_FALSE(output);
    CHECK_FALSE(output.error().cure.empty());
  }
}

/// Puts the write end of a pipe in the place of standard output, and undoes it. The signal is
/// ignored as the session ignores it.
class PipedStdout {
 public:
  PipedStdout() : saved_(::dup(STDOUT_FILENO)), handler_(::signal(SIGPIPE, SIG_IGN)) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) return;
    reader_ = Fd(ends[0]);
    const Fd writer(ends[1]);
    ::dup2(writer.get(), STDOUT_FILENO);
  }
  ~PipedStdout() {
    ::dup2(saved_.get(), STDOUT_FILENO);
    ::signal(SIGPIPE, handler_);
  }
  void close_reader() { reader_ = Fd(); }

 private:
  Fd saved_;
  Fd reader_;
  sighandler_t handler_;
};

TEST_CASE("a reader that went away is an error value, and standard output stays open") {
  std::string what;
  std::string cure;
  bool open = false;
  {
    // Nothing is checked in here: a failed check would print into the pipe.
    PipedStdout stdout_pipe;
    stdout_pipe.close_reader();
    auto output = Output::open("-");
    output->write("x");
    const Result<> finished = output->finish();
    if (!finished) {
      what = finished.error().what;
      cure = finished.error().cure;
    }
    open = ::fcntl(STDOUT_FILENO, F_GETFD) != -1;
  }
  CHECK(what == "cannot write standard output: Broken pipe");
  CHECK_THAT(cure, ContainsSubstring("ended first"));
  CHECK(open);
}

TEST_CASE("the progress line") {
  ProgressFigures figures;
  figures.elapsed = 12'900 * kMillisecond;
  figures.streams = 10;
  figures.chunks = 10'240;
  figures.pauses = 311;
  figures.worst_gap = WorstGap{412 * kMillisecond, Verdict::gc};
  const std::string text =
      "gcause: 12 s, 10 streams, 10,240 chunks, 311 pauses, worst gap 412 ms (gc), 0 lost";
  CHECK(format_progress(figures) == text);
  CHECK(format_progress({}) == "gcause: 0 s, 0 streams, 0 chunks, 0 pauses, 0 lost");

  const test::TempFolder folder;
  const std::string path = folder.file("stderr");
  const Fd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  REQUIRE(fd);
  SECTION("is rewritten in place and wiped at the end") {
    figures.worst_gap.reset();
    const std::string line = format_progress(figures);
    {
      ProgressLine progress(fd.get(), true);
      progress.update(figures);
      progress.update(figures);
    }
    CHECK(test::read_file(path) == "\r" + line + "\x1b[K\r" + line + "\x1b[K\r\x1b[K");
  }
  SECTION("does not run over the end of the terminal's line") {
    ProgressLine progress(fd.get(), true);
    progress.update(figures);
    CHECK(test::read_file(path) == "\r" + text.substr(0, 79) + "\x1b[K");
  }
  SECTION("is silent where there is no terminal") {
    {
      ProgressLine progress(fd.get(), false);
      progress.update(figures);
    }
    CHECK(test::read_file(path).empty());
  }
}

}  // namespace
}  // namespace gcause
