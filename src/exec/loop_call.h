#pragma once
#include <memory>
#include <optional>
#include <utility>

#include "exec/executable.h"
#include "expr/loop_shape.h"

namespace snug {

/// How the body of a loop runs, planned by itself.
struct LoopPlan {
  std::shared_ptr<const Planned> body;
  std::shared_ptr<const Planned> last;  // of a last block of another size; null if there is none
  double seconds = 0;                   // predicted, of all iterations
};

/// A loop with its inner plan. Everything the body needs lies in the workspace, so the loop is
/// planned with the rest of the function. States live in the loop's outputs from the start.
class LoopCall : public PreparedCall {
 public:
  LoopCall(const Lowered& inner, const CallSite& site);
  void make_ready() const override;
  void count_code(CodeCount& count) const override;
  void run(const RunArgs& args) const override;
  std::uint32_t marks(DeviceId device) const override;

  /// The body for some of the iterations.
  struct Body {
    std::unique_ptr<Executable> exe;
    TaskSizes sizes;
  };
  const Body& body() const { return body_; }
  const Body* last() const { return last_.exe ? &last_ : nullptr; }
  /// The plan, the larger one of the two.
  const Executable& planned_for() const;
  std::int64_t count() const { return count_; }
  std::int64_t block_rows() const { return block_rows_; }  // of a loop over blocks; 0 otherwise

  /// The plan that is taken now.
  LoopPlan plan() const {
    return {body_.exe->planned, last_.exe ? last_.exe->planned : nullptr, seconds};
  }
  std::uint64_t workspace_of(const LoopPlan& plan) const { return tables_for(plan).end; }
  /// As PreparedCall::elsewhere.
  static std::vector<std::pair<std::uint8_t, std::uint64_t>> elsewhere_of(const LoopPlan& plan);
  /// All that it needs in the memory of a device.
  std::uint64_t bytes_in(DeviceId device, const LoopPlan& plan) const;
  void take(const LoopPlan& plan);

 private:
  static std::uint64_t bytes(const ArgDesc& d) {
    return static_cast<std::uint64_t>(product(d.shape) * size_of(d.dtype));
  }
  static std::int64_t row_bytes(const ArgDesc& d) {
    return product(d.shape) == 0 ? 0 : product(d.shape) / d.shape[0] * size_of(d.dtype);
  }
  std::int64_t first_row(const ArgDesc& d, std::int64_t i, std::int64_t count) const;
  std::int64_t inner_dim(const ArgDesc* in, std::uint32_t input, std::uint32_t axis, std::int64_t i,
                         std::int64_t count) const;
  bool known(const Symbol& s, const CallSite& site) const;
  Body instantiate(const CallSite& site, std::int64_t first, std::int64_t last) const;
  std::pair<std::int64_t, std::int64_t> symbol_bounds(const Symbol& s, const CallSite& site,
                                                      std::int64_t first, std::int64_t last) const;
  void refuse_unknown_sizes(const CallSite& site) const;
  std::byte* argument(const RunArgs& args, std::uint32_t input, std::int64_t i, std::int64_t count,
                      std::byte* workspace) const;
  std::byte* result(const RunArgs& args, std::uint32_t output, std::int64_t i,
                    std::int64_t count) const;
  std::int64_t symbol_value(const Symbol& s, const RunArgs& args, std::int64_t i,
                            std::int64_t count, std::byte* workspace) const;
  std::size_t max_operands() const;
  void copy(const RunArgs& args, std::byte* to, const std::byte* from, std::uint64_t bytes) const;

  /// Where the tables of the loop are in its workspace, behind the arena of the body.
  struct Tables {
    std::uint64_t sizes = 0, symbols = 0, buffers = 0, descs = 0, pointers = 0, index = 0, end = 0;
  };
  Tables tables_for(const LoopPlan& plan) const;

  const Lowered& l_;
  Body body_, last_;  // last_: for a last block of another size, or none
  LoopShape shape_;
  DeviceId device_;                        // whose operands it has
  std::vector<std::uint32_t> size_slots_;  // per operand: its number among size values; 0: none
  bool checks_;                            // some requirement may fail in a later iteration
  std::int64_t count_;
  std::int64_t block_rows_ = 0;
  Tables tables_;
};

}  // namespace snug
