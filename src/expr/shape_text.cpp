#include "expr/shape_text.h"

#include <cctype>

namespace snug {
namespace {

/// Reads a number at `at` and moves behind it; -1 if there is none.
int number(const std::string& text, std::size_t& at) {
  int value = -1;
  for (; at < text.size() && std::isdigit(static_cast<unsigned char>(text[at])); ++at)
    value = (value < 0 ? 0 : value) * 10 + (text[at] - '0');
  return value;
}

}  // namespace

std::string fill_shapes(const std::string& text, const std::vector<Dims>& shapes) {
  std::string out;
  for (std::size_t k = 0; k < text.size(); ++k) {
    std::size_t end = k + 1;
    const int shape = text[k] == '{' ? number(text, end) : -1;
    const bool one = shape >= 0 && end < text.size() && text[end] == '.';
    const int axis = one ? number(text, ++end) : -1;
    if (shape < 0 || end >= text.size() || text[end] != '}') {
      out += text[k];
      continue;
    }
    const Dims& dims = shapes.at(static_cast<std::size_t>(shape));
    if (!one) {
      out += describe_shape(dims);
    } else {
      const std::int64_t size = dims[static_cast<std::size_t>(axis)];
      out += size == kUnknownSize ? "?" : std::to_string(size);
    }
    k = end;
  }
  return out;
}

std::string with_shapes(const std::string& text, const std::vector<Dims>& shapes) {
  std::string out = fill_shapes(text, shapes);
  if (out != text) return out;
  const char* before = ": ";
  for (const Dims& dims : shapes) {
    if (dims.empty()) continue;
    out += before + describe_shape(dims);
    before = " and ";
  }
  return out;
}

}  // namespace snug
