// SPDX-License-Identifier: Apache-2.0
#include "sink/jsonl.h"

#include <algorithm>
#include <charconv>
#include <concepts>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "sink/names.h"

namespace gcause {
namespace {

// With --chunks a busy gateway makes tens of thousands of lines a second, most of them numbers. So
// the objects are put together by hand, and nlohmann only escapes text that needs it.

void put(std::string& out, std::nullptr_t) { out += "null"; }

void put(std::string& out, std::same_as<bool> auto value) { out += value ? "true" : "false"; }

template <typename T>
requires(std::integral<T> && !std::same_as<T, bool>) void put(std::string& out, T value) {
  char digits[24];
  out.append(digits, std::to_chars(digits, digits + sizeof digits, value).ptr);
}

/// A share, with six digits behind the point.
void put(std::string& out, double value) {
  char digits[32];
  const auto end =
      std::to_chars(digits, digits + sizeof digits, value, std::chars_format::fixed, 6).ptr;
  out.append(digits, end);
}

bool is_plain(std::string_view text) {
  return std::ranges::all_of(text,
                             [](char c) { return c >= 0x20 && c < 0x7f && c != '"' && c != '\\'; });
}

void put(std::string& out, std::string_view text) {
  if (is_plain(text)) {
    out += '"';
    out += text;
    out += '"';
  } else {
    out += nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  }
}

void put(std::string& out, const std::string& text) { put(out, std::string_view(text)); }

template <typename T>
requires(std::is_enum_v<T>) void put(std::string& out, T value) { put(out, name_of(value)); }

template <typename T>
void put(std::string& out, const std::optional<T>& value) {
  if (value) {
    put(out, *value);
  } else {
    put(out, nullptr);
  }
}

/// Text that the target did not give is empty in some findings; in the output it is null.
std::optional<std::string_view> known(const std::string& text) {
  if (text.empty()) return std::nullopt;
  return text;
}

/// Writes one object; the closing brace comes with the end of its life.
class Object {
 public:
  explicit Object(std::string& out) : out_(out) { out_ += '{'; }
  Object(std::string& out, std::string_view type) : Object(out) { field("type", type); }
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;
  ~Object() { out_ += '}'; }

  template <typename T>
  Object& field(std::string_view key, const T& value) {
    begin(key);
    put(out_, value);
    return *this;
  }

  /// A field whose value `write` appends, as an object or a list.
  template <typename Write>
  Object& nested(std::string_view key, Write write) {
    begin(key);
    write(out_);
    return *this;
  }

  template <typename Item, typename Write>
  Object& list(std::string_view key, const std::vector<Item>& items, Write write) {
    begin(key);
    out_ += '[';
    bool first = true;
    for (const Item& item : items) {
      if (!first) out_ += ',';
      first = false;
      write(out_, item);
    }
    out_ += ']';
    return *this;
  }

 private:
  void begin(std::string_view key) {
    if (!first_) out_ += ',';
    first_ = false;
    put(out_, key);
    out_ += ':';
  }

  std::string& out_;
  bool first_ = true;
};

/// A quantile of nothing is not known.
std::optional<Ns> unless_empty(std::uint64_t count, Ns value) {
  if (count == 0) return std::nullopt;
  return value;
}

void put_distribution(std::string& out, const Distribution& values) {
  Object(out)
      .field("count", values.count)
      .field("p50_ns", unless_empty(values.count, values.p50))
      .field("p90_ns", unless_empty(values.count, values.p90))
      .field("p99_ns", unless_empty(values.count, values.p99))
      .field("max_ns", unless_empty(values.count, values.max));
}

void put_pause_totals(Object& object, const PauseTotals& totals) {
  object.field("count", totals.count)
      .field("total_ns", totals.total)
      .field("max_ns", unless_empty(totals.count, totals.max))
      .field("p50_ns", unless_empty(totals.count, totals.p50))
      .field("p99_ns", unless_empty(totals.count, totals.p99));
}

void put_line(std::string& out, const SessionStarted& session) {
  Object(out, "session")
      .field("schema", 1)
      .field("version", session.version)
      .field("monotonic_ns", session.monotonic)
      .field("wall_ns", session.wall)
      .field("budget_ns", session.budget)
      .field("kernel", known(session.kernel))
      .nested("features", [&](std::string& into) {
        Object features(into);
        for (const auto& [name, present] : session.features) features.field(name, present);
      });
}

void put_three(std::string& out, const std::vector<std::int64_t>& values) {
  if (values.empty()) return put(out, nullptr);
  for (std::size_t i = 0; i < values.size(); ++i) {
    out += i == 0 ? '[' : ',';
    put(out, values[i]);
  }
  out += ']';
}

void put_settings(Object& object, const CollectorSettings& settings) {
  object.field("enabled", settings.enabled)
      .nested("thresholds", [&](std::string& into) { put_three(into, settings.thresholds); })
      .nested("counts", [&](std::string& into) { put_three(into, settings.counts); })
      .field("frozen", settings.frozen);
}

void put_gc(std::string& out, const std::optional<CollectorSettings>& settings) {
  if (!settings) return put(out, nullptr);
  Object object(out);
  put_settings(object, *settings);
}

void put_trigger(std::string& out, const std::optional<Trigger>& trigger) {
  if (!trigger) return put(out, nullptr);
  Object(out)
      .field("file", trigger->file)
      .field("line", trigger->line)
      .field("function", trigger->function);
}

void put_line(std::string& out, const SettingsChanged& change) {
  Object object(out, "settings");
  object.field("pid", change.pid)
      .field("interpreter", change.interpreter)
      .field("at_ns", change.at);
  put_settings(object, change.gc);
}

void put_library(std::string& out, const TlsLibrary& library) {
  Object(out)
      .field("object", library.object)
      .list("functions", library.functions,
            [](std::string& item, const std::string& name) { put(item, name); });
}

void put_line(std::string& out, const TlsLibraryProbed& probed) {
  Object(out, "tls_library")
      .field("pid", probed.pid)
      .field("at_ns", probed.at)
      .nested("tls", [&](std::string& into) { put_library(into, probed.library); });
}

void put_line(std::string& out, const TlsUnreadFinding& finding) {
  const TlsUnread& connection = finding.connection;
  Object(out, "tls_unread")
      .field("pid", connection.pid)
      .field("fd", connection.fd)
      .field("peer", connection.peer)
      .field("library", finding.library)
      .field("begin_ns", connection.begin)
      .field("end_ns", connection.end)
      .field("records", connection.records)
      .field("bytes", connection.bytes)
      .field("longest_silence_ns", connection.longest_silence)
      .field("longest_unread_ns", connection.longest_unread)
      .field("stream", connection.stream);
}

void put_line(std::string& out, const ProcessFollowed& process) {
  Object(out, "process")
      .field("pid", process.pid)
      .field("start_ticks", process.start_ticks)
      .field("exe", known(process.exe))
      .nested("python",
              [&](std::string& into) {
                Object(into)
                    .field("version", process.python_version)
                    .field("free_threaded", process.free_threaded);
              })
      .nested("collector",
              [&](std::string& into) {
                Object(into)
                    .field("method", process.collector_method)
                    .field("object", known(process.collector_object))
                    .field("symbol", known(process.collector_symbol))
                    .field("address", process.collector_address);
              })
      .nested("gc", [&](std::string& into) { put_gc(into, process.gc); })
      .list("tls", process.tls, put_library)
      .field("seen_from_ns", process.seen_from);
}

/// Not a line of the contract: is_wanted keeps it out.
void put_line(std::string&, const RecordingEnded&) {}

void put_line(std::string& out, const PauseFinding& finding) {
  const PauseEnded& pause = finding.pause;
  Object(out, "pause")
      .field("id", pause.id)
      .field("pid", pause.pid)
      .field("tid", pause.tid)
      .field("interpreter", pause.interpreter)
      .field("kind", pause.kind)
      .field("generation", pause.generation)
      .field("reason", pause.reason)
      .field("begin_ns", pause.begin)
      .field("end_ns", pause.end)
      .field("duration_ns", pause.end - pause.begin)
      .field("cpu_ns", pause.cpu)
      .field("collected", pause.collected)
      .field("uncollectable", pause.uncollectable)
      .nested("trigger", [&](std::string& into) { put_trigger(into, pause.trigger); })
      .list("world_stops", pause.world_stops, [](std::string& into, const WorldStop& stop) {
        Object(into).field("begin_ns", stop.begin).field("end_ns", stop.end);
      });
}

void put_events(std::string& out, const std::optional<BodySeen>& body) {
  if (!body) return put(out, nullptr);
  Object events(out);
  for (const EventCount& event : body->events) events.field(event.name, event.count);
}

/// Recordings of earlier versions do not have it.
void put_body(Object& line, const std::optional<BodySeen>& body) {
  const auto part = [&](auto BodySeen::*field) {
    return body ? std::optional(body.value().*field) : std::nullopt;
  };
  const auto instant = [&](std::optional<Ns> BodySeen::*field) {
    return body ? body.value().*field : std::nullopt;
  };
  line.nested("events", [&](std::string& into) { put_events(into, body); })
      .field("truncated_events", part(&BodySeen::truncated))
      .field("reads", part(&BodySeen::reads))
      .field("first_read_ns", instant(&BodySeen::first_read))
      .field("last_read_ns", instant(&BodySeen::last_read))
      .field("longest_silence_ns", part(&BodySeen::longest_silence))
      .field("undecoded", body ? body->undecoded : std::nullopt);
}

void put_line(std::string& out, const StreamFinding& stream) {
  const auto first = [&](Ns FirstChunk::*part) {
    return stream.first_chunk ? std::optional(stream.first_chunk.value().*part) : std::nullopt;
  };
  Object line(out, "stream");
  line.field("id", stream.began.id)
      .field("pid", stream.began.pid)
      .field("direction", stream.began.direction)
      .field("peer", stream.began.peer)
      .field("host", stream.began.host)
      .field("model", stream.ended.model)
      .field("tls", stream.began.tls)
      .field("protocol", stream.began.protocol)
      .field("begin_ns", stream.began.begin)
      .field("first_chunk_ns", first(&FirstChunk::time))
      .field("first_chunk_upstream_ns", first(&FirstChunk::upstream))
      .field("first_chunk_charged_ns", first(&FirstChunk::charged))
      .field("first_chunk_process_ns", first(&FirstChunk::process))
      .field("first_chunk_but_for_ns", first(&FirstChunk::but_for))
      .field("end_ns", stream.ended.at)
      .field("chunks", stream.chunks)
      .field("comments", stream.ended.comments)
      .field("bytes", stream.ended.bytes)
      .field("end", stream.ended.end)
      .field("cut_ns", stream.ended.cut)
      .field("cut_in_pause", stream.cut_in_pause)
      .field("format", stream.began.format)
      .field("content_type", known(stream.began.content_type))
      .field("content_coding", known(stream.began.content_coding));
  put_body(line, stream.ended.body);
}

void put_line(std::string& out, const StreamUnread& stream) {
  Object(out, "unread")
      .field("pid", stream.pid)
      .field("direction", stream.direction)
      .field("peer", stream.peer)
      .field("host", stream.host)
      .field("tls", stream.tls)
      .field("protocol", stream.protocol)
      .field("format", stream.format)
      .field("content_type", known(stream.content_type))
      .field("begin_ns", stream.begin)
      .field("end_ns", stream.end)
      .field("reads", stream.reads)
      .field("bytes", stream.bytes);
}

void put_source(std::string& out, const ChunkRead& chunk) {
  const auto& source = chunk.source;
  if (!source) return put(out, nullptr);
  Object(out).field("stream", source->stream).field("index", source->index);
}

void put_line(std::string& out, const ChunkFinding& finding) {
  const ChunkRead& chunk = finding.chunk;
  Object(out, "chunk")
      .field("stream", chunk.stream)
      .field("index", chunk.index)
      .field("pid", chunk.pid)
      .field("tid", chunk.tid)
      .field("bytes", chunk.bytes)
      .field("arrival_ns", chunk.arrival)
      .field("read_ns", chunk.read)
      .field("delivery_ns", finding.delivery)
      .field("held_ns", finding.held)
      .nested("source", [&](std::string& into) { put_source(into, finding.chunk); })
      .field("since_source_ns", finding.since_source);
}

void put_line(std::string& out, const GapFinding& gap) {
  Object(out, "gap")
      .field("stream", gap.stream)
      .field("index", gap.index)
      .field("pid", gap.pid)
      .field("from_ns", gap.from)
      .field("to_ns", gap.to)
      .field("gap_ns", gap.gap)
      .field("upstream_ns", gap.upstream)
      .field("charged_ns", gap.charged)
      .field("process_ns", gap.process)
      .field("cpu_wait_ns", gap.cpu_wait)
      .field("lock_wait_ns", gap.lock_wait)
      .field("but_for_ns", gap.but_for)
      .field("held_ns", gap.held)
      .field("over_budget", gap.over_budget)
      .field("verdict", gap.verdict)
      .field("basis", gap.basis)
      .list("pauses", gap.pauses,
            [](std::string& into, const PauseCharge& pause) {
              Object(into).field("id", pause.id).field("charged_ns", pause.charged);
            })
      .list("exonerated", gap.exonerated,
            [](std::string& into, std::uint64_t id) { put(into, id); })
      .field("burst", gap.burst);
}

void put_line(std::string& out, const Lost& lost) {
  Object(out, "lost")
      .field("pid", lost.pid)
      .field("where", lost.where)
      .field("count", lost.count)
      .field("from_ns", lost.from)
      .field("to_ns", lost.to);
}

void put_pauses(std::string& out, const SummaryFinding& summary) {
  Object pauses(out);
  put_pause_totals(pauses, summary.pauses);
  pauses.nested("by_generation", [&](std::string& into) {
    Object generations(into);
    for (const auto& [generation, totals] : summary.by_generation) {
      const std::string key = generation ? std::to_string(*generation) : "unknown";
      generations.nested(key, [&totals = totals](std::string& inner) {
        Object object(inner);
        put_pause_totals(object, totals);
      });
    }
  });
}

void put_verdicts(std::string& out, const StreamTotals& summary) {
  Object verdicts(out);
  for (const Verdict verdict :
       {Verdict::gc, Verdict::gc_partial, Verdict::upstream, Verdict::process}) {
    const auto found = summary.verdicts.find(verdict);
    verdicts.field(name_of(verdict), found == summary.verdicts.end() ? 0 : found->second);
  }
}

void put_line(std::string& out, const WindowFinding& window) {
  Object(out, "window")
      .field("pid", window.pid)
      .field("window_ns", window.length())
      .field("from_ns", window.from)
      .field("to_ns", window.to)
      .field("gaps", window.gaps)
      .field("p99_ns", unless_empty(window.gaps, window.p99))
      .field("but_for_p99_ns", unless_empty(window.gaps, window.but_for_p99))
      .field("budget_kept", window.budget_kept)
      .field("but_for_kept", window.but_for_kept)
      .field("direction", window.direction);
}

void put_worst(std::string& out, const std::optional<WindowFinding>& worst) {
  if (!worst) return put(out, nullptr);
  Object(out)
      .field("from_ns", worst->from)
      .field("to_ns", worst->to)
      .field("p99_ns", worst->p99)
      .field("but_for_p99_ns", worst->but_for_p99);
}

void put_window_totals(std::string& out, const WindowTotals& windows) {
  Object(out)
      .field("window_ns", windows.length)
      .field("count", windows.count)
      .field("few_gaps", windows.few)
      .field("broken", windows.broken)
      .field("broken_by_collector", windows.broken_by_collector)
      .nested("worst", [&](std::string& into) { put_worst(into, windows.worst); })
      .field("direction", windows.direction);
}

/// What the summary says of all streams, and then of those of each direction.
void put_totals(Object& object, const StreamTotals& totals) {
  const auto distribution = [](const Distribution& values) {
    return [&values](std::string& into) { put_distribution(into, values); };
  };
  object.field("streams", totals.streams)
      .field("chunks", totals.chunks)
      .nested("gap", distribution(totals.gap))
      .nested("but_for", distribution(totals.but_for))
      .nested("first_chunk", distribution(totals.first_chunk))
      .nested("first_chunk_but_for", distribution(totals.first_chunk_but_for))
      .nested("verdicts", [&](std::string& into) { put_verdicts(into, totals); })
      .field("over_budget", totals.over_budget)
      .field("budget_kept", totals.budget_kept)
      .field("but_for_kept", totals.but_for_kept)
      .field("unjudged", totals.unjudged)
      .field("unjudged_share", totals.unjudged_share())
      .field("gaps_with_loss", totals.gaps_with_loss);
}

void put_directions(std::string& out, const SummaryFinding& summary) {
  Object directions(out);
  for (const auto& [direction, totals] : summary.by_direction) {
    directions.nested(name_of(direction), [&totals = totals](std::string& into) {
      Object object(into);
      put_totals(object, totals);
      object.nested("since_source",
                    [&](std::string& inner) { put_distribution(inner, totals.since_source); });
    });
  }
}

void put_line(std::string& out, const SummaryFinding& summary) {
  Object object(out, "summary");
  object.field("pid", summary.pid).nested("pauses", [&](std::string& into) {
    put_pauses(into, summary);
  });
  put_totals(object, summary);
  object.field("lost", summary.lost)
      .field("tls_unread", summary.tls_unread)
      .list("windows", summary.windows, put_window_totals)
      .nested("by_direction", [&](std::string& into) { put_directions(into, summary); });
}

bool is_wanted(const Finding& finding, const JsonlOptions& options) {
  if (std::holds_alternative<RecordingEnded>(finding)) return false;
  if (options.chunks) return true;
  if (std::holds_alternative<ChunkFinding>(finding)) return false;
  if (const auto* window = std::get_if<WindowFinding>(&finding)) return window->changed;
  const auto* gap = std::get_if<GapFinding>(&finding);
  return gap == nullptr || gap->over_budget;
}

/// The lines that a reader of a pipe waits for; the rest may stay in the buffer for a while.
bool is_milestone(const Finding& finding) {
  return std::holds_alternative<SessionStarted>(finding) ||
         std::holds_alternative<ProcessFollowed>(finding) ||
         std::holds_alternative<SummaryFinding>(finding);
}

}  // namespace

JsonlSink::JsonlSink(Output output, JsonlOptions options)
    : output_(std::move(output)), options_(options) {}

void JsonlSink::write(const Finding& finding) {
  if (!is_wanted(finding, options_)) return;
  line_.clear();
  std::visit([this](const auto& value) { put_line(line_, value); }, finding);
  line_ += '\n';
  output_.write(line_);
  if (is_milestone(finding)) output_.flush();
}

void JsonlSink::flush() { output_.flush(); }

Result<> JsonlSink::finish() { return output_.finish(); }

}  // namespace gcause
