// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>

#include "recording/timeline.h"
#include "stream/tls_record_log.h"

namespace gcause {

/// A read that brought ciphertext.
struct CiphertextRead {
  Ns at;  ///< it returned
  std::uint32_t tid;
  std::optional<std::uint32_t> run_delay = {};  ///< as that of Io
};

/// What can be said of a connection whose TLS nobody can read: how many records of data came, and
/// when. Nothing inside them is known, not even where a response ends, so what was written last is
/// taken for the request to which all that follows is the answer.
///
/// Not every connection with TLS carries a token stream, and none is made up: an answer counts as
/// one from the record on that follows on kRun others of at most kLargest bytes each, which arrived
/// one by one, within kLongestGap of each other, over kRunAtLeast or longer. A download comes at
/// once and in large records, a database answers in one burst, and a feed with few events never
/// makes a run. Each further record is a chunk, records that arrive within kTogether are one.
class UnreadTls {
 public:
  static constexpr int kRun = 10;
  static constexpr std::uint64_t kLargest = 4096;
  static constexpr Ns kLongestGap = kSecond;
  static constexpr Ns kRunAtLeast = 100 * kMillisecond;
  static constexpr Ns kTogether = kMillisecond;

  /// `next_stream` is the counter from which streams take their ids.
  UnreadTls(TimelineConsumer& timeline, std::uint64_t& next_stream, std::uint32_t pid)
      : timeline_(timeline), next_stream_(next_stream), pid_(pid) {}

  /// The program wrote ciphertext, then `missing` bytes of the same call that were not copied.
  void wrote(std::span<const std::byte> bytes, std::uint64_t missing);

  /// A read completed the records of `log` from number `from` on. Where they begin to look like a
  /// stream, `is_unread` is asked whether it is sure that nobody reads them. Returns the number of
  /// chunks.
  std::size_t read(const TlsRecordLog& log, std::uint64_t from, const CiphertextRead& read,
                   const std::optional<std::string>& peer, const std::function<bool()>& is_unread);

  /// Enough data has come in answer to data for a question whose it is: session tickets, which look
  /// the same, come in ones and twos.
  bool has_answers() const { return seen_.records >= 3; }

  bool in_stream() const { return stream_.has_value(); }

  /// Nothing more comes. A stream in progress ends; where it was complete nobody knows.
  void ended(StreamEnd end, Ns at);

  /// The figures, without what the connection's owner knows of it: socket, descriptor, peer.
  const TlsUnread& figures() const { return seen_; }

 private:
  struct Stream {
    std::uint64_t id;
    std::uint32_t chunks = 0;
    std::uint64_t bytes = 0;
  };

  void begin_answer();
  bool count(const TlsRecordLog::Record& record, const CiphertextRead& read);
  bool is_run() const;
  void begin_stream(const CiphertextRead& read, const std::optional<std::string>& peer);
  void end_stream(StreamEnd end, Ns at);

  TimelineConsumer& timeline_;
  std::uint64_t& next_stream_;
  std::uint32_t pid_;

  TlsRecordLog written_;
  bool said_hello_ = false;      ///< the connection's begin was seen
  bool changed_cipher_ = false;  ///< the process has sent a change_cipher_spec
  bool shook_hands_ = false;     ///< it has sent its last record of the handshake
  bool asked_ = false;           ///< it has sent data

  TlsUnread seen_{};
  std::optional<Ns> last_;         ///< the newest record of this answer: arrival, else its read
  std::uint64_t group_bytes_ = 0;  ///< of the records that arrived with it
  int run_ = 0;                    ///< groups that came one by one
  Ns run_begin_ = 0;
  std::optional<Stream> stream_;
};

}  // namespace gcause
