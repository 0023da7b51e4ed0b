// SPDX-License-Identifier: Apache-2.0
#include "sink/text_report.h"

#include <algorithm>
#include <cassert>
#include <tuple>
#include <utility>

#include "sink/names.h"
#include "sink/text_bodies.h"
#include "sink/text_hint.h"
#include "sink/text_layout.h"
#include "sink/text_unread.h"
#include "sink/text_windows.h"

namespace gcause {
namespace {

constexpr std::string_view kLossCure = "give gcause more CPU or a larger --ring-size";

/// What all sections need beside the process that they tell of.
struct Page {
  const TextReport& report;
  std::size_t width;
  bool color;

  Ns budget() const { return report.session ? report.session->budget : 0; }
  std::string painted(std::string_view text, Tone tone) const { return paint(text, tone, color); }
  std::string title(std::string_view text) const { return "\n" + painted(text, Tone::bold) + "\n"; }
};

std::string quantile(std::uint64_t count, Ns value) {
  return count == 0 ? "-" : format_duration(value);
}

Tone tone_of(std::optional<Verdict> verdict) {
  if (verdict == Verdict::gc) return Tone::bad;
  if (verdict == Verdict::gc_partial || !verdict) return Tone::warning;
  return Tone::plain;
}

std::uint64_t verdict_count(const StreamTotals& summary, Verdict verdict) {
  const auto found = summary.verdicts.find(verdict);
  return found == summary.verdicts.end() ? 0 : found->second;
}

// --- who and how long

/// The end of the path tells one interpreter from another.
std::string exe_tail(std::string_view exe) {
  constexpr std::size_t kShown = 36;
  if (exe.size() <= kShown) return printable(exe, kShown);
  return "..." + printable(exe.substr(exe.size() - kShown + 3), kShown);
}

std::string process_title(const Page& page, const ProcessReport& process) {
  std::string title = "pid " + std::to_string(process.pid);
  if (process.process) {
    const ProcessFollowed& followed = *process.process;
    if (!followed.exe.empty()) title += ", " + exe_tail(followed.exe);
    if (followed.python_version) title += ", CPython " + printable(*followed.python_version, 16);
    if (followed.free_threaded == true) title += " free-threaded";
  }
  if (page.report.duration) title += ", " + format_duration(*page.report.duration) + " recorded";
  return page.painted(title, Tone::bold) + "\n";
}

// --- the answer

/// What the streams of one direction are called; nothing, where all of them are read.
std::string direction_label(const SummaryFinding& summary, StreamDirection direction) {
  if (!summary.by_direction.contains(StreamDirection::write)) return "";
  return direction == StreamDirection::write ? "written: " : "read: ";
}

std::string headline(const Page& page, const StreamTotals& summary, const std::string& label) {
  const std::string budget = label + "budget " + format_duration(page.budget());
  if (summary.gap.count == 0) {
    return page.painted(budget + " not judged", Tone::warning) + ": no chunk gaps were seen\n";
  }
  const bool kept = summary.budget_kept;
  const std::string answer = budget + (kept ? " kept" : " BROKEN");
  const std::string p99 = ": p99 of chunk gaps is " + format_duration(summary.gap.p99);
  const std::string but_for = format_duration(summary.but_for.p99);
  const std::string clause =
      kept || summary.but_for_kept
          ? "without the collector's pauses it would be " + but_for
          : "and would be broken without the collector too (" + but_for + ")";
  const std::string joint = kept || summary.but_for_kept ? ";" : ",";
  const bool fits = answer.size() + p99.size() + clause.size() + 2 <= page.width;
  return page.painted(answer, kept ? Tone::good : Tone::bad) + p99 + joint + (fits ? " " : "\n  ") +
         clause + "\n";
}

std::string verdict_line(const Page& page, const StreamTotals& summary) {
  const std::string of = format_count(summary.over_budget) + " of " +
                         counted(summary.gap.count, "gap", "gaps") + " above the budget";
  if (summary.over_budget == 0) return of + "\n";
  const auto number = [&](Verdict verdict) {
    return format_count(verdict_count(summary, verdict));
  };
  return wrap(of + ": " + number(Verdict::gc) + " caused by the collector (gc), " +
                  number(Verdict::gc_partial) + " partly (gc-partial), " +
                  number(Verdict::upstream) + " upstream, " + number(Verdict::process) + " process",
              page.width);
}

/// The answer for each direction; first for the streams that are written, as their readers wait.
std::string answers(const Page& page, const SummaryFinding& summary) {
  const auto answer = [&](const StreamTotals& totals, const std::string& label) {
    return headline(page, totals, label) +
           (totals.gap.count > 0 ? verdict_line(page, totals) : std::string());
  };
  if (summary.by_direction.empty()) return answer(summary, "");
  std::string out;
  for (auto it = summary.by_direction.rbegin(); it != summary.by_direction.rend(); ++it) {
    out += answer(it->second, direction_label(summary, it->first));
  }
  return out;
}

std::string loss_lines(const Page& page, const std::map<std::string, std::uint64_t>& lost,
                       std::string_view whose) {
  std::string out;
  for (const auto& [where, count] : lost) {
    out += wrap(counted(count, "record", "records") + std::string(whose) + " in " +
                    printable(where, 40) + "; cure: " + std::string(kLossCure),
                page.width, "lost: ");
  }
  return out;
}

std::string caveats(const Page& page, const ProcessReport& process, const SummaryFinding& summary) {
  std::string out;
  if (summary.unjudged > 0) {
    const auto all = summary.over_budget + summary.unjudged;
    out += wrap(format_count(summary.unjudged) + " of " + counted(all, "gap", "gaps") +
                    " above the budget " + (summary.unjudged == 1 ? "spans" : "span") +
                    " lost records: no verdict (" +
                    format_percent(static_cast<std::int64_t>(summary.unjudged),
                                   static_cast<std::int64_t>(all)) +
                    ")",
                page.width, "unjudged: ");
  }
  out += loss_lines(page, process.lost, "");
  out += loss_lines(page, page.report.lost, " of no known process");
  if (out.empty() && summary.lost > 0) {
    out += wrap(counted(summary.lost, "record", "records") + "; cure: " + std::string(kLossCure),
                page.width, "lost: ");
  }
  // Nearest rank: below 100 values the 99th percentile is the largest of them.
  const auto is_few = [](const StreamTotals& totals) {
    return totals.gap.count > 0 && totals.gap.count < 100;
  };
  const bool any_few = std::ranges::any_of(summary.by_direction,
                                           [&](const auto& entry) { return is_few(entry.second); });
  if (any_few || is_few(summary)) {
    out += wrap("with fewer than 100 gaps their p99 is the largest of them; record for longer",
                page.width, "few gaps: ");
  }
  return out;
}

// --- the worst gaps

const PauseRecord* find_pause(const ProcessReport& process, std::uint64_t id) {
  const auto found =
      std::lower_bound(process.pauses.begin(), process.pauses.end(), id,
                       [](const PauseRecord& pause, std::uint64_t key) { return pause.id < key; });
  return found != process.pauses.end() && found->id == id ? &*found : nullptr;
}

std::string pause_text(const ProcessReport& process, const PauseCharge& charge) {
  std::string text = "pause #" + std::to_string(charge.id);
  const PauseRecord* pause = find_pause(process, charge.id);
  if (pause == nullptr) return text + " (" + format_duration(charge.charged) + " charged)";
  if (pause->kind == PauseKind::stop_the_world) text += " stop-the-world";
  if (pause->generation) text += " gen " + std::to_string(*pause->generation);
  text += ", " + format_duration(pause->wall);
  text += pause->cpu ? " (cpu " + format_duration(*pause->cpu) + ")" : " (cpu unknown)";
  return text;
}

/// The pauses that are charged, the dearest two by name.
std::string charge_note(const ProcessReport& process, const GapFinding& gap) {
  std::vector<PauseCharge> charges = gap.pauses;
  std::ranges::sort(charges, [](const PauseCharge& a, const PauseCharge& b) {
    return std::tuple(-a.charged, a.id) < std::tuple(-b.charged, b.id);
  });
  constexpr std::size_t kNamed = 2;
  std::string text;
  for (std::size_t i = 0; i < std::min(kNamed, charges.size()); ++i) {
    if (i > 0) text += "; ";
    text += pause_text(process, charges[i]);
    const PauseRecord* pause = find_pause(process, charges[i].id);
    if (pause != nullptr && is_descheduled(*pause)) {
      text += ", descheduled: the cure is CPU, not a threshold";
    }
  }
  if (charges.size() > kNamed) text += "; and " + std::to_string(charges.size() - kNamed) + " more";
  return text;
}

void add_notes(Table& table, const ProcessReport& process, const GapFinding& gap) {
  if (!gap.pauses.empty()) {
    table.note(charge_note(process, gap));
  } else if (!gap.exonerated.empty()) {
    table.note(counted(gap.exonerated.size(), "pause", "pauses") +
               " overlapped it and held nothing back");
  }
  if (lacked_cpu(gap)) {
    table.note("runnable without a CPU for " + format_duration(*gap.cpu_wait) +
               " of the process time: the cure is CPU");
  } else if (lacked_lock(gap)) {
    table.note("waited for the interpreter lock for " + format_duration(*gap.lock_wait) +
               " of the process time: another thread computed");
  }
}

/// Seconds since the recording's start, such as "+12.345 s".
std::string since_start(const TextReport& report, Ns at) {
  const Ns ms = std::max<Ns>(at - report.start, 0) / kMillisecond;
  std::string fraction = std::to_string(ms % 1'000);
  fraction.insert(0, 3 - fraction.size(), '0');
  return "+" + std::to_string(ms / 1'000) + "." + fraction + " s";
}

std::string stream_label(const ProcessReport& process, std::uint64_t id) {
  std::string label = "#" + std::to_string(id);
  const auto found = process.streams.find(id);
  if (found == process.streams.end()) return label;
  const auto& [host, direction] = std::tie(found->second.host, found->second.direction);
  if (direction == StreamDirection::write) label += " written";
  if (host) label += " " + printable(*host, 40);
  return label;
}

std::string worst_gaps(const Page& page, const ProcessReport& process) {
  if (process.worst.empty()) return "";
  Table table({{"gap"},
               {"verdict", Align::left},
               {"but-for"},
               {"charged"},
               {"upstream"},
               {"process"},
               {"when"},
               {"stream", Align::left, true},
               {"burst"}});
  bool overlap = false;
  for (const GapFinding& gap : process.worst) {
    std::string verdict = gap.verdict ? std::string(name_of(*gap.verdict)) : "unjudged";
    if (gap.basis == Basis::overlap) {
      overlap = true;
      verdict += "*";
    }
    table.row({format_duration(gap.gap),
               {verdict, tone_of(gap.verdict)},
               format_duration(gap.but_for),
               format_duration(gap.charged),
               format_duration(gap.upstream),
               format_duration(gap.process),
               since_start(page.report, gap.from),
               stream_label(process, gap.stream),
               format_count(gap.burst)});
    add_notes(table, process, gap);
  }
  std::string out =
      page.title("worst gaps above the budget") + table.render(page.width, page.color);
  if (overlap) {
    out += wrap("when the kernel had the bytes is not known: judged by overlap alone", page.width,
                "  * ");
  }
  return out;
}

// --- pauses

std::string partial_sum(const std::string& sum, std::uint64_t known, std::uint64_t all) {
  if (known == 0) return "unknown";
  return known < all ? ">= " + sum : sum;
}

void add_generation(Table& table, const std::string& name, const PauseTotals& totals,
                    const CollectorWork& work) {
  const auto objects = static_cast<std::uint64_t>(std::max<std::int64_t>(work.collected, 0));
  table.row({name, format_count(totals.count), format_duration(totals.total),
             quantile(totals.count, totals.p50), quantile(totals.count, totals.p99),
             quantile(totals.count, totals.max),
             partial_sum(format_count(objects), work.collected_known, work.pauses),
             partial_sum(format_duration(work.cpu), work.cpu_known, work.pauses)});
}

std::string enabled_text(const CollectorSettings& gc) {
  if (!gc.enabled) return "";
  return *gc.enabled ? "enabled" : "disabled";
}

std::string thresholds_text(const CollectorSettings& gc) {
  std::string text;
  for (const auto threshold : gc.thresholds) {
    text += (text.empty() ? "thresholds " : "/") + std::to_string(threshold);
  }
  return text;
}

std::string frozen_text(const CollectorSettings& gc) {
  if (!gc.frozen) return "";
  if (*gc.frozen <= 0) return "nothing frozen";
  return counted(static_cast<std::uint64_t>(*gc.frozen), "object", "objects") + " frozen";
}

/// How the collector was set, and what is another way now.
std::string settings_line(const Page& page, const ProcessReport& process) {
  if (!process.gc) return "";
  const auto join = [](std::string& text, const std::string& part) {
    if (!part.empty()) text += (text.empty() ? "" : ", ") + part;
  };
  std::string text;
  for (const auto part : {enabled_text, thresholds_text, frozen_text}) {
    join(text, part(*process.gc));
  }
  if (text.empty()) return "";
  if (process.gc_changes > 0 && process.gc_now) {
    std::string changed;
    for (const auto part : {enabled_text, thresholds_text, frozen_text}) {
      if (part(*process.gc_now) != part(*process.gc)) join(changed, part(*process.gc_now));
    }
    text += "; changed " + counted(process.gc_changes, "time", "times") + ", now " +
            (changed.empty() ? "as before" : changed);
  }
  return wrap(text, page.width, "  collector  ");
}

std::string no_pauses(const Page& page, const ProcessReport& process) {
  return page.title("pauses") + settings_line(page, process) +
         "no pause was seen: the collector did not run. That can mean:\n" +
         wrap("the program switched it off (gc.disable()), or its thresholds are high", page.width,
              "  - ") +
         wrap("few objects that can form cycles were made in this time; record for longer",
              page.width, "  - ") +
         wrap("the probe sits in the wrong place; gcause doctor -p PID checks it", page.width,
              "  - ");
}

std::string pauses(const Page& page, const ProcessReport& process, const SummaryFinding& summary) {
  if (summary.pauses.count == 0) return no_pauses(page, process);
  Table table({{"generation", Align::left},
               {"count"},
               {"total"},
               {"p50"},
               {"p99"},
               {"max"},
               {"objects collected"},
               {"CPU"}});
  CollectorWork all;
  for (const auto& [generation, work] : process.work) {
    all.pauses += work.pauses;
    all.collected_known += work.collected_known;
    all.collected += work.collected;
    all.cpu_known += work.cpu_known;
    all.cpu += work.cpu;
  }
  const auto add = [&](const std::optional<std::int32_t>& generation, const PauseTotals& totals) {
    const auto work = process.work.find(generation);
    add_generation(table, generation ? std::to_string(*generation) : "unknown", totals,
                   work == process.work.end() ? CollectorWork{} : work->second);
  };
  for (const auto& [generation, totals] : summary.by_generation) {
    if (generation) add(generation, totals);
  }
  const auto unknown = summary.by_generation.find(std::nullopt);
  if (unknown != summary.by_generation.end()) add(std::nullopt, unknown->second);
  if (summary.by_generation.size() != 1) add_generation(table, "all", summary.pauses, all);

  std::string out = page.title("pauses") + table.render(page.width, page.color);
  if (page.report.duration && *page.report.duration > 0) {
    out += "  " + format_percent(summary.pauses.total, *page.report.duration) +
           " of the recorded time\n";
  }
  return out + process.triggers.render(page.width, page.color) + settings_line(page, process);
}

// --- streams

std::string no_streams(const Page& page, const ProcessReport& process,
                       const SummaryFinding& summary) {
  std::string out = page.title("streams");
  if (summary.tls_unread > 0) {
    return out + "no token stream could be read; there may be some in:\n" +
           unread_connections(process, summary.tls_unread, page.width);
  }
  out += "no token stream was seen. That can mean:\n";
  out += wrap(
      "no response with server-sent events was under way; a connection that was open before the "
      "attach is read from its next response on",
      page.width, "  - ");
  if (process.process && process.process->tls.empty()) {
    out += wrap(
        "no TLS library was found in this process, so only plain connections were read; gcause "
        "doctor -p PID says what was looked for",
        page.width, "  - ");
  } else {
    out += wrap(
        "the streams run through a TLS library that was not found; gcause doctor -p PID lists "
        "those that were",
        page.width, "  - ");
  }
  return out +
         wrap("another process talks to the client or the model; try -s or another -p PID",
              page.width, "  - ") +
         unread_bodies(process.bodies, page.width);
}

std::string first_chunk_text(const StreamTotals& totals) {
  if (totals.first_chunk.count == 0) return "time to first chunk unknown";
  std::string text = "first chunk p50 " + format_duration(totals.first_chunk.p50) + ", p99 " +
                     format_duration(totals.first_chunk.p99);
  if (totals.first_chunk_but_for.p99 < totals.first_chunk.p99) {
    text += " (" + format_duration(totals.first_chunk_but_for.p99) + " without pauses)";
  }
  return text;
}

std::string passed_on_text(const StreamTotals& totals) {
  return format_count(totals.since_source.count) + " of " +
         counted(totals.chunks, "chunk", "chunks") +
         " passed on from a stream that was read: " + format_duration(totals.since_source.p50) +
         " later at p50, " + format_duration(totals.since_source.p99) + " at p99";
}

/// The figures of each direction, or of nothing.
std::string stream_totals(const Page& page, const ProcessReport& process,
                          const SummaryFinding& summary) {
  std::string out;
  Table table({{"", Align::left}, {"count"}, {"p50"}, {"p90"}, {"p99"}, {"max"}});
  const auto add = [&](const std::string& name, const Distribution& values) {
    table.row({name, format_count(values.count), quantile(values.count, values.p50),
               quantile(values.count, values.p90), quantile(values.count, values.p99),
               quantile(values.count, values.max)});
  };
  const auto add_totals = [&](const StreamTotals& totals, const std::string& label,
                              const std::string& calls) {
    out += wrap(label + counted(totals.streams, "stream", "streams") + ", " +
                    counted(totals.chunks, "chunk", "chunks") + calls + "; " +
                    first_chunk_text(totals),
                page.width, "  ");
    if (totals.since_source.count > 0)
      out += wrap(label + passed_on_text(totals), page.width, "  ");
    if (totals.gap.count == 0) return;
    add(label + "gap", totals.gap);
    add(label + "but-for", totals.but_for);
  };
  for (auto it = summary.by_direction.rbegin(); it != summary.by_direction.rend(); ++it) {
    add_totals(it->second, direction_label(summary, it->first),
               in_calls(process.bodies, it->first));
  }
  if (summary.by_direction.empty()) add_totals(summary, "", "");
  if (summary.gap.count == 0) return out + "  no gaps: no stream had a second chunk\n";
  return out + table.render(page.width, page.color);
}

std::vector<const StreamRecord*> worst_streams(const ProcessReport& process) {
  std::vector<const StreamRecord*> order;
  for (const auto& [id, stream] : process.streams) order.push_back(&stream);
  std::ranges::sort(order, [](const StreamRecord* a, const StreamRecord* b) {
    return std::tuple(-a->above_budget, -a->worst_gap, a->id) <
           std::tuple(-b->above_budget, -b->worst_gap, b->id);
  });
  if (order.size() > kWorstStreams) order.resize(kWorstStreams);
  return order;
}

std::string stream_list(const Page& page, const ProcessReport& process) {
  Table table({{"stream", Align::left},
               {"", Align::left},
               {"host", Align::left, true},
               {"model", Align::left, true},
               {"chunks"},
               {"end", Align::left},
               {"above budget"},
               {"worst gap"}});
  const auto text = [](const std::optional<std::string>& value) {
    return value ? printable(*value, 60) : "-";
  };
  bool any_above = false;
  for (const StreamRecord* stream : worst_streams(process)) {
    any_above = any_above || stream->above_budget > 0;
    table.row({"#" + std::to_string(stream->id), std::string(name_of(stream->direction)),
               text(stream->host), text(stream->model), format_count(stream->chunks),
               std::string(name_of(stream->end)),
               stream->above_budget > 0 ? format_duration(stream->above_budget) : "-",
               stream->worst_gap > 0 ? format_duration(stream->worst_gap) : "-"});
  }
  return page.title(any_above ? "streams with the most gap time above the budget"
                              : "streams with the worst gaps") +
         table.render(page.width, page.color);
}

/// Streams whose end came while their thread could do nothing about it.
std::string cut_streams(const Page& page, const ProcessReport& process) {
  std::vector<const StreamRecord*> cut;
  for (const auto& [id, stream] : process.streams) {
    if (stream.cut_in_pause) cut.push_back(&stream);
  }
  if (cut.empty()) return "";
  std::ranges::sort(cut, {}, &StreamRecord::id);
  const bool one = cut.size() == 1;
  std::string text = counted(cut.size(), "stream was", "streams were") +
                     " cut off while a pause stopped " + (one ? "its thread" : "their threads") +
                     ": ";
  for (std::size_t i = 0; i < std::min(cut.size(), kWorstStreams); ++i) {
    const auto* pause = find_pause(process, *cut[i]->cut_in_pause);
    text += (i > 0 ? ", #" : "#") + std::to_string(cut[i]->id) + " (" +
            std::string(name_of(cut[i]->end));
    if (pause) text += ", pause of " + format_duration(pause->wall);
    text += ")";
  }
  if (cut.size() > kWorstStreams) text += ", ...";
  return wrap(text, page.width, "  ");
}

std::string streams(const Page& page, const ProcessReport& process, const SummaryFinding& summary) {
  if (summary.streams == 0 && process.streams.empty()) return no_streams(page, process, summary);
  std::string out =
      page.title("streams") + stream_totals(page, process, summary) + cut_streams(page, process);
  if (!process.streams.empty()) out += stream_list(page, process);
  if (summary.tls_unread > 0) {
    out += page.title("there may be more streams in") +
           unread_connections(process, summary.tls_unread, page.width);
  }
  return out + unread_bodies(process.bodies, page.width);
}

std::string section(const Page& page, const ProcessReport& process) {
  std::string out = process_title(page, process);
  if (!process.summary) {
    return out + loss_lines(page, process.lost, "") +
           "no summary: the recording was cut off before this process was judged\n";
  }
  const SummaryFinding& summary = *process.summary;
  out += answers(page, summary);
  out += caveats(page, process, summary);
  out += budget_over_time(page.report, process, page.width, page.color);
  out += worst_gaps(page, process);
  std::string hints;
  if (verdict_count(summary, Verdict::gc) > 0) {
    const std::string hint = reading_hint(process);
    if (!hint.empty()) hints += wrap(hint, page.width, "  ");
  }
  for (const auto hint : {cpu_hint, lock_hint}) {
    const std::string text = hint(process, verdict_count(summary, Verdict::process));
    if (!text.empty()) hints += wrap(text, page.width, "  ");
  }
  if (!hints.empty()) out += page.title("what to do") + hints;
  return out + pauses(page, process, summary) + streams(page, process, summary);
}

}  // namespace

std::string render_report(TextReport& report, std::size_t width, bool color) {
  if (report.processes.empty()) return "no process was recorded\n";
  for (ProcessReport& process : report.processes) {
    std::ranges::sort(process.pauses, {}, &PauseRecord::id);
  }
  const Page page{report, width, color};
  std::string out;
  for (const ProcessReport& process : report.processes) {
    if (!out.empty()) out += "\n" + std::string(width, '-') + "\n\n";
    out += section(page, process);
  }
  return out;
}

}  // namespace gcause
