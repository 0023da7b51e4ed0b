// SPDX-License-Identifier: Apache-2.0
#include "attribution/attribution.h"

#include "attribution/process.h"
#include "util/overloaded.h"

namespace gcause {
Verdict judge(const GapFinding& gap, Ns budget) {
  if (gap.but_for <= budget) return Verdict::gc;
  if (10 * gap.charged >= gap.gap) return Verdict::gc_partial;
  return gap.upstream >= gap.process ? Verdict::upstream : Verdict::process;
}

Attribution::Attribution(FindingHandler handler, std::optional<Ns> budget)
    : handler_(std::move(handler)), budget_override_(budget) {
  if (budget) budget_ = *budget;
}

Attribution::~Attribution() = default;

Attribution::Process& Attribution::process(std::uint32_t pid) {
  auto& process = processes_[pid];
  if (!process) process = std::make_unique<Process>(pid, handler_, budget_, progress_);
  return *process;
}

void Attribution::consume(const TimelineEvent& event) {
  std::visit(Overloaded{
                 [&](SessionStarted session) {
                   if (budget_override_) session.budget = *budget_override_;
                   budget_ = session.budget;
                   handler_(session);
                 },
                 [&](const ProcessFollowed& followed) {
                   process(followed.pid).followed(followed);
                   handler_(followed);
                 },
                 [&](const SettingsChanged& settings) { handler_(settings); },
                 [&](const InterpreterFound& e) { process(e.pid).interpreter_found(e); },
                 [&](const ThreadFound& e) { process(e.pid).thread_found(e); },
                 [&](const TlsLibraryProbed& library) { handler_(library); },
                 [&](const TlsReaderFound& e) { process(e.pid).tls_reader_found(e); },
                 [&](const TlsUnread& e) { process(e.pid).tls_unread(e); },
                 [&](const PauseBegan& pause) { process(pause.pid).pause_began(pause); },
                 [&](const PauseEnded& pause) { process(pause.pid).pause_ended(pause); },
                 [&](const StreamBegan& stream) { process(stream.pid).stream_began(stream); },
                 [&](const ChunkRead& chunk) { process(chunk.pid).chunk_read(chunk); },
                 [&](const StreamEnded& stream) { process(stream.pid).stream_ended(stream); },
                 [&](const StreamUnread& stream) { handler_(stream); },
                 [&](const WaitBegan& wait) { process(wait.pid).wait_began(wait); },
                 [&](const LockWaited& lock) { process(lock.pid).lock_waited(lock); },
                 [&](const Lost& lost) {
                   progress_.lost += lost.count;
                   for (auto& [pid, process] : processes_) {
                     if (!lost.pid || *lost.pid == pid) process->lost(lost);
                   }
                   handler_(lost);
                 },
                 [&](const ProcessEnded& ended) { process(ended.pid).flush(ended.at); },
                 [&](const RecordingEnded& ended) {
                   for (auto& [pid, process] : processes_) process->flush(ended.at);
                   handler_(ended);
                 },
             },
             event);
}

void Attribution::finish() {
  for (auto& [pid, process] : processes_) process->end_windows();
  for (auto& [pid, process] : processes_) handler_(process->summary());
}

}  // namespace gcause
