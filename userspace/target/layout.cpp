// SPDX-License-Identifier: Apache-2.0
#include "target/layout.h"

#include <elf.h>

#include <array>
#include <cstdio>
#include <cstring>

namespace gcause {
namespace {

/// A row of the table for versions without _Py_DebugOffsets.
struct VersionRow {
  std::uint32_t minor;  ///< PY_VERSION_HEX >> 16
  python_layout layout;
};

/// Where a value stands in _Py_DebugOffsets, in bytes; 0 if this version does not give it.
struct DebugPlaces {
  std::uint32_t count;  ///< sizeof(_Py_DebugOffsets)
  std::uint32_t runtime_state_size, interpreter_state_size, thread_state_size;
  std::uint32_t interpreter_frame_size, code_object_size, pyobject_size, bytes_object_size;
  std::uint32_t unicode_object_size, gc_size;
  std::uint32_t runtime_finalizing, runtime_interpreters;
  std::uint32_t interpreter_next, interpreter_id, interpreter_threads, interpreter_gc;
  std::uint32_t interpreter_gil;
  std::uint32_t thread_next, thread_interpreter, thread_native_id, thread_status, thread_frame;
  std::uint32_t frame_previous, frame_code, frame_instruction, frame_owner;
  std::uint32_t code_file, code_name, code_lines, code_first_line, code_bytes;
  std::uint32_t object_type, bytes_size, bytes_data;
  std::uint32_t unicode_length, unicode_state, unicode_ascii_size;
  std::uint32_t gc_collecting;
  std::uint32_t frame_tlbc_index, code_tlbc;
  std::uint32_t gc_stats, gc_stats_size;
};

/// A row for versions with _Py_DebugOffsets, which gives most of the layout at run time. What it
/// does not give stands in `layout` and holds only where its values are those of the row.
struct GuardedRow {
  std::uint32_t first;  ///< PY_VERSION_HEX, inclusive
  std::uint32_t last;   ///< inclusive
  bool free_threaded;
  const DebugPlaces* places;
  std::uint32_t gc_size;        ///< sizeof(struct _gc_runtime_state)
  std::uint32_t gc_collecting;  ///< offset in it
  std::uint32_t gc_stats_size;  ///< sizeof(struct gc_stats); 0 before 3.15
  python_layout layout;
};

#define GCAUSE_LAYOUT(number, ...) VersionRow{.minor = number, __VA_ARGS__},
#define GCAUSE_PLACES(...)
#define GCAUSE_GUARDED_LAYOUT(...)
constexpr VersionRow kVersions[] = {
#include "target/layout_table.inc"
};
#undef GCAUSE_LAYOUT
#undef GCAUSE_PLACES
#define GCAUSE_LAYOUT(...)
#define GCAUSE_PLACES(name, ...) constexpr DebugPlaces name = {__VA_ARGS__};
#include "target/layout_table.inc"
#undef GCAUSE_PLACES
#undef GCAUSE_GUARDED_LAYOUT
#define GCAUSE_PLACES(...)
#define GCAUSE_GUARDED_LAYOUT(...) GuardedRow{__VA_ARGS__},
constexpr GuardedRow kGuarded[] = {
#include "target/layout_table.inc"
};
#undef GCAUSE_LAYOUT
#undef GCAUSE_PLACES
#undef GCAUSE_GUARDED_LAYOUT

/// One value that _Py_DebugOffsets gives, and the struct that it must lie in.
struct GivenField {
  std::uint32_t DebugPlaces::*place;
  std::uint32_t DebugPlaces::*size;
  u32 python_layout::*field;
  std::uint32_t width;  ///< bytes of the field itself
};

constexpr GivenField kGiven[] = {
    {&DebugPlaces::runtime_finalizing, &DebugPlaces::runtime_state_size,
     &python_layout::runtime_finalizing, 8},
    {&DebugPlaces::runtime_interpreters, &DebugPlaces::runtime_state_size,
     &python_layout::runtime_interpreters, 8},
    {&DebugPlaces::interpreter_next, &DebugPlaces::interpreter_state_size,
     &python_layout::interpreter_next, 8},
    {&DebugPlaces::interpreter_id, &DebugPlaces::interpreter_state_size,
     &python_layout::interpreter_id, 8},
    {&DebugPlaces::interpreter_threads, &DebugPlaces::interpreter_state_size,
     &python_layout::interpreter_threads, 8},
    {&DebugPlaces::interpreter_gc, &DebugPlaces::interpreter_state_size,
     &python_layout::interpreter_gc, 8},
    {&DebugPlaces::interpreter_gil, &DebugPlaces::interpreter_state_size,
     &python_layout::interpreter_gil, 8},
    {&DebugPlaces::thread_next, &DebugPlaces::thread_state_size, &python_layout::thread_next, 8},
    {&DebugPlaces::thread_interpreter, &DebugPlaces::thread_state_size,
     &python_layout::thread_interpreter, 8},
    {&DebugPlaces::thread_native_id, &DebugPlaces::thread_state_size,
     &python_layout::thread_native_id, 8},
    {&DebugPlaces::thread_status, &DebugPlaces::thread_state_size, &python_layout::thread_status,
     4},
    {&DebugPlaces::thread_frame, &DebugPlaces::thread_state_size, &python_layout::thread_frame, 8},
    {&DebugPlaces::frame_previous, &DebugPlaces::interpreter_frame_size,
     &python_layout::frame_previous, 8},
    {&DebugPlaces::frame_code, &DebugPlaces::interpreter_frame_size, &python_layout::frame_code, 8},
    {&DebugPlaces::frame_instruction, &DebugPlaces::interpreter_frame_size,
     &python_layout::frame_instruction, 8},
    {&DebugPlaces::frame_owner, &DebugPlaces::interpreter_frame_size, &python_layout::frame_owner,
     1},
    {&DebugPlaces::frame_tlbc_index, &DebugPlaces::interpreter_frame_size,
     &python_layout::frame_tlbc_index, 4},
    {&DebugPlaces::code_file, &DebugPlaces::code_object_size, &python_layout::code_file, 8},
    {&DebugPlaces::code_name, &DebugPlaces::code_object_size, &python_layout::code_name, 8},
    {&DebugPlaces::code_lines, &DebugPlaces::code_object_size, &python_layout::code_lines, 8},
    {&DebugPlaces::code_first_line, &DebugPlaces::code_object_size, &python_layout::code_first_line,
     4},
    {&DebugPlaces::code_bytes, &DebugPlaces::code_object_size, &python_layout::code_bytes, 2},
    {&DebugPlaces::code_tlbc, &DebugPlaces::code_object_size, &python_layout::code_tlbc, 8},
    {&DebugPlaces::object_type, &DebugPlaces::pyobject_size, &python_layout::object_type, 8},
    {&DebugPlaces::bytes_size, &DebugPlaces::bytes_object_size, &python_layout::bytes_size, 8},
    {&DebugPlaces::bytes_data, &DebugPlaces::bytes_object_size, &python_layout::bytes_data, 1},
    {&DebugPlaces::unicode_length, &DebugPlaces::unicode_object_size,
     &python_layout::unicode_length, 8},
    {&DebugPlaces::unicode_state, &DebugPlaces::unicode_object_size, &python_layout::unicode_state,
     4},
    {&DebugPlaces::gc_stats, &DebugPlaces::gc_size, &python_layout::gc_stats, 8},
};

/// More than any of these structs has had so far, a hundredfold for all but the runtime's.
constexpr std::uint64_t kMostBytesOfStruct = 64 << 20;

constexpr std::uint32_t kFirstWithDebugOffsets = 0x030d0000;
constexpr std::uint32_t kReleaseCandidate = 0xc1;  // internal structs may change until then

std::string version_text(std::uint32_t hex) {
  char text[32];
  std::snprintf(text, sizeof text, "%u.%u.%u", hex >> 24, hex >> 16 & 0xff, hex >> 8 & 0xff);
  return text;
}

std::string minor_text(std::uint32_t hex) {
  return std::to_string(hex >> 24) + "." + std::to_string(hex >> 16 & 0xff);
}

/// The 8 bytes at `place`; nothing behind the end.
std::optional<std::uint64_t> word_at(std::span<const std::uint8_t> bytes, std::uint32_t place) {
  std::uint64_t word = 0;
  if (bytes.size() < sizeof word || place > bytes.size() - sizeof word) return std::nullopt;
  std::memcpy(&word, bytes.data() + place, sizeof word);
  return word;
}

const GuardedRow* guarded_row(const DebugOffsetsHead& head) {
  for (const auto& row : kGuarded) {
    if (row.free_threaded == head.free_threaded && head.hex >= row.first && head.hex <= row.last) {
      return &row;
    }
  }
  return nullptr;
}

/// Whether the value at `place` is the row's.
bool is_guarded(std::span<const std::uint8_t> runtime, std::uint32_t place, std::uint64_t value) {
  return place == 0 || word_at(runtime, place) == value;
}

/// Takes over a value of _Py_DebugOffsets; false where it cannot be one.
bool take_given(std::span<const std::uint8_t> runtime, const DebugPlaces& places,
                const GivenField& given, python_layout& layout) {
  const auto place = places.*given.place;
  if (place == 0) return true;
  const auto value = word_at(runtime, place);
  const auto size = word_at(runtime, places.*given.size);
  if (!value || !size || *size > kMostBytesOfStruct) return false;
  if (*value > *size || *size - *value < given.width || *value % given.width != 0) return false;
  layout.*given.field = static_cast<u32>(*value);
  return true;
}

}  // namespace

std::optional<std::uint64_t> runtime_symbol(const ElfFile& elf) {
  if (const auto symbol = elf.find("_PyRuntime")) return symbol->address;
  const auto section = elf.section(".PyRuntime");
  return section ? std::optional(section->address) : std::nullopt;
}

std::optional<python_layout> layout_of(const ElfFile& elf, const PythonBuild& build,
                                       std::string& why) {
  if (elf.machine() != EM_X86_64 && elf.machine() != EM_AARCH64) {
    why = "the layout of CPython is not known on this machine";
    return std::nullopt;
  }
  if (const auto address = runtime_symbol(elf)) {
    const auto runtime = elf.bytes_at(*address, kDebugOffsetsBytes);
    if (debug_offsets_head(runtime)) return layout_of_debug_offsets(runtime, why);
  }
  if (!build.hex) {
    why = "the version of this CPython is not known, so its layout is not";
    return std::nullopt;
  }
  // Debug builds have the layout of others; with Py_TRACE_REFS each object begins with 16 bytes
  // more.
  if (elf.find("_Py_PrintReferences") || elf.find("_Py_GetObjects")) {
    why = "this CPython was built with Py_TRACE_REFS, whose layout is not known";
    return std::nullopt;
  }
  return layout_of_version(*build.hex, elf.machine(), why);
}

std::optional<python_layout> layout_of_version(std::uint32_t hex, unsigned machine,
                                               std::string& why) {
  const bool whole = (hex & 0xffff) != 0;
  const bool unstable = whole && (hex & 0xffff) < kReleaseCandidate;
  for (const auto& row : kVersions) {
    if (hex >> 16 != row.minor || unstable) continue;
    auto layout = row.layout;
    layout.version = hex;
    // Behind the locks of the GIL, whose size in glibc is another here, and again another in musl.
    if (machine == EM_AARCH64) layout.runtime_thread = 0;
    return layout;
  }
  if (hex >= kFirstWithDebugOffsets) {
    why = "CPython " + minor_text(hex) + " tells its layout in _PyRuntime, which is not there";
  } else if (unstable) {
    why = "the layout of a CPython " + minor_text(hex) + " before its release is not known";
  } else {
    why = "the layout of CPython " + minor_text(hex) + " is not known";
  }
  return std::nullopt;
}

std::optional<DebugOffsetsHead> debug_offsets_head(std::span<const std::uint8_t> runtime) {
  // Include/internal/pycore_debug_offsets.h: cookie, version, free_threaded, 8 bytes each.
  if (runtime.size() < 24 || std::memcmp(runtime.data(), "xdebugpy", 8) != 0) return std::nullopt;
  const auto hex = *word_at(runtime, 8);
  const auto free_threaded = *word_at(runtime, 16);
  if (hex > UINT32_MAX || free_threaded > 1) return std::nullopt;
  return DebugOffsetsHead{static_cast<std::uint32_t>(hex), free_threaded == 1};
}

std::optional<python_layout> layout_of_debug_offsets(std::span<const std::uint8_t> runtime,
                                                     std::string& why) {
  const auto head = debug_offsets_head(runtime);
  if (!head) {
    why = "_PyRuntime does not begin with _Py_DebugOffsets";
    return std::nullopt;
  }
  const auto* row = guarded_row(*head);
  if (!row) {
    why = "the layout of CPython " + version_text(head->hex) +
          (head->free_threaded ? ", free-threaded," : "") + " is not known";
    return std::nullopt;
  }
  const auto& places = *row->places;
  auto layout = row->layout;
  layout.version = head->hex;
  const bool guarded =
      is_guarded(runtime, places.gc_size, row->gc_size) &&
      is_guarded(runtime, places.gc_collecting, row->gc_collecting) &&
      is_guarded(runtime, places.gc_stats_size, row->gc_stats_size) &&
      is_guarded(runtime, places.unicode_ascii_size, row->layout.unicode_ascii_size);
  if (!guarded) {
    why = "the collector's state of this CPython is not that of " + version_text(head->hex);
    return std::nullopt;
  }
  for (const auto& given : kGiven) {
    if (!take_given(runtime, places, given, layout)) {
      why = "_Py_DebugOffsets of this CPython " + version_text(head->hex) + " makes no sense";
      return std::nullopt;
    }
  }
  const auto interpreter_bytes = *word_at(runtime, places.interpreter_state_size);
  if (interpreter_bytes < row->gc_size ||
      layout.interpreter_gc > interpreter_bytes - row->gc_size) {
    why = "_Py_DebugOffsets of this CPython " + version_text(head->hex) + " makes no sense";
    return std::nullopt;
  }
  return layout;
}

}  // namespace gcause
