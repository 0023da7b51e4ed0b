// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "stream/http1_parser.h"

namespace gcause::test {

/// One response, as RFC 9112 has it.
struct Http1Response {
  int status = 0;
  std::string media_type;
  std::string body;
  bool complete = false;
  bool operator==(const Http1Response&) const = default;
};

struct Http1Outcome {
  std::vector<Http1Response> responses;
  bool lost = false;  ///< what follows the last of them is no response
};

/// Reads the responses of a connection from all of its bytes at once, the plain way: RFC 9112,
/// sections 2.2, 4, 6.3 and 7.1, and no more of it. For connections that are neither tunnels nor
/// answers to HEAD.
class Http1Reference {
 public:
  explicit Http1Reference(std::string_view text) : rest_(text) {}

  Http1Outcome read() {
    while (!outcome_.lost && !over_) {
      rest_.remove_prefix(std::min(rest_.find_first_not_of("\r\n"), rest_.size()));
      if (rest_.empty()) break;
      read_response();
    }
    return outcome_;
  }

 private:
  /// The next line without its end, which is LF or CR LF; nothing if it is not all there.
  std::optional<std::string> line() {
    const auto lf = rest_.find('\n');
    if (lf == std::string_view::npos) return std::nullopt;
    std::string result(rest_.substr(0, lf));
    if (result.ends_with('\r')) result.pop_back();
    rest_.remove_prefix(lf + 1);
    return result;
  }

  static std::string clean(std::string text) {
    text.erase(0, text.find_first_not_of(" \t"));
    while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.pop_back();
    for (char& c : text) {
      if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    }
    return text;
  }

  /// The values of a field, split at commas, and those of all its lines behind each other.
  static std::vector<std::string> values(const std::vector<std::string>& fields,
                                         const std::string& name) {
    std::vector<std::string> result;
    for (const auto& field : fields) {
      const auto colon = field.find(':');
      if (colon == std::string::npos || colon == 0 || field[0] == ' ' || field[0] == '\t') continue;
      if (clean(field.substr(0, colon)) != name) continue;
      std::string value = field.substr(colon + 1) + ",";
      for (auto comma = value.find(','); comma != std::string::npos; comma = value.find(',')) {
        if (const auto element = clean(value.substr(0, comma)); !element.empty()) {
          result.push_back(element);
        }
        value.erase(0, comma + 1);
      }
    }
    return result;
  }

  /// HTTP/1.x SP 3DIGIT [SP reason].
  static int status_of(const std::string& line) {
    const auto digit = [&](std::size_t at) { return line[at] >= '0' && line[at] <= '9'; };
    const bool good = line.size() >= 12 && line.starts_with("HTTP/1.") && digit(7) &&
                      line[8] == ' ' && line[9] != '0' && digit(9) && digit(10) && digit(11) &&
                      (line.size() == 12 || line[12] == ' ');
    return good ? std::stoi(line.substr(9, 3)) : 0;
  }

  void read_response() {
    const std::string_view begin = rest_;
    std::vector<std::string> fields;
    const auto status_line = line();
    while (true) {
      const auto next = status_line ? line() : std::nullopt;
      const std::size_t size = begin.size() - (next ? rest_.size() : 0);
      const bool alien = !begin.starts_with(std::string_view("HTTP/1.").substr(0, begin.size()));
      outcome_.lost = alien || size > Http1ResponseParser::kMaxHead;
      over_ = !next;
      if (outcome_.lost || over_) return;
      if (next->empty()) break;
      fields.push_back(*next);
    }
    const int status = status_of(*status_line);
    outcome_.lost = status == 0;
    if (status == 0 || (status < 200 && status != 101)) return;
    read_body(status, fields);
  }

  void read_body(int status, const std::vector<std::string>& fields) {
    auto codings = values(fields, "transfer-encoding");
    std::erase(codings, "identity");
    const auto lengths = values(fields, "content-length");
    for (const auto& length : lengths) {
      const bool number = length.find_first_not_of("0123456789") == std::string::npos &&
                          length.size() <= 18 && length == lengths.front();
      if (!number && codings.empty()) outcome_.lost = true;
    }
    if (outcome_.lost) return;
    outcome_.responses.push_back({status, media_type(fields), {}, false});
    auto& response = outcome_.responses.back();
    if (status == 101) {
      response.complete = over_ = true;
    } else if (status == 204 || status == 304) {
      response.complete = true;
    } else if (!codings.empty() && codings.back() == "chunked") {
      read_chunks(response);
    } else if (codings.empty() && !lengths.empty()) {
      const auto length = std::stoull(lengths.front());
      response.complete = take(response, length);
    } else {
      take(response, rest_.size());
      response.complete = over_ = true;
    }
    if (!response.complete) over_ = true;
  }

  static std::string media_type(const std::vector<std::string>& fields) {
    std::string type;
    for (const auto& field : fields) {
      const auto colon = field.find(':');
      if (colon == std::string::npos || colon == 0 || field[0] == ' ' || field[0] == '\t') continue;
      if (clean(field.substr(0, colon)) != "content-type") continue;
      const auto value = clean(field.substr(colon + 1));
      type = clean(value.substr(0, value.find(';')));
      const bool visible =
          std::all_of(type.begin(), type.end(), [](char c) { return c > 0x20 && c < 0x7F; });
      if (!visible || type.size() > 255) type.clear();
    }
    return type;
  }

  bool take(Http1Response& response, std::uint64_t count) {
    const auto size = std::min<std::uint64_t>(count, rest_.size());
    response.body += rest_.substr(0, size);
    rest_.remove_prefix(size);
    return size == count;
  }

  void read_chunks(Http1Response& response) {
    while (true) {
      const auto digits = std::min(rest_.find_first_not_of("0123456789abcdefABCDEF"), rest_.size());
      auto size = std::string(rest_.substr(0, digits));
      size.erase(0, std::min(size.find_first_not_of('0'), size.size()));
      if (size.size() > 16) return lose();
      if (digits == rest_.size()) return;
      if (digits == 0) return lose();
      rest_.remove_prefix(digits);
      if (!end_size_line()) return;
      const std::uint64_t count = size.empty() ? 0 : std::stoull(size, nullptr, 16);
      if (count == 0) return read_trailer(response);
      if (!take(response, count) || !end_data()) return;
    }
  }

  /// [BWS] [";" anything] line end.
  bool end_size_line() {
    rest_.remove_prefix(std::min(rest_.find_first_not_of(" \t"), rest_.size()));
    if (rest_.empty()) return false;
    if (rest_[0] == ';') return line().has_value();
    return end_data();
  }

  bool end_data() {
    if (rest_ == "\r" || rest_.empty()) return false;
    const std::size_t size = rest_.starts_with("\r\n") ? 2 : rest_.starts_with('\n') ? 1 : 0;
    rest_.remove_prefix(size);
    if (size == 0) lose();
    return size > 0;
  }

  void read_trailer(Http1Response& response) {
    while (true) {
      if (rest_.starts_with('\r') && rest_.size() > 1 && rest_[1] != '\n') return lose();
      const auto next = line();
      if (!next) return;
      if (next->empty()) break;
    }
    response.complete = true;
  }

  void lose() { outcome_.lost = true; }

  std::string_view rest_;
  Http1Outcome outcome_;
  bool over_ = false;
};

/// What the parser finds in the same bytes, fed in pieces; of what it took up behind a place that
/// it had lost, too.
class Http1Collector : public Http1ResponseHandler {
 public:
  void on_head(const ResponseHead& head) override {
    responses.push_back({head.status, std::string(head.content_type), {}, false});
  }
  void on_body(std::span<const std::byte> piece, std::size_t) override {
    responses.back().body.append(reinterpret_cast<const char*>(piece.data()), piece.size());
  }
  void on_body_skipped(std::uint64_t) override {}
  void on_end(bool complete) override { responses.back().complete = complete; }

  std::vector<Http1Response> responses;
};

/// Whether the parser, fed with pieces of `piece` bytes, agrees with the reference as far as that
/// can read.
inline bool agrees_with_reference(std::string_view text, std::size_t piece) {
  const Http1Outcome expected = Http1Reference(text).read();
  Http1Collector found;
  Http1ResponseParser parser;
  for (std::size_t at = 0; at < text.size(); at += piece) {
    parser.feed(std::as_bytes(std::span(text.substr(at, piece))), found);
  }
  parser.on_eof(found);
  if (found.responses.size() < expected.responses.size()) return false;
  if (!expected.lost && found.responses.size() > expected.responses.size()) return false;
  return std::equal(expected.responses.begin(), expected.responses.end(), found.responses.begin());
}

}  // namespace gcause::test
