// SPDX-License-Identifier: Apache-2.0
#include "sink/text_unread.h"

#include "sink/text_layout.h"

namespace gcause {
namespace {

std::string text_of(const TlsUnreadFinding& finding) {
  const TlsUnread& connection = finding.connection;
  std::string text = "TLS connection";
  if (connection.fd) text += " on fd " + std::to_string(*connection.fd);
  if (connection.peer) text += " to " + printable(*connection.peer, 60);
  text += " cannot be read (";
  text += finding.library ? "library " + printable(*finding.library, 200)
                          : std::string("which library is not known");
  text += "): " + counted(connection.records, "record", "records") + " of data, " +
          format_count(connection.bytes) + " bytes";
  if (connection.longest_silence > 0) {
    text += ", longest silence " + format_duration(connection.longest_silence);
  }
  if (connection.stream) {
    text += "; timed by its records as stream #" + std::to_string(*connection.stream);
  }
  return text;
}

}  // namespace

std::string unread_connections(const ProcessReport& process, std::uint64_t count,
                               std::size_t width) {
  std::string out;
  for (const auto& finding : process.unread) out += wrap(text_of(finding), width, "  - ");
  if (count > process.unread.size()) {
    out += "  and " + format_count(count - process.unread.size()) + " more\n";
  }
  if (out.empty()) return out;
  return out + wrap("what they carry is not in the figures, but where it is timed by its records; "
                    "gcause doctor -p PID says which TLS libraries can be read",
                    width, "  ");
}

}  // namespace gcause
