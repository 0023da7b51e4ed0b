// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "sink/output.h"
#include "sink/sink.h"

namespace gcause::test {

/// An empty folder that goes away with everything in it.
class TempFolder {
 public:
  TempFolder() : path_(std::filesystem::temp_directory_path() / "gcause-test-XXXXXX") {
    if (::mkdtemp(path_.data()) == nullptr) path_.clear();
  }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;
  ~TempFolder() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }

  std::string file(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

inline std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

/// What a sink of type `S` writes for `findings`.
template <typename S, typename Options>
std::string written_by(const std::vector<Finding>& findings, Options options) {
  const TempFolder folder;
  auto output = Output::open(folder.file("out"));
  if (!output) return output.error().what;
  S sink(*std::move(output), options);
  for (const Finding& finding : findings) sink.write(finding);
  const Result<> finished = sink.finish();
  if (!finished) return finished.error().what;
  return read_file(folder.file("out"));
}

}  // namespace gcause::test
