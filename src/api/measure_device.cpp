#include "api/measure_device.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <limits>
#include <optional>

#include "api/function.h"
#include "autodiff/grad.h"
#include "backend/cpu/code_cache.h"
#include "ops/functions.h"

namespace snug {
namespace {

constexpr const char* kSymbol = "rates";
std::atomic<const DeviceInfo*> measured_here{nullptr};

/// Changes with what the rates depend on.
CodeKey key_of(const DeviceInfo& d) {
  return hash_bytes(fmt::format("rates 1 {} {} {} {}", SNUG_VERSION, d.model, d.cores, d.isa));
}

/// Seconds so far in the steps whose names begin with `name`.
double seconds_in(const Function& f, std::string_view name) {
  double sum = 0;
  for (const auto& step : f.profile().steps)
    if (step.name.starts_with(name)) sum += step.seconds;
  return sum;
}

/// The shortest time that one call spends in the steps whose names begin with each of `names`.
std::vector<double> shortest(const std::vector<Expr>& outputs,
                             const std::vector<std::string_view>& names) {
  constexpr int kCalls = 4;  // the first one warms up
  FunctionOptions options;
  options.profile = true;
  const Function f = function({}, outputs, options);
  std::vector<double> best(names.size(), std::numeric_limits<double>::max()), before(names.size());
  for (int call = 0; call < kCalls; ++call) {
    f.call({});
    for (std::size_t i = 0; i < names.size(); ++i) {
      const double now = seconds_in(f, names[i]);
      if (call > 0) best[i] = std::min(best[i], now - before[i]);
      before[i] = now;
    }
  }
  return best;
}

/// Floats without zeros, which some kernels treat apart.
Expr filled(const Dims& shape) {
  Array a = Array::empty(DType::F32, shape);
  for (std::int64_t i = 0; i < product(shape); ++i)
    a.set_double(static_cast<std::size_t>(i), 0.5 + static_cast<double>(i % 7));
  return shared(a);
}

double bandwidth() {
  constexpr std::int64_t kElements = std::int64_t{8} << 20;  // more than caches hold
  const Expr x = filled({kElements});
  return 2.0 * 4 * kElements / shortest({x * 3.0F + 1.0F}, {""})[0];
}

double product_rate() {
  constexpr std::int64_t kSize = 768;
  const Expr a = filled({kSize, kSize}), b = filled({kSize, kSize});
  return 2.0 * kSize * kSize * kSize / shortest({dot(a, b)}, {"dot"})[0];
}

/// Rates of convolutions of two kinds as networks have them: 3 x 3, and 1 x 1 over more channels.
void measure_convolutions(DeviceInfo& d) {
  double work = 0, forward = 0, images = 0, filters = 0;
  struct Shape {
    std::int64_t rows, from, to, size;
  };
  for (const Shape& s : {Shape{56, 64, 64, 3}, Shape{14, 256, 256, 3}, Shape{28, 256, 128, 1}}) {
    constexpr std::int64_t kImages = 4;
    ConvOptions options;
    options.border_mode = "half";
    const Expr x = filled({kImages, s.from, s.rows, s.rows}),
               w = filled({s.to, s.from, s.size, s.size}),
               dy = filled({kImages, s.to, s.rows, s.rows});
    const Expr y = conv2d(x, w, options);
    const std::vector<Expr> by = grad(sum(y * dy), std::vector<Expr>{x, w});
    const std::vector<double> seconds = shortest(
        {y, by[0], by[1]}, {"conv2d_last", "conv2d_grad_input_last", "conv2d_grad_weight_last"});
    work += 2.0 * static_cast<double>(
                      product(Dims{kImages, s.rows, s.rows, s.from, s.to, s.size, s.size}));
    forward += seconds[0];
    images += seconds[1];
    filters += seconds[2];
  }
  d.conv_flops = 2 * work / (forward + images);
  d.filter_flops = work / filters;
}

std::string as_text(const DeviceInfo& d) {
  return fmt::format("{} {} {} {}", d.bandwidth, d.product_flops, d.conv_flops, d.filter_flops);
}

/// Takes rates from what `as_text` wrote; false if it is something else.
bool take_text(std::string_view text, DeviceInfo& d) {
  for (double* rate : {&d.bandwidth, &d.product_flops, &d.conv_flops, &d.filter_flops}) {
    const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), *rate);
    if (fault != std::errc{} || !(*rate > 0)) return false;
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    if (text.starts_with(' ')) text.remove_prefix(1);
  }
  return true;
}

}  // namespace

DeviceInfo measure_host(bool keep) {
  DeviceInfo d = host_device();
  d.bandwidth = bandwidth();
  d.product_flops = product_rate();
  measure_convolutions(d);
  if (CodeCache cache(CodeCache::default_directory()); keep && cache.on())
    cache.store(key_of(host_device()), {kSymbol, as_text(d)});
  return d;
}

const DeviceInfo* measured_host_if_known() {
  static const std::optional<DeviceInfo> kept = []() -> std::optional<DeviceInfo> {
    DeviceInfo d = host_device();
    CodeCache cache(CodeCache::default_directory());
    if (!cache.on()) return std::nullopt;
    const auto entry = cache.load(key_of(d));
    if (!entry || entry->symbol != kSymbol || !take_text(entry->object, d)) return std::nullopt;
    return d;
  }();
  return kept ? &*kept : measured_here.load();
}

const DeviceInfo& measured_host() {
  if (const DeviceInfo* known = measured_host_if_known()) return *known;
  static const DeviceInfo device = measure_host(true);
  measured_here = &device;
  return device;
}

}  // namespace snug
