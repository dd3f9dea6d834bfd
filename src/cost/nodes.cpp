#include "cost/nodes.h"

#include <algorithm>
#include <cmath>

namespace snug {
namespace {

double count(const Dims& shape) {
  double n = 1;
  for (std::int64_t d : shape) n *= static_cast<double>(std::max<std::int64_t>(d, 0));
  return n;
}

/// Operations per element of an elementwise op.
double work_per_element(const Node& node, std::span<const DType> in_dtypes) {
  if (!node.op->scalar) return 1;
  ScalarBuilder builder;
  builder.arg_types.assign(in_dtypes.begin(), in_dtypes.end());
  builder.result = node.types[0].dtype;
  node.op->scalar(builder, node.attrs);
  double work = 0;
  for (const Instr& in : builder.body) work += kernel_cost(in.prim);
  return std::max(work, 1.0);
}

/// The name of the op, whichever axis its channels are on.
std::string_view plain_name(const Node& node) {
  std::string_view name = node.op->name;
  if (name.ends_with("_last")) name.remove_suffix(5);
  return name;
}

/// Per element of the larger image; vectors of channels where those come last.
double pool_operations(const Node& node, std::span<const Dims> in, std::span<const Dims> out) {
  constexpr double kPerCell = 120, kPlanes = 300;
  const double cells = std::max(count(in[0]), count(out[0]));
  if (!node.op->name.ends_with("_last")) return kPlanes * cells;
  constexpr double kLanes = 16;
  const double channels = static_cast<double>(std::max<std::int64_t>(in[0].back(), 1));
  return kPerCell * cells * std::ceil(channels / kLanes) * kLanes / channels;
}

double operations(const Node& node, std::span<const Dims> in, std::span<const Dims> out,
                  std::span<const DType> in_dtypes) {
  std::string_view op = plain_name(node);
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
  if (op.find("pool") != std::string_view::npos) return pool_operations(node, in, out);
  return count(out.empty() ? Dims{} : out[0]) * work_per_element(node, in_dtypes);
}

}  // namespace

double predict_operations(const Node& node, std::span<const Dims> in, std::span<const Dims> out,
                          std::span<const DType> in_dtypes) {
  double slow = !node.types.empty() && node.types[0].dtype == DType::F64 ? 2 : 1;
  return operations(node, in, out, in_dtypes) * slow;
}

double kernel_cost(Prim p) {
  if (operand_count(p) == 0 || p == Prim::Store) return 0;
  if (is_special(p)) return 2000;
  switch (p) {
    case Prim::Pow: return 380;
    case Prim::Philox: return 130;
    case Prim::Erfc:
    case Prim::Erfcx: return 140;
    case Prim::Div:
    case Prim::Sqrt:
    case Prim::Exp:
    case Prim::Exp2: return 25;
    case Prim::Mod:
    case Prim::FloorDiv: return 40;
    default: return is_function(p) ? 45 : 1;
  }
}

namespace {

/// The share of the full rate that one size of an operation allows: half of it at `half`.
double share(double size, double half) { return size / (size + half); }

}  // namespace

double product_share(double m, double n, double k) {
  return share(m, 20) * share(n, 20) * share(k, 12);
}

double product_moves(const DeviceInfo& d, double m, double n, double k, double batch) {
  // The second operand is copied into blocks where there are rows enough for that; results are
  // written part by part.
  const double bytes = 4 * batch * (m * k + (1 + share(m, 20)) * k * n + 4 * m * n);
  return bytes / bandwidth_for(d, bytes);
}

double conv_share(const DeviceInfo& d, double to, double terms) {
  const double padded = std::ceil(to / d.lanes) * d.lanes;  // whole vectors of channels
  return to / padded * share(padded, 0.6 * d.lanes) * share(terms, 26);
}

namespace {

struct Rate {
  double measured = 0;  // operations per second where all sizes are large; 0: not known
  double share = 1;     // of it that these sizes reach
  double before = 0;    // seconds that pass besides
};

Rate conv_rate(const DeviceInfo& d, const Node& node, std::string_view op, std::span<const Dims> in,
               std::span<const Dims> out) {
  const bool by_filters = op.ends_with("grad_weight"), by_images = op.ends_with("grad_input");
  const Dims& filters = by_filters ? out[0] : in[by_images ? 0 : 1];  // (to, from, taps...)
  const double groups = static_cast<double>(node.attrs.integer("groups"));
  double to = static_cast<double>(filters[0]) / groups, from = static_cast<double>(filters[1]);
  const double taps = count(filters) / std::max(1.0, to * groups * from);
  if (groups > 1 && to == 1 && from == 1) {
    // The gradient visits every pixel of the images, whatever the strides.
    const double visited = by_images ? std::min(1.0, count(in[1]) / count(out[0])) : 1;
    return {d.depthwise_flops, visited};
  }
  if (by_images) std::swap(to, from);
  double reached = conv_share(d, to, from * taps);
  if (by_filters && taps > 1 && d.filter_row_pixels > 0) {
    const Dims& images = in[0];
    const bool channels_last = node.op->name.ends_with("_last");
    const std::int64_t row = images[images.size() - (channels_last ? 2 : 1)];
    reached *= 1 - share(static_cast<double>(row), d.filter_row_pixels);
  }
  return {by_filters ? d.filter_flops : d.conv_flops, reached,
          d.filter_elements > 0 ? count(filters) / d.filter_elements : 0};
}

Rate product_rate(const DeviceInfo& d, double batch, double m, double n, double k) {
  return {d.product_flops, product_share(m, n, k),
          d.product_latency + product_moves(d, m, n, k, batch)};
}

Rate rate_of(const DeviceInfo& d, const Node& node, std::span<const Dims> in,
             std::span<const Dims> out) {
  const std::string_view op = plain_name(node);
  if (op.starts_with("conv")) return conv_rate(d, node, op, in, out);
  const bool batched = op == "batched_dot";
  if ((batched || op == "dot" || op == "affine") && in[0].size() == (batched ? 3 : 2) &&
      in[1].size() == in[0].size()) {
    const auto size = [](std::int64_t n) { return static_cast<double>(n); };
    const std::size_t row = batched ? 1 : 0;
    return product_rate(d, batched ? size(in[0][0]) : 1, size(in[0][row]), size(in[1].back()),
                        size(in[0][row + 1]));
  }
  return {d.kernel_flops, 1};
}

}  // namespace

double predict_work(const DeviceInfo& device, const Node& node, std::span<const Dims> in,
                    std::span<const Dims> out, std::span<const DType> in_dtypes) {
  const double operations = predict_operations(node, in, out, in_dtypes);
  const Rate rate = rate_of(device, node, in, out);
  if (rate.measured <= 0) return operations / device.flops;
  return rate.before + operations / (rate.measured * rate.share);
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
  const double operations = predict_operations(node, in, out, in_dtypes);
  const double moved = bytes / bandwidth_for(device, bytes);
  if (device.parallel_latency <= 0)
    return device.launch_latency + std::max(moved, predict_work(device, node, in, out, in_dtypes));
  if (std::max(bytes / 4, operations / 2) >= kParallelPoints)
    return device.parallel_latency +
           std::max(moved, predict_work(device, node, in, out, in_dtypes));
  // One core alone has its share of the rates of arithmetic and of caches.
  const double rate = device.kernel_flops > 0 ? device.kernel_flops : device.flops;
  return device.launch_latency + device.cores * std::max(moved, operations / rate);
}

}  // namespace snug
