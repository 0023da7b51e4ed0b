// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "util/time.h"

namespace gcause {

enum class Direction : std::uint8_t { read, write };

/// Where the bytes of an `Io` were seen: in a socket call, or in the TLS library above it.
enum class Layer : std::uint8_t { socket, tls };

/// One read or write as the process saw it, or one piece of a long one.
struct Io {
  Ns begin;  ///< the call was entered; equal to `end` where that is not known
  Ns end;    ///< the call returned
  std::uint32_t pid;
  std::uint32_t tid;
  Direction direction;
  Layer layer;
  bool inside_tls;           ///< a socket call that the TLS library made: without payload
  std::uint64_t connection;  ///< the SSL object for tls, the socket's cookie for socket
  std::uint64_t socket;      ///< the socket's cookie; 0 if not known
  std::int64_t result;       ///< bytes moved by the whole call; 0 at end of file; below 0: failed
  std::optional<std::uint32_t> sequence_end;  ///< TCP sequence number behind the whole call's bytes
  std::uint32_t offset;                       ///< of `payload` in the call's bytes
  bool last;                                  ///< no further piece of this call follows
  std::span<const std::byte> payload;         ///< valid during the call that hands the event over
  /// How long the thread had ever been runnable without a CPU by then, us, modulo 2^32.
  std::optional<std::uint32_t> run_delay = {};
  /// A write: when the thread last woke from a wait, so that it had nothing to write before. Not
  /// known where it has slept in another way since, or where its waits were not followed yet.
  std::optional<Ns> woke = {};
};

/// A followed socket's receive queue grew up to `sequence_end`.
struct Arrival {
  Ns at;
  std::uint64_t socket;
  std::uint32_t sequence_end;
};

/// A thread that had read something entered a blocking call again.
struct Wait {
  Ns at;
  std::uint32_t pid;
  std::uint32_t tid;
  bool in_read = false;                         ///< in a socket read, not in a poll
  std::optional<std::uint32_t> run_delay = {};  ///< as that of Io
};

/// A thread that had read something slept for a lock at once, until `end`. Of several with one
/// begin the last counts: it slept on after the others.
struct LockSlept {
  Ns begin;
  Ns end;
  std::uint32_t pid;
  std::uint32_t tid;
};

/// A socket was seen for the first time.
struct SocketSeen {
  Ns at;
  std::uint32_t pid;
  std::uint64_t socket;
  std::uint32_t sequence_end;  ///< TCP: behind the newest byte that had arrived by then
  std::string peer;            ///< "address:port", or "unix"
};

/// A socket reached its closed state, or its peer closed it. `error` is the errno that the kernel
/// left on it, or 0.
struct SocketClosed {
  Ns at;
  std::uint64_t socket;
  std::int32_t error;
  bool by_process;       ///< the process no longer holds it: nothing can be read from it any more
  bool by_peer = false;  ///< its FIN came: what has arrived can still be read, nothing will follow
};

/// The TLS library released an SSL object; its address may be used again.
struct TlsFreed {
  Ns at;
  std::uint32_t pid;
  std::uint64_t connection;
};

/// Whose code made the first call on a socket that moved a TLS record, outside of the calls of a
/// TLS library that is probed.
struct TlsCaller {
  Ns at;
  std::uint32_t pid;
  std::uint64_t socket;
  std::optional<std::int32_t> fd;  ///< as the process numbers it
  /// Where the system call was made, then what the stack holds from its top on, as far as it could
  /// be read: return addresses are among these words.
  std::vector<std::uint64_t> words;
};

struct CollectionBegin {
  Ns at;
  std::uint32_t pid;
  std::uint32_t tid;
};

enum class CollectionReason : std::uint8_t { automatic, manual, shutdown };

struct CollectionEnd {
  Ns begin;
  Ns end;
  std::uint32_t pid;
  std::uint32_t tid;
  bool idle;  ///< the collector returned at once: this was no collection
  std::optional<std::int32_t> generation;
  std::optional<std::int64_t> collected;
  std::optional<Ns> cpu;
  std::optional<std::int64_t> uncollectable = {};
  std::optional<std::int64_t> interpreter = {};
  std::optional<CollectionReason> reason = {};
};

/// The Python code in which the collection that this thread ends now was started.
struct TriggerSeen {
  Ns at;
  std::uint32_t pid;
  std::uint32_t tid;
  std::string file;
  std::int64_t line;
  std::string function;
  bool sure;  ///< otherwise one of the three could not be made out
};

/// A thread of a free-threaded build asks all others of its interpreter to stop.
struct WorldStopping {
  Ns at;
  std::uint32_t pid;
  std::uint32_t tid;
  bool in_collection;
};

/// And lets them go on.
struct WorldStarted {
  Ns begin;
  Ns end;
  std::uint32_t pid;
  std::uint32_t tid;
  bool in_collection;
  std::optional<Ns> cpu;
  std::optional<std::int64_t> interpreter;
};

struct ProcessExit {
  Ns at;
  std::uint32_t pid;
};

/// The process replaced its program: its probes are gone with the old one.
struct ProcessExec {
  Ns at;
  std::uint32_t pid;
};

/// A process was forked by a followed one.
struct ProcessFork {
  Ns at;
  std::uint32_t parent;
  std::uint32_t child;
};

/// Records that the kernel side could not hand over between two readings of its counters.
struct RecordsLost {
  Ns from;
  Ns to;
  std::string where;
  std::uint64_t count;
};

using Event = std::variant<Io, Arrival, Wait, SocketSeen, SocketClosed, TlsFreed, CollectionBegin,
                           CollectionEnd, TriggerSeen, WorldStopping, WorldStarted, ProcessExit,
                           ProcessExec, ProcessFork, RecordsLost, LockSlept, TlsCaller>;

}  // namespace gcause
