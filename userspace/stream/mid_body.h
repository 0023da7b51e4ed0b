// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace gcause {

/// What the first bytes of a read look like to someone who has not seen the head of the response.
enum class MidBody {
  no,       ///< nothing that says event stream, or not surely
  chunked,  ///< a chunk of a chunked body begins here, and in it an event
  plain,    ///< an event begins here, without framing
};

/// Whether `text`, the bytes of one read of a connection that was open before anybody looked, is
/// the next part of a running event stream. Servers write an event at a time, so a read begins
/// where an event does as a rule; what begins elsewhere is no match, and the next read is tried.
/// A line end that the chunk before left behind may come first.
MidBody match_mid_body(std::string_view text);

}  // namespace gcause
