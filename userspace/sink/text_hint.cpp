// SPDX-License-Identifier: Apache-2.0
#include "sink/text_hint.h"

#include <algorithm>
#include <string_view>

#include "sink/text_layout.h"

namespace gcause {
namespace {

/// What pauses that have something in common were charged.
struct Harm {
  Ns charged = 0;
  std::uint64_t pauses = 0;
  Ns longest = 0;  ///< of the pauses, by wall time

  void add(const PauseRecord& pause, Ns ns) {
    charged += ns;
    ++pauses;
    longest = std::max(longest, pause.wall);
  }
};

struct Harms {
  Harm all;
  Harm descheduled;
  Harm manual;
  Harm stop_the_world;
  std::map<std::optional<std::int32_t>, Harm> by_generation;
};

Harms weigh(const ProcessReport& process) {
  Harms harms;
  for (const PauseRecord& pause : process.pauses) {
    const auto charge = process.charged.find(pause.id);
    if (charge == process.charged.end()) continue;
    const Ns ns = charge->second;
    harms.all.add(pause, ns);
    if (is_descheduled(pause)) harms.descheduled.add(pause, ns);
    if (pause.reason == PauseReason::manual) harms.manual.add(pause, ns);
    if (pause.kind == PauseKind::stop_the_world) {
      harms.stop_the_world.add(pause, ns);
    } else {
      harms.by_generation[pause.generation].add(pause, ns);
    }
  }
  return harms;
}

bool is_most(const Harm& part, const Harm& whole) { return part.charged * 2 > whole.charged; }

std::string share(const Harm& part, const Harm& whole) {
  return format_duration(part.charged) + " of the " + format_duration(whole.charged) +
         " charged, by " + counted(part.pauses, "pause", "pauses") + " of up to " +
         format_duration(part.longest);
}

std::string_view cure_for(std::optional<std::int32_t> generation, bool free_threaded) {
  if (free_threaded) {
    return "A free-threaded build walks all objects each time: gc.freeze() at the end of start-up "
           "takes the long-lived ones out, a higher first threshold makes it rarer, not shorter "
           "(see gc.freeze(), gc.set_threshold()).";
  }
  if (generation == 2) {
    return "It walks every object that lives long: gc.freeze() at the end of start-up takes those "
           "out and makes it shorter; higher thresholds make it rarer, not shorter (see "
           "gc.freeze(), gc.set_threshold()).";
  }
  if (generation == 0) {
    return "It is as long as the objects since the last one are many: a lower first threshold "
           "makes it shorter, a higher one rarer (see gc.set_threshold()).";
  }
  return "See gc.freeze() for the objects that live long, gc.set_threshold() for how often it "
         "runs.";
}

bool is_most(std::optional<Ns> waited, Ns process) { return waited && *waited * 2 > process; }

std::string of_gaps(const ProcessWaits& waits, std::uint64_t process_verdicts) {
  return format_count(waits.gaps) + " of " + counted(process_verdicts, "gap", "gaps") +
         " with the verdict process";
}

std::string of_process(const ProcessWaits& waits) {
  return format_duration(waits.waited) + " of " + format_duration(waits.process);
}

}  // namespace

bool is_descheduled(const PauseRecord& pause) {
  if (!pause.cpu) return false;
  const Ns off_cpu = pause.wall - *pause.cpu;
  return off_cpu >= 5 * kMillisecond && off_cpu * 2 > *pause.cpu;
}

bool lacked_cpu(const GapFinding& gap) {
  return gap.verdict == Verdict::process && is_most(gap.cpu_wait, gap.process);
}

bool lacked_lock(const GapFinding& gap) {
  return gap.verdict == Verdict::process && is_most(gap.lock_wait, gap.process);
}

std::string cpu_hint(const ProcessReport& process, std::uint64_t process_verdicts) {
  if (process.no_cpu.gaps == 0) return "";
  return "No CPU: in " + of_gaps(process.no_cpu, process_verdicts) +
         " the thread was ready to run, but had no CPU for " + of_process(process.no_cpu) +
         ". The cure is CPU (limits, quotas, busy neighbours), not the program.";
}

std::string lock_hint(const ProcessReport& process, std::uint64_t process_verdicts) {
  if (process.no_lock.gaps == 0) return "";
  return "No lock: in " + of_gaps(process.no_lock, process_verdicts) +
         " the thread had read the chunk and waited for the interpreter lock for " +
         of_process(process.no_lock) +
         ". Another thread computed: the cure is another process for that work.";
}

std::string reading_hint(const ProcessReport& process) {
  const Harms harms = weigh(process);
  if (harms.all.charged <= 0) return "";
  if (is_most(harms.descheduled, harms.all)) {
    return "Pauses that lost their CPU did the harm: " + share(harms.descheduled, harms.all) +
           ". Their wall time is far above their CPU time: the cure is CPU (limits, quotas, busy "
           "neighbours), not a threshold.";
  }
  if (is_most(harms.stop_the_world, harms.all)) {
    return "Stop-the-world pauses that are no collections did the harm: " +
           share(harms.stop_the_world, harms.all) + ". Thresholds do not change them.";
  }
  if (is_most(harms.manual, harms.all)) {
    return "Calls of gc.collect() did the harm: " + share(harms.manual, harms.all) +
           ". Move them to a moment without streams.";
  }
  const auto worst = std::ranges::max_element(
      harms.by_generation,
      [](const auto& a, const auto& b) { return a.second.charged < b.second.charged; });
  if (worst == harms.by_generation.end()) return "";
  const auto& [generation, harm] = *worst;
  const bool free_threaded = process.process && process.process->free_threaded == true;
  const std::string who =
      generation ? "Generation " + std::to_string(*generation) : "The collector";
  return who + " did the harm: " + share(harm, harms.all) + ". " +
         std::string(cure_for(generation, free_threaded)) +
         " Then record again, and put the two reports side by side.";
}

}  // namespace gcause
