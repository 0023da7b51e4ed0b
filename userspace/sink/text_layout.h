// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace gcause {

/// How a piece of text stands out, where colour is wanted at all.
enum class Tone : std::uint8_t { plain, bold, good, warning, bad };

/// `text` in its tone, or unchanged without colour.
std::string paint(std::string_view text, Tone tone, bool color);

/// 10240 as "10,240", whatever the locale.
std::string format_count(std::uint64_t value);

/// "1 gap", "2 gaps".
std::string counted(std::uint64_t value, std::string_view one, std::string_view many);

/// `part` / `whole` in percent with one decimal, such as "3.8 %"; `whole` must be positive.
std::string format_percent(std::int64_t part, std::int64_t whole);

/// Text of the target made safe for a terminal: each byte that is not printable ASCII becomes '?',
/// so that no escape sequence passes; longer text than `limit` ends in "...".
std::string printable(std::string_view text, std::size_t limit);

/// `text` broken at spaces into lines of at most `width` columns, each ended by a newline, and not
/// between a number and its unit. The first line begins with `first`, the others with as many
/// spaces.
std::string wrap(std::string_view text, std::size_t width, std::string_view first = "");

enum class Align : std::uint8_t { left, right };

struct Column {
  std::string head;
  Align align = Align::right;
  bool shrinks = false;  ///< is cut where the table is too wide for the page
};

struct Cell {
  Cell(std::string content) : text(std::move(content)) {}
  Cell(std::string content, Tone how) : text(std::move(content)), tone(how) {}
  std::string text;
  Tone tone = Tone::plain;
};

/// Rows under heads, each column as wide as its widest cell and two spaces from the next, or one
/// where the page is narrow. A row may be followed by notes, which are wrapped below it.
class Table {
 public:
  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

  /// One cell for each column.
  void row(std::vector<Cell> cells);
  void note(std::string text);

  std::string render(std::size_t width, bool color) const;

 private:
  struct Row {
    std::vector<Cell> cells;
    std::vector<std::string> notes;
  };

  /// Columns of text, and of space between two of them.
  struct Layout {
    std::vector<std::size_t> widths;
    std::size_t between = 2;
    std::size_t total() const;
  };

  Layout fit(std::size_t width) const;
  /// Cuts the columns that shrink, the widest first and down to `least`, until the page holds them.
  void shrink(Layout& layout, std::size_t width, std::size_t least) const;
  std::string line(const std::vector<Cell>& cells, const Layout& layout, bool color) const;

  std::vector<Column> columns_;
  std::vector<Row> rows_;
};

}  // namespace gcause
