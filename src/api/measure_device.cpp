#include "api/measure_device.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>

#include "api/function.h"
#include "api/measuring_time.h"
#include "autodiff/grad.h"
#include "base/disk_cache.h"
#include "base/fork.h"
#include "base/interrupt.h"
#include "base/kept_blocks.h"
#include "base/progress_line.h"
#include "cost/nodes.h"
#include "ops/functions.h"
#include "target/free_memory.h"
#include "target/memory_budget.h"

namespace snug {
namespace {

constexpr const char* kSymbol = "rates";
std::atomic<const DeviceInfo*> measured_here{nullptr};

/// Changes with what the rates depend on. Those of a busy machine are kept apart.
CacheKey key_of(const DeviceInfo& d, bool busy) {
  return hash_bytes(fmt::format("rates 7 {} {} {} {}{}", SNUG_VERSION, d.model, d.cores, d.isa,
                                busy ? " busy" : ""));
}

/// For so long rates of a busy machine serve other processes, too, so that not all measure again;
/// once the machine is idle, for no longer than this.
constexpr double kBusySeconds = 3600, kAgainSeconds = 60;
/// Of all rates together, whatever the load.
constexpr double kMostSeconds = 5;
/// What a rate that could not be measured in that time may be off by.
constexpr double kGuessFactor = 3;

double now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}
double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

using Updates = std::vector<std::pair<Expr, Expr>>;

/// Those that cores have for themselves.
void empty_caches() {
  const std::vector<std::uint8_t> others(static_cast<std::size_t>(4 * host_device().cache_bytes),
                                         1);
  [[maybe_unused]] static volatile std::uint8_t last;
  last = others.back();
}

/// A function and the time that good calls of it spend in the steps whose names begin with each of
/// `names`. Results go to shared variables: fresh memory would be part of the time.
class Probe {
 public:
  /// `calls` per round. One before them compiles and, if they are several, brings operands into
  /// caches and wakes threads; a single one finds its operands in memory, as steps of a training
  /// do.
  Probe(std::function<Updates()> make, int calls, std::vector<std::string_view> names = {""})
      : make_(std::move(make)), names_(std::move(names)), calls_(calls), seconds_(names_.size()) {}

  /// The function lives for the round alone, so that the probes never take memory together. There
  /// are fewer calls, at least one, if `time` is over before.
  void round(MeasuringTime& time) {
    if (!time.begin_probe()) return;
    const Function f = snug::function({}, std::vector<Expr>{}, with_profile(make_()));
    f.call({});
    for (int call = 0; call < kCalls * calls_; ++call) {
      check_interrupt();
      if (calls_ == 1) empty_caches();
      const std::vector<double> before = so_far(f);
      f.call({});
      const std::vector<double> after = so_far(f);
      for (std::size_t i = 0; i < seconds_.size(); ++i) seconds_[i].push_back(after[i] - before[i]);
      if (time.probe_is_over()) return;
    }
  }

  bool measured() const { return !seconds_[0].empty(); }

  /// The factor between good calls and bad ones: the third quarter and the best. Nothing if there
  /// were too few to tell.
  std::optional<double> spread() const {
    constexpr std::size_t kTelling = 4;
    if (!measured()) return kGuessFactor;
    if (seconds_[0].size() < kTelling) return std::nullopt;
    double product = 1;
    for (std::size_t name = 0; name < seconds_.size(); ++name) {
      std::vector<double> sorted = seconds_[name];
      std::sort(sorted.begin(), sorted.end());
      if (sorted[0] <= 0) return kGuessFactor;
      product *= sorted[sorted.size() * 3 / 4] / sorted[0];
    }
    return std::pow(product, 1 / static_cast<double>(seconds_.size()));
  }

  /// That of the first quarter: the fastest call is luckier than a step of a training, and others
  /// who use the machine slow many calls down.
  double seconds(std::size_t name = 0) const {
    std::vector<double> sorted = seconds_[name];
    std::sort(sorted.begin(), sorted.end());
    SNUG_CHECK(sorted[0] > 0, "no step that was measured is called {}", names_[name]);
    return sorted[sorted.size() / 4];
  }

 private:
  static constexpr int kCalls = 5;  // as a unit
  static FunctionOptions with_profile(const Updates& updates) {
    FunctionOptions options;
    options.profile = true;
    options.updates = updates;
    return options;
  }
  std::vector<double> so_far(const Function& f) const {
    std::vector<double> sums(names_.size(), 0);
    for (const auto& step : f.profile().steps)
      for (std::size_t i = 0; i < names_.size(); ++i)
        if (names_[i].empty() || step.name == names_[i]) sums[i] += step.seconds;
    return sums;
  }

  std::function<Updates()> make_;
  std::vector<std::string_view> names_;
  int calls_;
  std::vector<std::vector<double>> seconds_;  // by name and call
};

/// Numbers without zeros, which some kernels treat apart.
template <class T>
Expr filled_with(const Dims& shape) {
  Array a = Array::empty(dtype_of<T>(), shape);
  T* const data = a.typed<T>();
  for (std::int64_t i = 0; i < product(shape); ++i) data[i] = static_cast<T>(1 + i % 7);
  return shared(a);
}
Expr filled(const Dims& shape) { return filled_with<float>(shape); }

constexpr int kSeveral = 8;  // tasks of a kind, one after another

/// Several kernels of `n` elements, so that threads are awake.
template <class T, class F>
Updates kernels(std::int64_t n, F&& compute) {
  Updates updates;
  for (int i = 0; i < kSeveral; ++i)
    updates.emplace_back(filled_with<T>({n}), compute(filled_with<T>({n})));
  return updates;
}

/// Several products (m, k) by (k, n), each of which has operands of its own.
Updates products(std::int64_t m, std::int64_t n, std::int64_t k) {
  Updates updates;
  for (int i = 0; i < kSeveral; ++i)
    updates.emplace_back(filled({m, n}), dot(filled({m, k}), filled({k, n})));
  return updates;
}

Expr cheap(const Expr& x) { return x * 3.0F + 1.0F; }

/// A kernel, and another that reads both halves of what it wrote in the call before: much of its
/// part each core finds in the cache of another one. 32 bytes per point in all.
Updates exchanged(std::int64_t n) {
  const Expr x = filled({2 * n});
  return {{x, cheap(filled({2 * n}))},
          {filled({n}), cheap(slice_axis(x, 0, 0, n))},
          {filled({n}), cheap(slice_axis(x, 0, n, 2 * n))}};
}

struct Convolution {
  std::int64_t images, rows, from, to, size, groups;
  double work() const {
    return 2.0 * static_cast<double>(product(Dims{images, rows, rows, from, to, size, size})) /
           static_cast<double>(groups);
  }
};

/// A convolution, its gradient by images and that by filters.
Updates convolution_with_gradients(const Convolution& c) {
  ConvOptions options;
  options.border_mode = "half";
  options.groups = c.groups;
  const Dims images{c.images, c.from, c.rows, c.rows}, results{c.images, c.to, c.rows, c.rows},
      filters{c.to, c.from / c.groups, c.size, c.size};
  const Expr x = filled(images), w = filled(filters), dy = filled(results);
  const Expr y = conv2d(x, w, options);
  const std::vector<Expr> by = grad(sum(y * dy), std::vector<Expr>{x, w});
  return {{filled(results), y}, {filled(images), by[0]}, {filled(filters), by[1]}};
}

Probe probe_of(const Convolution& c) {
  return Probe([c] { return convolution_with_gradients(c); }, 1,
               {"conv2d", "conv2d backward by images", "conv2d backward by filters"});
}

/// What is measured. Rounds take the probes in turn, so that a while in which others have the
/// machine spoils a round and not a rate.
class Probes {
 public:
  int count() { return static_cast<int>(all().size()); }

  void round(MeasuringTime& time) {
    for (Probe* p : all()) p->round(time);
  }

  DeviceInfo rates() {
    DeviceInfo d = guessed();
    if (measured({&latency_, &caches_, &memory_, &functions_, &across_})) loops(d);
    if (measured({&latency_, &small_product_, &product_})) products(d);
    if (measured({&latency_, &filters_, &alone_}) &&
        std::all_of(convolutions_.begin(), convolutions_.end(),
                    [](const Probe& p) { return p.measured(); }))
      convolutions(d);
    std::vector<std::optional<double>> spreads;
    for (const Probe* p : all()) spreads.push_back(p->spread());
    d.rate_factor = joint_spread(spreads, kGuessFactor);
    return d;
  }

 private:
  static bool measured(std::initializer_list<const Probe*> probes) {
    return std::all_of(probes.begin(), probes.end(), [](const Probe* p) { return p->measured(); });
  }

  std::vector<Probe*> all() {
    std::vector<Probe*> probes{&latency_,       &caches_,  &memory_,  &functions_, &across_,
                               &small_product_, &product_, &filters_, &alone_};
    for (Probe& p : convolutions_) probes.push_back(&p);
    return probes;
  }

  /// As processors usually have them, for what there is no time to measure.
  static DeviceInfo guessed() {
    DeviceInfo d = host_device();
    d.cache_bandwidth = 3 * d.bandwidth;
    d.kernel_flops = d.flops / 8;
    d.product_flops = d.conv_flops = d.flops / 2;
    d.filter_flops = d.flops / 3;
    d.depthwise_flops = d.flops / 16;
    d.strided_elements = d.filter_elements = d.bandwidth / 16;
    d.product_latency = d.parallel_latency;
    d.filter_row_pixels = 1e9;
    return d;
  }

  /// On all cores, and well within their caches.
  static std::int64_t exchanged_points() {
    return std::min(kParallelPoints, host_device().cache_bytes / 36);
  }
  static double rest(double seconds, double besides) {
    return std::max(seconds - besides, seconds / 2);
  }

  /// Latency and rates of fused loops.
  void loops(DeviceInfo& d) const {
    d.parallel_latency = std::max(latency_.seconds() / kSeveral, d.launch_latency);
    d.bandwidth = 8.0 * kLarge / rest(memory_.seconds(), d.parallel_latency);
    d.cache_bandwidth = std::max(32 * static_cast<double>(exchanged_points()) /
                                     rest(caches_.seconds(), 2 * d.parallel_latency),
                                 d.bandwidth);
    d.kernel_flops = 4 * kernel_cost(Prim::Tanh) * kMiddle /
                     rest(functions_.seconds() / kSeveral, d.parallel_latency);
    d.strided_elements = kRows * kColumns / rest(across_.seconds(), d.parallel_latency);
  }

  void products(DeviceInfo& d) const {
    d.product_latency = std::max(small_product_.seconds() / kSeveral - d.parallel_latency, 1e-9);
    const double besides =
        d.parallel_latency + d.product_latency + product_moves(d, kBatch, kSide, kSide);
    d.product_flops = 2.0 * kBatch * kSide * kSide / rest(product_.seconds() / kSeveral, besides) /
                      product_share(kBatch, kSide, kSide);
  }

  void convolutions(DeviceInfo& d) const {
    d.filter_elements = 3.0 * kFilters.from * kFilters.to * kFilters.size * kFilters.size /
                        (filters_.seconds(0) + filters_.seconds(1) + filters_.seconds(2));
    double images = 0, by_images = 0;
    // By filters, of narrow images and of wide ones: work, the same times the width, and seconds.
    struct Filters {
      double work = 0, pixels = 0, seconds = 0;
    } kinds[2];
    for (std::size_t i = 0; i < std::size(kConvolutions); ++i) {
      const Convolution& c = kConvolutions[i];
      const Probe& p = convolutions_[i];
      const double taps = static_cast<double>(c.size * c.size), from = static_cast<double>(c.from),
                   to = static_cast<double>(c.to);
      const double besides = d.parallel_latency + from * to * taps / d.filter_elements;
      const double forward = conv_share(d, to, from * taps), back = conv_share(d, from, to * taps);
      const bool wide = c.rows >= kWide;
      if (!wide) {
        images += c.work() / forward + c.work() / back;
        by_images += rest(p.seconds(0) + p.seconds(1), 2 * besides);
      }
      Filters& k = kinds[wide];
      k.work += c.work() / forward;
      k.pixels += c.size > 1 ? c.work() / forward * static_cast<double>(c.rows) : 0;
      k.seconds += rest(p.seconds(2), besides);
    }
    d.conv_flops = images / by_images;
    // seconds = (work + pixels / row_pixels) / flops, of both kinds.
    const auto [narrow, wide] = kinds;
    const double per_pixel = std::max((wide.seconds * narrow.work - narrow.seconds * wide.work) /
                                          (wide.pixels * narrow.work - narrow.pixels * wide.work),
                                      0.0);
    d.filter_flops = narrow.work / rest(narrow.seconds, per_pixel * narrow.pixels);
    d.filter_row_pixels = 1 / std::max(per_pixel * d.filter_flops, 1e-9);
    d.depthwise_flops =
        3 * kAlone.work() /
        rest(alone_.seconds(0) + alone_.seconds(1) + alone_.seconds(2), 3 * d.parallel_latency);
  }

  static constexpr std::int64_t kMiddle = 2 * kParallelPoints;  // caches hold one kernel's operands
  static constexpr std::int64_t kLarge = std::int64_t{8} << 20;  // and not these
  static constexpr std::int64_t kRows = 600, kColumns = 500;
  static constexpr std::int64_t kBatch = 128, kSide = 1000;
  // Hardly more than the rearrangement of filters, three times; and each channel by itself.
  static constexpr Convolution kFilters{4, 2, 256, 512, 3, 1}, kAlone{4, 28, 128, 128, 3, 128};
  // Of kinds that networks have: 3 x 3, 1 x 1 over more channels, and wide images, whose rows
  // caches do not hold as gradients by filters need them.
  static constexpr std::int64_t kWide = 160;
  static constexpr Convolution kConvolutions[] = {{4, 56, 64, 64, 3, 1},
                                                  {4, 14, 256, 256, 3, 1},
                                                  {4, 28, 256, 128, 1, 1},
                                                  {1, kWide, 64, 64, 3, 1}};

  static constexpr int kShort = 16, kMedium = 4;  // calls per round
  // As few bytes as a kernel on all cores can have.
  Probe latency_{
      [] { return kernels<std::int8_t>(kParallelPoints, [](const Expr& x) { return x + x; }); },
      kShort};
  Probe caches_{[] { return exchanged(exchanged_points()); }, kShort};
  Probe memory_{[]() -> Updates { return {{filled({kLarge}), cheap(filled({kLarge}))}}; }, 1};
  // Far more arithmetic than traffic.
  Probe functions_{[] {
                     return kernels<float>(kMiddle,
                                           [](const Expr& x) { return tanh(tanh(tanh(tanh(x)))); });
                   },
                   kMedium};
  Probe across_{[]() -> Updates {
                  return {{filled({kColumns, kRows}), cheap(transpose(filled({kRows, kColumns})))}};
                },
                kMedium};
  Probe small_product_{[] { return snug::products(32, 64, 32); }, kShort};
  // As layers have it: few rows, and a matrix that caches do not hold. Not a power of two, whose
  // rows fall on the same lines of caches.
  Probe product_{[] { return snug::products(kBatch, kSide, kSide); }, 1};
  Probe filters_ = probe_of(kFilters), alone_ = probe_of(kAlone);
  std::vector<Probe> convolutions_ = [] {
    std::vector<Probe> probes;
    for (const Convolution& c : kConvolutions) probes.push_back(probe_of(c));
    return probes;
  }();
};

/// The rates that are measured, in the order of the file.
constexpr double DeviceInfo::*kRates[] = {
    &DeviceInfo::bandwidth,        &DeviceInfo::cache_bandwidth,  &DeviceInfo::kernel_flops,
    &DeviceInfo::product_flops,    &DeviceInfo::conv_flops,       &DeviceInfo::filter_flops,
    &DeviceInfo::depthwise_flops,  &DeviceInfo::strided_elements, &DeviceInfo::filter_elements,
    &DeviceInfo::parallel_latency, &DeviceInfo::product_latency,  &DeviceInfo::filter_row_pixels,
    &DeviceInfo::rate_factor,
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
  return take_number(text, d.measured_at) &&
         (!d.measured_busy || std::abs(now() - d.measured_at) < kBusySeconds);
}

/// What this process has had of the machine so far, in seconds.
struct Usage {
  double worked = 0;
  double waited = 0;  // of its threads for a core that others had
  double stolen = 0;  // from the cores of this machine by others on its host
};
Usage usage() {
  Usage now;
  rusage u{};
  getrusage(RUSAGE_SELF, &u);
  for (const timeval& t : {u.ru_utime, u.ru_stime})
    now.worked += static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  std::error_code none;  // without these files others are not seen
  for (const auto& thread : std::filesystem::directory_iterator("/proc/self/task", none)) {
    std::ifstream file(thread.path() / "schedstat");
    double ran = 0, waited = 0;  // ns
    if (file >> ran >> waited) now.waited += 1e-9 * waited;
  }
  std::ifstream file("/proc/stat");
  std::string name;
  double ticks[8];  // user, nice, system, idle, iowait, irq, softirq, steal
  file >> name;
  for (double& t : ticks) file >> t;
  if (file) now.stolen = ticks[7] / static_cast<double>(sysconf(_SC_CLK_TCK));
  return now;
}

/// Whether others used the machine meanwhile.
bool was_busy(const Usage& before, const Usage& after) {
  constexpr double kLost = 0.1;  // of the time that threads wanted to work
  const double lost = after.waited - before.waited + after.stolen - before.stolen;
  return lost > kLost * (after.worked - before.worked + lost);
}

std::optional<DeviceInfo> kept_rates() {
  DiskCache cache(DiskCache::default_directory());
  if (!cache.on()) return std::nullopt;
  for (const bool busy : {false, true}) {
    DeviceInfo d = host_device();
    d.measured_busy = busy;
    const auto entry = cache.load(key_of(d, busy));
    if (entry && entry->symbol == kSymbol && take_text(entry->object, d)) return d;
  }
  return std::nullopt;
}

void keep(const DeviceInfo& d) {
  DiskCache cache(DiskCache::default_directory());
  if (cache.on()) cache.store(key_of(host_device(), d.measured_busy), {kSymbol, as_text(d)});
}

}  // namespace

DeviceInfo measure_host() {
  const WithoutMemoryBudget scope;
  const ProgressLine line(fmt::format("measuring how fast this machine is, once: at most {} s",
                                      static_cast<int>(kMostSeconds)));
  constexpr int kEnough = 2, kMost = 4;  // rounds, on an idle machine and on a busy one
  Probes probes;
  MeasuringTime time(kMostSeconds, probes.count(), steady_seconds);
  bool undisturbed = false;
  Usage before = usage();
  for (int rounds = 0; rounds < kMost && !undisturbed && time.begin_round();) {
    probes.round(time);
    if (++rounds % kEnough != 0) continue;
    const Usage after = usage();
    undisturbed = !was_busy(std::exchange(before, after), after);
  }
  DeviceInfo best = probes.rates();
  best.measured_busy = !undisturbed;
  best.measured_at = now();
  drop_kept_blocks();
  return best;
}

bool machine_is_idle(const std::string& file, int cores) {
  constexpr int kLooks = 3;
  for (int look = 0; look < kLooks; ++look) {
    if (look > 0) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    double load[3];
    int running = 0;  // the thread that asks among them
    std::ifstream in(file);
    for (double& l : load) in >> l;
    if (!(in >> running) || running - 1 > cores / 8) return false;
  }
  return true;
}

namespace {

/// Rates of a busy machine that is idle now; once in a process.
bool better_measured_again(const DeviceInfo& known) {
  if (!known.measured_busy || std::abs(now() - known.measured_at) < kAgainSeconds) return false;
  static std::atomic<bool> asked{false};
  return machine_is_idle("/proc/loadavg", known.cores) && !asked.exchange(true);
}

/// In place of what is known, unless another thread has been faster.
const DeviceInfo& measure_and_keep(const DeviceInfo* known) {
  static LongMutex& mutex = *new LongMutex;
  std::lock_guard lock(mutex);
  if (measured_host_if_known() == known) {
    const DeviceInfo own = measure_host();
    // Of processes that measure at the same time all take the rates of the first.
    const std::optional<DeviceInfo> first = kept_rates();
    const bool better = !first || (first->measured_busy && !own.measured_busy);
    if (better) keep(own);
    measured_here = new DeviceInfo(better ? own : *first);
  }
  return *measured_host_if_known();
}

}  // namespace

const DeviceInfo* measured_host_if_known() {
  const NoFork whole;
  static const std::optional<DeviceInfo> kept = kept_rates();
  if (const DeviceInfo* const here = measured_here.load()) return here;
  return kept ? &*kept : nullptr;
}

const DeviceInfo& measured_host() {
  const DeviceInfo* const known = measured_host_if_known();
  return known && !better_measured_again(*known) ? *known : measure_and_keep(known);
}

const DeviceInfo* measured_host_if_possible() try {
  const DeviceInfo* const known = measured_host_if_known();
  if (known && !better_measured_again(*known)) return known;
  constexpr std::uint64_t kMeasuring = std::uint64_t{512} << 20;  // with buffers of OpenBLAS
  return has_room({kMeasuring, kMeasuring}) ? &measure_and_keep(known) : known;
} catch (const Error& e) {
  if (e.fault() != Fault::Memory) throw;
  return nullptr;
}

}  // namespace snug
