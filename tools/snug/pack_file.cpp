#include "pack_file.h"

#include <snug/snug.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <fstream>

namespace {

using snug::Fault;

enum class Column { Id, Lower, Upper, Last, Size, Alignment, Hint, Gaps, Offset };

struct ColumnName {
  std::string_view name;
  Column column;
};

// "end" is the last time included, as MiniMalloc reads it.
constexpr ColumnName kColumns[] = {
    {"id", Column::Id},         {"buffer", Column::Id},   {"buffer_id", Column::Id},
    {"lower", Column::Lower},   {"start", Column::Lower}, {"begin", Column::Lower},
    {"upper", Column::Upper},   {"end", Column::Last},    {"size", Column::Size},
    {"hint", Column::Hint},     {"gaps", Column::Gaps},   {"alignment", Column::Alignment},
    {"offset", Column::Offset},
};

std::vector<std::string_view> split(std::string_view line) {
  std::vector<std::string_view> fields;
  for (std::size_t begin = 0;;) {
    const std::size_t comma = std::min(line.find(',', begin), line.size());
    std::string_view field = line.substr(begin, comma - begin);
    field.remove_prefix(std::min(field.find_first_not_of(" \t"), field.size()));
    field.remove_suffix(field.size() - (field.find_last_not_of(" \t") + 1));
    fields.push_back(field);
    if (comma == line.size()) return fields;
    begin = comma + 1;
  }
}

/// Reads one file line by line; its errors say where.
class Reader {
 public:
  explicit Reader(const std::string& path) : stream_(path) {
    file_.path = path;
    if (std::filesystem::is_directory(path))
      snug::fail(Fault::Value, fmt::format("pack: {} is a directory", path),
                 "give a CSV file with the columns id,lower,upper,size");
    if (!stream_)
      snug::fail(Fault::Value, fmt::format("pack: cannot open {}: {}", path, std::strerror(errno)));
  }

  PackFile read() {
    if (!next()) bad("the file is empty", "the first line names the columns: id,lower,upper,size");
    if (line_.starts_with("\xef\xbb\xbf")) line_.erase(0, 3);  // a mark of UTF-8
    file_.header = line_;
    read_header();
    while (next()) {
      if (line_.empty()) continue;
      read_row();
    }
    if (stream_.bad()) bad("the file cannot be read");
    return std::move(file_);
  }

 private:
  bool next() {
    if (!std::getline(stream_, line_)) return false;
    ++number_;
    while (!line_.empty() && (line_.back() == '\r' || line_.back() == ' ')) line_.pop_back();
    return true;
  }

  [[noreturn]] void bad(const std::string& what, std::string hint = {}) const {
    snug::fail(Fault::Value, fmt::format("pack: {}:{}: {}", file_.path, number_, what),
               std::move(hint));
  }

  void read_header() {
    for (std::string_view name : split(line_)) {
      auto known = std::find_if(std::begin(kColumns), std::end(kColumns),
                                [&](const ColumnName& c) { return c.name == name; });
      if (known == std::end(kColumns))
        bad(fmt::format("unknown column \"{}\"", name),
            "columns are id, lower, upper (or end: the last time included), size, alignment");
      for (std::size_t k = 0; k < columns_.size(); ++k)
        if (columns_[k] == known->column) bad(fmt::format("column \"{}\" stands twice", name));
      columns_.push_back(known->column);
      names_.emplace_back(name);
    }
    for (auto [column, name] : {std::pair(Column::Lower, "lower"), {Column::Size, "size"}})
      if (!has(column)) bad(fmt::format("there is no column \"{}\"", name));
    if (has(Column::Upper) == has(Column::Last))
      bad("there must be one of the columns \"upper\" and \"end\"");
  }

  bool has(Column c) const {
    return std::find(columns_.begin(), columns_.end(), c) != columns_.end();
  }

  std::int64_t number(std::string_view text, std::size_t column) const {
    std::int64_t value = 0;
    auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error == std::errc::result_out_of_range)
      bad(fmt::format("{} \"{}\" is not a 64-bit number", names_[column], text));
    if (error != std::errc() || end != text.data() + text.size())
      bad(fmt::format("{} \"{}\" is no whole number", names_[column], text));
    return value;
  }

  std::uint64_t count(std::string_view text, std::size_t column, std::int64_t least) const {
    const std::int64_t value = number(text, column);
    if (value < least) bad(fmt::format("{} {} is less than {}", names_[column], value, least));
    return static_cast<std::uint64_t>(value);
  }

  void read_row() {
    const std::vector<std::string_view> fields = split(line_);
    if (fields.size() != columns_.size())
      bad(fmt::format("{} fields, the header has {}", fields.size(), columns_.size()));
    snug::PackItem item;
    std::string name = fmt::format("line {}", number_);
    for (std::size_t k = 0; k < fields.size(); ++k) switch (columns_[k]) {
        case Column::Id: name = fmt::format("\"{}\" (line {})", fields[k], number_); break;
        case Column::Lower: item.lower = number(fields[k], k); break;
        case Column::Upper: item.upper = number(fields[k], k); break;
        case Column::Last:
          item.upper = number(fields[k], k);
          if (item.upper == INT64_MAX) bad("end is too large");
          ++item.upper;
          break;
        case Column::Size: item.bytes = count(fields[k], k, 0); break;
        case Column::Alignment: item.alignment = count(fields[k], k, 1); break;
        case Column::Offset: file_.offsets.push_back(count(fields[k], k, 0)); break;
        case Column::Hint:
          if (number(fields[k], k) >= 0)
            bad("column \"hint\": hints are not supported", "-1 stands for none");
          break;
        case Column::Gaps:
          if (!fields[k].empty()) bad("column \"gaps\": gaps are not supported");
          break;
      }
    if (item.lower >= item.upper)
      bad(fmt::format("lower {} is not less than upper {}", item.lower, item.upper));
    file_.items.push_back(item);
    file_.names.push_back(std::move(name));
    file_.rows.push_back(line_);
  }

  std::ifstream stream_;
  std::string line_;
  std::size_t number_ = 0;
  std::vector<Column> columns_;
  std::vector<std::string> names_;
  PackFile file_;
};

}  // namespace

PackFile read_pack_file(const std::string& path) { return Reader(path).read(); }

void write_pack_file(const std::string& path, const PackFile& file,
                     const std::vector<std::uint64_t>& offsets) {
  std::ofstream stream(path);
  stream << file.header << ",offset\n";
  for (std::size_t k = 0; k < file.rows.size(); ++k)
    stream << file.rows[k] << ',' << offsets[k] << '\n';
  stream.close();
  if (!stream)
    snug::fail(Fault::Value, fmt::format("pack: cannot write {}: {}", path, std::strerror(errno)));
}
