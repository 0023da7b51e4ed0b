// SPDX-License-Identifier: Apache-2.0
// Memory that open, idle streams cost: synthetic records of the kernel side, through decode, streams,
// attribution and JSON lines. Each stream is asked for, begins and brings some chunks; then nothing
// more is heard of it. Prints one JSON object for each kind of connection, and fails where a stream
// costs more than 4 KiB of resident memory on average, or where one was not seen.
//
//     stream_memory [KIND [STREAMS]]      plain, tls, tls-memory, h2; all of them with 10,000
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "decode/decoder.h"
#include "decode/kernel_abi.h"
#include "session/outputs.h"
#include "session/pipeline.h"

namespace gcause {
namespace {

constexpr std::uint64_t kLimit = 4096;  ///< bytes a stream
constexpr unsigned kChunks = 5;         ///< that each stream has brought
constexpr std::uint32_t kPid = 4242, kTid = 4243;
constexpr u64 kTlsObjects = 0x7F0000000000;
constexpr unsigned kH2Streams = 100;  ///< on one connection
constexpr int kTlsRecordOverhead = 17;

std::uint64_t resident_bytes() {
  unsigned long size = 0, resident = 0;
  std::FILE* file = std::fopen("/proc/self/statm", "re");
  if (!file || std::fscanf(file, "%lu %lu", &size, &resident) != 2) std::abort();
  std::fclose(file);
  return resident * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

std::string event_of(unsigned stream, unsigned chunk) {
  return "data: {\"id\":\"" + std::to_string(stream) + "\",\"model\":\"bench-model\",\"i\":" +
         std::to_string(chunk) + ",\"choices\":[{\"delta\":{\"content\":\"words\"}}]}\n\n";
}

std::string framed(const std::string& body) {
  char size[24];
  std::snprintf(size, sizeof size, "%zx\r\n", body.size());
  return size + body + "\r\n";
}

/// A frame of HTTP/2 (RFC 9113, section 4.1).
std::string frame(char type, char flags, std::uint32_t stream, std::string_view payload) {
  std::string bytes;
  for (const int shift : {16, 8, 0}) bytes += static_cast<char>(payload.size() >> shift);
  bytes += type;
  bytes += flags;
  for (const int shift : {24, 16, 8, 0}) bytes += static_cast<char>(stream >> shift);
  return bytes.append(payload);
}

/// The header blocks of a request and of a response with an event stream, without the dynamic table
/// (RFC 7541, sections 6.1 and 6.2.2, and appendix A).
std::string h2_request(std::uint32_t stream) {
  return frame(1, 4 | 1, stream, "\x82\x86\x84\x01\x09" "localhost");
}
std::string h2_response(std::uint32_t stream) {
  return frame(1, 4, stream, "\x88\x0f\x10\x11" "text/event-stream");
}

/// The kernel side of a machine with sockets that nothing happens on by itself.
class Machine {
 public:
  explicit Machine(TimelineConsumer& timeline)
      : pipeline_(timeline), decoder_([this](const Event& event) { pipeline_.handle(event); }) {}

  void socket_seen(u64 socket) {
    socket_seen_record record{};
    record.header = header(sizeof record, RECORD_SOCKET_SEEN);
    record.socket = socket;
    record.family = 2;  // AF_INET
    record.remote_port = 443;
    record.sequence_end = 1000;
    append(record, {});
    sequence_ = 1000;
  }

  void write(u64 connection, u64 socket, u16 flags, const std::string& bytes) {
    io(connection, socket, static_cast<u16>(flags | IO_WRITE), bytes.size(), bytes);
  }

  /// Bytes arrive on a socket and are read from it; the payload is told where it was copied.
  void read(u64 socket, u16 flags, std::size_t count, const std::string& payload) {
    sequence_ += static_cast<u32>(count);
    arrival_record arrival{};
    arrival.header = header(sizeof arrival, RECORD_ARRIVAL);
    arrival.socket = socket;
    arrival.sequence_end = sequence_;
    append(arrival, {});
    io(socket, socket, static_cast<u16>(flags | IO_HAS_SEQUENCE), count, payload);
  }

  void tls_read(u64 tls, const std::string& plaintext) {
    io(tls, 0, IO_TLS, plaintext.size(), plaintext);
  }

  /// The thread asks for more; a moment later what has happened so far is in order.
  void wait() {
    wait_record record{};
    record.header = header(sizeof record, RECORD_WAIT);
    append(record, {});
    now_ += 200'000'000;
    decoder_.feed(records_);
    records_.clear();
    decoder_.advance(static_cast<Ns>(now_ - 100'000'000));
    pipeline_.take_streaming();
  }

 private:
  record_header header(std::size_t size, u16 kind, u16 flags = 0) {
    now_ += 1000;
    return {static_cast<u32>(size), kind, flags, kPid, kTid, now_};
  }

  void io(u64 connection, u64 socket, u16 flags, std::size_t count, const std::string& payload) {
    io_record record{};
    record.header = header(sizeof record + payload.size(), RECORD_IO,
                           static_cast<u16>(flags | IO_LAST));
    record.begin_ns = record.header.ns - 500;
    record.connection = connection;
    record.socket = socket;
    record.result = static_cast<s64>(count);
    record.sequence_end = sequence_;
    record.length = static_cast<u32>(payload.size());
    append(record, payload);
  }

  template <typename Record>
  void append(const Record& record, const std::string& payload) {
    const auto* bytes = reinterpret_cast<const std::byte*>(&record);
    records_.insert(records_.end(), bytes, bytes + sizeof record);
    const auto text = std::as_bytes(std::span(payload));
    records_.insert(records_.end(), text.begin(), text.end());
    records_.resize((records_.size() + 7) & ~std::size_t{7});
  }

  Pipeline pipeline_;
  Decoder decoder_;
  std::vector<std::byte> records_;
  u64 now_ = 1'000'000'000;
  u32 sequence_ = 0;
};

const std::string kRequest =
    "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{}";
const std::string kHead =
    "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";

/// What brings the bytes of a stream to the program.
struct Way {
  const char* name;
  /// Opens stream `number` and reads its chunks.
  void (*open)(Machine& machine, unsigned number);
};

void open_plain(Machine& machine, unsigned number) {
  const u64 socket = number + 1;
  machine.socket_seen(socket);
  machine.write(socket, socket, 0, kRequest);
  for (unsigned chunk = 0; chunk < kChunks; ++chunk) {
    const auto bytes = (chunk == 0 ? kHead : "") + framed(event_of(number, chunk));
    machine.read(socket, 0, bytes.size(), bytes);
    machine.wait();
  }
}

/// The TLS library reads the socket itself.
void open_tls(Machine& machine, unsigned number) {
  const u64 socket = number + 1, tls = kTlsObjects + number * 0x1000;
  machine.socket_seen(socket);
  machine.write(tls, 0, IO_TLS, kRequest);
  for (unsigned chunk = 0; chunk < kChunks; ++chunk) {
    const auto bytes = (chunk == 0 ? kHead : "") + framed(event_of(number, chunk));
    machine.read(socket, IO_INSIDE_TLS, bytes.size() + 5 + kTlsRecordOverhead, "");
    machine.tls_read(tls, bytes);
    machine.wait();
  }
}

/// The program reads the ciphertext, and the TLS library memory.
void open_tls_memory(Machine& machine, unsigned number) {
  const u64 socket = number + 1, tls = kTlsObjects + number * 0x1000;
  machine.socket_seen(socket);
  machine.write(tls, 0, IO_TLS, kRequest);
  for (unsigned chunk = 0; chunk < kChunks; ++chunk) {
    const auto bytes = (chunk == 0 ? kHead : "") + framed(event_of(number, chunk));
    const auto length = bytes.size() + kTlsRecordOverhead;
    const std::string record = std::string{'\x17', '\x03', '\x03', static_cast<char>(length >> 8),
                                           static_cast<char>(length)} +
                               std::string(length, '\xA5');
    machine.read(socket, 0, record.size(), record);
    machine.tls_read(tls, bytes);
    machine.wait();
  }
}

void open_h2(Machine& machine, unsigned number) {
  const u64 socket = number / kH2Streams + 1;
  const std::uint32_t stream = 2 * (number % kH2Streams) + 1;
  std::string asks, answers;
  if (stream == 1) {
    machine.socket_seen(socket);
    asks = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0, "");
    answers = frame(4, 0, 0, "") + frame(4, 1, 0, "");
  }
  machine.write(socket, socket, 0, asks + h2_request(stream));
  answers += h2_response(stream);
  for (unsigned chunk = 0; chunk < kChunks; ++chunk) {
    const auto bytes = answers + frame(0, 0, stream, event_of(number, chunk));
    answers.clear();
    machine.read(socket, 0, bytes.size(), bytes);
    machine.wait();
  }
}

constexpr std::array kWays = {Way{"plain", open_plain}, Way{"tls", open_tls},
                              Way{"tls-memory", open_tls_memory}, Way{"h2", open_h2}};

/// Whether a stream costs little enough.
bool measure(const Way& way, unsigned streams) {
  auto outputs = Outputs::make({{Format::jsonl, "/dev/null"}}, false, std::nullopt);
  if (!outputs) return false;
  (*outputs)->consume(SessionStarted{"bench", 1, 1, 100 * kMillisecond, "none", {}});
  ProcessFollowed followed{};
  followed.pid = kPid;
  (*outputs)->consume(followed);
  Machine machine(**outputs);
  // What is needed once is not the streams'.
  for (unsigned i = 0; i < kH2Streams; ++i) way.open(machine, i);
  const auto before = resident_bytes();
  for (unsigned i = kH2Streams; i < streams + kH2Streams; ++i) way.open(machine, i);
  const auto each = (resident_bytes() - before) / streams;
  const auto chunks = (*outputs)->progress().chunks;
  const bool all_seen = chunks == std::uint64_t{streams + kH2Streams} * kChunks;
  std::printf("{\"kind\": \"%s\", \"streams\": %u, \"chunks_seen\": %llu, \"all_seen\": %s, "
              "\"bytes_per_stream\": %llu, \"limit\": %llu}\n",
              way.name, streams, static_cast<unsigned long long>(chunks),
              all_seen ? "true" : "false", static_cast<unsigned long long>(each),
              static_cast<unsigned long long>(kLimit));
  std::fflush(stdout);
  return all_seen && each <= kLimit;
}

}  // namespace
}  // namespace gcause

int main(int argc, char** argv) {
  const std::string_view chosen = argc > 1 ? argv[1] : "";
  const auto streams = argc > 2 ? static_cast<unsigned>(std::atoi(argv[2])) : 10'000u;
  bool held = streams > 0, any = false;
  for (const auto& way : gcause::kWays) {
    if (!chosen.empty() && chosen != way.name) continue;
    any = true;
    // In a process of its own: memory that another kind has left behind would be taken again.
    const auto child = ::fork();
    if (child == 0) ::_exit(gcause::measure(way, streams) ? 0 : 1);
    int status = -1;
    held &= child > 0 && ::waitpid(child, &status, 0) == child && status == 0;
  }
  if (!any) std::fprintf(stderr, "usage: stream_memory [plain|tls|tls-memory|h2 [STREAMS]]\n");
  return any && held ? 0 : 1;
}
