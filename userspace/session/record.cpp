// SPDX-License-Identifier: Apache-2.0
#include "session/record.h"

#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cinttypes>
#include <cstdio>
#include <memory>
#include <utility>

#include "decode/decoder.h"
#include "loader/features.h"
#include "loader/loader.h"
#include "session/command.h"
#include "session/followed.h"
#include "session/outputs.h"
#include "session/pipeline.h"
#include "sink/progress.h"
#include "target/collector_cache.h"
#include "target/procfs.h"
#include "target/target.h"
#include "util/clock.h"
#include "version.h"

namespace gcause {
namespace {

constexpr int kTickMilliseconds = 50;
constexpr Ns kWindow = 100 * kMillisecond;  ///< in which records may be out of order

/// SIGINT and SIGTERM as a descriptor; SIGPIPE becomes an error of the write.
Fd take_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  ::sigprocmask(SIG_BLOCK, &signals, nullptr);
  ::signal(SIGPIPE, SIG_IGN);
  return Fd(::signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK));
}

ProcessFollowed describe(const Target& target, const std::optional<CollectorSettings>& gc,
                         Ns seen_from) {
  std::vector<TlsLibrary> tls;
  for (const auto& library : target.tls) tls.push_back({library.object, library.functions});
  return {target.pid,
          target.start_ticks,
          target.exe,
          target.python_version,
          target.free_threaded,
          target.collector_method,
          target.collector_object,
          target.collector_symbol,
          target.collector_address,
          std::move(tls),
          seen_from,
          gc};
}

/// One recording, from the attach to the last finding.
class Recorder {
 public:
  explicit Recorder(const RecordOptions& options)
      : options_(options), pipeline_(tee_), decoder_([this](const Event& e) { handle(e); }) {}

  ~Recorder();
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  Result<int> run();

 private:
  Result<> open_outputs();
  /// Whether the process runs a program; one on its way out does not, before it is a zombie.
  bool is_there() const { return procfs_.alive(pid_) && procfs_.exe(pid_); }
  Result<> begin();
  Result<> attach_first();
  void announce();
  void loop();
  void turn(Ns now);
  void look_at_losses(Ns now);
  void show_progress(Ns now);
  void handle(const Event& event);
  bool over(Ns now);
  Result<int> end();

  const RecordOptions& options_;
  Procfs procfs_;
  CollectorCache collectors_;
  Fd signals_;
  Fd epoll_;
  std::unique_ptr<Outputs> outputs_;
  std::unique_ptr<RecordingWriter> raw_;
  Tee tee_;
  Pipeline pipeline_;
  Decoder decoder_;
  std::unique_ptr<Loader> loader_;
  std::unique_ptr<FollowedProcesses> followed_;
  std::map<std::string, bool> features_;
  std::uint32_t pid_ = 0;
  bool had_program_ = false;  ///< the process was there when we began
  bool interrupted_ = false;
  Ns started_ = 0;
  Ns next_progress_ = 0;
  Ns losses_read_at_ = 0;
  LossCounters losses_;
  std::vector<std::byte> records_;
  ProgressLine progress_;
};

Recorder::~Recorder() {
  if (options_.command.empty() || pid_ == 0) return;
  // What was started for the recording ends with it.
  ::kill(static_cast<pid_t>(pid_), SIGTERM);
  ::waitpid(static_cast<pid_t>(pid_), nullptr, WNOHANG);
}

Result<> Recorder::open_outputs() {
  auto outputs = Outputs::make(options_.outputs, options_.chunks, std::nullopt);
  if (!outputs) return outputs.error();
  outputs_ = *std::move(outputs);
  if (!options_.raw_capture.empty()) {
    auto raw = RecordingWriter::make(options_.raw_capture, FileKind::raw_capture);
    if (!raw) return raw.error();
    raw_ = *std::move(raw);
  }
  tee_.add(*outputs_);
  return Ok{};
}

/// Everything up to the point at which records flow.
Result<> Recorder::begin() {
  signals_ = take_signals();
  if (options_.pid) {
    pid_ = *options_.pid;
    had_program_ = is_there();
  }
  features_ = detect_features(options_.without);
  if (auto fulfilled = check_requirements(features_); !fulfilled) return fulfilled;
  if (options_.pid) {
    auto target = describe_target(procfs_, pid_, {.cache = &collectors_});
    if (!target) return target.error();
  }
  if (auto opened = open_outputs(); !opened) return opened;

  const SessionStarted session{kVersion,        now_monotonic(),  read_clock(CLOCK_REALTIME),
                               options_.budget, kernel_release(), features_};
  tee_.consume(session);
  if (raw_) raw_->consume(session);
  auto loader = Loader::make({features_, options_.ring_bytes, options_.trigger});
  if (!loader) return loader.error();
  loader_ = *std::move(loader);
  followed_ = std::make_unique<FollowedProcesses>(
      *loader_, procfs_, collectors_, SeccompEnds(features_), options_.subprocesses,
      [this](const Target& target, const std::optional<CollectorSettings>& gc) {
        const auto followed = describe(target, gc, now_monotonic());
        tee_.consume(followed);
        if (raw_) raw_->consume(followed);
      });
  epoll_ = Fd(::epoll_create1(EPOLL_CLOEXEC));
  for (const int fd : {signals_.get(), loader_->poll_fd()}) {
    epoll_event interest = {};
    interest.events = EPOLLIN;
    interest.data.fd = fd;
    ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &interest);
  }
  return attach_first();
}

Result<> Recorder::attach_first() {
  if (!options_.command.empty()) {
    auto child = start_command(options_.command);
    if (!child) return child.error();
    pid_ = *child;
    had_program_ = true;
    followed_->add_candidate(pid_, now_monotonic() + 10 * kSecond);
    while (!followed_->has_processes() && !followed_->empty() && !interrupted_) {
      followed_->tick(now_monotonic());
      pollfd poll = {signals_.get(), POLLIN, 0};
      interrupted_ = ::poll(&poll, 1, 2) > 0;
    }
    if (followed_->has_processes() || interrupted_) return Ok{};
    auto why = describe_target(procfs_, pid_, {.cache = &collectors_});
    return why ? Error{"cannot follow " + options_.command[0], "see gcause doctor"} : why.error();
  }
  auto target = describe_target(procfs_, pid_, {.cache = &collectors_});
  if (!target) return target.error();
  if (auto added = followed_->add(*std::move(target)); !added) return added;
  const auto children = procfs_.children(pid_);
  for (const auto child : children) {
    if (options_.subprocesses) followed_->add_candidate(child, now_monotonic() + kSecond);
  }
  if (!options_.subprocesses) followed_->note_ignored_children(children.size());
  return Ok{};
}

void Recorder::announce() {
  loader_->activate();
  started_ = losses_read_at_ = now_monotonic();
  std::fprintf(stderr, "gcause: recording pid %u\n", pid_);
  std::fflush(stderr);
}

void Recorder::handle(const Event& event) {
  pipeline_.handle(event);
  if (followed_) followed_->handle(event);
}

void Recorder::look_at_losses(Ns now) {
  auto counters = loader_->losses();
  counters["malformed-records"] = decoder_.malformed();
  for (const auto& [where, count] : counters) {
    const auto before = losses_[where];
    if (count == before) continue;
    const RecordsLost lost{losses_read_at_, now, where, count - before};
    if (raw_) raw_->consume(Lost{std::nullopt, where, lost.count, lost.from, lost.to});
    pipeline_.handle(lost);
    losses_[where] = count;
  }
  losses_read_at_ = now;
}

/// Takes what the kernel has, and hands on what is old enough to be in order.
void Recorder::turn(Ns now) {
  records_.clear();
  loader_->drain(records_);
  look_at_losses(now);
  if (raw_ && !records_.empty()) raw_->write_records(records_);
  decoder_.feed(records_);
  decoder_.advance(now - kWindow);
  for (const auto& change : pipeline_.take_streaming()) {
    loader_->set_streaming(change.pid, change.connection, change.reads, change.writes);
  }
  followed_->tick(now);
  for (const auto& unread : pipeline_.take_unread()) followed_->name_reader(unread);
  for (const auto& event : followed_->take_tls()) {
    tee_.consume(event);
    if (raw_) raw_->consume(event);
  }
  for (const auto& change : followed_->settings_changes(now)) {
    tee_.consume(change);
    if (raw_) raw_->consume(change);
  }
  for (const auto& event : followed_->interpreter_changes(now)) {
    tee_.consume(event);
    if (raw_) raw_->consume(event);
  }
  for (const auto pid : followed_->silently_ended(now)) {
    if (raw_) raw_->consume(ProcessEnded{now, pid});
    handle(ProcessExit{now, pid});
  }
}

void Recorder::show_progress(Ns now) {
  if (now < next_progress_) return;
  next_progress_ = now + kSecond;
  const auto& seen = outputs_->progress();
  ProgressFigures figures;
  figures.chunks = seen.chunks;
  figures.pauses = seen.pauses;
  figures.streams = seen.streams;
  if (seen.worst_gap > 0) figures.worst_gap = WorstGap{seen.worst_gap, seen.worst_verdict};
  figures.lost = seen.lost;
  figures.elapsed = now - started_;
  progress_.update(figures);
  outputs_->flush();
}

bool Recorder::over(Ns now) {
  if (interrupted_ || followed_->empty() || outputs_->failed()) return true;
  return options_.duration && now - started_ >= *options_.duration;
}

void Recorder::loop() {
  for (Ns now = now_monotonic(); !over(now); now = now_monotonic()) {
    epoll_event ready[2];
    const int count = ::epoll_wait(epoll_.get(), ready, 2, kTickMilliseconds);
    for (int i = 0; i < count; ++i) interrupted_ |= ready[i].data.fd == signals_.get();
    now = now_monotonic();
    turn(now);
    show_progress(now);
  }
}

Result<int> Recorder::end() {
  const Ns now = now_monotonic();
  if (loader_) {
    records_.clear();
    loader_->drain(records_);
    look_at_losses(now);
    if (raw_ && !records_.empty()) raw_->write_records(records_);
    decoder_.feed(records_);
    decoder_.finish();
  }
  pipeline_.finish(now);
  progress_.clear();
  if (raw_) {
    raw_->consume(RecordingEnded{now});
    if (auto finished = raw_->finish(); !finished) return finished.error();
  }
  if (auto finished = outputs_->finish(); !finished) return finished.error();
  if (options_.verbose) {
    std::fprintf(stderr,
                 "gcause: %" PRIu64 " events came from the kernel, with %" PRIu64
                 " bytes that the target read or wrote\n",
                 decoder_.events(), decoder_.payload_bytes());
  }
  if (followed_ && followed_->ignored_children() > 0) {
    std::fprintf(stderr, "gcause: %zu child process(es) of pid %u were not followed: use -s\n",
                 followed_->ignored_children(), pid_);
  }
  return options_.check && outputs_->broken_by_collector() ? 3 : 0;
}

Result<int> Recorder::run() {
  // Bytes of the target's streams will be in our memory: should we crash, no core file holds them.
  ::prctl(PR_SET_DUMPABLE, 0);
  if (auto begun = begin(); !begun) {
    // A target that was there and is gone is no failure: its report is short, and true.
    if (!had_program_ || is_there()) return begun.error();
    std::fprintf(stderr, "gcause: process %u ended before every probe was active\n", pid_);
    if (!outputs_) {
      if (auto opened = open_outputs(); !opened) return opened.error();
    }
    return end();
  }
  announce();
  loop();
  return end();
}

}  // namespace

Result<int> record(const RecordOptions& options) { return Recorder(options).run(); }

}  // namespace gcause
