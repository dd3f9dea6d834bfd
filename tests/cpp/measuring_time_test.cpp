// Measuring ends in time whatever the load, on a clock of our own.
#include "api/measuring_time.h"

#include <gtest/gtest.h>

#include <fstream>

#include "api/measure_device.h"

namespace snug {
namespace {

constexpr int kProbes = 13;

/// Measures as measure_host does, on a machine where the first call of a probe (with what it takes
/// to compile) and each further one take so long.
struct Measuring {
  double now = 100;  // clocks start anywhere
  int rounds = 0, probes = 0, calls = 0;
  Measuring(double first, double call, int wanted_calls = 20, int wanted_rounds = 4) {
    MeasuringTime time(5, kProbes, [this] { return now; });
    for (; rounds < wanted_rounds && time.begin_round(); ++rounds)
      for (int p = 0; p < kProbes; ++p) {
        if (!time.begin_probe()) continue;
        ++probes;
        now += first;
        for (int c = 0; c < wanted_calls; ++c) {
          now += call;
          ++calls;
          if (time.probe_is_over()) break;
        }
      }
  }
  double seconds() const { return now - 100; }
};

TEST(MeasuringTime, WhatIsFastIsMeasuredInFull) {
  const Measuring m(0.02, 0.001);
  EXPECT_EQ(m.rounds, 4);
  EXPECT_EQ(m.calls, 4 * kProbes * 20);
}

TEST(MeasuringTime, RoundsThatDoNotFitAreNotBegun) {
  const Measuring m(0.1, 0.01);  // 3.9 s a round
  EXPECT_EQ(m.rounds, 1);
  EXPECT_EQ(m.calls, kProbes * 20);
}

TEST(MeasuringTime, OnABusyMachineAllProbesHaveSomeCalls) {
  const Measuring m(0.1, 0.08);
  EXPECT_EQ(m.rounds, 1);
  EXPECT_EQ(m.probes, kProbes);
  EXPECT_GE(m.calls, 2 * kProbes);
  EXPECT_LE(m.seconds(), 5 + 0.08);
}

TEST(MeasuringTime, ItEndsWhateverTheLoad) {
  for (const double slow : {1.0, 3.0, 10.0, 100.0}) {
    const Measuring m(0.3 * slow, 0.1 * slow);
    EXPECT_GE(m.probes, 1);
    EXPECT_LT(m.seconds(), 5 + 0.4 * slow) << "one probe more at most";
  }
}

TEST(MeasuringTime, AnIdleMachineIsToldFromABusyOne) {
  const std::string file = ::testing::TempDir() + "loadavg";
  const auto idle = [&](const char* text, int cores) {
    std::ofstream(file) << text;
    return machine_is_idle(file, cores);
  };
  EXPECT_TRUE(idle("0.10 1.20 0.90 1/200 4242\n", 2));
  EXPECT_FALSE(idle("0.10 1.20 0.90 3/200 4242\n", 2));
  EXPECT_TRUE(idle("0.10 1.20 0.90 5/200 4242\n", 64));
  EXPECT_FALSE(idle("", 2)) << "what cannot be seen is not taken for idle";
}

TEST(MeasuringTime, WhatIsNotKnownIsAsWideAsTheWidest) {
  using Spreads = std::vector<std::optional<double>>;
  EXPECT_DOUBLE_EQ(joint_spread(Spreads{1.0, 4.0}, 3), 2);
  EXPECT_DOUBLE_EQ(joint_spread(Spreads{1.0, 8.0, std::nullopt}, 3), 4);
  EXPECT_DOUBLE_EQ(joint_spread(Spreads{std::nullopt, std::nullopt}, 3), 3);
}

}  // namespace
}  // namespace snug
