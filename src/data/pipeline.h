#pragma once
#include <optional>
#include <vector>

#include "data/transform.h"

namespace snug::data {

/// The way of every field from the source to the batch.
class Pipeline {
 public:
  Pipeline() = default;
  /// `floats`: fields of other floats begin with a conversion to it.
  Pipeline(const std::vector<Field>& source, const std::vector<Transform>& transforms,
           std::optional<DType> floats);

  const std::vector<Field>& fields() const { return fields_; }  // of a row of a batch
  /// The row needs nothing done to it.
  bool plain(std::size_t field) const { return stages_[field].empty(); }
  /// Bytes that `run` works in.
  std::int64_t scratch_bytes() const { return 2 * largest_; }
  /// `row` is the number of the row in the source; `key` stands for seed and epoch.
  void run(std::size_t field, const std::byte* from, std::byte* to, std::uint64_t key,
           std::int64_t row, std::byte* scratch) const;

 private:
  struct Stage {
    Transform transform;
    std::size_t number;  // in the list of transforms
    Field in, out;
  };
  void append(std::size_t field, const Transform& transform, std::size_t number);

  std::vector<Field> fields_;
  std::vector<std::vector<Stage>> stages_;  // per field
  std::int64_t largest_ = 0;                // a row between two stages
};

}  // namespace snug::data
