// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "decode/event.h"
#include "recording/timeline.h"
#include "stream/arrival_log.h"
#include "stream/connection.h"
#include "stream/gateway_links.h"
#include "stream/thread_inputs.h"
#include "stream/tls_match.h"
#include "stream/tls_record_log.h"
#include "stream/unread_tls.h"

namespace gcause {

/// Follows the connections of all processes: which bytes belong together, when they arrived, and
/// when a thread asked for more. Hands the streams in them to the timeline.
class StreamTracker {
 public:
  explicit StreamTracker(TimelineConsumer& timeline) : timeline_(timeline), links_(timeline) {}

  void io(const Io& io);
  void arrival(const Arrival& event);
  void wait(const Wait& event);
  void lock_slept(const LockSlept& event);
  void socket_seen(const SocketSeen& event);
  void socket_closed(const SocketClosed& event);
  void tls_freed(const TlsFreed& event);
  void tls_caller(const TlsCaller& event);
  void process_ended(std::uint32_t pid, Ns at);
  void records_lost();

  /// A connection began or ceased to carry an event stream in these directions. Where ciphertext is
  /// read from memory, the sockets that it may come from are told as well.
  struct Streaming {
    std::uint32_t pid;
    std::uint64_t connection;
    bool reads;
    bool writes;
  };

  /// What changed since the last call.
  std::vector<Streaming> take_streaming() { return std::exchange(changes_, {}); }

  /// A connection with TLS that no probed library reads.
  struct UnreadSocket {
    std::uint32_t pid;
    std::uint64_t socket;
    std::vector<std::uint64_t> words;  ///< as those of TlsCaller
  };

  /// Whose they are was not asked before: those since the last call.
  std::vector<UnreadSocket> take_unread() { return std::exchange(unread_, {}); }

  /// The recording is over: streams in progress end as open.
  void finish(Ns at);

 private:
  /// A TLS object or a socket of one process.
  struct Key {
    std::uint64_t id;
    std::uint32_t pid;
    bool operator==(const Key&) const = default;
  };
  struct KeyHash {
    std::size_t operator()(const Key& key) const {
      return std::hash<std::uint64_t>()(key.id ^ (std::uint64_t{key.pid} << 40));
    }
  };

  struct Socket {
    std::optional<std::string> peer;
    ArrivalLog arrivals;
    std::optional<std::uint32_t> read_up_to;  ///< sequence number
    std::optional<Ns> closed_by_peer;
    bool carries_tls = false;
    TlsRecordLog records;                     ///< where the program reads the ciphertext itself
    std::set<std::uint64_t> tls_connections;  ///< bound to this socket
    std::unique_ptr<Connection> plain;
    std::optional<StreamDirection> streaming;  ///< as last told
    Ns chunk_written_at = 0;                   ///< the newest
    InputMatch inputs;                         ///< of the stream that is written
    bool closed = false;                       ///< its bytes may still be read
    /// Where TLS passes that belongs to no TLS object, as far as is known.
    std::unique_ptr<UnreadTls> unread;
    bool is_read = false;          ///< it belonged to a TLS object at some time
    bool followed_by_tls = false;  ///< a thread that read it went on with a TLS object of no socket
    bool told = false;             ///< in take_unread
    std::optional<std::int32_t> fd;
    std::vector<std::uint64_t> caller;  ///< as those of TlsCaller; dropped where it is told or read
  };

  struct TlsConnection {
    Connection connection;
    std::uint64_t socket = 0;    ///< cookie; 0 while it is not known
    bool library_reads = false;  ///< the library itself reads the socket, one record at a time
    TlsMatch match = {};         ///< used where the program reads the socket and the library memory
    bool offered = false;
    std::optional<StreamDirection> streaming = {};  ///< as last told
    std::vector<std::uint64_t> streaming_ids = {};  ///< and of which ids
    std::optional<Ns> arrival = {};                 ///< of the record at hand
    Ns chunk_written_at = 0;                        ///< the newest
    InputMatch inputs = {};                         ///< of the stream that is written
  };

  /// What a thread did last.
  struct Thread {
    std::uint64_t socket = 0;  ///< read last
    Ns socket_read_at = 0;
    std::optional<Ns> arrival;  ///< of the last byte of that read
    /// Sockets of which it took records that no TLS object is known to have read since, each once.
    std::vector<std::uint64_t> ciphertext;
    bool owes_wait = false;  ///< it got a chunk and has not asked for more since
    Ns chunk_read_at = 0;
    bool has_written = false;  ///< a chunk, and has not asked for more since
    ThreadInputs inputs;
  };

  /// Connections in which the process has one role.
  enum class Role { any, client, server };

  void socket_read(const Io& io);
  void feed_plain(Socket& socket, const Io& io);
  void feed_ciphertext(Socket& socket, const Io& io);
  void wrote_ciphertext(Socket& socket, const Io& io);
  std::size_t look_at_unread(Socket& socket, std::uint64_t from, const Io& io);
  bool is_unread(const Key& key, const Socket& socket) const;
  void claim(Socket& socket, const Key& key);
  void end_unread(const Key& key, Socket& socket, StreamEnd end, Ns at);
  void socket_ended(const Io& io, Socket& socket);
  void tls_read(const Io& io);
  void written(const Io& io);
  void plain_written(const Io& io);
  template <typename Holder>
  void feed_written(Holder& holder, Connection& connection, const Io& io);
  std::optional<Ns> could_write_since(const Io& io, const ThreadInputs& inputs,
                                      const InputMatch& match, Ns chunk_before) const;
  void began_wait(const WaitBegan& wait, Thread& thread);
  Connection& plain_connection(Socket& socket, std::uint32_t pid);
  std::optional<Ns> match_socket(TlsConnection& tls, const Key& key, std::uint64_t count);
  void may_have_read(Thread& thread, std::uint32_t pid);
  void offer_sockets(TlsConnection& tls, const Key& key);
  void bind(TlsConnection& connection, const Key& key, std::uint64_t socket);
  void asked_for_more(const Io& io);
  void got_chunks(const Io& io, std::size_t chunks);
  TlsConnection& tls_connection(const Key& key);
  void end_connections(const Key& socket_key, Socket& socket, Role role, StreamEnd end, Ns at);
  void forget_socket(Key key);

  void note_streaming(Socket& socket, const Io& io);
  void note_streaming(Socket& socket, std::optional<StreamDirection> now, const Io& io);
  void note_streaming(TlsConnection& tls, const Io& io);

  TimelineConsumer& timeline_;
  GatewayLinks links_;  ///< between the connections and the timeline
  std::vector<Streaming> changes_;
  std::vector<UnreadSocket> unread_;
  std::uint64_t next_stream_ = 1;
  std::unordered_map<Key, Socket, KeyHash> sockets_;
  std::unordered_map<std::uint64_t, Key> socket_keys_;  ///< by cookie: arrivals name no process
  std::unordered_map<Key, TlsConnection, KeyHash> tls_;
  std::unordered_map<Key, Thread, KeyHash> threads_;  ///< by tid
};

}  // namespace gcause
