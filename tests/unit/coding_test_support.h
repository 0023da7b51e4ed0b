// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <vector>

namespace gcause::test {

/// Content codings done by the encoders of the same libraries. Each makes one piece of every part,
/// flushed so that all of it can be read, and one piece that ends the coded data.
using Encoder = std::vector<std::string> (*)(const std::vector<std::string>& parts);

std::vector<std::string> gzip(const std::vector<std::string>& parts);
std::vector<std::string> deflate(const std::vector<std::string>& parts);
std::vector<std::string> bare_deflate(const std::vector<std::string>& parts);
std::vector<std::string> brotli(const std::vector<std::string>& parts);
std::vector<std::string> zstd(const std::vector<std::string>& parts);

/// `part` in one go, with a window of 2^`window_log` bytes.
std::string zstd_with_window(const std::string& part, int window_log);

std::string joined(const std::vector<std::string>& pieces);

}  // namespace gcause::test
