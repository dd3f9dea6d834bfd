#include "data/raw_rows.h"

#include <algorithm>

namespace snug::data {
namespace {

/// Reverses the bytes of each number; complex ones are two.
void swap_bytes(std::byte* data, std::int64_t bytes, DType dtype) {
  std::int64_t width = size_of(real_of(dtype));
  for (std::int64_t i = 0; i < bytes; i += width) std::reverse(data + i, data + i + width);
}

void check(const RawArray& array, const std::byte* data, std::int64_t bytes) {
  if (array.dtype == DType::Bool)
    check_bools({data, static_cast<std::size_t>(bytes)}, array.bytes->name());
}

/// The only field of an array's rows.
Field row_of(const RawArray& array, std::string name) {
  Field field{std::move(name), array.dtype, array.shape};
  field.shape.erase(0);
  return field;
}

/// How many rows make a block of about `bytes`.
std::int64_t rows_in(std::int64_t bytes, std::int64_t row_bytes, std::int64_t rows) {
  if (row_bytes == 0) return 1;
  return std::clamp<std::int64_t>(bytes / row_bytes, 1, std::max(rows, std::int64_t{1}));
}

class RawRows : public Source {
 public:
  RawRows(const RawArray& array, std::string name) : array_(array) {
    fields_ = {row_of(array, std::move(name))};
    row_bytes_ = fields_[0].bytes();
    rows_ = array.shape[0];
    block_ = rows_in(array.bytes->block(), row_bytes_, rows_);
  }
  std::int64_t own_bytes() const override { return array_.bytes->own_bytes(); }

 protected:
  void read_rows(std::int64_t begin, std::int64_t count,
                 std::span<std::byte* const> out) const override {
    if (!out[0]) return;
    array_.bytes->read(array_.offset + begin * row_bytes_, count * row_bytes_, out[0]);
    if (array_.swapped) swap_bytes(out[0], count * row_bytes_, array_.dtype);
    check(array_, out[0], count * row_bytes_);
  }

 private:
  RawArray array_;
  std::int64_t row_bytes_ = 0;
};

/// Rows of an array in Fortran order: each element of a row stands in a column of its own, which
/// holds that element of all rows.
class ColumnRows : public Source {
 public:
  ColumnRows(const RawArray& array, std::string name)
      : array_(array), width_(size_of(array.dtype)) {
    fields_ = {row_of(array, std::move(name))};
    rows_ = array.shape[0];
    // Few elements of a column would cost as much as some thousand.
    block_ = rows_in(4 << 20, fields_[0].bytes(), rows_);
  }
  std::int64_t own_bytes() const override { return array_.bytes->own_bytes(); }

 protected:
  void read_rows(std::int64_t begin, std::int64_t count,
                 std::span<std::byte* const> out) const override {
    const std::int64_t columns = product(fields_[0].shape);
    if (!out[0] || columns == 0) return;
    // Columns that are short, or wanted for the most part, are read together with what is between.
    constexpr std::int64_t kShort = 1 << 14, kTogether = 1 << 20;
    const bool dense = rows_ * width_ <= kShort || rows_ <= 2 * count;
    const std::int64_t group =
        dense ? std::clamp<std::int64_t>(kTogether / (rows_ * width_), 1, columns) : 1;
    std::vector<std::byte> part(((group - 1) * rows_ + count) * width_);
    Dims place =
        Dims(fields_[0].shape.size(), 0);  // of the column in a row, its first axis fastest
    for (std::int64_t first = 0; first < columns; first += group) {
      const std::int64_t here = std::min(group, columns - first);
      array_.bytes->read(array_.offset + (first * rows_ + begin) * width_,
                         ((here - 1) * rows_ + count) * width_, part.data());
      for (std::int64_t k = 0; k < here; ++k) {
        std::int64_t at = 0;
        for (std::size_t axis = 0; axis < place.size(); ++axis)
          at = at * fields_[0].shape[axis] + place[axis];
        const std::byte* from = part.data() + k * rows_ * width_;
        for (std::int64_t row = 0; row < count; ++row)
          std::memcpy(out[0] + (row * columns + at) * width_, from + row * width_, width_);
        for (std::size_t axis = 0; axis < place.size(); ++axis) {
          if (++place[axis] < fields_[0].shape[axis]) break;
          place[axis] = 0;
        }
      }
    }
    if (array_.swapped) swap_bytes(out[0], count * columns * width_, array_.dtype);
    check(array_, out[0], count * columns * width_);
  }

 private:
  RawArray array_;
  std::int64_t width_;
};

}  // namespace

SourcePtr raw_rows(const RawArray& array, std::string name) {
  const std::string file = array.bytes->name();
  if (array.shape.empty()) bad_file(file, "holds a single number, no rows");
  std::int64_t bytes = checked_product(array.shape, size_of(array.dtype), file);
  if (bytes > array.bytes->size() - array.offset)
    bad_file(
        file,
        fmt::format("its header promises {} bytes of {} {} from byte {} on, but only {} follow",
                    bytes, name_of(array.dtype), describe_shape(array.shape), array.offset,
                    std::max<std::int64_t>(array.bytes->size() - array.offset, 0)),
        "the file is truncated or damaged");
  if (!array.fortran) return std::make_shared<RawRows>(array, std::move(name));
  if (array.bytes->block() > 1 && array.bytes->own_bytes() > 0)
    bad_file(file, "is compressed and in Fortran order, so every row is scattered over all of it",
             "save it without compression, or save numpy.ascontiguousarray(array)");
  return std::make_shared<ColumnRows>(array, std::move(name));
}

}  // namespace snug::data
