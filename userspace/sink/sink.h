// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "attribution/finding.h"
#include "util/result.h"

namespace gcause {

/// Where findings go. `finish` is called once, after the last finding; a sink that could not write
/// says so there.
class Sink {
 public:
  virtual ~Sink() = default;
  virtual void write(const Finding& finding) = 0;
  virtual Result<> finish() = 0;

  /// Shows a reader all that can be shown so far. By default nothing can before the end.
  virtual void flush() {}

  /// Nothing more can be written; `finish` will say why.
  virtual bool failed() const { return false; }
};

}  // namespace gcause
