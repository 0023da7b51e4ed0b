// SPDX-License-Identifier: Apache-2.0
#include "case_file.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <stdexcept>

#include "stream_test_support.h"

namespace gcause::test {
namespace {

std::string from_hex(const std::string& text) {
  std::string digits;
  std::ranges::copy_if(text, std::back_inserter(digits), [](char c) { return c != ' '; });
  if (digits.size() % 2 != 0) throw std::runtime_error("half a byte in " + text);
  std::string bytes;
  for (std::size_t at = 0; at < digits.size(); at += 2) {
    bytes += static_cast<char>(std::stoi(digits.substr(at, 2), nullptr, 16));
  }
  return bytes;
}

std::string to_hex(const std::string& bytes) {
  std::string text;
  for (const char c : bytes) {
    char digits[3];
    std::snprintf(digits, sizeof digits, "%02x", static_cast<unsigned char>(c));
    text += digits;
  }
  return text;
}

/// One run for each place in which the read of the step marked "cut": "everywhere" can be cut.
std::vector<Json> cut_everywhere(const Json& run) {
  const Json& steps = run.at("steps");
  std::size_t marked = 0;
  while (marked < steps.size() && !steps[marked].contains("cut")) ++marked;
  if (marked == steps.size()) return {run};
  const std::string bytes = bytes_of(steps[marked].at("read"));
  std::vector<Json> runs;
  for (std::size_t cut = 1; cut < bytes.size(); ++cut) {
    Json one = run;
    one["name"] = run.at("name").get<std::string>() + ", cut at " + std::to_string(cut);
    one["steps"] = Json::array();
    for (std::size_t i = 0; i < steps.size(); ++i) {
      if (i != marked) {
        one["steps"].push_back(steps[i]);
        continue;
      }
      for (const auto& half : {bytes.substr(0, cut), bytes.substr(cut)}) {
        Json step = steps[i];
        step.erase("cut");
        step["read"] = {{"hex", to_hex(half)}};
        one["steps"].push_back(step);
      }
    }
    runs.push_back(one);
  }
  return runs;
}

}  // namespace

std::string bytes_of(const Json& json) {
  if (json.is_string()) return json.get<std::string>();
  if (json.is_array()) {
    std::string bytes;
    for (const auto& part : json) bytes += bytes_of(part);
    return bytes;
  }
  if (json.contains("hex")) return from_hex(json.at("hex").get<std::string>());
  if (json.contains("framed")) return framed(bytes_of(json.at("framed")));
  std::string bytes;
  if (json.contains("framed_bytes")) {
    for (const char c : bytes_of(json.at("framed_bytes"))) bytes += framed({c});
    return bytes;
  }
  const std::string of = bytes_of(json.at("of"));
  for (auto times = json.at("times").get<std::size_t>(); times > 0; --times) bytes += of;
  return bytes;
}

Ns ns_of(const Json& json) {
  return static_cast<Ns>(std::llround(json.get<double>() * static_cast<double>(kMillisecond)));
}

std::vector<Ns> times_of(const Json& json) {
  std::vector<Ns> times;
  for (const auto& element : json) {
    const bool several = element.is_array();
    const Json& value = several ? element.at(0) : element;
    const Ns time = value.is_null() ? -1 : ns_of(value);
    times.insert(times.end(), several ? element.at(1).get<std::size_t>() : 1, time);
  }
  return times;
}

std::vector<Json> runs_of(const std::string& path) {
  std::ifstream file(path);
  const Json json = Json::parse(file);
  std::vector<Json> runs;
  for (Json run : json.at("runs")) {
    run["name"] = json.at("case").get<std::string>() + " " + run.at("name").get<std::string>();
    for (auto& one : cut_everywhere(run)) runs.push_back(std::move(one));
  }
  return runs;
}

std::vector<std::string> case_files() {
  std::vector<std::string> paths;
  for (const auto& entry : std::filesystem::directory_iterator(GCAUSE_CASES)) {
    if (entry.path().extension() == ".json") paths.push_back(entry.path().string());
  }
  std::ranges::sort(paths);
  return paths;
}

}  // namespace gcause::test
