#include "nn/summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <unordered_set>

#include "base/bytes.h"
#include "expr/loop_shape.h"
#include "expr/op_def.h"

namespace snug::nn {
namespace {

double count(const Dims& shape) {
  double n = 1;
  for (std::int64_t size : shape) n *= static_cast<double>(std::max<std::int64_t>(size, 0));
  return n;
}

double flops_between(const std::vector<Expr>& results, const std::vector<Expr>& from);

/// How often the body of a loop runs; 0 if that is not known.
double iterations(const Apply& loop) {
  const Expr& given = loop.inputs[0];
  if (!given->elements.empty() && given->elements_known[0])
    return static_cast<double>(given->elements[0]);
  return LoopShape::of(loop.attrs).sequences > 0 ? count({loop.inputs[1].type().shape[0]}) : 0;
}

double flops_of(const Apply& a) {
  const std::string_view op = a.op->name;
  const auto shape = [&](std::size_t i) { return a.inputs[i].type().shape; };
  if (op == "dot" || op == "batched_dot")
    return 2 * count(a.types[0].shape) * count({shape(0).back()});
  if (op == "conv2d" || op == "conv3d") {
    Dims per_output = shape(1);
    per_output.erase(0);
    return 2 * count(a.types[0].shape) * count(per_output);
  }
  if (op == "conv2d_grad_input" || op == "conv3d_grad_input") {  // (filters, images)
    Dims per_input = shape(0);
    per_input.erase(0);
    return 2 * count(shape(1)) * count(per_input);
  }
  if (a.attrs.has("body")) {
    const Lambda& body = *a.attrs.lambda("body");
    return iterations(a) * flops_between(body.results, body.params);
  }
  return 0;
}

double flops_between(const std::vector<Expr>& results, const std::vector<Expr>& from) {
  std::unordered_set<const Variable*> ends;
  for (const Expr& e : from) ends.insert(e.get());
  std::unordered_set<const Apply*> seen;
  double total = 0;
  for (const Expr& e : topological(results, from))
    if (e->owner && !ends.count(e.get()) && seen.insert(e->owner.get()).second)
      total += flops_of(*e->owner);
  return total;
}

/// Of an output that is no other view of what was there before.
std::int64_t new_bytes(const Visit& v) {
  Expr e = v.output;
  while (!same(e, v.input) && e->owner && has(*e->owner->op, kView)) e = e->owner->inputs[0];
  return same(e, v.input)
             ? 0
             : static_cast<std::int64_t>(count(v.output.type().shape)) * size_of(v.output.dtype());
}

std::string with_commas(std::int64_t n) {
  std::string text = std::to_string(n);
  for (std::size_t at = text.size(); at > 3;) text.insert(at -= 3, ",");
  return text;
}

std::string flops_text(double flops) {
  if (flops < 1e6) return with_commas(static_cast<std::int64_t>(flops));
  return flops < 1e9 ? fmt::format("{:.2f} M", flops / 1e6) : fmt::format("{:.2f} G", flops / 1e9);
}

std::string bytes_text(std::int64_t bytes) {
  return describe_bytes(static_cast<std::uint64_t>(bytes));
}

std::vector<std::string> cells(const LayerSummary& l, const std::string& output) {
  return {l.name,
          l.kind + (l.frozen && l.parameters > 0 ? " [frozen]" : ""),
          output,
          with_commas(l.parameters),
          flops_text(l.flops),
          bytes_text(l.parameter_bytes),
          bytes_text(l.activation_bytes)};
}

nlohmann::ordered_json as_json(const LayerSummary& l) {
  return {{"name", l.name},
          {"kind", l.kind},
          {"output", std::vector<std::int64_t>(l.output.begin(), l.output.end())},
          {"parameters", l.parameters},
          {"trainable", l.trainable},
          {"frozen", l.frozen},
          {"flops", l.flops},
          {"parameter_bytes", l.parameter_bytes},
          {"activation_bytes", l.activation_bytes}};
}

}  // namespace

Summary summarise(Layer& model, const Dims& sizes, DType dtype, Here where) {
  const FallbackOrigin origin(where);
  for (std::int64_t size : sizes)
    if (size < 0)
      fail(Fault::Value,
           fmt::format("summary: the input is {}, all its sizes must be given",
                       describe_shape(sizes)),
           "give the size of a batch, too");
  Summary s{sizes, {}, {.name = "total", .kind = {}, .output = {}}};
  std::unordered_set<const Layer*> seen;
  // A layer of others comes after them, if it has parameters of its own: with the rest of the work.
  Pass pass{.visited = [&](const Visit& v) {
    LayerSummary l{v.path, v.layer.describe(), v.output.type().shape};
    l.flops = same(v.input, v.output) ? 0 : flops_between({v.output}, {v.input});
    for (const LayerSummary& inside : s.layers)
      if (v.path.empty() || inside.name.starts_with(v.path + ".")) l.flops -= inside.flops;
    l.flops = std::max(l.flops, 0.0);
    l.activation_bytes = new_bytes(v);
    l.frozen = v.layer.frozen();
    if (seen.insert(&v.layer).second)
      for (const Parameter& p : v.layer.own()) {
        l.parameters += p.size();
        l.trainable += p.trainable && !l.frozen ? p.size() : 0;
        l.parameter_bytes += p.bytes();
      }
    s.layers.push_back(std::move(l));
  }};
  s.total.output = model(input({dtype, sizes, 0}), pass).type().shape;
  for (const LayerSummary& l : s.layers) {
    s.total.parameters += l.parameters;
    s.total.trainable += l.trainable;
    s.total.flops += l.flops;
    s.total.parameter_bytes += l.parameter_bytes;
    s.total.activation_bytes += l.activation_bytes;
  }
  return s;
}

std::string Summary::describe() const {
  std::vector<std::vector<std::string>> rows{
      {"name", "layer", "output", "parameters", "FLOPs", "parameters", "activations"}};
  for (const LayerSummary& l : layers) rows.push_back(cells(l, describe_shape(l.output)));
  rows.push_back(cells(total, ""));
  std::vector<std::size_t> widths(rows[0].size(), 0);
  for (const auto& row : rows)
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  std::string text = fmt::format("input {}\n", describe_shape(input));
  for (std::size_t r = 0; r < rows.size(); ++r) {
    std::string line;
    for (std::size_t i = 0; i < widths.size(); ++i)
      line += i < 3 ? fmt::format("{:<{}}  ", rows[r][i], widths[i])
                    : fmt::format("{:>{}}  ", rows[r][i], widths[i]);
    line.erase(line.find_last_not_of(' ') + 1);
    if (r == 1 || r + 1 == rows.size()) text += std::string(line.size(), '-') + "\n";
    text += line + "\n";
  }
  text +=
      fmt::format("trainable {} of {}; FLOPs: 2 per multiply-add of products and convolutions\n",
                  with_commas(total.trainable), with_commas(total.parameters));
  return text;
}

std::string Summary::json() const {
  nlohmann::ordered_json all;
  all["input"] = std::vector<std::int64_t>(input.begin(), input.end());
  all["layers"] = nlohmann::ordered_json::array();
  for (const LayerSummary& l : layers) all["layers"].push_back(as_json(l));
  all["total"] = as_json(total);
  return all.dump(2);
}

}  // namespace snug::nn
