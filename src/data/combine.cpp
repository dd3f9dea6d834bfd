// Sources made of sources.
#include <algorithm>
#include <cmath>

#include "data/random.h"
#include "data/source.h"

namespace snug::data {
namespace {

class Slice : public Source {
 public:
  Slice(SourcePtr source, std::int64_t begin, std::int64_t end)
      : source_(std::move(source)), begin_(begin) {
    fields_ = source_->fields();
    classes_ = source_->classes();
    rows_ = end - begin;
    block_ = source_->block();
    phase_ = ((source_->phase() - begin) % block_ + block_) % block_;
  }
  std::int64_t own_bytes() const override { return source_->own_bytes(); }

 protected:
  void read_rows(std::int64_t begin, std::int64_t count,
                 std::span<std::byte* const> out) const override {
    source_->read(begin_ + begin, count, out);
  }

 private:
  SourcePtr source_;
  std::int64_t begin_;
};

/// All rows in another order.
class Shuffled : public Source {
 public:
  Shuffled(SourcePtr source, std::uint64_t seed)
      : source_(std::move(source)), order_(source_->rows(), make_key(seed, Purpose::Split, 0)) {
    fields_ = source_->fields();
    classes_ = source_->classes();
    rows_ = source_->rows();
  }
  std::int64_t own_bytes() const override { return source_->own_bytes(); }

 protected:
  void read_rows(std::int64_t begin, std::int64_t count,
                 std::span<std::byte* const> out) const override {
    std::vector<std::byte*> to(out.begin(), out.end());
    for (std::int64_t i = begin; i < begin + count; ++i) {
      source_->read(order_(i), 1, to);
      for (std::size_t f = 0; f < to.size(); ++f)
        if (to[f]) to[f] += fields_[f].bytes();
    }
  }

 private:
  SourcePtr source_;
  Permutation order_;
};

std::int64_t sum_of_own_bytes(const std::vector<SourcePtr>& sources) {
  std::int64_t bytes = 0;
  for (const SourcePtr& source : sources) bytes += source->own_bytes();
  return bytes;
}

class Concat : public Source {
 public:
  explicit Concat(const std::vector<SourcePtr>& sources) : sources_(sources) {
    if (sources.empty()) fail(Fault::Value, "concat: at least one source is needed");
    fields_ = sources[0]->fields();
    classes_ = sources[0]->classes();
    for (const SourcePtr& source : sources) {
      if (source->fields() != fields_)
        fail(Fault::Value, fmt::format("concat: the fields differ: {} and {}",
                                       describe_all(fields_), describe_all(source->fields())));
      if (source->classes() != classes_)
        fail(Fault::Value, "concat: the classes of the sources differ");
      begins_.push_back(rows_);
      rows_ += source->rows();
      block_ = std::max(block_, source->block());
    }
  }
  std::int64_t own_bytes() const override { return sum_of_own_bytes(sources_); }

 protected:
  void read_rows(std::int64_t begin, std::int64_t count,
                 std::span<std::byte* const> out) const override {
    std::vector<std::byte*> to(out.begin(), out.end());
    auto part = std::upper_bound(begins_.begin(), begins_.end(), begin) - begins_.begin() - 1;
    for (; count > 0; ++part) {
      const std::int64_t first = begin - begins_[part];
      const std::int64_t here = std::min(count, sources_[part]->rows() - first);
      sources_[part]->read(first, here, to);
      for (std::size_t f = 0; f < to.size(); ++f)
        if (to[f]) to[f] += here * fields_[f].bytes();
      begin += here;
      count -= here;
    }
  }

 private:
  static std::string describe_all(const std::vector<Field>& fields) {
    std::string text;
    for (const Field& field : fields) text += (text.empty() ? "" : "; ") + describe(field);
    return text;
  }

  std::vector<SourcePtr> sources_;
  std::vector<std::int64_t> begins_;
};

class Zip : public Source {
 public:
  explicit Zip(const std::vector<SourcePtr>& sources) : sources_(sources) {
    if (sources.empty()) fail(Fault::Value, "zip: at least one source is needed");
    rows_ = sources[0]->rows();
    for (std::size_t i = 0; i < sources.size(); ++i) {
      const Source& source = *sources[i];
      if (source.rows() != rows_)
        fail(Fault::Shape,
             fmt::format("zip: source {} has {} rows, source 0 has {}", i, source.rows(), rows_));
      for (Field field : source.fields()) {
        auto taken = [&](const std::string& name) {
          return std::any_of(fields_.begin(), fields_.end(),
                             [&](const Field& f) { return f.name == name; });
        };
        for (int n = 1; taken(field.name); ++n)
          if (std::string next = fmt::format("{}_{}", field.name, n); !taken(next))
            field.name = next;
        fields_.push_back(field);
      }
      if (source.block() > block_) {
        block_ = source.block();
        phase_ = source.phase();
      }
      if (classes_.empty()) classes_ = source.classes();
    }
  }
  std::int64_t own_bytes() const override { return sum_of_own_bytes(sources_); }

 protected:
  void read_rows(std::int64_t begin, std::int64_t count,
                 std::span<std::byte* const> out) const override {
    for (const SourcePtr& source : sources_) {
      source->read(begin, count, out.first(source->fields().size()));
      out = out.subspan(source->fields().size());
    }
  }

 private:
  std::vector<SourcePtr> sources_;
};

class Select : public Source {
 public:
  Select(SourcePtr source, const std::vector<std::string>& names) : source_(std::move(source)) {
    if (names.empty()) fail(Fault::Value, "select: at least one name is needed");
    for (const std::string& name : names) {
      const std::size_t i = source_->field(name);
      if (std::find(places_.begin(), places_.end(), i) != places_.end())
        fail(Fault::Value, fmt::format("select: the field '{}' is asked for twice", name));
      places_.push_back(i);
      fields_.push_back(source_->fields()[i]);
    }
    rows_ = source_->rows();
    block_ = source_->block();
    phase_ = source_->phase();
    classes_ = source_->classes();
  }
  std::int64_t own_bytes() const override { return source_->own_bytes(); }

 protected:
  void read_rows(std::int64_t begin, std::int64_t count,
                 std::span<std::byte* const> out) const override {
    std::vector<std::byte*> all(source_->fields().size(), nullptr);
    for (std::size_t i = 0; i < places_.size(); ++i) all[places_[i]] = out[i];
    source_->read(begin, count, all);
  }

 private:
  SourcePtr source_;
  std::vector<std::size_t> places_;
};

}  // namespace

SourcePtr slice(SourcePtr source, std::int64_t begin, std::int64_t end) {
  required("slice", source);
  const std::int64_t rows = source->rows();
  auto place = [&](std::int64_t i) {
    return std::clamp<std::int64_t>(i < 0 ? i + rows : i, 0, rows);
  };
  begin = place(begin);
  end = std::max(place(end), begin);
  return std::make_shared<Slice>(std::move(source), begin, end);
}

SourcePtr concat(const std::vector<SourcePtr>& sources) {
  for (const SourcePtr& source : sources) required("concat", source);
  return std::make_shared<Concat>(sources);
}

SourcePtr zip(const std::vector<SourcePtr>& sources) {
  for (const SourcePtr& source : sources) required("zip", source);
  return std::make_shared<Zip>(sources);
}

SourcePtr select(SourcePtr source, const std::vector<std::string>& names) {
  return std::make_shared<Select>(required("select", std::move(source)), names);
}

std::vector<SourcePtr> split(SourcePtr source, const std::vector<double>& shares,
                             std::optional<std::uint64_t> seed) {
  required("split", source);
  double total = 0;
  for (double share : shares) {
    if (!(share >= 0)) fail(Fault::Value, fmt::format("split: a share of {}", share));
    total += share;
  }
  if (!(total > 0 && total <= 1 + 1e-9))
    fail(Fault::Value, fmt::format("split: the shares sum to {}", total),
         "they are parts of 1, for example 0.9 and 0.1");
  if (seed && source->block() > 1)
    fail(Fault::Value,
         fmt::format("split: the source is read in blocks of {} rows", source->block()),
         "random rows of it would read every block many times: split without a seed");
  if (seed) source = std::make_shared<Shuffled>(source, *seed);
  std::vector<SourcePtr> parts;
  double sum = 0;
  std::int64_t begin = 0;
  for (double share : shares) {
    sum += share;
    const std::int64_t end =
        std::min<std::int64_t>(std::llround(sum * source->rows()), source->rows());
    parts.push_back(std::make_shared<Slice>(source, begin, end));
    begin = end;
  }
  return parts;
}

}  // namespace snug::data
