#pragma once
#include <atomic>
#include <list>

#include "backend/opencl/routine_call.h"
#include "backend/opencl/tiled_product.h"
#include "base/fork.h"

namespace snug {

/// A call by tiled products. Which tile is fastest is found out when it is made ready, unless that
/// is known.
class TiledCall : public OpenClRoutine {
 public:
  using OpenClRoutine::OpenClRoutine;
  void make_ready() const override;
  void ask(OpenClQueues& queues, const RunArgs& args) const override;

 protected:
  /// A smaller call of the same kind, which takes a moment.
  struct Trial {
    std::vector<ArgDesc> in, out;
  };

  /// For derived classes, at the end of their constructors. `kind` is what times depend on besides
  /// sizes.
  void set_up(TiledProduct product, const ProductSizes& bounds, const std::string& kind);
  virtual ProductSizes sizes(const ArgDesc* in, const ArgDesc* out) const = 0;
  /// Those of the product.
  virtual std::vector<OpenClArg> arguments(const RunArgs& args) const = 0;
  virtual Trial trial() const = 0;

 private:
  struct Form {
    ProductTile tile;
    std::shared_ptr<const OpenClKernel> kernel;
  };
  const Form* form_of(const ProductTile& tile) const;
  void ask(OpenClQueues& queues, const RunArgs& args, const Form& form) const;
  std::optional<ProductTile> measure() const;

  TiledProduct product_;
  ProductSizes bounds_;
  std::string kind_;  // of products that a tile is chosen for
  std::vector<ProductTile> tiles_;
  bool in_parts_ = false;
  std::shared_ptr<const OpenClKernel> join_;
  mutable LongMutex mutex_;
  mutable bool is_chosen_ = false;
  mutable std::list<Form> forms_;
  mutable std::atomic<const Form*> form_ = nullptr;  // that is used
};

}  // namespace snug
