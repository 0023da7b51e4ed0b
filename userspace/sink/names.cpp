// SPDX-License-Identifier: Apache-2.0
#include "sink/names.h"

#include <cstdlib>

namespace gcause {

// No `default`: the compiler lists what a new value lacks. A value outside the enum is a broken
// invariant of the stage that made it, so it aborts.

std::string_view name_of(StreamDirection direction) {
  switch (direction) {
    case StreamDirection::read:
      return "read";
    case StreamDirection::write:
      return "write";
  }
  std::abort();
}

std::string_view name_of(StreamProtocol protocol) {
  switch (protocol) {
    case StreamProtocol::http1:
      return "http/1.1";
    case StreamProtocol::h2:
      return "h2";
    case StreamProtocol::tls_records:
      return "tls-records";
  }
  std::abort();
}

std::string_view name_of(StreamEnd end) {
  switch (end) {
    case StreamEnd::done:
      return "done";
    case StreamEnd::eof:
      return "eof";
    case StreamEnd::reset:
      return "reset";
    case StreamEnd::timeout:
      return "timeout";
    case StreamEnd::truncated:
      return "truncated";
    case StreamEnd::open:
      return "open";
  }
  std::abort();
}

std::string_view name_of(StreamFormat format) {
  switch (format) {
    case StreamFormat::sse:
      return "sse";
    case StreamFormat::ndjson:
      return "ndjson";
  }
  std::abort();
}

std::string_view name_of(UnreadFormat format) {
  switch (format) {
    case UnreadFormat::json_array:
      return "json-array";
    case UnreadFormat::websocket:
      return "websocket";
    case UnreadFormat::amazon_event_stream:
      return "amazon-event-stream";
  }
  std::abort();
}

std::string_view name_of(Undecoded why) {
  switch (why) {
    case Undecoded::unknown_coding:
      return "unknown-coding";
    case Undecoded::malformed:
      return "malformed";
    case Undecoded::too_large:
      return "too-large";
    case Undecoded::gap:
      return "gap";
  }
  std::abort();
}

std::string_view name_of(PauseKind kind) {
  switch (kind) {
    case PauseKind::gc:
      return "gc";
    case PauseKind::stop_the_world:
      return "stop-the-world";
  }
  std::abort();
}

std::string_view name_of(PauseReason reason) {
  switch (reason) {
    case PauseReason::automatic:
      return "automatic";
    case PauseReason::manual:
      return "manual";
    case PauseReason::shutdown:
      return "shutdown";
  }
  std::abort();
}

std::string_view name_of(CollectorMethod method) {
  switch (method) {
    case CollectorMethod::usdt:
      return "usdt";
    case CollectorMethod::symbol:
      return "symbol";
    case CollectorMethod::debuginfo:
      return "debuginfo";
    case CollectorMethod::scan:
      return "scan";
  }
  std::abort();
}

std::string_view name_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::gc:
      return "gc";
    case Verdict::gc_partial:
      return "gc-partial";
    case Verdict::upstream:
      return "upstream";
    case Verdict::process:
      return "process";
  }
  std::abort();
}

std::string_view name_of(Basis basis) {
  switch (basis) {
    case Basis::arrival:
      return "arrival";
    case Basis::overlap:
      return "overlap";
  }
  std::abort();
}

}  // namespace gcause
