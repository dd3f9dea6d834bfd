#include "nn/prune.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <unordered_map>

#include "ops/arguments.h"

namespace snug::nn {
namespace {

/// A weight that can be pruned, with its place in the model.
struct Weight {
  std::string name;
  Parameter* parameter;
};

std::vector<Weight> weights_of(Layer& model) {
  model.parameters();  // makes them, or says why not
  std::vector<Weight> weights;
  model.visit([&](const std::string& path, Layer& layer) {
    for (Parameter& p : layer.own())
      if (p.trainable && p.variable.ndim() >= 2)
        weights.push_back({path.empty() ? p.name : path + "." + p.name, &p});
  });
  return weights;
}

/// f(i, element i) of a contiguous array.
template <class F>
void for_each_element(const Array& a, F&& f) {
  const std::int64_t n = a.size();
  if (a.dtype == DType::F32)
    for (std::int64_t i = 0; i < n; ++i) f(i, a.typed<float>()[i]);
  else
    for (std::int64_t i = 0; i < n; ++i) f(i, a.at_double(i));
}

/// Magnitudes are compared as float32: ranks need no more, and there are many.
float magnitude(double x) { return static_cast<float>(std::abs(x)); }

void append_magnitudes(const Parameter& p, std::vector<float>& all) {
  const Array value = as_shared(p.variable)->get_value(true);
  all.reserve(all.size() + static_cast<std::size_t>(value.size()));
  for_each_element(value, [&](std::int64_t, double x) { all.push_back(magnitude(x)); });
}

/// What is pruned: all below `bound`, and the first `ties` that are equal to it.
struct Cut {
  float bound = 0;
  std::int64_t ties = 0;
};

Cut cut_of(std::vector<float> all, double fraction) {
  const auto n = static_cast<std::size_t>(fraction * static_cast<double>(all.size()));
  if (n == 0) return {};
  std::nth_element(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(n - 1), all.end());
  const float bound = all[n - 1];
  const auto below = std::count_if(all.begin(), all.end(), [&](float m) { return m < bound; });
  return {bound, static_cast<std::int64_t>(n) - below};
}

/// Applies the cut to a weight and its mask; takes the ties it used.
void apply_cut(Parameter& p, Cut& cut) {
  SharedVariable* shared = as_shared(p.variable);
  Array value = shared->get_value();
  Array mask = Array::empty(DType::Bool, value.shape);
  const std::int64_t width = size_of(value.dtype);
  for_each_element(value, [&](std::int64_t i, double x) {
    const float m = magnitude(x);
    const bool pruned = m < cut.bound || (m == cut.bound && cut.ties > 0 && cut.ties-- > 0);
    if (pruned) std::memset(value.data + i * width, 0, static_cast<std::size_t>(width));
    mask.typed<bool>()[i] = !pruned;
  });
  shared->set_value(value);
  if (p.mask) {
    as_shared(p.mask)->set_value(mask);
  } else {
    p.mask = snug::shared(mask, p.variable.name() + ".mask", p.variable.type().broadcast);
    p.mask->type.shape = value.shape;
  }
}

PruneReport::Row row_of(const Weight& w) {
  const Array value = as_shared(w.parameter->variable)->get_value(true);
  PruneReport::Row row{w.name, value.size(), 0};
  for_each_element(value, [&](std::int64_t, double x) { row.zeros += x == 0; });
  return row;
}

}  // namespace

PruneReport prune(Layer& model, double fraction, bool together) {
  if (!(fraction >= 0 && fraction <= 1))
    fail(Fault::Value, fmt::format("prune: the fraction is {}, it must be in [0, 1]", fraction));
  const std::vector<Weight> weights = weights_of(model);
  if (together) {
    std::vector<float> all;
    for (const Weight& w : weights) append_magnitudes(*w.parameter, all);
    Cut cut = cut_of(std::move(all), fraction);
    for (const Weight& w : weights) apply_cut(*w.parameter, cut);
  } else {
    for (const Weight& w : weights) {
      std::vector<float> all;
      append_magnitudes(*w.parameter, all);
      Cut cut = cut_of(std::move(all), fraction);
      apply_cut(*w.parameter, cut);
    }
  }
  return sparsity(model);
}

Updates masked(const Updates& updates, Layer& model) {
  std::unordered_map<std::uint64_t, Expr> masks;  // by the id of the value
  for (const Parameter& p : model.parameters())
    if (p.mask) masks.emplace(as_shared(p.variable)->id, p.mask);
  Updates out;
  for (const auto& [target, value] : updates) {
    const SharedVariable* shared = target ? as_shared(target) : nullptr;
    const auto mask = shared ? masks.find(shared->id) : masks.end();
    out.emplace_back(target, mask == masks.end()
                                 ? value
                                 : switch_(mask->second, value, typed_number(0, value.dtype())));
  }
  return out;
}

PruneReport sparsity(Layer& model) {
  PruneReport report;
  for (const Weight& w : weights_of(model)) report.rows.push_back(row_of(w));
  return report;
}

double PruneReport::sparsity() const {
  std::int64_t size = 0, zeros = 0;
  for (const Row& row : rows) {
    size += row.size;
    zeros += row.zeros;
  }
  return size == 0 ? 0 : static_cast<double>(zeros) / static_cast<double>(size);
}

std::string PruneReport::describe() const {
  std::size_t width = 6;
  for (const Row& row : rows) width = std::max(width, row.name.size());
  std::string text = fmt::format("{:<{}}  {:>12}  {:>12}  {:>8}\n", "weight", width, "elements",
                                 "zeros", "sparsity");
  for (const Row& row : rows)
    text += fmt::format(
        "{:<{}}  {:>12}  {:>12}  {:>7.1f}%\n", row.name, width, row.size, row.zeros,
        row.size == 0 ? 0.0
                      : 100.0 * static_cast<double>(row.zeros) / static_cast<double>(row.size));
  return text +
         fmt::format("{:<{}}  {:>12}  {:>12}  {:>7.1f}%\n", "all", width, "", "", 100 * sparsity());
}

}  // namespace snug::nn
