// SPDX-License-Identifier: Apache-2.0
#include "stream/stream_tracker.h"

#include <cerrno>

namespace gcause {
namespace {

/// Sockets that a thread's list of ciphertext holds; more than a loop empties at a time.
constexpr std::size_t kMaxPending = 256;

StreamEnd end_of_error(std::int64_t error) {
  switch (error) {
    case ETIMEDOUT:
      return StreamEnd::timeout;
    case ECONNRESET:
    case EPIPE:
    case ECONNABORTED:
      return StreamEnd::reset;
    default:
      return StreamEnd::truncated;
  }
}

/// Bytes of the call behind this piece that no piece carries.
std::uint64_t missing_behind(const Io& io) {
  if (!io.last || io.result <= 0) return 0;
  return static_cast<std::uint64_t>(io.result) - io.offset - io.payload.size();
}

/// Sequence number of the first byte of the whole call.
std::uint32_t first_sequence(const Io& io) {
  return *io.sequence_end - static_cast<std::uint32_t>(io.result);
}

PieceArrival arrival_of(const Io& io, const ArrivalLog& log) {
  if (!io.sequence_end) return {};
  return {&log, first_sequence(io) + io.offset, std::nullopt};
}

}  // namespace

void StreamTracker::io(const Io& io) {
  if (io.direction == Direction::write) {
    written(io);
  } else if (io.layer == Layer::tls) {
    tls_read(io);
  } else {
    socket_read(io);
  }
}

Connection& StreamTracker::plain_connection(Socket& socket, std::uint32_t pid) {
  if (!socket.plain) {
    socket.plain = std::make_unique<Connection>(links_, next_stream_, pid, false);
    socket.plain->set_peer(socket.peer);
  }
  return *socket.plain;
}

void StreamTracker::written(const Io& io) {
  if (io.result > 0) {
    if (io.layer == Layer::tls) {
      auto& tls = tls_connection({io.connection, io.pid});
      feed_written(tls, tls.connection, io);
    } else {
      plain_written(io);
    }
  } else if (const auto socket = sockets_.find({io.socket, io.pid});
             io.layer == Layer::socket && socket != sockets_.end()) {
    // A client may still read what has arrived.
    end_connections(socket->first, socket->second, Role::server, end_of_error(-io.result), io.end);
  }
}

void StreamTracker::plain_written(const Io& io) {
  auto& socket = sockets_[{io.socket, io.pid}];
  const bool in_stream = socket.plain && socket.plain->in_stream();
  const bool goes_on = io.offset > 0 && !socket.plain && socket.unread;
  if (socket.carries_tls || goes_on ||
      (io.offset == 0 && !in_stream && TlsRecordLog::looks_like_record(io.payload))) {
    wrote_ciphertext(socket, io);
  } else if (socket.plain || !io.payload.empty()) {
    feed_written(socket, plain_connection(socket, io.pid), io);
  }
}

/// `holder` is the socket or TLS object of the connection.
template <typename Holder>
void StreamTracker::feed_written(Holder& holder, Connection& connection, const Io& io) {
  auto& thread = threads_[{io.tid, io.pid}];
  const bool was_in_stream = connection.in_stream().has_value();
  std::size_t chunks = 0;
  if (!io.payload.empty()) {
    const auto since = could_write_since(io, thread.inputs, holder.inputs, holder.chunk_written_at);
    chunks = connection.wrote({io.end, io.tid, io.payload, {nullptr, 0, since}, io.run_delay});
  }
  if (const auto missing = missing_behind(io)) {
    connection.skipped(missing, StreamDirection::write, io.end);
  }
  if (!was_in_stream && connection.in_stream()) holder.inputs = {};
  note_streaming(holder, io);
  if (chunks == 0) return;
  thread.has_written = true;
  holder.inputs.wrote(thread.inputs, io.connection, holder.chunk_written_at);
  holder.chunk_written_at = io.end;
}

/// The newest moment before which the thread had nothing that can have become what it writes now:
/// when the stream's own input arrived, where the thread has read several; or its newest input from
/// elsewhere; or, without one since its last wait, the end of that. Nothing where it has slept in
/// another way since, unless an input has come since the chunk before.
std::optional<Ns> StreamTracker::could_write_since(const Io& io, const ThreadInputs& inputs,
                                                   const InputMatch& match, Ns chunk_before) const {
  if (const auto own = match.find(inputs, chunk_before); own && own->arrival) return own->arrival;
  const auto input = inputs.newest_but(io.connection);
  if (!io.woke) return input && input->at > chunk_before ? input->arrival : std::nullopt;
  return input && input->at >= *io.woke && input->arrival ? input->arrival : io.woke;
}

void StreamTracker::socket_read(const Io& io) {
  auto& socket = sockets_[{io.socket, io.pid}];
  auto& thread = threads_[{io.tid, io.pid}];
  if (io.result <= 0) {
    socket_ended(io, socket);
    return;
  }
  thread.socket = io.socket;
  thread.socket_read_at = io.end;
  if (io.inside_tls) {
    thread.arrival = io.sequence_end ? socket.arrivals.at(*io.sequence_end) : std::nullopt;
  } else if (socket.carries_tls ||
             (io.offset == 0 && !(socket.plain && socket.plain->in_stream()) &&
              TlsRecordLog::looks_like_record(io.payload))) {
    socket.carries_tls = true;
    feed_ciphertext(socket, io);
  } else {
    asked_for_more(io);
    feed_plain(socket, io);
  }
  if (io.offset == 0 && !io.inside_tls && !socket.carries_tls) {
    thread.inputs.add(io.connection, {io.end, arrival_of(io, socket.arrivals).at(1)});
  }
  if (io.last && io.sequence_end) {
    socket.read_up_to = io.sequence_end;
    socket.arrivals.consumed(*io.sequence_end);
  }
}

void StreamTracker::feed_plain(Socket& socket, const Io& io) {
  auto& plain = plain_connection(socket, io.pid);
  if (io.offset == 0 && io.sequence_end && socket.read_up_to &&
      *socket.read_up_to != first_sequence(io)) {
    plain.lost(first_sequence(io) - *socket.read_up_to, io.end);
  }
  std::size_t chunks = 0;
  if (!io.payload.empty()) {
    chunks =
        plain.read({io.end, io.tid, io.payload, arrival_of(io, socket.arrivals), io.run_delay});
  }
  if (const auto missing = missing_behind(io)) {
    plain.skipped(missing, StreamDirection::read, io.end);
  }
  if (plain.serves()) links_.serves(io.pid);
  note_streaming(socket, io);
  got_chunks(io, chunks);
}

void StreamTracker::feed_ciphertext(Socket& socket, const Io& io) {
  const auto from = socket.records.end();
  socket.records.feed(io.payload, arrival_of(io, socket.arrivals));
  if (const auto missing = missing_behind(io)) socket.records.skip(missing);
  if (socket.records.end() != from && !socket.is_read && !socket.followed_by_tls) {
    auto& pending = threads_[{io.tid, io.pid}].ciphertext;
    std::erase(pending, io.socket);
    if (pending.size() == kMaxPending) pending.erase(pending.begin());
    pending.push_back(io.socket);
  }
  if (socket.is_read) return;
  if (socket.unread && socket.unread->in_stream()) asked_for_more(io);
  const auto chunks = look_at_unread(socket, from, io);
  if (chunks > 0) got_chunks(io, chunks);
}

void StreamTracker::wrote_ciphertext(Socket& socket, const Io& io) {
  if (socket.is_read) return;
  if (!socket.unread) {
    socket.unread = std::make_unique<UnreadTls>(links_, next_stream_, io.pid);
  }
  socket.unread->wrote(io.payload, missing_behind(io));
}

/// Ciphertext was read of which nobody is known to read the plaintext: gives the number of chunks.
std::size_t StreamTracker::look_at_unread(Socket& socket, std::uint64_t from, const Io& io) {
  if (!socket.unread) {
    socket.unread = std::make_unique<UnreadTls>(links_, next_stream_, io.pid);
  }
  const Key key{io.socket, io.pid};
  const auto sure = [&] { return is_unread(key, socket); };
  auto& unread = *socket.unread;
  const auto chunks =
      unread.read(socket.records, from, {io.end, io.tid, io.run_delay}, socket.peer, sure);
  note_streaming(socket, unread.in_stream() ? std::optional(StreamDirection::read) : std::nullopt,
                 io);
  if (!socket.told && unread.has_answers() && sure()) {
    socket.told = true;
    unread_.push_back({io.pid, io.socket, std::exchange(socket.caller, {})});
  }
  return chunks;
}

/// Whether it is sure that no TLS object reads what this socket brings.
bool StreamTracker::is_unread(const Key& key, const Socket& socket) const {
  if (socket.is_read || socket.followed_by_tls) return false;
  for (const auto& [tls_key, tls] : tls_) {
    if (tls_key.pid == key.pid && tls.socket == 0 && tls.match.has_matched(key.id)) return false;
  }
  return true;
}

void StreamTracker::end_unread(const Key& key, Socket& socket, StreamEnd end, Ns at) {
  if (!socket.unread) return;
  socket.unread->ended(end, at);
  if (socket.unread->has_answers() && is_unread(key, socket)) {
    auto figures = socket.unread->figures();
    figures.pid = key.pid;
    figures.socket = key.id;
    figures.fd = socket.fd;
    figures.peer = socket.peer;
    timeline_.consume(figures);
  }
  socket.unread.reset();
}

/// The socket turns out to belong to a TLS object.
void StreamTracker::claim(Socket& socket, const Key& key) {
  socket.is_read = true;
  socket.caller.clear();
  if (!socket.unread) return;
  if (socket.unread->in_stream()) {
    socket.unread->ended(StreamEnd::truncated, socket.unread->figures().end);
    socket.streaming.reset();
    changes_.push_back({key.pid, key.id, false, false});
  }
  socket.unread.reset();
}

void StreamTracker::tls_caller(const TlsCaller& event) {
  auto& socket = sockets_[{event.socket, event.pid}];
  socket.fd = event.fd;
  socket.caller = event.words;
}

/// A read found the end of the connection, or its failure.
void StreamTracker::socket_ended(const Io& io, Socket& socket) {
  const Key key{io.socket, io.pid};
  // A client that has asked for all may say so; it still takes the answer.
  const Role role = io.result == 0 && !socket.closed ? Role::client : Role::any;
  const auto end = io.result == 0 ? StreamEnd::truncated : end_of_error(-io.result);
  end_connections(key, socket, role, end, io.end);
  if (socket.closed) forget_socket(key);
}

void StreamTracker::end_connections(const Key& socket_key, Socket& socket, Role role, StreamEnd end,
                                    Ns at) {
  const auto finish = [&](Connection& connection) {
    if (role != Role::any && connection.serves() != (role == Role::server)) return;
    connection.ended(end, at, connection.serves() ? std::nullopt : socket.closed_by_peer);
  };
  if (socket.plain) finish(*socket.plain);
  if (role != Role::server) end_unread(socket_key, socket, end, at);
  for (const auto id : socket.tls_connections) {
    const auto found = tls_.find({id, socket_key.pid});
    if (found != tls_.end()) finish(found->second.connection);
  }
}

void StreamTracker::forget_socket(Key key) {
  const auto found = sockets_.find(key);
  for (const auto id : found->second.tls_connections) {
    const auto tls = tls_.find({id, key.pid});
    if (tls != tls_.end()) tls->second.socket = 0;
  }
  sockets_.erase(found);
  socket_keys_.erase(key.id);
}

void StreamTracker::tls_read(const Io& io) {
  if (io.result <= 0) return;
  const Key key{io.connection, io.pid};
  auto& tls = tls_connection(key);
  asked_for_more(io);
  if (io.offset == 0) {
    auto& thread = threads_[{io.tid, io.pid}];
    if (thread.socket != 0 && thread.socket_read_at >= io.begin) {
      tls.library_reads = true;
      tls.arrival = thread.arrival;
      bind(tls, key, thread.socket);
    } else if (!tls.library_reads) {
      if (tls.socket == 0) may_have_read(thread, io.pid);
      tls.arrival = match_socket(tls, key, static_cast<std::uint64_t>(io.result));
    }
  }
  std::size_t chunks = 0;
  if (!io.payload.empty()) {
    chunks =
        tls.connection.read({io.end, io.tid, io.payload, {nullptr, 0, tls.arrival}, io.run_delay});
  }
  if (const auto missing = missing_behind(io)) {
    tls.connection.skipped(missing, StreamDirection::read, io.end);
  }
  if (tls.connection.serves()) links_.serves(io.pid);
  if (io.offset == 0) threads_[{io.tid, io.pid}].inputs.add(io.connection, {io.end, tls.arrival});
  note_streaming(tls, io);
  got_chunks(io, chunks);
}

/// A TLS object whose socket is not known has read: it may be any of those that its thread took
/// ciphertext from, as an event loop empties several sockets before the programs behind them go on.
void StreamTracker::may_have_read(Thread& thread, std::uint32_t pid) {
  for (const auto id : std::exchange(thread.ciphertext, {})) {
    const auto read = sockets_.find({id, pid});
    if (read != sockets_.end()) read->second.followed_by_tls = true;
  }
}

/// A TLS object that reads from memory took `count` bytes: when their record arrived, if that is
/// known.
std::optional<Ns> StreamTracker::match_socket(TlsConnection& tls, const Key& key,
                                              std::uint64_t count) {
  if (tls.match.wants_offers()) offer_sockets(tls, key);
  const auto arrival = tls.match.take(count, [&](std::uint64_t id) -> const TlsRecordLog* {
    const auto found = sockets_.find({id, key.pid});
    return found == sockets_.end() ? nullptr : &found->second.records;
  });
  // None could have carried this read: the next one finds its record behind those of now.
  if (tls.match.wants_offers()) offer_sockets(tls, key);
  if (const auto socket = tls.match.socket()) {
    bind(tls, key, *socket);
  } else if (tls.socket == 0) {
    // All that could be it may well lead to the same peer.
    std::set<std::optional<std::string>> peers;
    tls.match.for_each([&](std::uint64_t id) { peers.insert(sockets_[{id, key.pid}].peer); });
    if (peers.size() == 1) tls.connection.set_peer(*peers.begin());
  }
  return arrival;
}

/// Sockets that may be behind the object: the first time with all their records that are kept, then
/// with those to come.
void StreamTracker::offer_sockets(TlsConnection& tls, const Key& key) {
  for (auto& [socket_key, socket] : sockets_) {
    if (socket_key.pid != key.pid || !socket.carries_tls || !socket.tls_connections.empty()) {
      continue;
    }
    tls.match.offer(socket_key.id, tls.offered ? socket.records.end() : socket.records.first());
  }
  tls.offered = true;
}

void StreamTracker::bind(TlsConnection& connection, const Key& key, std::uint64_t socket) {
  if (connection.socket == socket) return;
  if (connection.socket != 0) {
    sockets_[{connection.socket, key.pid}].tls_connections.erase(key.id);
  }
  connection.socket = socket;
  auto& bound = sockets_[{socket, key.pid}];
  bound.tls_connections.insert(key.id);
  claim(bound, {socket, key.pid});
  for (auto& [other_key, other] : tls_) {
    if (other_key.pid == key.pid && !(other_key == key)) other.match.withdraw(socket);
  }
  connection.connection.set_peer(bound.peer);
}

StreamTracker::TlsConnection& StreamTracker::tls_connection(const Key& key) {
  const auto found = tls_.find(key);
  if (found != tls_.end()) return found->second;
  return tls_.emplace(key, TlsConnection{Connection(links_, next_stream_, key.pid, true)})
      .first->second;
}

void StreamTracker::note_streaming(Socket& socket, const Io& io) {
  note_streaming(socket, socket.plain->in_stream(), io);
}

void StreamTracker::note_streaming(Socket& socket, std::optional<StreamDirection> now,
                                   const Io& io) {
  if (now == socket.streaming) return;
  socket.streaming = now;
  changes_.push_back(
      {io.pid, io.connection, now == StreamDirection::read, now == StreamDirection::write});
}

void StreamTracker::note_streaming(TlsConnection& tls, const Io& io) {
  const auto now = tls.connection.in_stream();
  if (now == tls.streaming) return;
  tls.streaming = now;
  for (const auto id : tls.streaming_ids) changes_.push_back({io.pid, id, false, false});
  tls.streaming_ids.clear();
  if (!now) return;
  tls.streaming_ids.push_back(io.connection);
  // When ciphertext arrived is of interest, when it was sent is not.
  if (now == StreamDirection::read && tls.socket != 0) {
    tls.streaming_ids.push_back(tls.socket);
  } else if (now == StreamDirection::read) {
    tls.match.for_each([&](std::uint64_t socket) { tls.streaming_ids.push_back(socket); });
  }
  for (const auto id : tls.streaming_ids) {
    changes_.push_back({io.pid, id, now == StreamDirection::read, now == StreamDirection::write});
  }
}

/// A read that brings bytes also says that its thread had asked for them.
void StreamTracker::asked_for_more(const Io& io) {
  auto& thread = threads_[{io.tid, io.pid}];
  if (thread.has_written || (thread.owes_wait && io.end > thread.chunk_read_at)) {
    began_wait({io.begin, io.pid, io.tid}, thread);
  }
}

void StreamTracker::got_chunks(const Io& io, std::size_t chunks) {
  if (chunks == 0) return;
  auto& thread = threads_[{io.tid, io.pid}];
  thread.owes_wait = true;
  thread.chunk_read_at = io.end;
}

void StreamTracker::wait(const Wait& event) {
  const auto found = threads_.find({event.tid, event.pid});
  if (found == threads_.end()) return;
  auto& thread = found->second;
  thread.inputs.waited();
  links_.waited(event.pid, event.tid);
  if (!thread.owes_wait && !thread.has_written) return;
  began_wait({event.at, event.pid, event.tid, event.run_delay}, thread);
}

void StreamTracker::began_wait(const WaitBegan& wait, Thread& thread) {
  thread.owes_wait = thread.has_written = false;
  timeline_.consume(wait);
}

void StreamTracker::lock_slept(const LockSlept& event) {
  const auto found = threads_.find({event.tid, event.pid});
  if (found == threads_.end() || !found->second.owes_wait ||
      event.begin < found->second.chunk_read_at) {
    return;
  }
  timeline_.consume(LockWaited{event.begin, event.end, event.pid, event.tid});
}

void StreamTracker::arrival(const Arrival& event) {
  const auto found = socket_keys_.find(event.socket);
  if (found == socket_keys_.end()) return;
  sockets_[found->second].arrivals.add(event.sequence_end, event.at);
}

void StreamTracker::socket_seen(const SocketSeen& event) {
  const Key key{event.socket, event.pid};
  auto& socket = sockets_[key];
  socket_keys_[event.socket] = key;
  socket.peer = event.peer;
  socket.arrivals.begin(event.sequence_end);
}

void StreamTracker::socket_closed(const SocketClosed& event) {
  const auto key = socket_keys_.find(event.socket);
  if (key == socket_keys_.end()) return;
  const auto found = sockets_.find(key->second);
  if (found == sockets_.end()) return;
  auto& socket = found->second;
  const auto end = event.error ? end_of_error(event.error) : StreamEnd::truncated;
  // What has arrived can still be read, and a read will find the end then. Behind a FIN an answer
  // can be written as well; to a socket that was reset nothing can.
  if (!event.by_process) {
    if (!socket.closed_by_peer) socket.closed_by_peer = event.at;
    if (event.by_peer) return;
  }
  end_connections(found->first, socket, event.by_process ? Role::any : Role::server, end, event.at);
  if (event.by_process) {
    forget_socket(found->first);
  } else {
    socket.closed = true;
  }
}

void StreamTracker::tls_freed(const TlsFreed& event) {
  const auto found = tls_.find({event.connection, event.pid});
  if (found == tls_.end()) return;
  const auto socket = sockets_.find({found->second.socket, event.pid});
  const bool bound = socket != sockets_.end();
  auto& connection = found->second.connection;
  const bool is_cut = bound && !connection.serves();
  connection.ended(StreamEnd::truncated, event.at,
                   is_cut ? socket->second.closed_by_peer : std::nullopt);
  if (bound) {
    socket->second.tls_connections.erase(event.connection);
    socket->second.records.forget();  // they were this object's
  }
  tls_.erase(found);
}

void StreamTracker::process_ended(std::uint32_t pid, Ns at) {
  for (auto& [key, tls] : tls_) {
    if (key.pid == pid) tls.connection.ended(StreamEnd::truncated, at);
  }
  for (auto& [key, socket] : sockets_) {
    if (key.pid != pid) continue;
    if (socket.plain) socket.plain->ended(StreamEnd::truncated, at);
    end_unread(key, socket, StreamEnd::truncated, at);
  }
  const auto of_process = [&](const auto& entry) { return entry.first.pid == pid; };
  std::erase_if(tls_, of_process);
  std::erase_if(sockets_, of_process);
  std::erase_if(threads_, of_process);
  std::erase_if(socket_keys_, [&](const auto& entry) { return entry.second.pid == pid; });
  links_.process_ended(pid);
}

void StreamTracker::records_lost() {
  for (auto& [key, socket] : sockets_) {
    socket.arrivals.forget();
    socket.records.forget();
    if (socket.plain) socket.plain->suspect();
  }
  for (auto& [key, tls] : tls_) tls.connection.suspect();
}

void StreamTracker::finish(Ns at) {
  for (auto& [key, tls] : tls_) tls.connection.ended(StreamEnd::open, at);
  for (auto& [key, socket] : sockets_) {
    if (socket.plain) socket.plain->ended(StreamEnd::open, at);
    end_unread(key, socket, StreamEnd::open, at);
  }
}

}  // namespace gcause
