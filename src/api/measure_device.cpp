#include "api/measure_device.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <chrono>
#include <cmath>
#include <limits>
#include <optional>

#include "api/function.h"
#include "autodiff/grad.h"
#include "backend/cpu/code_cache.h"
#include "ops/functions.h"
#include "place/place.h"
#include "target/memory_budget.h"

namespace snug {
namespace {

constexpr const char* kSymbol = "rates";
std::atomic<const DeviceInfo*> measured_here{nullptr};

/// Changes with what the rates depend on. Those of a busy machine are kept apart.
CodeKey key_of(const DeviceInfo& d, bool busy) {
  return hash_bytes(fmt::format("rates 3 {} {} {} {}{}", SNUG_VERSION, d.model, d.cores, d.isa,
                                busy ? " busy" : ""));
}

/// For so long rates of a busy machine serve other processes, too, so that not all measure again.
constexpr double kBusySeconds = 600;

double now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

/// Seconds so far in the steps whose names begin with `name`.
double seconds_in(const Function& f, std::string_view name) {
  double sum = 0;
  for (const auto& step : f.profile().steps)
    if (step.name.starts_with(name)) sum += step.seconds;
  return sum;
}

using Updates = std::vector<std::pair<Expr, Expr>>;

/// The time that a call usually spends in the steps whose names begin with each of `names`. Results
/// go to shared variables: fresh memory would be part of the time.
std::vector<double> typical(const Updates& updates, const std::vector<std::string_view>& names) {
  constexpr std::size_t kCalls = 5;
  FunctionOptions options;
  options.profile = true;
  options.updates = updates;
  const Function f = function({}, std::vector<Expr>{}, options);
  f.call({});  // warms up
  std::vector<double> before, result;
  for (std::string_view name : names) before.push_back(seconds_in(f, name));
  std::vector<std::vector<double>> seconds(names.size());
  for (std::size_t call = 0; call < kCalls; ++call) {
    f.call({});
    for (std::size_t i = 0; i < names.size(); ++i) {
      const double now = seconds_in(f, names[i]);
      seconds[i].push_back(now - before[i]);
      before[i] = now;
    }
  }
  for (std::vector<double>& of : seconds) {
    std::nth_element(of.begin(), of.begin() + kCalls / 2, of.end());
    result.push_back(of[kCalls / 2]);
  }
  return result;
}

/// Numbers without zeros, which some kernels treat apart.
template <class T>
Expr filled_with(const Dims& shape) {
  Array a = Array::empty(dtype_of<T>(), shape);
  T* const data = a.typed<T>();
  for (std::int64_t i = 0; i < product(shape); ++i) data[i] = static_cast<T>(1 + i % 7);
  return shared(a);
}
Expr filled(const Dims& shape) { return filled_with<float>(shape); }

/// Seconds of a kernel of `n` elements, where several run one after another and threads are still
/// awake.
template <class T, class F>
double loop_seconds(std::int64_t n, F&& compute) {
  constexpr int kKernels = 8;
  Updates updates;
  for (int i = 0; i < kKernels; ++i)
    updates.emplace_back(filled_with<T>({n}), compute(filled_with<T>({n})));
  return typical(updates, {""})[0] / kKernels;
}

Expr cheap(const Expr& x) { return x * 3.0F + 1.0F; }

/// Latency and rates of fused loops.
void measure_loops(DeviceInfo& d) {
  // As few bytes as a kernel on all cores can have.
  d.parallel_latency =
      std::max(loop_seconds<std::int8_t>(kParallelPoints, [](const Expr& x) { return x + x; }),
               d.launch_latency);
  constexpr std::int64_t kMiddle = 2 * kParallelPoints;   // caches hold one kernel's operands
  constexpr std::int64_t kLarge = std::int64_t{8} << 20;  // and not these
  const auto rate = [&](double seconds) {
    return 1 / std::max(seconds - d.parallel_latency, seconds / 2);
  };
  const Expr from = filled({kLarge}), to = filled({kLarge});
  d.bandwidth = 8.0 * kLarge * rate(typical({{to, cheap(from)}}, {""})[0]);
  // In a function operands often come from tasks that cut them otherwise among the cores.
  constexpr double kForeign = 0.5;
  d.cache_bandwidth =
      std::max(kForeign * 8 * kMiddle * rate(loop_seconds<float>(kMiddle, cheap)), d.bandwidth);
  // Far more arithmetic than traffic.
  const auto functions = [](const Expr& x) { return tanh(tanh(tanh(tanh(x)))); };
  d.kernel_flops =
      4 * kernel_cost(Prim::Tanh) * kMiddle * rate(loop_seconds<float>(kMiddle, functions));
  constexpr std::int64_t kRows = 600, kColumns = 500;
  const Expr rows = filled({kRows, kColumns}), columns = filled({kColumns, kRows});
  d.strided_elements =
      kRows * kColumns * rate(typical({{columns, cheap(transpose(rows))}}, {""})[0]);
}

/// Seconds of one of several products (m, k) by (k, n), each of which has operands of its own.
double product_seconds(std::int64_t m, std::int64_t n, std::int64_t k) {
  constexpr int kProducts = 8;
  Updates updates;
  for (int i = 0; i < kProducts; ++i)
    updates.emplace_back(filled({m, n}), dot(filled({m, k}), filled({k, n})));
  return typical(updates, {"dot"})[0] / kProducts;
}

/// By a product as layers have it: few rows, and a matrix that caches do not hold.
void measure_products(DeviceInfo& d) {
  d.product_latency = std::max(product_seconds(32, 64, 32) - d.parallel_latency, 1e-9);
  constexpr std::int64_t kRows = 128, kSide = 1024;
  const double whole = product_seconds(kRows, kSide, kSide);
  const double seconds = std::max(whole - d.parallel_latency - d.product_latency, whole / 2);
  d.product_flops = 2.0 * kRows * kSide * kSide / seconds / product_share(kRows, kSide, kSide);
}

struct Convolution {
  std::int64_t rows, from, to, size, groups;
  double work() const {
    return 2.0 * static_cast<double>(product(Dims{kImages, rows, rows, from, to, size, size})) /
           static_cast<double>(groups);
  }
  static constexpr std::int64_t kImages = 4;
};

/// Seconds of a convolution, its gradient by images and that by filters.
std::vector<double> seconds_of(const Convolution& c) {
  ConvOptions options;
  options.border_mode = "half";
  options.groups = c.groups;
  const Dims images{Convolution::kImages, c.from, c.rows, c.rows},
      results{Convolution::kImages, c.to, c.rows, c.rows},
      filters{c.to, c.from / c.groups, c.size, c.size};
  const Expr x = filled(images), w = filled(filters), dy = filled(results);
  const Expr y = conv2d(x, w, options);
  const std::vector<Expr> by = grad(sum(y * dy), std::vector<Expr>{x, w});
  return typical({{filled(results), y}, {filled(images), by[0]}, {filled(filters), by[1]}},
                 {"conv2d_last", "conv2d_grad_input_last", "conv2d_grad_weight_last"});
}

/// Of kinds that networks have: 3 x 3, 1 x 1 over more channels, and each channel by itself.
void measure_convolutions(DeviceInfo& d) {
  // Hardly more than the rearrangement of filters, three times.
  const Convolution small{2, 512, 512, 3, 1};
  const std::vector<double> first = seconds_of(small);
  d.filter_elements = 3.0 * 512 * 512 * 9 / (first[0] + first[1] + first[2]);
  double images = 0, by_images = 0, filters = 0, by_filters = 0;
  for (const Convolution& c :
       {Convolution{56, 64, 64, 3, 1}, {14, 256, 256, 3, 1}, {28, 256, 128, 1, 1}}) {
    const std::vector<double> seconds = seconds_of(c);
    const double taps = static_cast<double>(c.size * c.size), from = static_cast<double>(c.from),
                 to = static_cast<double>(c.to);
    const double besides = d.parallel_latency + from * to * taps / d.filter_elements;
    const double forward = conv_share(d, to, from * taps), back = conv_share(d, from, to * taps);
    images += c.work() / forward + c.work() / back;
    by_images += std::max(seconds[0] + seconds[1] - 2 * besides, seconds[0]);
    filters += c.work() / forward;
    by_filters += std::max(seconds[2] - besides, seconds[2] / 2);
  }
  d.conv_flops = images / by_images;
  d.filter_flops = filters / by_filters;
  const Convolution alone{28, 128, 128, 3, 128};
  const std::vector<double> seconds = seconds_of(alone);
  const double sum = seconds[0] + seconds[1] + seconds[2];
  d.depthwise_flops = 3 * alone.work() / std::max(sum - 3 * d.parallel_latency, sum / 2);
}

/// The rates that are measured, in the order of the file.
constexpr double DeviceInfo::*kRates[] = {
    &DeviceInfo::bandwidth,        &DeviceInfo::cache_bandwidth,  &DeviceInfo::kernel_flops,
    &DeviceInfo::product_flops,    &DeviceInfo::conv_flops,       &DeviceInfo::filter_flops,
    &DeviceInfo::depthwise_flops,  &DeviceInfo::strided_elements, &DeviceInfo::filter_elements,
    &DeviceInfo::parallel_latency, &DeviceInfo::product_latency,
};

/// The rates and the time.
std::string as_text(const DeviceInfo& d) {
  std::string text;
  for (const auto rate : kRates) text += fmt::format("{} ", d.*rate);
  return text + fmt::format("{}", now());
}

bool take_number(std::string_view& text, double& number) {
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (fault != std::errc{} || !(number > 0)) return false;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  if (text.starts_with(' ')) text.remove_prefix(1);
  return true;
}

/// Takes rates from what `as_text` wrote; false if it is something else, or too old for those of a
/// busy machine.
bool take_text(std::string_view text, DeviceInfo& d) {
  for (const auto rate : kRates)
    if (!take_number(text, d.*rate)) return false;
  double when = 0;
  return take_number(text, when) && (!d.measured_busy || std::abs(now() - when) < kBusySeconds);
}

/// What this process has had of the machine so far.
struct Usage {
  double seconds;        // of cores
  double interruptions;  // how often the system took a core from it, although it had work
};
Usage usage() {
  rusage u{};
  getrusage(RUSAGE_SELF, &u);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  return {seconds(u.ru_utime) + seconds(u.ru_stime), static_cast<double>(u.ru_nivcsw)};
}

/// One measurement of everything; others who use the machine at the same time make it `busy`.
DeviceInfo measure_once() {
  // Interruptions per second of work, and the share of the time that at least one core worked:
  // another program that runs makes more of the one and less of the other.
  constexpr double kInterruptions = 50, kWorking = 0.9;
  const auto begin = std::chrono::steady_clock::now();
  const Usage before = usage();
  DeviceInfo d = host_device();
  measure_loops(d);
  measure_products(d);
  measure_convolutions(d);
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  const Usage after = usage();
  const double worked = after.seconds - before.seconds;
  d.measured_busy = after.interruptions - before.interruptions > kInterruptions * worked ||
                    worked < kWorking * seconds;
  return d;
}

}  // namespace

DeviceInfo measure_host(bool keep) {
  const WithoutMemoryBudget scope;
  constexpr int kMost = 2;
  DeviceInfo best = measure_once();
  for (int again = 1; best.measured_busy && again < kMost; ++again) {
    const DeviceInfo d = measure_once();
    if (!d.measured_busy) {
      best = d;
      break;
    }
    // What others took can only have made it slower; what is below 1 is seconds.
    for (const auto rate : kRates)
      best.*rate = d.*rate < 1 ? std::min(best.*rate, d.*rate) : std::max(best.*rate, d.*rate);
  }
  CodeCache cache(CodeCache::default_directory());
  if (keep && cache.on())
    cache.store(key_of(host_device(), best.measured_busy), {kSymbol, as_text(best)});
  return best;
}

const DeviceInfo* measured_host_if_known() {
  static const std::optional<DeviceInfo> kept = []() -> std::optional<DeviceInfo> {
    CodeCache cache(CodeCache::default_directory());
    if (!cache.on()) return std::nullopt;
    for (const bool busy : {false, true}) {
      DeviceInfo d = host_device();
      d.measured_busy = busy;
      const auto entry = cache.load(key_of(d, busy));
      if (entry && entry->symbol == kSymbol && take_text(entry->object, d)) return d;
    }
    return std::nullopt;
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
