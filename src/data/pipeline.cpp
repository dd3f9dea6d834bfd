#include "data/pipeline.h"

namespace snug::data {

Pipeline::Pipeline(const std::vector<Field>& source, const std::vector<Transform>& transforms,
                   std::optional<DType> floats)
    : fields_(source), stages_(source.size()) {
  for (std::size_t f = 0; f < source.size(); ++f)
    if (floats && is_float(source[f].dtype) && source[f].dtype != *floats)
      append(f, to(*floats), transforms.size());
  for (std::size_t t = 0; t < transforms.size(); ++t) {
    const Transform& transform = transforms[t];
    if (transform.fields().empty()) append(0, transform, t);
    for (const std::string& name : transform.fields()) {
      std::size_t f = 0;
      std::vector<std::string> known;
      for (const Field& field : source) known.push_back(field.name);
      while (f < known.size() && known[f] != name) ++f;
      if (f == known.size())
        fail(Fault::Value, fmt::format("{}: no field is named '{}'; there are {}",
                                       transform.rule().name(), name, fmt::join(known, ", ")));
      append(f, transform, t);
    }
  }
}

void Pipeline::append(std::size_t field, const Transform& transform, std::size_t number) {
  const Field in = fields_[field];
  fields_[field] = transform.rule().result(in);
  checked_product(fields_[field].shape, size_of(fields_[field].dtype), transform.rule().name());
  if (!stages_[field].empty()) largest_ = std::max(largest_, in.bytes());
  stages_[field].push_back({transform, number, in, fields_[field]});
}

void Pipeline::run(std::size_t field, const std::byte* from, std::byte* to, std::uint64_t key,
                   std::int64_t row, std::byte* scratch) const {
  const std::vector<Stage>& stages = stages_[field];
  for (std::size_t i = 0; i < stages.size(); ++i) {
    const Stage& stage = stages[i];
    RowRandom random(key, row, stage.number);
    std::byte* target = i + 1 == stages.size() ? to : scratch + (i % 2) * largest_;
    stage.transform.rule().apply(stage.in, from, stage.out, target, random);
    from = target;
  }
}

}  // namespace snug::data
