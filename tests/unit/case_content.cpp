// SPDX-License-Identifier: Apache-2.0
#include "case_content.h"

namespace gcause::test {
namespace {

std::span<const std::byte> as_span(const std::string& bytes) {
  return std::as_bytes(std::span(bytes));
}

}  // namespace

void CaseContent::begin() {
  responses_ = Http1ResponseParser(Http1ResponseParser::Start::unknown);
  frames_ = Http2Parser();
  bodies_.clear();
}

void CaseContent::wrote(const std::string& bytes) {
  if (http2_) frames_.feed(StreamDirection::write, as_span(bytes), *this);
}

void CaseContent::read(const std::string& bytes) {
  if (http2_) {
    frames_.feed(StreamDirection::read, as_span(bytes), *this);
  } else {
    responses_.feed(as_span(bytes), *this);
  }
}

void CaseContent::ended() {
  if (http2_) {
    frames_.on_eof(*this);
  } else {
    responses_.on_eof(*this);
  }
}

void CaseContent::open(std::uint32_t key, std::string_view type, std::string_view codings) {
  const bool lines = type == "application/x-ndjson";
  if (!lines && type != kEventStream) return;
  bodies_.insert_or_assign(key, Body{streams_.size(), lines, ContentDecoder::make(codings)});
  streams_.emplace_back();
}

void CaseContent::add(std::uint32_t key, std::span<const std::byte> piece) {
  const auto found = bodies_.find(key);
  if (found == bodies_.end() || !found->second.decoder) return;
  Body& body = found->second;
  auto& data = streams_[body.stream];
  body.decoder->feed(piece, [&](std::span<const std::byte> text) {
    if (body.lines) {
      body.ndjson.feed(text, [&](const NdjsonParser::Line& line) { data.emplace_back(line.data); });
    } else {
      body.events.feed(text, [&](const SseParser::Event& event) { data.emplace_back(event.data); });
    }
  });
}

void CaseContent::skip(std::uint32_t key, std::uint64_t count) {
  const auto found = bodies_.find(key);
  if (found == bodies_.end()) return;
  found->second.events.skip(count);
  found->second.ndjson.skip(count);
}

}  // namespace gcause::test
