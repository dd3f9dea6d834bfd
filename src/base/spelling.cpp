#include "base/spelling.h"

#include <fmt/format.h>

#include <atomic>

namespace snug {
namespace {

std::atomic<Language> spoken{Language::Cpp};

std::string flag(std::string_view name) {
  std::string text = "--" + std::string(name);
  for (char& c : text)
    if (c == '_') c = '-';
  return text;
}

/// ".name = value", "name=value", "--name value"
std::string assigned(std::string_view name, std::string_view cpp, std::string_view python,
                     std::string_view tool) {
  switch (language()) {
    case Language::Cpp: return fmt::format(".{} = {}", name, cpp);
    case Language::Python: return fmt::format("{}={}", name, python);
    case Language::Tool: return fmt::format("{} {}", flag(name), tool);
  }
  return "";
}

}  // namespace

void set_language(Language language) { spoken = language; }
Language language() { return spoken; }

std::string enumerator_of(DType dtype) {
  if (dtype == DType::Bool) return "DType::Bool";
  std::string text(short_name_of(dtype));
  for (char& c : text)
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  return "DType::" + text;
}

std::string option(std::string_view name, std::int64_t value) {
  const std::string text = std::to_string(value);
  return assigned(name, text, text, text);
}

std::string option(std::string_view name, std::string_view text) {
  const std::string quoted = fmt::format("\"{}\"", text);
  return assigned(name, quoted, quoted, text);
}

std::string option(std::string_view name, DType dtype) {
  return assigned(name, enumerator_of(dtype), fmt::format("\"{}\"", name_of(dtype)),
                  name_of(dtype));
}

std::string switched(std::string_view name, bool on) {
  if (language() == Language::Tool) return on ? flag(name) : "--no-" + flag(name).substr(2);
  return assigned(name, on ? "true" : "false", on ? "True" : "False", "");
}

std::string choice(std::string_view name, std::string_view type, std::string_view value) {
  std::string small(value);
  small[0] = static_cast<char>(small[0] - 'A' + 'a');
  return assigned(name, fmt::format("{}::{}", type, value), fmt::format("'{}'", small), small);
}

std::string option(std::string_view name) {
  switch (language()) {
    case Language::Cpp: return fmt::format(".{}", name);
    case Language::Python: return fmt::format("{}=", name);
    case Language::Tool: return flag(name);
  }
  return "";
}

std::string_view process_budget_name() {
  switch (language()) {
    case Language::Cpp: return "set_memory_budget(...)";
    case Language::Python: return "config.memory";
    case Language::Tool: return "memory= in SNUG_FLAGS";
  }
  return "";
}

std::string spelled(std::string_view cpp, std::string_view python) {
  return std::string(language() == Language::Cpp ? cpp : python);
}

std::string cast_of(std::string_view x, DType dtype) {
  return language() == Language::Cpp ? fmt::format("cast({}, {})", x, enumerator_of(dtype))
                                     : fmt::format("{}.astype('{}')", x, name_of(dtype));
}

}  // namespace snug
