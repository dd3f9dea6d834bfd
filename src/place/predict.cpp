#include <algorithm>

#include "place/place.h"

namespace snug {
namespace {

double count(const Dims& shape) {
  double n = 1;
  for (std::int64_t d : shape) n *= static_cast<double>(std::max<std::int64_t>(d, 0));
  return n;
}

/// Operations per element of an elementwise op: its instructions, functions counted as ten.
double work_per_element(const Node& node, std::span<const DType> in_dtypes) {
  if (!node.op->scalar) return 1;
  ScalarBuilder builder;
  builder.arg_types.assign(in_dtypes.begin(), in_dtypes.end());
  builder.result = node.types[0].dtype;
  node.op->scalar(builder, node.attrs);
  double work = 0;
  for (const Instr& in : builder.body) {
    if (operand_count(in.prim) == 0) continue;
    bool function = is_function(in.prim) || in.prim == Prim::Mod || in.prim == Prim::FloorDiv ||
                    in.prim == Prim::Philox;
    work += function ? 10 : 1;
  }
  return std::max(work, 1.0);
}

double operations(const Node& node, std::span<const Dims> in, std::span<const Dims> out,
                  std::span<const DType> in_dtypes) {
  std::string_view op = node.op->name;
  if (op.ends_with("_last")) op.remove_suffix(5);  // images in another order of axes
  if ((op == "dot" || op == "affine") && in[0].size() == 2)
    return 2 * count(out[0]) * static_cast<double>(in[0][1]);
  if (op == "batched_dot") return 2 * count(out[0]) * static_cast<double>(in[0][2]);
  // Products per element of the result of a convolution: all but the number of filters.
  const auto per_element = [](const Dims& filters) {
    return count(filters) / static_cast<double>(std::max<std::int64_t>(filters[0], 1));
  };
  if (op == "conv2d" || op == "conv3d") return 2 * count(out[0]) * per_element(in[1]);
  if (op == "conv2d_grad_input" || op == "conv3d_grad_input")  // (w, dy)
    return 2 * count(in[1]) * per_element(in[0]);
  if (op == "conv2d_grad_weight" || op == "conv3d_grad_weight")  // (x, dy)
    return 2 * count(in[1]) * per_element(out[0]);
  if ((op == "cholesky" || op == "solve") && in[0].size() == 2) {
    double n = static_cast<double>(in[0][0]);
    double columns = op == "solve" && in[1].size() == 2 ? static_cast<double>(in[1][1]) : 1;
    return n * n * n / 3 + (op == "solve" ? 2 * n * n * columns : 0);
  }
  // Products of whole matrices, in units of n * n * n.
  constexpr std::pair<std::string_view, double> kCubic[] = {
      {"det", 0.7}, {"eigh", 9},   {"eigvalsh", 1.4}, {"expm", 25}, {"inverse", 2}, {"lstsq", 5},
      {"qr", 2.7},  {"qr_r", 1.4}, {"slogdet", 0.7},  {"svd", 20},  {"svdvals", 4},
  };
  for (auto [name, factor] : kCubic)
    if (op == name && in[0].size() == 2)
      return factor * count(in[0]) * static_cast<double>(std::min(in[0][0], in[0][1]));
  if (has(*node.op, kReduction)) return count(in[0]);
  return count(out.empty() ? Dims{} : out[0]) * work_per_element(node, in_dtypes);
}

}  // namespace

double predict_operations(const Node& node, std::span<const Dims> in, std::span<const Dims> out,
                          std::span<const DType> in_dtypes) {
  double slow = !node.types.empty() && node.types[0].dtype == DType::F64 ? 2 : 1;
  return operations(node, in, out, in_dtypes) * slow;
}

double predict_seconds(const DeviceInfo& device, const Node& node, std::span<const Dims> in,
                       std::span<const Dims> out, std::span<const DType> in_dtypes) {
  if (has(*node.op, kLeaf | kView)) return 0;
  double bytes = 0;
  for (std::size_t k = 0; k < out.size(); ++k)
    bytes += count(out[k]) * static_cast<double>(size_of(node.types[k].dtype));
  std::size_t read = std::min(in.size(), data_inputs(*node.op, in.size()));
  // An op in place touches what it changes; a gather reads what it gives.
  for (std::size_t k = 0; k < read; ++k) {
    double n = count(in[k]) * static_cast<double>(size_of(in_dtypes[k]));
    if (has(*node.op, kInPlace) && k == 0) {
      bytes = 0;
      continue;
    }
    if (node.op->name == "gather" && k == 0) n = std::min(n, bytes);
    bytes += n;
  }
  double work = predict_operations(node, in, out, in_dtypes);
  return device.launch_latency + std::max(bytes / device.bandwidth, work / device.flops);
}

}  // namespace snug
