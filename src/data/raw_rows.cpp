#include "data/raw_rows.h"

#include <algorithm>

namespace snug::data {
namespace {

/// Reverses the bytes of each number; complex ones are two.
void swap_bytes(std::byte* data, std::int64_t bytes, DType dtype) {
  std::int64_t width = size_of(real_of(dtype));
  for (std::int64_t i = 0; i < bytes; i += width) std::reverse(data + i, data + i + width);
}

class RawRows : public Source {
 public:
  RawRows(const RawArray& array, std::string name) : array_(array) {
    Field field{std::move(name), array.dtype, array.shape};
    field.shape.erase(0);
    row_bytes_ = field.bytes();
    rows_ = array.shape[0];
    if (row_bytes_ > 0)
      block_ = std::clamp<std::int64_t>(array.bytes->block() / row_bytes_, 1,
                                        std::max(rows_, std::int64_t{1}));
    fields_ = {std::move(field)};
  }

 protected:
  void read_rows(std::int64_t begin, std::int64_t count,
                 std::span<std::byte* const> out) const override {
    if (!out[0]) return;
    array_.bytes->read(array_.offset + begin * row_bytes_, count * row_bytes_, out[0]);
    if (array_.swapped) swap_bytes(out[0], count * row_bytes_, array_.dtype);
  }

 private:
  RawArray array_;
  std::int64_t row_bytes_ = 0;
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
  return std::make_shared<RawRows>(array, std::move(name));
}

}  // namespace snug::data
