// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "util/time.h"

namespace gcause {

// The timeline is what a recording holds: everything that attribution needs, in the order of time,
// and no payload. A live run and the replay of its recording feed the same timeline to attribution.

enum class StreamDirection : std::uint8_t { read = 0, write = 1 };
enum class StreamProtocol : std::uint8_t { http1 = 0, h2 = 1, tls_records = 2 };
enum class StreamEnd : std::uint8_t {
  done = 0,
  eof = 1,
  reset = 2,
  timeout = 3,
  truncated = 4,
  open = 5,
};
/// How the events stand in the body of a stream.
enum class StreamFormat : std::uint8_t { sse = 0, ndjson = 1 };
/// What carries output bit by bit, and is not read.
enum class UnreadFormat : std::uint8_t {
  json_array = 0,           ///< one array, whose elements come one by one
  websocket = 1,            ///< RFC 6455
  amazon_event_stream = 2,  ///< application/vnd.amazon.eventstream
};
/// Why the content coding of a body could not be undone, or not to its end.
enum class Undecoded : std::uint8_t {
  unknown_coding = 0,
  malformed = 1,
  too_large = 2,  ///< it grows far beyond what a stream of events does
  gap = 3,        ///< bytes of it were not seen
};

/// Whether more of the stream was due.
constexpr bool is_cut(StreamEnd end) {
  return end == StreamEnd::reset || end == StreamEnd::timeout || end == StreamEnd::truncated;
}
enum class PauseKind : std::uint8_t { gc = 0, stop_the_world = 1 };
enum class PauseReason : std::uint8_t { automatic = 0, manual = 1, shutdown = 2 };
enum class CollectorMethod : std::uint8_t { usdt = 0, symbol = 1, debuginfo = 2, scan = 3 };

// How many values each has, for the bytes of a file that may hold anything.
constexpr unsigned value_count(StreamDirection) { return 2; }
constexpr unsigned value_count(StreamProtocol) { return 3; }
constexpr unsigned value_count(StreamEnd) { return 6; }
constexpr unsigned value_count(StreamFormat) { return 2; }
constexpr unsigned value_count(UnreadFormat) { return 3; }
constexpr unsigned value_count(Undecoded) { return 4; }
constexpr unsigned value_count(PauseKind) { return 2; }
constexpr unsigned value_count(PauseReason) { return 3; }
constexpr unsigned value_count(CollectorMethod) { return 4; }

struct SessionStarted {
  std::string version;
  Ns monotonic;  ///< one instant on CLOCK_MONOTONIC
  Ns wall;       ///< and the same on CLOCK_REALTIME
  Ns budget;
  std::string kernel;
  std::map<std::string, bool> features;
};

struct TlsLibrary {
  std::string object;
  std::vector<std::string> functions;
};

/// How a collector is set.
struct CollectorSettings {
  std::optional<bool> enabled;
  std::vector<std::int64_t> thresholds;  ///< of the three generations; empty if not known
  std::vector<std::int64_t> counts;      ///< likewise
  std::optional<std::int64_t> frozen;    ///< objects that gc.freeze() took out

  bool operator==(const CollectorSettings&) const = default;
};

struct ProcessFollowed {
  std::uint32_t pid;
  std::uint64_t start_ticks;  ///< clock ticks since boot; with the pid it names the process
  std::string exe;
  std::optional<std::string> python_version;
  std::optional<bool> free_threaded;
  CollectorMethod collector_method;
  std::string collector_object;
  std::string collector_symbol;
  std::uint64_t collector_address;  ///< ELF virtual address
  std::vector<TlsLibrary> tls;
  Ns seen_from;
  std::optional<CollectorSettings> gc = {};  ///< of the main interpreter
};

/// The collector of an interpreter was set anew.
struct SettingsChanged {
  Ns at;
  std::uint32_t pid;
  std::int64_t interpreter;
  CollectorSettings gc;
};

struct PauseBegan {
  Ns at;
  std::uint32_t pid;
  std::uint32_t tid;
  PauseKind kind = PauseKind::gc;
};

/// The Python code in which a collection was started.
struct Trigger {
  std::string file;
  std::int64_t line;
  std::string function;
};

/// A part of a pause in which the world of a free-threaded build stood still.
struct WorldStop {
  Ns begin;
  Ns end;
};

struct PauseEnded {
  std::uint64_t id;  ///< 0: the collector returned without collecting, so this was no pause
  std::uint32_t pid;
  std::uint32_t tid;
  std::optional<std::int64_t> interpreter;
  PauseKind kind;
  std::optional<std::int32_t> generation;
  std::optional<PauseReason> reason;
  Ns begin;
  Ns end;
  std::optional<Ns> cpu;
  std::optional<std::int64_t> collected;
  std::optional<std::int64_t> uncollectable = {};
  std::optional<Trigger> trigger = {};
  /// Free-threaded builds: when the other threads were stopped. Elsewhere empty: all of it.
  std::vector<WorldStop> world_stops = {};
};

struct StreamBegan {
  std::uint64_t id;
  std::uint32_t pid;
  StreamDirection direction;
  std::optional<std::string> peer;
  std::optional<std::string> host;
  bool tls;
  StreamProtocol protocol;
  Ns begin;  ///< the response head was read, or written
  /// The last byte of the request was written; of a stream that is written, it arrived, or was read
  /// where that is not known.
  std::optional<Ns> request_end;
  StreamFormat format = StreamFormat::sse;
  std::string content_type = {};    ///< media type; empty: not known
  std::string content_coding = {};  ///< as the head lists them; empty: none, or not known
};

/// A chunk, by its stream and its index in it.
struct ChunkPlace {
  std::uint64_t stream;
  std::uint32_t index;

  bool operator==(const ChunkPlace&) const = default;
};

/// A chunk was read, or written: its stream tells which. Of a written one `read` is the return of
/// the write of its last byte, which is its delivery.
struct ChunkRead {
  std::uint64_t stream;
  std::uint32_t index;  ///< from 0 in its stream
  std::uint32_t pid;
  std::uint32_t tid;
  std::uint32_t bytes;  ///< of the SSE event, framing of HTTP not counted
  Ns read;
  /// Of a written chunk: the thread had nothing that could have become it before.
  std::optional<Ns> arrival;
  /// How long the thread had ever been runnable without a CPU at this read, us, modulo 2^32.
  std::optional<std::uint32_t> run_delay = {};
  std::optional<ChunkPlace> source = {};  ///< of a written chunk: the one that it passes on
  /// A hash of its data, by which GatewayLinks finds `source`; 0: none. It is in no recording.
  std::uint64_t likeness = 0;
};

/// How often an event came. Its name is a word of gcause's own, see EventRole.
struct EventCount {
  std::string name;
  std::uint64_t count;
};

/// What was seen of the body of a stream beside its chunks.
struct BodySeen {
  std::vector<EventCount> events;  ///< dispatched ones, chunks included, in the order they came in
  std::uint64_t truncated = 0;  ///< of these: their content was not seen, or not kept, to its end
  std::uint64_t reads = 0;      ///< that brought bytes of it
  std::optional<Ns> first_read = {};
  std::optional<Ns> last_read = {};
  Ns longest_silence = 0;                   ///< between two of these reads
  std::optional<Undecoded> undecoded = {};  ///< from some point on, or from the first byte on
};

struct StreamEnded {
  std::uint64_t id;
  std::uint32_t pid;
  Ns at;
  StreamEnd end;
  std::optional<std::string> model;
  std::uint64_t comments;  ///< comments, pings and other events that are no chunks
  std::uint64_t bytes;     ///< of the body, as it was sent
  /// Of a stream that was cut off: when the peer closed the connection, or, if it did not, when the
  /// failure was found or the process closed it.
  std::optional<Ns> cut = {};
  std::optional<BodySeen> body = {};
};

/// A response that carried output bit by bit, in a form that is not read, is over.
struct StreamUnread {
  std::uint32_t pid;
  StreamDirection direction;
  std::optional<std::string> peer;
  std::optional<std::string> host;
  bool tls;
  StreamProtocol protocol;
  UnreadFormat format;
  std::string content_type;  ///< media type; empty: none
  Ns begin;                  ///< its head was read
  Ns end;
  std::uint64_t reads;  ///< that brought bytes of it
  std::uint64_t bytes;
};

struct WaitBegan {
  Ns at;
  std::uint32_t pid;
  std::uint32_t tid;
  std::optional<std::uint32_t> run_delay = {};  ///< as that of ChunkRead
};

/// A thread that had read a chunk slept for a lock at once, until `end`. Of several for one read
/// the last counts: it slept on after the others.
struct LockWaited {
  Ns begin;
  Ns end;
  std::uint32_t pid;
  std::uint32_t tid;
};

struct Lost {
  std::optional<std::uint32_t> pid;
  std::string where;
  std::uint64_t count;
  Ns from;
  Ns to;
};

struct ProcessEnded {
  Ns at;
  std::uint32_t pid;
};

/// The recording was ended in order; a recording without it was cut off.
struct RecordingEnded {
  Ns at;
};

/// A process has more than one interpreter, and this is one of them.
struct InterpreterFound {
  Ns at;
  std::uint32_t pid;
  std::int64_t interpreter;
  std::int64_t lock;  ///< the interpreter whose lock it shares; itself, if it has its own
};

/// A thread of such a process runs in this interpreter from now on.
struct ThreadFound {
  Ns at;
  std::uint32_t pid;
  std::uint32_t tid;
  std::optional<std::int64_t> interpreter;  ///< none: it is no longer known
};

/// A TLS library was loaded while the process was recorded, or found in it later: its probes are
/// in.
struct TlsLibraryProbed {
  Ns at;
  std::uint32_t pid;
  TlsLibrary library;
};

/// Which file's code uses a socket for TLS that no probed library reads.
struct TlsReaderFound {
  Ns at;
  std::uint32_t pid;
  std::uint64_t socket;
  std::string object;  ///< path as the process sees it
};

/// A connection with TLS of which no probed library read anything has ended, or the recording has.
/// Counted are the records of data that the process read behind its first request.
struct TlsUnread {
  std::uint32_t pid;
  std::uint64_t socket;
  std::optional<std::int32_t> fd;
  std::optional<std::string> peer;
  Ns begin;  ///< the first was read
  Ns end;    ///< the last was read
  std::uint64_t records;
  std::uint64_t bytes;  ///< that they carry, encrypted
  Ns longest_silence;   ///< from the arrival of one to that of the next in the same answer
  Ns longest_unread;    ///< from the arrival of one to its read
  std::optional<std::uint64_t> stream;  ///< the last that was made of them, if one was
};

using TimelineEvent =
    std::variant<SessionStarted, ProcessFollowed, PauseBegan, PauseEnded, StreamBegan, ChunkRead,
                 StreamEnded, WaitBegan, Lost, ProcessEnded, RecordingEnded, SettingsChanged,
                 InterpreterFound, ThreadFound, LockWaited, TlsLibraryProbed, TlsReaderFound,
                 TlsUnread, StreamUnread>;

/// Takes the timeline, one event at a time, in the order of time.
class TimelineConsumer {
 public:
  virtual ~TimelineConsumer() = default;
  virtual void consume(const TimelineEvent& event) = 0;
};

}  // namespace gcause
