#include "target/settings.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <fstream>
#include <optional>

#include "base/bytes.h"
#include "base/error.h"
#include "base/file_error.h"
#include "base/threads.h"
#include "base/utf8.h"

namespace snug {
namespace {

std::string stripped(std::string_view text) {
  const char* const space = " \t\r\n\v\f";
  const std::size_t begin = text.find_first_not_of(space);
  if (begin == std::string_view::npos) return "";
  return std::string(text.substr(begin, text.find_last_not_of(space) - begin + 1));
}

/// At commas outside quotes, which are taken off; a backslash keeps what follows it.
std::vector<std::string> split_at_commas(std::string_view text, const std::string& variable) {
  std::vector<std::string> items(1);
  char quote = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '\\' && quote != '\'') {
      if (++i == text.size())
        quote = c;
      else
        items.back() += text[i];
    } else if (quote ? c == quote : c == '"' || c == '\'') {
      quote = quote ? 0 : c;
    } else if (c == ',' && !quote) {
      items.emplace_back();
    } else {
      items.back() += c;
    }
  }
  if (quote)
    fail(Fault::Value, fmt::format("{}: a quote or an escape is not closed", variable),
         fmt::format("write {}=\"name=value,name=value\"", variable));
  return items;
}

void read_file(const std::string& path, std::vector<SettingText>& out) {
  std::ifstream file(path);
  if (!file) throw FileError(path, "cannot be read", errno);
  std::string section, line;
  for (int number = 1; std::getline(file, line); ++number) {
    const std::string text = stripped(line);
    if (!is_utf8(line))
      fail(Fault::Value, fmt::format("{}:{}: is not in UTF-8", path, number),
           "save the file as UTF-8");
    if (text.empty() || text[0] == '#' || text[0] == ';') continue;
    if (text.front() == '[' && text.back() == ']') {
      section = stripped(std::string_view(text).substr(1, text.size() - 2));
      continue;
    }
    const std::size_t at = text.find_first_of("=:");
    const std::string place = fmt::format("{}:{}", path, number);
    if (at == std::string::npos) {
      if (!std::isspace(static_cast<unsigned char>(line[0])) || out.empty())
        fail(Fault::Value, fmt::format("{}: cannot read '{}'", place, text),
             "lines are: name = value");
      out.back().value = stripped(out.back().value + " " + text);  // goes on with the value above
      continue;
    }
    std::string_view value = std::string_view(text).substr(at + 1);
    for (const char* comment : {" #", " ;"}) value = value.substr(0, value.find(comment));
    const std::string prefix = section.empty() || section == "global" ? "" : section + ".";
    out.push_back({prefix + stripped(text.substr(0, at)), stripped(value), place});
  }
}

std::string home_of(const std::string& path) {
  const char* home = std::getenv("HOME");
  return path.starts_with("~/") && home ? home + path.substr(1) : path;
}

// ---- the settings there are

/// What a setting does not take: the message, and the hint.
struct Bad {
  std::string message, hint;
};

template <class T>
struct Choice {
  const char* name;
  T value;
};

template <class T, std::size_t N>
T chosen(const Choice<T> (&choices)[N], const std::string& text) {
  std::vector<std::string> names;
  for (const Choice<T>& c : choices) {
    if (text == c.name) return c.value;
    names.push_back(fmt::format("'{}'", c.name));
  }
  throw Bad{fmt::format("'{}' is not allowed", text),
            fmt::format("choose one of {}", fmt::join(names, ", "))};
}

constexpr Choice<DType> kFloats[] = {{"float16", DType::F16},
                                     {"bfloat16", DType::BF16},
                                     {"float32", DType::F32},
                                     {"float64", DType::F64}};
constexpr Choice<Mode> kModes[] = {
    {"fast", Mode::Fast},       {"check", Mode::Check},       {"reference", Mode::Reference},
    {"FAST_RUN", Mode::Fast},   {"FAST_COMPILE", Mode::Fast}, {"Mode", Mode::Fast},
    {"DebugMode", Mode::Check}, {"DEBUG_MODE", Mode::Check},  {"NanGuardMode", Mode::Guard}};
constexpr Choice<OnUnusedInput> kUnused[] = {{"raise", OnUnusedInput::Raise},
                                             {"warn", OnUnusedInput::Warn},
                                             {"ignore", OnUnusedInput::Ignore}};
constexpr Choice<CastPolicy> kCasts[] = {{"custom", CastPolicy::Custom},
                                         {"numpy+floatX", CastPolicy::NumpyFloatX}};
constexpr Choice<IntDivision> kDivisions[] = {{"floatX", IntDivision::DefaultFloat},
                                              {"int", IntDivision::Floor},
                                              {"raise", IntDivision::Raise}};
constexpr Choice<bool> kTestValues[] = {
    {"off", false}, {"ignore", true}, {"warn", true}, {"raise", true}, {"pdb", true}};
constexpr Choice<bool> kWarnings[] = {
    {"ignore", false}, {"warn", true}, {"raise", true}, {"pdb", true}};

int threads_of(const std::string& text) {
  int count = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), count);
  if (end == text.data() + text.size() && text[0] != '-' &&
      (status == std::errc::result_out_of_range || count > kMostThreads))
    throw Bad{fmt::format("{} are too many", text),
              fmt::format("give at most {}, or 0 for all cores", kMostThreads)};
  if (status != std::errc() || end != text.data() + text.size() || count < 0)
    throw Bad{fmt::format("expected an integer of at least 0, got '{}'", text), ""};
  return count;
}

BudgetText budget_of(const std::string& text) {
  if (text == "None") return {};
  try {
    return parse_budget_text(text, "");
  } catch (const Error& e) {
    throw Bad{e.message(), e.hint()};
  }
}

bool switch_of(const std::string& text) {
  if (text != "True" && text != "False")
    throw Bad{fmt::format("expected True or False, got '{}'", text), ""};
  return text == "True";
}

struct Setting {
  const char* name;
  void (*read)(Settings& settings, const std::string& text);
};
constexpr Setting kSettings[] = {
    {"floatX", [](Settings& s, const std::string& t) { s.float_x = chosen(kFloats, t); }},
    {"memory", [](Settings& s, const std::string& t) { s.memory = budget_of(t); }},
    {"share_arenas", [](Settings& s, const std::string& t) { s.share_arenas = switch_of(t); }},
    {"mode", [](Settings& s, const std::string& t) { s.mode = chosen(kModes, t); }},
    {"threads", [](Settings& s, const std::string& t) { s.threads = threads_of(t); }},
    {"on_unused_input",
     [](Settings& s, const std::string& t) { s.on_unused_input = chosen(kUnused, t); }},
    {"device",
     [](Settings& s, const std::string& t) {
       if (t != "cpu" && !t.starts_with("opencl:"))
         throw Bad{fmt::format("there is no device '{}'", t), "snug devices lists those there are"};
       s.device = t == "cpu" ? "" : t;
     }},
    {"cast_policy", [](Settings& s, const std::string& t) { s.cast_policy = chosen(kCasts, t); }},
    {"int_division",
     [](Settings& s, const std::string& t) { s.int_division = chosen(kDivisions, t); }},
    // Of the Python package alone.
    {"compute_test_value", [](Settings&, const std::string& t) { chosen(kTestValues, t); }},
    {"warn_float64", [](Settings&, const std::string& t) { chosen(kWarnings, t); }},
};

struct Environment {
  Settings settings;
  std::vector<SettingText> texts;

  Environment() {
    texts = settings_of_files("SNUGRC", "~/.snugrc");
    for (SettingText& t : settings_of_flags("SNUG_FLAGS")) texts.push_back(std::move(t));
    for (SettingText& t : texts) {
      if (t.name.starts_with("snug.")) t.name.erase(0, 5);
      read(t);
    }
  }

  void read(const SettingText& t) {
    std::vector<std::string> names;
    for (const Setting& s : kSettings) {
      names.emplace_back(s.name);
      if (t.name != s.name) continue;
      try {
        return s.read(settings, t.value);
      } catch (const Bad& bad) {
        fail(Fault::Value, fmt::format("{}: {}: {}", t.place, t.name, bad.message), bad.hint);
      }
    }
    const std::string near = nearest(t.name, names);
    fail(Fault::Value, fmt::format("{}: there is no setting '{}'", t.place, t.name),
         near.empty() ? fmt::format("the settings are {}", fmt::join(names, ", "))
                      : fmt::format("did you mean {}?", near));
  }
};

/// An error of the environment is one again whenever it is asked for.
const Environment& environment() {
  static const Environment read;
  return read;
}

}  // namespace

std::vector<SettingText> settings_of_flags(const std::string& variable) {
  std::vector<SettingText> out;
  const char* const given = std::getenv(variable.c_str());
  const std::string_view text = given ? given : "";
  if (!is_utf8(text)) fail(Fault::Value, fmt::format("{}: is not in UTF-8", variable));
  for (const std::string& item : split_at_commas(text, variable)) {
    if (stripped(item).empty()) continue;
    const std::size_t at = item.find('=');
    if (at == std::string::npos)
      fail(Fault::Value, fmt::format("{}: '{}' has no value", variable, stripped(item)),
           fmt::format("write {}=\"name=value,name=value\"", variable));
    out.push_back({stripped(item.substr(0, at)), stripped(item.substr(at + 1)), variable});
  }
  return out;
}

std::vector<SettingText> settings_of_files(const std::string& variable,
                                           const std::string& otherwise) {
  std::vector<SettingText> out;
  const char* const given = std::getenv(variable.c_str());
  const std::string list = given ? given : otherwise;
  for (std::size_t begin = 0; begin <= list.size();) {
    const std::size_t end = std::min(list.find(':', begin), list.size());
    const std::string path = home_of(list.substr(begin, end - begin));
    begin = end + 1;
    struct stat info {};
    if (!path.empty() && stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode))
      read_file(path, out);
  }
  return out;
}

std::vector<SettingText> settings_of_environment() { return environment().texts; }
const Settings& settings() { return environment().settings; }

}  // namespace snug
