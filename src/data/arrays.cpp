#include "data/source.h"

namespace snug::data {
namespace {

class Arrays : public Source {
 public:
  Arrays(const std::vector<Array>& arrays, const std::vector<std::string>& names) {
    if (arrays.empty()) fail(Fault::Value, "arrays: at least one array is needed");
    if (!names.empty() && names.size() != arrays.size())
      fail(Fault::Value,
           fmt::format("arrays: {} names for {} arrays", names.size(), arrays.size()));
    for (std::size_t i = 0; i < arrays.size(); ++i) {
      const Array a = arrays[i].checked("arrays");
      if (a.shape.empty())
        fail(Fault::Shape, fmt::format("arrays: array {} has no axis of rows", i));
      if (a.shape[0] != arrays[0].shape[0])
        fail(Fault::Shape, fmt::format("arrays: array {} has {} rows, array 0 has {}", i,
                                       a.shape[0], arrays[0].shape[0]));
      Field field{names.empty() ? std::to_string(i) : names[i], a.dtype, a.shape};
      field.shape.erase(0);
      fields_.push_back(field);
      // Rows that are contiguous each are enough; anything else is copied once.
      Array row = a;
      row.shape.erase(0);
      row.strides.erase(0);
      arrays_.push_back(row.contiguous() ? a : a.contiguous_copy());
    }
    rows_ = arrays[0].shape[0];
  }

 protected:
  void read_rows(std::int64_t begin, std::int64_t count,
                 std::span<std::byte* const> out) const override {
    for (std::size_t f = 0; f < arrays_.size(); ++f) {
      if (!out[f]) continue;
      const std::int64_t bytes = fields_[f].bytes();
      const std::int64_t stride = arrays_[f].strides[0] * size_of(arrays_[f].dtype);
      const std::byte* from = arrays_[f].data + begin * stride;
      if (stride == bytes) {
        std::memcpy(out[f], from, count * bytes);
        continue;
      }
      for (std::int64_t i = 0; i < count; ++i)
        std::memcpy(out[f] + i * bytes, from + i * stride, bytes);
    }
  }

 private:
  std::vector<Array> arrays_;
};

}  // namespace

SourcePtr arrays(const std::vector<Array>& arrays, const std::vector<std::string>& names) {
  return std::make_shared<Arrays>(arrays, names);
}

}  // namespace snug::data
