// SPDX-License-Identifier: Apache-2.0
#include "session/pipeline.h"

#include "util/overloaded.h"

namespace gcause {

void Pipeline::handle(const Event& event) {
  std::visit(Overloaded{
                 [&](const Io& e) { streams_.io(e); },
                 [&](const Arrival& e) { streams_.arrival(e); },
                 [&](const Wait& e) { streams_.wait(e); },
                 [&](const LockSlept& e) { streams_.lock_slept(e); },
                 [&](const SocketSeen& e) { streams_.socket_seen(e); },
                 [&](const SocketClosed& e) { streams_.socket_closed(e); },
                 [&](const TlsFreed& e) { streams_.tls_freed(e); },
                 [&](const TlsCaller& e) { streams_.tls_caller(e); },
                 [&](const CollectionBegin& e) { pauses_.begin(e); },
                 [&](const CollectionEnd& e) { pauses_.end(e); },
                 [&](const TriggerSeen& e) { pauses_.trigger(e); },
                 [&](const WorldStopping& e) { pauses_.world_stopping(e); },
                 [&](const WorldStarted& e) { pauses_.world_started(e); },
                 [&](const ProcessExit& e) { end_process(e.pid, e.at); },
                 [&](const ProcessExec& e) { end_process(e.pid, e.at); },
                 [&](const ProcessFork&) {},
                 [&](const RecordsLost& e) {
                   pauses_.records_lost();
                   streams_.records_lost();
                   timeline_.consume(Lost{std::nullopt, e.where, e.count, e.from, e.to});
                 },
             },
             event);
}

void Pipeline::end_process(std::uint32_t pid, Ns at) {
  pauses_.process_ended(pid);
  streams_.process_ended(pid, at);
  timeline_.consume(ProcessEnded{at, pid});
}

void Pipeline::finish(Ns at) {
  streams_.finish(at);
  timeline_.consume(RecordingEnded{at});
}

}  // namespace gcause
