// SPDX-License-Identifier: Apache-2.0
#pragma once

// The fixed-width types that the headers of the kernel side expect of their includer. They stand
// outside the namespace, because the generated skeleton names them there.

#include <cstdint>

using u8 = std::uint8_t;
using u16 = std::uint16_t;
using u32 = std::uint32_t;
using s32 = std::int32_t;
using u64 = std::uint64_t;
using s64 = std::int64_t;
