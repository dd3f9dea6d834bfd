// Tables of numbers as text. The file is read once to count and check its lines; every 1000th place
// is kept, so a table of any length takes little memory.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "base/utf8.h"
#include "data/file.h"
#include "data/source.h"

namespace snug::data {
namespace {

constexpr std::int64_t kBlockRows = 1000;
constexpr std::int64_t kPieceBytes = 1 << 20;
constexpr std::int64_t kLongestLine = 64 << 20;
constexpr std::size_t kMostClasses = 1 << 16;

/// The lines of a file from a place on. A line break within quotes is part of the line.
class Lines {
 public:
  Lines(const File& file, std::int64_t begin) : file_(file), at_(begin) {}

  /// The next line without its end; false if there is none.
  bool next(std::string_view& line) {
    bool quoted = false;
    std::size_t length = 0;
    while (true) {
      for (; length < held_.size() - used_; ++length) {
        const char c = held_[used_ + length];
        if (c == '"') quoted = !quoted;
        if (c == '\n' && !quoted) {
          line = trimmed(length);
          consume(length + 1);
          return true;
        }
      }
      if (at_ >= file_.size()) break;
      fill();
    }
    if (length == 0) return false;
    if (quoted) bad_file(file_.path(), "a quote is not closed");
    line = trimmed(length);
    consume(length);
    return true;
  }
  /// Where the next line begins.
  std::int64_t position() const { return at_ - static_cast<std::int64_t>(held_.size() - used_); }

 private:
  std::string_view trimmed(std::size_t length) const {
    std::string_view text = std::string_view(held_).substr(used_, length);
    if (text.ends_with('\r')) text.remove_suffix(1);
    return text;
  }
  void consume(std::size_t count) { used_ += count; }
  void fill() {
    held_.erase(0, used_);
    used_ = 0;
    if (static_cast<std::int64_t>(held_.size()) > kLongestLine)
      bad_file(file_.path(), fmt::format("a line is longer than {} bytes", kLongestLine),
               "is a quote not closed?");
    const std::int64_t count = std::min(kPieceBytes, file_.size() - at_);
    const std::size_t old = held_.size();
    held_.resize(old + count);
    file_.read(at_, count, held_.data() + old);
    at_ += count;
  }

  const File& file_;
  std::int64_t at_;
  std::string held_;
  std::size_t used_ = 0;
};

/// The cells of a line; quotes are taken off, doubled ones within are one.
void split_line(std::string_view line, char separator, std::vector<std::string>& cells) {
  std::size_t count = 0;
  auto next_cell = [&]() -> std::string& {
    if (count == cells.size()) cells.emplace_back();
    cells[count].clear();
    return cells[count++];
  };
  std::string* cell = &next_cell();
  bool quoted = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (quoted && c == '"' && i + 1 < line.size() && line[i + 1] == '"') {
      *cell += '"';
      ++i;
    } else if (c == '"') {
      quoted = !quoted;
    } else if (c == separator && !quoted) {
      cell = &next_cell();
    } else {
      *cell += c;
    }
  }
  cells.resize(count);
}

std::string_view without_blanks(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \t");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t") - begin + 1);
}

template <class T>
bool parse(std::string_view text, T& value) {
  text = without_blanks(text);
  if (text.starts_with('+')) text.remove_prefix(1);
  auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  return status == std::errc() && end == text.data() + text.size() && !text.empty();
}

class Csv : public Source {
 public:
  Csv(const std::string& path, const CsvOptions& options) : file_(path), options_(options) {
    std::string mark(3, ' ');  // of UTF-8, which some programs write
    if (file_.size() >= 3) file_.read(0, 3, mark.data());
    Lines lines(file_, mark == "\xEF\xBB\xBF" ? 3 : 0);
    std::string_view line;
    std::int64_t skipped = 0;
    do {
      begin_ = lines.position();
      if (!lines.next(line)) bad_file(path, "holds no table");
      ++skipped;
    } while (line.empty());
    std::vector<std::string> names;
    split_line(line, options.separator, names);
    columns_ = names.size();
    check_text(line, skipped);
    if (options.header)
      begin_ = lines.position();
    else
      for (std::size_t i = 0; i < names.size(); ++i) names[i] = std::to_string(i);
    first_line_ = skipped + (options.header ? 1 : 0);
    choose_columns(names);
    count_rows();
    block_ = std::clamp<std::int64_t>(kBlockRows, 1, std::max<std::int64_t>(rows_, 1));
    fields_ = {{"data", DType::F32, {static_cast<std::int64_t>(chosen_.size())}}};
    if (label_ >= 0) fields_.push_back({"label", DType::I64, {}});
  }

 protected:
  void read_rows(std::int64_t begin, std::int64_t count,
                 std::span<std::byte* const> out) const override {
    const std::int64_t block = begin / kBlockRows;
    Lines lines(file_, begins_[block]);
    std::vector<std::string> cells;
    std::string_view line;
    for (std::int64_t row = block * kBlockRows; row < begin + count;) {
      if (!lines.next(line)) bad_file(file_.path(), "was changed while in use");
      if (line.empty()) continue;
      if (row >= begin) {
        split_line(line, options_.separator, cells);
        if (cells.size() != columns_) bad_file(file_.path(), "was changed while in use");
        write(cells, row, row - begin, out);
      }
      ++row;
    }
  }

 private:
  /// Names of columns and classes are shown and saved.
  void check_text(std::string_view text, std::int64_t line) const {
    if (!is_utf8(text))
      bad_file(file_.path(), fmt::format("line {} is not in UTF-8", line), "save it as UTF-8");
  }

  std::size_t column(const std::string& name, const std::vector<std::string>& names) const {
    auto found = std::find(names.begin(), names.end(), name);
    if (found == names.end()) {
      const std::string near = nearest(name, names);
      bad_file(file_.path(),
               fmt::format("no column is named '{}'; there are {}{}", name,
                           fmt::join(names.begin(),
                                     names.begin() + std::min<std::size_t>(names.size(), 20), ", "),
                           names.size() > 20 ? ", ..." : ""),
               near.empty() ? "" : fmt::format("did you mean '{}'?", near));
    }
    return static_cast<std::size_t>(found - names.begin());
  }

  void choose_columns(const std::vector<std::string>& names) {
    names_ = names;
    if (!options_.label.empty()) label_ = static_cast<int>(column(options_.label, names));
    for (const std::string& name : options_.columns) chosen_.push_back(column(name, names));
    if (options_.columns.empty())
      for (std::size_t i = 0; i < names.size(); ++i)
        if (static_cast<int>(i) != label_) chosen_.push_back(i);
  }

  /// Reads all lines: how many, where, with as many cells as the first; and which labels there are.
  void count_rows() {
    Lines lines(file_, begin_);
    std::string_view line;
    std::vector<std::string> cells;
    std::set<std::string, std::less<>> labels;
    bool numbers = true;
    std::int64_t line_number = first_line_ - 1;
    for (std::int64_t begin = begin_; lines.next(line); begin = lines.position()) {
      ++line_number;
      if (line.empty()) continue;
      split_line(line, options_.separator, cells);
      if (cells.size() != columns_)
        bad_file(file_.path(), fmt::format("line {} has {} cells, the first line has {}",
                                           line_number, cells.size(), columns_));
      if (rows_ % kBlockRows == 0) begins_.push_back(begin);
      ++rows_;
      if (label_ < 0) continue;
      std::int64_t number = 0;
      numbers = numbers && parse(cells[label_], number);
      if (labels.size() <= kMostClasses && labels.emplace(cells[label_]).second)
        check_text(cells[label_], line_number);
    }
    if (label_ < 0 || numbers) return;
    if (labels.size() > kMostClasses)
      bad_file(file_.path(), fmt::format("the column '{}' has more than {} different labels",
                                         names_[label_], kMostClasses));
    for (const std::string& label : labels) {
      numbers_.emplace(label, static_cast<std::int64_t>(classes_.size()));
      classes_.push_back(label);
    }
  }

  void write(const std::vector<std::string>& cells, std::int64_t row, std::int64_t place,
             std::span<std::byte* const> out) const {
    if (out[0]) {
      auto* to =
          reinterpret_cast<float*>(out[0]) + place * static_cast<std::int64_t>(chosen_.size());
      for (std::size_t i = 0; i < chosen_.size(); ++i) {
        double value = std::numeric_limits<double>::quiet_NaN();  // an empty cell
        if (!without_blanks(cells[chosen_[i]]).empty() && !parse(cells[chosen_[i]], value))
          bad_file(file_.path(),
                   fmt::format("row {}, column '{}': '{}' is no number", row, names_[chosen_[i]],
                               cells[chosen_[i]].substr(0, 40)),
                   "choose the columns that hold numbers");
        to[i] = static_cast<float>(value);
      }
    }
    if (out.size() > 1 && out[1]) {
      std::int64_t label = 0;
      if (classes_.empty()) {
        parse(cells[label_], label);
      } else {
        auto found = numbers_.find(cells[label_]);
        if (found == numbers_.end()) bad_file(file_.path(), "was changed while in use");
        label = found->second;
      }
      reinterpret_cast<std::int64_t*>(out[1])[place] = label;
    }
  }

  File file_;
  CsvOptions options_;
  std::int64_t begin_ = 0, first_line_ = 1;  // of the rows
  std::size_t columns_ = 0;
  std::vector<std::string> names_;
  std::vector<std::size_t> chosen_;
  int label_ = -1;
  std::vector<std::int64_t> begins_;  // of every block
  std::map<std::string, std::int64_t, std::less<>> numbers_;
};

}  // namespace

SourcePtr csv(const std::string& path, const CsvOptions& options) {
  return std::make_shared<Csv>(path, options);
}

}  // namespace snug::data
