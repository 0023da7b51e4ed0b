// SPDX-License-Identifier: Apache-2.0
#include "decode/decoder.h"

#include <arpa/inet.h>
#include <sys/socket.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <cstring>
#include <string>
#include <variant>
#include <vector>

#include "decode/kernel_abi.h"

namespace gcause {
namespace {

using Bytes = std::vector<std::byte>;

record_header header_of(std::size_t size, u16 kind, u64 ns, u16 flags = 0) {
  return {static_cast<u32>(size), kind, flags, 42, 43, ns};
}

template <typename Record>
Bytes bytes_of(const Record& record) {
  Bytes bytes(sizeof record);
  std::memcpy(bytes.data(), &record, sizeof record);
  return bytes;
}

Bytes bare(u16 kind, u64 ns) { return bytes_of(header_of(sizeof(record_header), kind, ns)); }

io_record io_of(u64 ns, u16 flags, std::size_t length) {
  io_record record{};
  record.header = header_of(sizeof record + length, RECORD_IO, ns, flags);
  record.length = static_cast<u32>(length);
  return record;
}

Bytes with_payload(const io_record& record, const std::string& payload) {
  auto bytes = bytes_of(record);
  const auto text = std::as_bytes(std::span(payload));
  bytes.insert(bytes.end(), text.begin(), text.end());
  return bytes;
}

void append(Bytes& to, const Bytes& record) {
  to.insert(to.end(), record.begin(), record.end());
  to.resize((to.size() + 7) & ~std::size_t{7});
}

Bytes batch(std::initializer_list<Bytes> records) {
  Bytes all;
  for (const auto& record : records) append(all, record);
  return all;
}

/// A decoder that keeps its events; the payload of an Io is copied while it is valid.
struct Lab {
  explicit Lab(Ns window = 100)
      : decoder(
            [this](const Event& event) {
              events.push_back(event);
              if (const auto* io = std::get_if<Io>(&event)) {
                payloads.emplace_back(reinterpret_cast<const char*>(io->payload.data()),
                                      io->payload.size());
              }
            },
            window) {}

  template <typename E>
  const E& only() const {
    REQUIRE(events.size() == 1);
    REQUIRE(std::holds_alternative<E>(events[0]));
    return std::get<E>(events[0]);
  }

  /// When the waits among the events happened.
  std::vector<Ns> times() const {
    std::vector<Ns> times;
    for (const auto& event : events) times.push_back(std::get<Wait>(event).at);
    return times;
  }

  std::vector<Event> events;
  std::vector<std::string> payloads;
  Decoder decoder;
};

Lab decoded(const Bytes& records) {
  Lab lab;
  lab.decoder.feed(records);
  lab.decoder.finish();
  return lab;
}
using Times = std::vector<Ns>;

TEST_CASE("the beginning of a collection") {
  const auto lab = decoded(bare(RECORD_COLLECTION_BEGIN, 7));
  const auto& event = lab.only<CollectionBegin>();
  CHECK(event.at == 7);
  CHECK(event.pid == 42);
  CHECK(event.tid == 43);
}

collection_end_record collection_end(u16 flags) {
  collection_end_record record{};
  record.header = header_of(sizeof record, RECORD_COLLECTION_END, 900, flags);
  record.begin_ns = 100;
  record.cpu_ns = 750;
  record.collected = 12'345;
  record.generation = 2;
  return record;
}

TEST_CASE("the end of a collection, with all that is known") {
  const auto lab = decoded(bytes_of(collection_end(COLLECTION_HAS_STATS | COLLECTION_HAS_CPU)));
  const auto& event = lab.only<CollectionEnd>();
  CHECK(event.begin == 100);
  CHECK(event.end == 900);
  CHECK(event.pid == 42);
  CHECK(event.tid == 43);
  CHECK(event.generation == 2);
  CHECK(event.collected == 12'345);
  CHECK(event.cpu == 750);
  CHECK_FALSE(event.idle);
}

TEST_CASE("what a collection does not say stays unknown") {
  const auto lab = decoded(bytes_of(collection_end(COLLECTION_IDLE)));
  const auto& event = lab.only<CollectionEnd>();
  CHECK(event.idle);
  CHECK_FALSE(event.generation);
  CHECK_FALSE(event.collected);
  CHECK_FALSE(event.cpu);
}

TEST_CASE("a generation that no collector has is unknown") {
  auto record = collection_end(COLLECTION_HAS_STATS);
  record.generation = GENERATE(-1, 3, 1 << 30);
  const auto lab = decoded(bytes_of(record));
  CHECK_FALSE(lab.only<CollectionEnd>().generation);
  CHECK(lab.only<CollectionEnd>().collected == 12'345);
}

TEST_CASE("a read with its payload") {
  auto record = io_of(900, IO_HAS_SEQUENCE | IO_LAST, 5);
  record.begin_ns = 800;
  record.connection = 0xAAAA;
  record.socket = 0xBBBB;
  record.result = 20'005;
  record.sequence_end = 0xFFFFFFFF;
  record.offset = 20'000;
  const auto lab = decoded(batch({with_payload(record, "hello")}));
  const auto& io = lab.only<Io>();
  CHECK(io.begin == 800);
  CHECK(io.end == 900);
  CHECK(io.pid == 42);
  CHECK(io.tid == 43);
  CHECK(io.direction == Direction::read);
  CHECK(io.layer == Layer::socket);
  CHECK_FALSE(io.inside_tls);
  CHECK(io.connection == 0xAAAA);
  CHECK(io.socket == 0xBBBB);
  CHECK(io.result == 20'005);
  CHECK(io.sequence_end == 0xFFFFFFFFu);
  CHECK(io.offset == 20'000);
  CHECK(io.last);
  CHECK(lab.payloads == std::vector<std::string>{"hello"});
}

TEST_CASE("each flag of a read or write stands for itself") {
  const auto flags_of = [](u16 flags) {
    const auto lab = decoded(bytes_of(io_of(900, flags, 0)));
    const auto& io = lab.only<Io>();
    return std::string(io.direction == Direction::write ? "w" : "") +
           (io.layer == Layer::tls ? "t" : "") + (io.sequence_end ? "s" : "") +
           (io.last ? "l" : "") + (io.inside_tls ? "i" : "") + (io.woke ? "k" : "");
  };
  CHECK(flags_of(0) == "");
  CHECK(flags_of(IO_WRITE) == "w");
  CHECK(flags_of(IO_TLS) == "t");
  CHECK(flags_of(IO_HAS_SEQUENCE) == "s");
  CHECK(flags_of(IO_LAST) == "l");
  CHECK(flags_of(IO_INSIDE_TLS) == "i");
  CHECK(flags_of(IO_HAS_WAKE) == "k");
}

TEST_CASE("a write tells when its thread woke") {
  auto record = io_of(5'000'000, IO_WRITE | IO_HAS_WAKE, 0);
  record.since_wake_us = 1'200;
  const auto lab = decoded(bytes_of(record));
  CHECK(lab.only<Io>().woke == 3'800'000);
  CHECK_FALSE(lab.only<Io>().sequence_end);
}

TEST_CASE("a call whose entry is not known began when it ended") {
  const auto lab = decoded(bytes_of(io_of(900, 0, 0)));
  CHECK(lab.only<Io>().begin == 900);
}

TEST_CASE("a failed read keeps its error") {
  auto record = io_of(900, 0, 0);
  record.result = -104;
  CHECK(decoded(bytes_of(record)).only<Io>().result == -104);
}

TEST_CASE("an arrival") {
  arrival_record record{};
  record.header = header_of(sizeof record, RECORD_ARRIVAL, 5);
  record.socket = 9;
  record.sequence_end = 77;
  const auto lab = decoded(bytes_of(record));
  CHECK(lab.only<Arrival>().at == 5);
  CHECK(lab.only<Arrival>().socket == 9);
  CHECK(lab.only<Arrival>().sequence_end == 77);
}

TEST_CASE("a wait") {
  wait_record record{};
  record.header = header_of(sizeof record, RECORD_WAIT, 5, WAIT_IN_READ | WAIT_HAS_RUN_DELAY);
  record.run_delay_us = 0xFFFFFFFF;
  const auto lab = decoded(bytes_of(record));
  CHECK(lab.only<Wait>().at == 5);
  CHECK(lab.only<Wait>().pid == 42);
  CHECK(lab.only<Wait>().tid == 43);
  CHECK(lab.only<Wait>().in_read);
  CHECK(lab.only<Wait>().run_delay == 0xFFFFFFFF);
}

TEST_CASE("a wait of an older capture, or without its sum") {
  const auto lab = decoded(bare(RECORD_WAIT, 5));
  CHECK(lab.only<Wait>().at == 5);
  CHECK_FALSE(lab.only<Wait>().in_read);
  CHECK_FALSE(lab.only<Wait>().run_delay);
  wait_record record{};
  record.header = header_of(sizeof record, RECORD_WAIT, 5);
  record.run_delay_us = 3;
  CHECK_FALSE(decoded(bytes_of(record)).only<Wait>().run_delay);
}

TEST_CASE("a sleep for a lock") {
  lock_waited_record record{};
  record.header = header_of(sizeof record, RECORD_LOCK_WAITED, 9);
  record.begin_ns = 5;
  const auto lab = decoded(bytes_of(record));
  CHECK(lab.only<LockSlept>().begin == 5);
  CHECK(lab.only<LockSlept>().end == 9);
  CHECK(lab.only<LockSlept>().pid == 42);
  CHECK(lab.only<LockSlept>().tid == 43);
}

TEST_CASE("how long a thread had no CPU is told where the kernel knows it") {
  auto record = io_of(5, IO_LAST, 0);
  record.run_delay_us = 17;
  CHECK_FALSE(decoded(bytes_of(record)).only<Io>().run_delay);
  record.header.flags |= IO_HAS_RUN_DELAY;
  CHECK(decoded(bytes_of(record)).only<Io>().run_delay == 17);
}

TEST_CASE("a socket's peer is written as an address and a port") {
  const auto peer_of = [](u16 family, const char* address, u16 port) {
    socket_seen_record record{};
    record.header = header_of(sizeof record, RECORD_SOCKET_SEEN, 5);
    record.socket = 9;
    record.family = family;
    record.remote_port = port;
    record.sequence_end = 1'000;
    if (family != AF_UNIX) ::inet_pton(family, address, record.remote_address);
    const auto lab = decoded(bytes_of(record));
    const auto& seen = lab.only<SocketSeen>();
    CHECK(seen.at == 5);
    CHECK(seen.pid == 42);
    CHECK(seen.socket == 9);
    CHECK(seen.sequence_end == 1'000);
    return seen.peer;
  };
  CHECK(peer_of(AF_INET, "10.1.2.3", 443) == "10.1.2.3:443");
  CHECK(peer_of(AF_INET6, "2001:db8::1", 65'535) == "[2001:db8::1]:65535");
  CHECK(peer_of(AF_UNIX, "", 0) == "unix");
}

TEST_CASE("a socket of a family that nobody knows does no harm") {
  socket_seen_record record{};
  record.header = header_of(sizeof record, RECORD_SOCKET_SEEN, 5);
  record.family = 0xFFFF;
  CHECK_FALSE(decoded(bytes_of(record)).only<SocketSeen>().peer.empty());
}

TEST_CASE("a socket is closed, by the process or not, or its peer has closed it") {
  socket_closed_record record{};
  const std::uint16_t flags = GENERATE(0, SOCKET_CLOSED_BY_PROCESS, SOCKET_CLOSED_BY_PEER);
  record.header = header_of(sizeof record, RECORD_SOCKET_CLOSED, 5, flags);
  record.socket = 9;
  record.error = 110;
  const auto lab = decoded(bytes_of(record));
  CHECK(lab.only<SocketClosed>().at == 5);
  CHECK(lab.only<SocketClosed>().socket == 9);
  CHECK(lab.only<SocketClosed>().error == 110);
  CHECK(lab.only<SocketClosed>().by_process == (flags == SOCKET_CLOSED_BY_PROCESS));
  CHECK(lab.only<SocketClosed>().by_peer == (flags == SOCKET_CLOSED_BY_PEER));
}

TEST_CASE("a TLS object is freed") {
  tls_freed_record record{};
  record.header = header_of(sizeof record, RECORD_TLS_FREED, 5);
  record.connection = 0xAAAA;
  const auto lab = decoded(bytes_of(record));
  CHECK(lab.only<TlsFreed>().at == 5);
  CHECK(lab.only<TlsFreed>().pid == 42);
  CHECK(lab.only<TlsFreed>().connection == 0xAAAA);
}

TEST_CASE("a process forks, executes, ends") {
  process_fork_record record{};
  record.header = header_of(sizeof record, RECORD_PROCESS_FORK, 5);
  record.child = 99;
  const auto lab = decoded(
      batch({bytes_of(record), bare(RECORD_PROCESS_EXEC, 6), bare(RECORD_PROCESS_EXIT, 7)}));
  REQUIRE(lab.events.size() == 3);
  const auto& fork = std::get<ProcessFork>(lab.events[0]);
  CHECK(fork.at == 5);
  CHECK(fork.parent == 42);
  CHECK(fork.child == 99);
  CHECK(std::get<ProcessExec>(lab.events[1]).at == 6);
  CHECK(std::get<ProcessExec>(lab.events[1]).pid == 42);
  CHECK(std::get<ProcessExit>(lab.events[2]).at == 7);
  CHECK(std::get<ProcessExit>(lab.events[2]).pid == 42);
}

TEST_CASE("a record too short for its kind is counted, and the next one is read") {
  const auto kind =
      GENERATE(RECORD_COLLECTION_END, RECORD_IO, RECORD_ARRIVAL, RECORD_SOCKET_SEEN,
               RECORD_SOCKET_CLOSED, RECORD_TLS_FREED, RECORD_PROCESS_FORK, RECORD_LOCK_WAITED);
  CAPTURE(kind);
  const auto lab = decoded(batch({bare(static_cast<u16>(kind), 5), bare(RECORD_WAIT, 6)}));
  CHECK(lab.only<Wait>().at == 6);
  CHECK(lab.decoder.malformed() == 1);
  CHECK(lab.decoder.events() == 1);
}

TEST_CASE("a record of a kind that nobody knows is counted, and the next one is read") {
  const u16 kind = GENERATE(u16{0}, u16{999}, u16{0xFFFF});
  const auto lab = decoded(batch({bare(kind, 5), bare(RECORD_WAIT, 6)}));
  CHECK(lab.only<Wait>().at == 6);
  CHECK(lab.decoder.malformed() == 1);
}

TEST_CASE("a record longer than its kind is one of a later version, and is read") {
  arrival_record record{};
  record.header = header_of(sizeof record + 16, RECORD_ARRIVAL, 5);
  record.sequence_end = 77;
  auto bytes = bytes_of(record);
  bytes.resize(bytes.size() + 16, std::byte{0xFF});
  const auto lab = decoded(batch({bytes, bare(RECORD_WAIT, 6)}));
  REQUIRE(lab.events.size() == 2);
  CHECK(std::get<Arrival>(lab.events[0]).sequence_end == 77);
  CHECK(lab.decoder.malformed() == 0);
}

TEST_CASE("a size that cannot be is counted, and costs the rest of its batch only") {
  const u32 size = GENERATE(0u, 1u, 23u, 1'000u, 0x7FFFFFFFu, 0xFFFFFFF8u, 0xFFFFFFFFu);
  CAPTURE(size);
  auto broken = header_of(size, RECORD_WAIT, 6);
  broken.size = size;
  Lab lab;
  lab.decoder.feed(batch({bare(RECORD_WAIT, 5), bytes_of(broken), bare(RECORD_WAIT, 7)}));
  lab.decoder.feed(bare(RECORD_WAIT, 8));
  lab.decoder.finish();
  CHECK(lab.times() == Times{5, 8});
  CHECK(lab.decoder.malformed() == 1);
}

TEST_CASE("a payload length beyond its record is refused") {
  auto record = io_of(900, 0, 5);
  record.length = GENERATE(u32{6}, u32{4096}, u32{0xFFFFFFFF});
  const auto lab = decoded(batch({with_payload(record, "hello"), bare(RECORD_WAIT, 901)}));
  CHECK(lab.only<Wait>().at == 901);
  CHECK(lab.decoder.malformed() == 1);
  CHECK(lab.decoder.payload_bytes() == 0);
}

TEST_CASE("bytes behind the last whole record are counted once") {
  auto records = batch({bare(RECORD_WAIT, 5)});
  records.resize(records.size() + 8, std::byte{0xFF});
  const auto lab = decoded(records);
  CHECK(lab.times() == Times{5});
  CHECK(lab.decoder.malformed() == 1);
}

TEST_CASE("payloads of any length are padded to 8 bytes, and what follows is read") {
  const auto length = static_cast<std::size_t>(GENERATE(0, 1, 7, 8, 9, 15, 16'383));
  CAPTURE(length);
  const std::string payload(length, 'x');
  const auto lab = decoded(
      batch({with_payload(io_of(5, 0, length), payload), with_payload(io_of(6, 0, 3), "abc"),
             with_payload(io_of(7, 0, length), payload)}));
  CHECK(lab.payloads == std::vector<std::string>{payload, "abc", payload});
  CHECK(lab.decoder.payload_bytes() == 2 * length + 3);
  CHECK(lab.decoder.malformed() == 0);
}

TEST_CASE("records that come in the wrong order leave in the order of time") {
  Lab lab;
  lab.decoder.feed(batch({bare(RECORD_WAIT, 30), bare(RECORD_WAIT, 10), bare(RECORD_WAIT, 20)}));
  lab.decoder.feed(batch({bare(RECORD_WAIT, 5), bare(RECORD_WAIT, 25)}));
  lab.decoder.finish();
  CHECK(lab.times() == Times{5, 10, 20, 25, 30});
  CHECK(lab.decoder.events() == 5);
}

TEST_CASE("records of one moment keep the order in which they came") {
  Lab lab;
  auto first = io_of(10, 0, 1), second = io_of(10, IO_LAST, 1);
  lab.decoder.feed(
      batch({bare(RECORD_WAIT, 20), with_payload(first, "a"), with_payload(second, "b")}));
  lab.decoder.finish();
  CHECK(lab.payloads == std::vector<std::string>{"a", "b"});
}

TEST_CASE("a record waits until it is older than the window") {
  Lab lab(100);
  lab.decoder.feed(batch({bare(RECORD_WAIT, 1'000), bare(RECORD_WAIT, 1'099)}));
  lab.decoder.advance();
  CHECK(lab.events.empty());
  lab.decoder.feed(bare(RECORD_WAIT, 1'100));
  lab.decoder.advance();
  CHECK(lab.times() == Times{1'000});
  // An older one that comes inside the window is still in time.
  lab.decoder.feed(batch({bare(RECORD_WAIT, 1'050), bare(RECORD_WAIT, 1'199)}));
  lab.decoder.advance();
  CHECK(lab.times() == Times{1'000, 1'050, 1'099});
  lab.decoder.finish();
  CHECK(lab.times() == Times{1'000, 1'050, 1'099, 1'100, 1'199});
}

TEST_CASE("what is older than the named time leaves though nothing younger came") {
  Lab lab(100);
  lab.decoder.feed(batch({bare(RECORD_WAIT, 1'000), bare(RECORD_WAIT, 1'050)}));
  lab.decoder.advance(1'000);
  CHECK(lab.times() == Times{1'000});
  lab.decoder.advance(10);
  CHECK(lab.times() == Times{1'000});
  lab.decoder.advance(1'060);
  CHECK(lab.times() == Times{1'000, 1'050});
  // A time that is older than the window holds nothing back.
  lab.decoder.feed(batch({bare(RECORD_WAIT, 1'100), bare(RECORD_WAIT, 1'300)}));
  lab.decoder.advance(10);
  CHECK(lab.times() == Times{1'000, 1'050, 1'100});
}

TEST_CASE("payloads survive that records around them leave") {
  Lab lab(100);
  lab.decoder.feed(batch({bare(RECORD_WAIT, 10), with_payload(io_of(150, 0, 5), "hello"),
                          bare(RECORD_WAIT, 20), with_payload(io_of(140, 0, 3), "abc")}));
  lab.decoder.advance();
  CHECK(lab.events.size() == 2);
  lab.decoder.feed(batch({with_payload(io_of(145, 0, 9), "in middle")}));
  lab.decoder.finish();
  CHECK(lab.payloads == std::vector<std::string>{"abc", "in middle", "hello"});
}

TEST_CASE("many turns agree with one sort") {
  std::vector<Ns> expected;
  Lab lab(100);
  u32 state = 1;
  for (int turn = 0; turn < 200; ++turn) {
    Bytes records;
    for (int i = 0; i < 7; ++i) {
      state = state * 1'664'525 + 1'013'904'223;
      const auto at = static_cast<Ns>(10 * turn + 100 + (state >> 16) % 90);
      expected.push_back(at);
      append(records, bare(RECORD_WAIT, static_cast<u64>(at)));
    }
    lab.decoder.feed(records);
    if (turn % 3 == 0) lab.decoder.advance();
  }
  lab.decoder.finish();
  std::sort(expected.begin(), expected.end());
  CHECK(lab.times() == expected);
}

TEST_CASE("whose code used a socket: the call's address, and the stack up to its last word") {
  tls_caller_record record{};
  record.header = header_of(sizeof record, RECORD_TLS_CALLER, 5);
  record.socket = 70;
  record.fd = GENERATE(7, -1);
  record.code = 0x1000;
  record.stack[0] = 0x2000;
  record.stack[2] = 0x3000;
  Lab lab;
  lab.decoder.feed(bytes_of(record));
  lab.decoder.finish();
  const auto& caller = lab.only<TlsCaller>();
  CHECK(caller.at == 5);
  CHECK(caller.pid == 42);
  CHECK(caller.socket == 70);
  CHECK(caller.fd == (record.fd < 0 ? std::nullopt : std::optional<std::int32_t>(7)));
  CHECK(caller.words == std::vector<std::uint64_t>{0x1000, 0x2000, 0, 0x3000});
}

}  // namespace
}  // namespace gcause
