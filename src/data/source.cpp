#include "data/source.h"

namespace snug::data {

std::string describe(const Field& field) {
  return fmt::format("{}: {} {}", field.name, name_of(field.dtype), describe_shape(field.shape));
}

void Source::read(std::int64_t begin, std::int64_t count, std::span<std::byte* const> out) const {
  if (begin < 0 || count < 0 || begin > rows_ - count)
    fail(Fault::Index,
         fmt::format("rows {} to {} of a source of {} rows", begin, begin + count, rows_));
  if (out.size() != fields_.size())
    fail(Fault::Value, fmt::format("read: {} outputs for {} fields", out.size(), fields_.size()));
  if (count > 0) read_rows(begin, count, out);
}

std::vector<Array> Source::read(std::int64_t begin, std::int64_t count) const {
  std::vector<Array> arrays;
  std::vector<std::byte*> out;
  for (const Field& field : fields_) {
    Dims shape = field.shape;
    shape.insert(0, count);
    arrays.push_back(Array::empty(field.dtype, shape));
    out.push_back(arrays.back().data);
  }
  read(begin, count, out);
  return arrays;
}

std::size_t Source::field(std::string_view name) const {
  std::vector<std::string> known;
  for (std::size_t i = 0; i < fields_.size(); ++i) {
    if (fields_[i].name == name) return i;
    known.push_back(fields_[i].name);
  }
  std::string near = nearest(name, known);
  fail(Fault::Value,
       fmt::format("no field is named '{}'; there are {}", name, fmt::join(known, ", ")),
       near.empty() ? "" : fmt::format("did you mean '{}'?", near));
}

SourcePtr required(const char* what, SourcePtr source) {
  if (!source) fail(Fault::Type, fmt::format("{}: the source is empty", what));
  return source;
}

std::int64_t checked_product(std::span<const std::int64_t> sizes, std::int64_t width,
                             std::string_view what) {
  // Zeros come last in the product: a size of nothing times too much is still no sane shape.
  std::int64_t product = width;
  bool empty = false, sane = true;
  for (std::int64_t size : sizes) {
    if (size == 0) empty = true;
    sane &= size >= 0;
    if (size > 0) sane &= !__builtin_mul_overflow(product, size, &product);
  }
  if (!sane || product > (std::int64_t{1} << 60))
    fail(Fault::Value,
         fmt::format("{}: the sizes ({}) are impossible", what, fmt::join(sizes, ", ")));
  return empty ? 0 : product;
}

}  // namespace snug::data
