// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "recording/timeline.h"

namespace gcause {

// The fields of each event, in the order of the file: the one place that knows it. New fields go to
// the end of their event, behind `more`: older files do not have them. `archive` is a Writer or a
// Reader. Writer takes the event by the same reference and only reads it.

template <typename Archive>
void fields(Archive& archive, SessionStarted& e) {
  archive(e.version)(e.monotonic)(e.wall)(e.budget)(e.kernel)(e.features);
}

template <typename Archive>
void fields(Archive& archive, TlsLibrary& e) {
  archive(e.object)(e.functions);
}

template <typename Archive>
void fields(Archive& archive, CollectorSettings& e) {
  archive(e.enabled)(e.thresholds)(e.counts)(e.frozen);
}

template <typename Archive>
void fields(Archive& archive, SettingsChanged& e) {
  archive(e.at)(e.pid)(e.interpreter)(e.gc);
}

template <typename Archive>
void fields(Archive& archive, Trigger& e) {
  archive(e.file)(e.line)(e.function);
}

template <typename Archive>
void fields(Archive& archive, WorldStop& e) {
  archive(e.begin)(e.end);
}

template <typename Archive>
void fields(Archive& archive, ProcessFollowed& e) {
  archive(e.pid)(e.start_ticks)(e.exe)(e.python_version)(e.free_threaded)(e.collector_method)(
      e.collector_object)(e.collector_symbol)(e.collector_address)(e.tls)(e.seen_from);
  if (archive.more()) archive(e.gc);
}

template <typename Archive>
void fields(Archive& archive, PauseBegan& e) {
  archive(e.at)(e.pid)(e.tid);
  if (archive.more()) archive(e.kind);
}

template <typename Archive>
void fields(Archive& archive, PauseEnded& e) {
  archive(e.id)(e.pid)(e.tid)(e.interpreter)(e.kind)(e.generation)(e.reason)(e.begin)(e.end)(e.cpu)(
      e.collected);
  if (archive.more()) archive(e.uncollectable)(e.trigger)(e.world_stops);
}

template <typename Archive>
void fields(Archive& archive, StreamBegan& e) {
  archive(e.id)(e.pid)(e.direction)(e.peer)(e.host)(e.tls)(e.protocol)(e.begin)(e.request_end);
  if (archive.more()) archive(e.format)(e.content_type)(e.content_coding);
}

template <typename Archive>
void fields(Archive& archive, ChunkPlace& e) {
  archive(e.stream)(e.index);
}

template <typename Archive>
void fields(Archive& archive, ChunkRead& e) {
  archive(e.stream)(e.index)(e.pid)(e.tid)(e.bytes)(e.read)(e.arrival);
  if (archive.more()) archive(e.run_delay);
  if (archive.more()) archive(e.source);
}

template <typename Archive>
void fields(Archive& archive, EventCount& e) {
  archive(e.name)(e.count);
}

template <typename Archive>
void fields(Archive& archive, BodySeen& e) {
  archive(e.events)(e.truncated)(e.reads)(e.first_read)(e.last_read)(e.longest_silence)(
      e.undecoded);
}

template <typename Archive>
void fields(Archive& archive, StreamEnded& e) {
  archive(e.id)(e.pid)(e.at)(e.end)(e.model)(e.comments)(e.bytes);
  if (archive.more()) archive(e.cut);
  if (archive.more()) archive(e.body);
}

template <typename Archive>
void fields(Archive& archive, StreamUnread& e) {
  archive(e.pid)(e.direction)(e.peer)(e.host)(e.tls)(e.protocol)(e.format)(e.content_type)(e.begin)(
      e.end)(e.reads)(e.bytes);
}

template <typename Archive>
void fields(Archive& archive, WaitBegan& e) {
  archive(e.at)(e.pid)(e.tid);
  if (archive.more()) archive(e.run_delay);
}

template <typename Archive>
void fields(Archive& archive, LockWaited& e) {
  archive(e.begin)(e.end)(e.pid)(e.tid);
}

template <typename Archive>
void fields(Archive& archive, Lost& e) {
  archive(e.pid)(e.where)(e.count)(e.from)(e.to);
}

template <typename Archive>
void fields(Archive& archive, ProcessEnded& e) {
  archive(e.at)(e.pid);
}

template <typename Archive>
void fields(Archive& archive, RecordingEnded& e) {
  archive(e.at);
}

template <typename Archive>
void fields(Archive& archive, InterpreterFound& e) {
  archive(e.at)(e.pid)(e.interpreter)(e.lock);
}

template <typename Archive>
void fields(Archive& archive, ThreadFound& e) {
  archive(e.at)(e.pid)(e.tid)(e.interpreter);
}

template <typename Archive>
void fields(Archive& archive, TlsLibraryProbed& e) {
  archive(e.at)(e.pid)(e.library);
}

template <typename Archive>
void fields(Archive& archive, TlsReaderFound& e) {
  archive(e.at)(e.pid)(e.socket)(e.object);
}

template <typename Archive>
void fields(Archive& archive, TlsUnread& e) {
  archive(e.pid)(e.socket)(e.fd)(e.peer)(e.begin)(e.end)(e.records)(e.bytes)(e.longest_silence)(
      e.longest_unread)(e.stream);
}

}  // namespace gcause
