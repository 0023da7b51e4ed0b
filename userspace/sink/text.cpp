// SPDX-License-Identifier: Apache-2.0
#include "sink/text.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "sink/text_bodies.h"
#include "sink/text_hint.h"

namespace gcause {
namespace {

bool is_worse(const GapFinding& a, const GapFinding& b) {
  return std::tuple(-a.gap, a.from, a.stream, a.index) <
         std::tuple(-b.gap, b.from, b.stream, b.index);
}

void keep_if_among_worst(std::vector<GapFinding>& worst, const GapFinding& gap) {
  if (worst.size() == kWorstGaps && !is_worse(gap, worst.back())) return;
  worst.insert(std::upper_bound(worst.begin(), worst.end(), gap, is_worse), gap);
  if (worst.size() > kWorstGaps) worst.pop_back();
}

}  // namespace

TextSink::TextSink(Output output, TextOptions options)
    : output_(std::move(output)), options_(options) {}

void TextSink::write(const Finding& finding) {
  std::visit([this](const auto& value) { add(value); }, finding);
}

Result<> TextSink::finish() {
  report_.start = first_.value_or(0);
  report_.duration = options_.duration;
  if (!report_.duration && last_ && *last_ > report_.start) {
    report_.duration = *last_ - report_.start;
  }
  const auto width = static_cast<std::size_t>(std::clamp(options_.width, 80, 100));
  output_.write(render_report(report_, width, options_.color));
  return output_.finish();
}

void TextSink::add(const SessionStarted& session) { report_.session = session; }

void TextSink::add(const SettingsChanged& change) {
  saw(change.at);
  if (change.interpreter != 0) return;
  ProcessReport& report = of(change.pid);
  if (!report.gc) {
    report.gc = change.gc;
    return;
  }
  report.gc_now = change.gc;
  ++report.gc_changes;
}

void TextSink::add(const ProcessFollowed& process) {
  saw(process.seen_from);
  const auto known = current_.find(process.pid);
  if (known != current_.end()) {
    const auto& before = report_.processes[known->second].process;
    if (before && before->start_ticks != process.start_ticks) current_.erase(known);
  }
  ProcessReport& report = of(process.pid);
  report.process = process;
  report.gc = process.gc;
  report.gc_now.reset();
  report.gc_changes = 0;
}

void TextSink::add(const PauseFinding& finding) {
  const PauseEnded& pause = finding.pause;
  saw(pause.begin);
  saw(pause.end);
  ProcessReport& report = of(pause.pid);
  report.pauses.push_back(PauseRecord{pause.id, pause.end - pause.begin, pause.cpu,
                                      pause.generation, pause.kind, pause.reason});
  report.triggers.add(pause);
  CollectorWork& work = report.work[pause.generation];
  ++work.pauses;
  if (pause.collected) {
    ++work.collected_known;
    work.collected += *pause.collected;
  }
  if (pause.cpu) {
    ++work.cpu_known;
    work.cpu += *pause.cpu;
  }
}

void TextSink::add(const StreamFinding& stream) {
  saw(stream.ended.at);
  StreamRecord& record = of(stream.began.pid).streams[stream.began.id];
  record.id = stream.began.id;
  record.direction = stream.began.direction;
  record.host = stream.began.host ? stream.began.host : stream.began.peer;
  record.model = stream.ended.model;
  record.chunks = stream.chunks;
  record.end = stream.ended.end;
  record.cut_in_pause = stream.cut_in_pause;
  add_body(of(stream.began.pid).bodies, stream);
}

void TextSink::add(const StreamUnread& stream) {
  saw(stream.end);
  add_body(of(stream.pid).bodies, stream);
}

void TextSink::add(const ChunkFinding& chunk) { saw(chunk.delivery); }

void TextSink::add(const GapFinding& gap) {
  saw(gap.to);
  ProcessReport& report = of(gap.pid);
  StreamRecord& stream = report.streams[gap.stream];
  stream.id = gap.stream;
  stream.worst_gap = std::max(stream.worst_gap, gap.gap);
  if (!gap.over_budget) return;

  const Ns budget = report_.session ? report_.session->budget : 0;
  stream.above_budget += std::max<Ns>(gap.gap - budget, 0);
  keep_if_among_worst(report.worst, gap);
  if (lacked_cpu(gap)) {
    report.no_cpu.add(gap.process, *gap.cpu_wait);
  } else if (lacked_lock(gap)) {
    report.no_lock.add(gap.process, *gap.lock_wait);
  }
  const bool convicts = gap.verdict == Verdict::gc || gap.verdict == Verdict::gc_partial;
  if (!convicts) return;
  for (const PauseCharge& charge : gap.pauses) report.charged[charge.id] += charge.charged;
}

void TextSink::add(const Lost& lost) {
  saw(lost.to);
  auto& counts = lost.pid ? of(*lost.pid).lost : report_.lost;
  counts[lost.where] += lost.count;
}

void TextSink::add(const WindowFinding& window) {
  saw(window.to);
  if (window.budget_kept != false) return;
  of(window.pid).broken[{window.direction, window.length()}].push_back(window);
}

void TextSink::add(const SummaryFinding& summary) { of(summary.pid).summary = summary; }

void TextSink::add(const TlsLibraryProbed& probed) {
  saw(probed.at);
  auto& process = of(probed.pid).process;
  if (process) process->tls.push_back(probed.library);
}

void TextSink::add(const TlsUnreadFinding& finding) {
  saw(finding.connection.end);
  auto& unread = of(finding.connection.pid).unread;
  const auto more = [](const TlsUnreadFinding& a, const TlsUnreadFinding& b) {
    return std::tuple(a.connection.records, b.connection.begin) >
           std::tuple(b.connection.records, a.connection.begin);
  };
  unread.insert(std::upper_bound(unread.begin(), unread.end(), finding, more), finding);
  if (unread.size() > kUnreadShown) unread.pop_back();
}

ProcessReport& TextSink::of(std::uint32_t pid) {
  const auto [entry, is_new] = current_.try_emplace(pid, report_.processes.size());
  if (is_new) report_.processes.emplace_back().pid = pid;
  return report_.processes[entry->second];
}

void TextSink::saw(Ns instant) {
  first_ = std::min(first_.value_or(instant), instant);
  last_ = std::max(last_.value_or(instant), instant);
}

}  // namespace gcause
