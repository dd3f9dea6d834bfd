#pragma once
#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <span>

namespace snug {

/// Shares out the time that measuring may take: `probes` in turn, in rounds, with `limit` seconds
/// for all of them whatever each call takes. The clock is an argument, so that it can be tested.
class MeasuringTime {
 public:
  using Clock = std::function<double()>;  // in seconds

  MeasuringTime(double limit, int probes, Clock clock)
      : clock_(std::move(clock)), start_(clock_()), limit_(limit), probes_(probes) {}

  /// Whether a round as long as the longest so far ends in time. The first one always begins.
  bool begin_round() {
    const double now = used();
    if (rounds_ > 0) longest_ = std::max(longest_, now - round_start_);
    if (rounds_ > 0 && now + longest_ > limit_) return false;
    round_start_ = now;
    begun_ = 0;
    ++rounds_;
    return true;
  }

  /// Whether there is time for the next probe of the round at all; what it has then is an equal
  /// share of what is left for it and those behind it.
  bool begin_probe() {
    const double left = limit_ - used();
    if (left <= 0) return false;
    until_ = used() + left / std::max(probes_ - begun_, 1);
    ++begun_;
    return true;
  }
  /// Whether the probe has to end.
  bool probe_is_over() const { return used() >= until_; }

  double used() const { return clock_() - start_; }

 private:
  Clock clock_;
  double start_, limit_;
  int probes_;
  int rounds_ = 0, begun_ = 0;
  double round_start_ = 0, longest_ = 0, until_ = 0;
};

/// The geometric mean of the spreads of rates. One that is not known is as wide as the widest of
/// the others, or `guess` if none is known.
inline double joint_spread(std::span<const std::optional<double>> spreads, double guess) {
  double widest = 0, logarithms = 0;
  for (const auto& s : spreads) widest = std::max(widest, s.value_or(0));
  for (const auto& s : spreads) logarithms += std::log(s.value_or(widest > 0 ? widest : guess));
  return std::exp(logarithms / static_cast<double>(spreads.size()));
}

}  // namespace snug
