// SPDX-License-Identifier: Apache-2.0
#include "decode/decoder.h"

#include <arpa/inet.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <string>

#include "decode/kernel_abi.h"
#include "decode/trigger.h"

namespace gcause {
namespace {

/// Copies a record out of bytes that may not be aligned for it; nothing if there are too few.
template <typename Record>
std::optional<Record> read_record(std::span<const std::byte> bytes) {
  if (bytes.size() < sizeof(Record)) return std::nullopt;
  Record record;
  std::memcpy(&record, bytes.data(), sizeof record);
  return record;
}

Ns to_ns(u64 ns) { return static_cast<Ns>(ns); }

std::string peer_of(const socket_seen_record& record) {
  if (record.family == AF_UNIX) return "unix";
  char text[INET6_ADDRSTRLEN] = "?";
  ::inet_ntop(record.family, record.remote_address, text, sizeof text);
  const std::string port = std::to_string(record.remote_port);
  return record.family == AF_INET6 ? "[" + std::string(text) + "]:" + port
                                   : std::string(text) + ":" + port;
}

std::optional<Event> decode_io(std::span<const std::byte> bytes) {
  const auto record = read_record<io_record>(bytes);
  if (!record || record->length > bytes.size() - sizeof *record) return std::nullopt;
  const auto& header = record->header;
  Io io{};
  io.end = to_ns(header.ns);
  io.begin = record->begin_ns ? to_ns(record->begin_ns) : io.end;
  io.pid = header.pid;
  io.tid = header.tid;
  io.direction = header.flags & IO_WRITE ? Direction::write : Direction::read;
  io.layer = header.flags & IO_TLS ? Layer::tls : Layer::socket;
  io.inside_tls = header.flags & IO_INSIDE_TLS;
  io.connection = record->connection;
  io.socket = record->socket;
  io.result = record->result;
  if (header.flags & IO_HAS_SEQUENCE) io.sequence_end = record->sequence_end;
  io.offset = record->offset;
  io.last = header.flags & IO_LAST;
  io.payload = bytes.subspan(sizeof *record, record->length);
  if (header.flags & IO_HAS_RUN_DELAY) io.run_delay = record->run_delay_us;
  if (header.flags & IO_HAS_WAKE) io.woke = io.end - record->since_wake_us * kMicrosecond;
  return io;
}

/// Captures of older versions have a bare header here.
Event decode_wait(const record_header& header, std::span<const std::byte> bytes) {
  Wait event{to_ns(header.ns), header.pid, header.tid, (header.flags & WAIT_IN_READ) != 0};
  const auto record = read_record<wait_record>(bytes);
  if (record && header.flags & WAIT_HAS_RUN_DELAY) event.run_delay = record->run_delay_us;
  return event;
}

std::optional<Event> decode_collection_end(std::span<const std::byte> bytes) {
  const auto record = read_record<collection_end_record>(bytes);
  if (!record) return std::nullopt;
  const auto& header = record->header;
  CollectionEnd event{};
  event.begin = to_ns(record->begin_ns);
  event.end = to_ns(header.ns);
  event.pid = header.pid;
  event.tid = header.tid;
  event.idle = header.flags & COLLECTION_IDLE;
  if (header.flags & COLLECTION_HAS_STATS) {
    if (record->generation >= 0 && record->generation <= 2) event.generation = record->generation;
    event.collected = record->collected;
    event.uncollectable = record->uncollectable;
  }
  if (header.flags & COLLECTION_HAS_INTERPRETER) event.interpreter = record->interpreter;
  if (header.flags & COLLECTION_AUTOMATIC) event.reason = CollectionReason::automatic;
  if (header.flags & COLLECTION_MANUAL) event.reason = CollectionReason::manual;
  if (header.flags & COLLECTION_SHUTDOWN) event.reason = CollectionReason::shutdown;
  if (header.flags & COLLECTION_HAS_CPU) event.cpu = to_ns(record->cpu_ns);
  return event;
}

std::optional<Event> decode_world_started(std::span<const std::byte> bytes) {
  const auto record = read_record<world_started_record>(bytes);
  if (!record) return std::nullopt;
  const auto& header = record->header;
  WorldStarted event{};
  event.begin = to_ns(record->begin_ns);
  event.end = to_ns(header.ns);
  event.pid = header.pid;
  event.tid = header.tid;
  event.in_collection = header.flags & WORLD_IN_COLLECTION;
  if (header.flags & WORLD_HAS_CPU) event.cpu = to_ns(record->cpu_ns);
  if (header.flags & WORLD_HAS_INTERPRETER) event.interpreter = record->interpreter;
  return event;
}

std::optional<Event> decode_socket_closed(std::span<const std::byte> bytes) {
  const auto record = read_record<socket_closed_record>(bytes);
  if (!record) return std::nullopt;
  return SocketClosed{to_ns(record->header.ns), record->socket, record->error,
                      (record->header.flags & SOCKET_CLOSED_BY_PROCESS) != 0,
                      (record->header.flags & SOCKET_CLOSED_BY_PEER) != 0};
}

std::optional<Event> decode_tls_caller(std::span<const std::byte> bytes) {
  const auto record = read_record<tls_caller_record>(bytes);
  if (!record) return std::nullopt;
  TlsCaller event{to_ns(record->header.ns), record->header.pid, record->socket, std::nullopt, {}};
  if (record->fd >= 0) event.fd = record->fd;
  event.words.push_back(record->code);
  event.words.insert(event.words.end(), std::begin(record->stack), std::end(record->stack));
  while (event.words.size() > 1 && event.words.back() == 0) event.words.pop_back();
  return event;
}

/// `bytes` is one record, whole, and at least a header long.
std::optional<Event> decode(const record_header& header, std::span<const std::byte> bytes) {
  const Ns at = to_ns(header.ns);
  switch (static_cast<record_kind>(header.kind)) {
    case RECORD_COLLECTION_BEGIN:
      return CollectionBegin{at, header.pid, header.tid};
    case RECORD_COLLECTION_END:
      return decode_collection_end(bytes);
    case RECORD_IO:
      return decode_io(bytes);
    case RECORD_ARRIVAL:
      if (const auto record = read_record<arrival_record>(bytes)) {
        return Arrival{at, record->socket, record->sequence_end};
      }
      return std::nullopt;
    case RECORD_WAIT:
      return decode_wait(header, bytes);
    case RECORD_SOCKET_SEEN:
      if (const auto record = read_record<socket_seen_record>(bytes)) {
        return SocketSeen{at, header.pid, record->socket, record->sequence_end, peer_of(*record)};
      }
      return std::nullopt;
    case RECORD_SOCKET_CLOSED:
      return decode_socket_closed(bytes);
    case RECORD_TLS_FREED:
      if (const auto record = read_record<tls_freed_record>(bytes)) {
        return TlsFreed{at, header.pid, record->connection};
      }
      return std::nullopt;
    case RECORD_PROCESS_EXIT:
      return ProcessExit{at, header.pid};
    case RECORD_PROCESS_FORK:
      if (const auto record = read_record<process_fork_record>(bytes)) {
        return ProcessFork{at, header.pid, record->child};
      }
      return std::nullopt;
    case RECORD_TLS_CALLER:
      return decode_tls_caller(bytes);
    case RECORD_TRIGGER:
      return decode_trigger(bytes);
    case RECORD_WORLD_STOPPING:
      return WorldStopping{at, header.pid, header.tid, (header.flags & WORLD_IN_COLLECTION) != 0};
    case RECORD_WORLD_STARTED:
      return decode_world_started(bytes);
    case RECORD_LOCK_WAITED:
      if (const auto record = read_record<lock_waited_record>(bytes)) {
        return LockSlept{to_ns(record->begin_ns), at, header.pid, header.tid};
      }
      return std::nullopt;
    case RECORD_READ_RETURNED:
      break;  // feed has seen to it
    case RECORD_PROCESS_EXEC:
      return ProcessExec{at, header.pid};
  }
  return std::nullopt;
}

record_header header_at(const std::vector<std::byte>& arena, std::size_t offset) {
  record_header header;
  std::memcpy(&header, arena.data() + offset, sizeof header);
  return header;
}

}  // namespace

void Decoder::feed(std::span<const std::byte> records) {
  std::size_t offset = arena_.size();
  arena_.insert(arena_.end(), records.begin(), records.end());
  arena_.resize((arena_.size() + 7) & ~std::size_t{7});
  while (arena_.size() - offset >= sizeof(record_header)) {
    const auto header = header_at(arena_, offset);
    if (header.size < sizeof header || header.size > arena_.size() - offset) break;
    const Ns at = to_ns(header.ns);
    if (header.kind == RECORD_READ_RETURNED) move_read(offset);
    sorted_ = sorted_ && (pending_.empty() || pending_.back().at <= at);
    newest_ = std::max(newest_, at);
    pending_.push_back({at, offset});
    offset += (header.size + 7) & ~std::size_t{7};
    if (offset >= arena_.size()) return;
  }
  if (offset < arena_.size()) {
    ++malformed_;
    arena_.resize(offset);
  }
}

/// A RECORD_READ_RETURNED is at `offset`: the read that it means returned only then.
void Decoder::move_read(std::size_t offset) {
  const auto returned =
      read_record<read_returned_record>(std::span<const std::byte>(arena_).subspan(offset));
  if (!returned) return;
  const auto read_at = to_ns(returned->read_ns);
  for (auto it = pending_.rbegin(); it != pending_.rend() && it->at >= read_at; ++it) {
    auto header = header_at(arena_, it->offset);
    if (header.kind != RECORD_IO || header.tid != returned->header.tid || it->at != read_at) {
      continue;
    }
    header.ns = returned->header.ns;
    std::memcpy(arena_.data() + it->offset, &header, sizeof header);
    it->at = to_ns(header.ns);
    sorted_ = false;
  }
}

void Decoder::emit(const Pending& pending) {
  const auto header = header_at(arena_, pending.offset);
  const auto bytes = std::span<const std::byte>(arena_).subspan(pending.offset, header.size);
  if (header.kind == RECORD_READ_RETURNED) return;
  if (const auto event = decode(header, bytes)) {
    ++events_;
    if (const auto* io = std::get_if<Io>(&*event)) payload_bytes_ += io->payload.size();
    handler_(*event);
  } else {
    ++malformed_;
  }
}

void Decoder::release(Ns up_to) {
  if (!sorted_) {
    std::stable_sort(pending_.begin(), pending_.end(),
                     [](const Pending& a, const Pending& b) { return a.at < b.at; });
    sorted_ = true;
  }
  std::size_t done = 0;
  while (done < pending_.size() && pending_[done].at <= up_to) emit(pending_[done++]);
  if (done == 0) return;
  // What stays is little; it moves to the front of a fresh arena.
  std::vector<std::byte> arena;
  for (std::size_t i = done; i < pending_.size(); ++i) {
    const auto size = (header_at(arena_, pending_[i].offset).size + 7) & ~std::size_t{7};
    const auto from = arena_.begin() + static_cast<std::ptrdiff_t>(pending_[i].offset);
    pending_[i].offset = arena.size();
    arena.insert(arena.end(), from, from + static_cast<std::ptrdiff_t>(size));
  }
  pending_.erase(pending_.begin(), pending_.begin() + static_cast<std::ptrdiff_t>(done));
  arena_.swap(arena);
}

void Decoder::advance(std::optional<Ns> up_to) {
  release(up_to ? std::max(*up_to, newest_ - window_) : newest_ - window_);
}

void Decoder::finish() { release(newest_); }

}  // namespace gcause
