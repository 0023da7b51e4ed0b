// SPDX-License-Identifier: Apache-2.0
//
// Small messages over loopback TCP, as fast as they go, between pairs of processes that play
// ping-pong.
//
//     loopback_load PAIRS [WORK]
//
// Prints "ready", then reads lines: each is a number of milliseconds, and is answered when they are
// over by "MESSAGES NANOSECONDS CPU_NANOSECONDS" of that time, the last over all processes of the
// load. With WORK each message is also worth that many steps of a computation, as to a program that
// does something with it. Ends with its input. A message is 64 bytes in one direction, sent at once (TCP_NODELAY),
// and received by one call.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <utility>
#include <vector>

namespace {

constexpr std::size_t kMessage = 64;
constexpr int kMostPairs = 64;

/// Each player has a cache line of its own for what it has received.
struct alignas(64) Counter {
  std::atomic<std::uint64_t> messages{0};
};

[[noreturn]] void fail(const char* what) {
  std::perror(what);
  std::exit(1);
}

std::int64_t clock_ns(clockid_t clock) {
  timespec now = {};
  if (::clock_gettime(clock, &now) != 0) fail("clock_gettime");
  return now.tv_sec * std::int64_t{1'000'000'000} + now.tv_nsec;
}

/// Two ends of a TCP connection over 127.0.0.1.
std::pair<int, int> connect_pair() {
  const int listener = ::socket(AF_INET, SOCK_STREAM, 0);
  const int client = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  auto* const raw = reinterpret_cast<sockaddr*>(&address);
  if (::bind(listener, raw, sizeof address) != 0 || ::listen(listener, 1) != 0) fail("listen");
  if (::getsockname(listener, raw, &length) != 0) fail("getsockname");
  if (::connect(client, raw, sizeof address) != 0) fail("connect");
  const int server = ::accept(listener, nullptr, nullptr);
  if (server < 0) fail("accept");
  ::close(listener);
  const int on = 1;
  for (const int end : {client, server}) {
    if (::setsockopt(end, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) != 0) fail("TCP_NODELAY");
  }
  return {client, server};
}

/// What a program does with a message.
void work_on(long steps) {
  volatile std::uint64_t state = 1;
  for (long i = 0; i < steps; ++i) state = state * 6'364'136'223'846'793'005 + 1;
}

/// Answers each message, or begins with one; until the other end is gone.
[[noreturn]] void play(int socket, bool first, long work, Counter& counter) {
  char message[kMessage] = {};
  if (first && ::send(socket, message, kMessage, MSG_NOSIGNAL) < 0) fail("send");
  for (;;) {
    const auto got = ::recv(socket, message, kMessage, MSG_WAITALL);
    if (got != static_cast<ssize_t>(kMessage)) std::_Exit(0);
    counter.messages.fetch_add(1, std::memory_order_relaxed);
    work_on(work);
    if (::send(socket, message, kMessage, MSG_NOSIGNAL) < 0) std::_Exit(0);
  }
}

struct Player {
  pid_t pid;
  clockid_t cpu;
};

Player start_player(const std::vector<int>& sockets, std::size_t mine, long work,
                    Counter& counter) {
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0) fail("fork");
  if (pid == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) std::_Exit(0);
    ::close(STDIN_FILENO);
    for (std::size_t i = 0; i < sockets.size(); ++i) {
      if (i != mine) ::close(sockets[i]);
    }
    play(sockets[mine], mine % 2 == 0, work, counter);
  }
  Player player{pid, {}};
  if (::clock_getcpuclockid(pid, &player.cpu) != 0) fail("clock_getcpuclockid");
  return player;
}

struct Reading {
  std::uint64_t messages = 0;
  std::int64_t at = 0;
  std::int64_t cpu = 0;
};

Reading read_all(const std::vector<Player>& players, const Counter* counters) {
  Reading reading;
  reading.at = clock_ns(CLOCK_MONOTONIC);
  for (std::size_t i = 0; i < players.size(); ++i) {
    reading.messages += counters[i].messages.load(std::memory_order_relaxed);
    reading.cpu += clock_ns(players[i].cpu);
  }
  return reading;
}

}  // namespace

int main(int argc, char** argv) {
  const int pairs = argc >= 2 ? std::atoi(argv[1]) : 0;
  const long work = argc >= 3 ? std::atol(argv[2]) : 0;
  if (pairs < 1 || pairs > kMostPairs) {
    std::fprintf(stderr, "usage: loopback_load PAIRS [WORK], of pairs 1 to %d\n", kMostPairs);
    return 2;
  }
  const auto count = static_cast<std::size_t>(2 * pairs);
  void* const shared = ::mmap(nullptr, count * sizeof(Counter), PROT_READ | PROT_WRITE,
                              MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) fail("mmap");
  auto* const counters = static_cast<Counter*>(shared);
  std::vector<int> sockets;
  for (int i = 0; i < pairs; ++i) {
    const auto [client, server] = connect_pair();
    sockets.insert(sockets.end(), {client, server});
  }
  std::vector<Player> players;
  for (std::size_t i = 0; i < count; ++i) {
    players.push_back(start_player(sockets, i, work, counters[i]));
  }
  for (const int socket : sockets) ::close(socket);
  std::printf("ready\n");
  std::fflush(stdout);
  long milliseconds = 0;
  while (std::scanf("%ld", &milliseconds) == 1) {
    const Reading before = read_all(players, counters);
    ::usleep(static_cast<useconds_t>(milliseconds) * 1000);
    const Reading after = read_all(players, counters);
    std::printf("%llu %lld %lld\n",
                static_cast<unsigned long long>(after.messages - before.messages),
                static_cast<long long>(after.at - before.at),
                static_cast<long long>(after.cpu - before.cpu));
    std::fflush(stdout);
  }
  for (const auto& player : players) ::kill(player.pid, SIGKILL);
  for (const auto& player : players) ::waitpid(player.pid, nullptr, 0);
  return 0;
}
