// SPDX-License-Identifier: Apache-2.0
#include "sink/text_layout.h"

#include <algorithm>
#include <cassert>

namespace gcause {
namespace {

constexpr std::string_view kReset = "\x1b[0m";
constexpr std::size_t kIndent = 2;
constexpr std::string_view kNoteIndent = "      ";

std::string_view sgr(Tone tone) {
  switch (tone) {
    case Tone::plain:
      return "";
    case Tone::bold:
      return "\x1b[1m";
    case Tone::good:
      return "\x1b[1;32m";
    case Tone::warning:
      return "\x1b[33m";
    case Tone::bad:
      return "\x1b[1;31m";
  }
  return "";
}

/// Removes the first word of `text` and returns it; a number takes its unit along.
std::string_view take_unbroken(std::string_view& text) {
  std::size_t end = std::min(text.find(' '), text.size());
  if (end > 0 && end < text.size() && text[end - 1] >= '0' && text[end - 1] <= '9') {
    end = std::min(text.find(' ', end + 1), text.size());
  }
  const std::string_view piece = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return piece;
}

}  // namespace

std::string paint(std::string_view text, Tone tone, bool color) {
  if (!color || tone == Tone::plain) return std::string(text);
  return std::string(sgr(tone)) + std::string(text) + std::string(kReset);
}

std::string format_count(std::uint64_t value) {
  std::string text = std::to_string(value);
  for (std::size_t behind = 3; behind < text.size(); behind += 4) {
    text.insert(text.size() - behind, 1, ',');
  }
  return text;
}

std::string counted(std::uint64_t value, std::string_view one, std::string_view many) {
  return format_count(value) + " " + std::string(value == 1 ? one : many);
}

std::string format_percent(std::int64_t part, std::int64_t whole) {
  assert(whole > 0);
  // Floating point: the tenth of a percent that is shown does not see its rounding.
  const double tenths = static_cast<double>(part) / static_cast<double>(whole) * 1000.0 + 0.5;
  const auto rounded = static_cast<std::uint64_t>(std::max(tenths, 0.0));
  if (rounded == 0 && part > 0) return "less than 0.1 %";
  return format_count(rounded / 10) + "." + std::to_string(rounded % 10) + " %";
}

std::string printable(std::string_view text, std::size_t limit) {
  std::string safe(text.substr(0, limit));
  for (char& c : safe) {
    if (c < 0x20 || c >= 0x7f) c = '?';
  }
  if (text.size() > limit && limit > 3) safe.replace(limit - 3, 3, "...");
  return safe;
}

std::string wrap(std::string_view text, std::size_t width, std::string_view first) {
  std::string out;
  std::string line(first);
  bool empty = true;
  while (!text.empty()) {
    const std::string_view piece = take_unbroken(text);
    if (!empty && line.size() + 1 + piece.size() > width) {
      out += line + "\n";
      line.assign(first.size(), ' ');
      empty = true;
    }
    if (!empty) line += ' ';
    line += piece;
    empty = false;
  }
  return out + line + "\n";
}

void Table::row(std::vector<Cell> cells) {
  assert(cells.size() == columns_.size());
  rows_.push_back(Row{std::move(cells), {}});
}

void Table::note(std::string text) {
  assert(!rows_.empty());
  rows_.back().notes.push_back(std::move(text));
}

std::size_t Table::Layout::total() const {
  std::size_t sum = kIndent + between * (widths.size() - 1);
  for (const std::size_t width : widths) sum += width;
  return sum;
}

void Table::shrink(Layout& layout, std::size_t width, std::size_t least) const {
  while (layout.total() > width) {
    std::size_t* widest = nullptr;
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      std::size_t& candidate = layout.widths[i];
      if (!columns_[i].shrinks || candidate <= std::max(least, columns_[i].head.size())) continue;
      if (widest == nullptr || candidate > *widest) widest = &candidate;
    }
    if (widest == nullptr) return;
    --*widest;
  }
}

Table::Layout Table::fit(std::size_t width) const {
  Layout natural;
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    std::size_t widest = columns_[i].head.size();
    for (const Row& row : rows_) widest = std::max(widest, row.cells[i].text.size());
    natural.widths.push_back(widest);
  }
  Layout airy = natural;
  shrink(airy, width, 16);
  if (airy.total() <= width) return airy;
  Layout tight = natural;
  tight.between = 1;
  shrink(tight, width, 6);
  return tight;
}

std::string Table::line(const std::vector<Cell>& cells, const Layout& layout, bool color) const {
  std::string out(kIndent, ' ');
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const std::string text = printable(cells[i].text, layout.widths[i]);
    const std::string padding(layout.widths[i] - text.size(), ' ');
    const bool last = i + 1 == cells.size();
    if (columns_[i].align == Align::right) out += padding;
    out += paint(text, cells[i].tone, color);
    // No spaces at the end of a line: they would show up in a diff of two reports.
    if (columns_[i].align == Align::left && !last) out += padding;
    if (!last) out.append(layout.between, ' ');
  }
  return out + "\n";
}

std::string Table::render(std::size_t width, bool color) const {
  const Layout layout = fit(width);
  std::vector<Cell> heads;
  for (const Column& column : columns_) heads.emplace_back(column.head);
  std::string out = line(heads, layout, color);
  for (const Row& row : rows_) {
    out += line(row.cells, layout, color);
    for (const std::string& note : row.notes) out += wrap(note, width, kNoteIndent);
  }
  return out;
}

}  // namespace gcause
