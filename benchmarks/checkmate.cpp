// The largest batch that trains in 16e9 bytes if at most one forward pass is computed again: beside
// what Checkmate (Jain et al., MLSys 2020) published. From the root of a built tree:
//
//   g++ -O2 -std=c++20 -Isrc benchmarks/checkmate.cpp benchmarks/keras_layers.cpp
//       -Lbuild -lsnug -lfmt -Wl,-rpath,$PWD/build -o /tmp/checkmate
//   /tmp/checkmate [--real] [NETWORK]
//
// Table 1 has Checkmate's graphs and rules (keras_layers.h); bytes are summed. Table 2 has our own
// tasks, and the height of the packed arena; costs, the bytes of parameters and gradients and the
// limit are those of table 1. --real adds what the whole plan takes: layouts, workspace, input,
// Adam. Seconds are those of planning, without lowering and machine code.
#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <ctime>
#include <map>

#include "compile.h"
#include "graph/capture.h"
#include "keras_layers.h"
#include "place/place.h"
#include "plan/fit.h"
#include "snug.h"

namespace {

using namespace snug;
using snug::nn::LayerPtr;

constexpr double kBudget = 16e9;
constexpr RecomputeLimits kSameRules{.runs = 66'000'000}, kOurTasks{.runs = 60'000'000};

/// Of the processor: one thread plans, and others may use the machine.
double seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

// ---- table 1 ----

struct Record {
  const char* name;
  std::int64_t checkmate, ours;  // published; of our tasks, the batch that table 2 begins with
};
constexpr Record kRecords[] = {{"VGG19", 289, 500},    {"U-Net", 61, 100},
                               {"FCN8", 60, 99},       {"SegNet", 62, 115},
                               {"ResNet50", 193, 950}, {"MobileNet", 1105, 2000}};

const Record& record_of(const std::string& name) {
  for (const Record& r : kRecords)
    if (name == r.name) return r;
  return kRecords[0];
}

void same_rules(const keras::Named& n) {
  const RecomputeProblem p = n.network.training();
  const double room = kBudget - 8.0 * static_cast<double>(n.network.parameters);
  auto batch = [&](std::uint64_t peak) {
    return static_cast<std::int64_t>(room / static_cast<double>(peak));
  };
  const double start = seconds();
  const RecomputePlan plain = plain_plan(p);
  const std::vector<RecomputePlan> plans = find_frontier(p, kSameRules);
  const RecomputePlan* best = &plain;
  for (const RecomputePlan& plan : plans)
    if (plan.cost - plain.cost <= n.network.forward_cost()) best = &plan;
  const double taken = seconds() - start;
  if (std::string fault = find_fault(p, *best); !fault.empty()) fmt::print("{}\n", fault);
  const std::int64_t bound = batch(peak_bound(p)), found = batch(best->peak);
  fmt::print("{:10} {:6} {:9} {:5} {:6} {:8} {:5.2f} {:7.1f}\n", n.name, batch(plain.peak),
             record_of(n.name).checkmate, found, bound, found == bound ? "proved" : "",
             (best->cost - plain.cost) / n.network.forward_cost(), taken);
}

// ---- our networks, as those of keras_layers.cpp ----

/// Every pixel four times: the gradient of a sum over windows.
LayerPtr upsample() {
  return nn::call(
      [](const Expr& x, nn::Pass&) {
        Expr large = broadcast_to(
            0.0f, {shape_i(x, 0), shape_i(x, 1), 2 * shape_i(x, 2), 2 * shape_i(x, 3)});
        Expr sums = pool(large, {.window = {2, 2}, .mode = "sum"});
        return gradients({}, {large}, {.known_grads = {{sums, x}}})[0];
      },
      "Upsample");
}

/// Cuts a row and a column on each side off, which a transposed convolution gives too many.
LayerPtr conv_transpose_twice(std::int64_t filters) {
  return nn::conv_transpose2d(filters, {4}, {.stride = {2}, .pad = {1}, .bias = false});
}

using Layers = std::vector<nn::Named>;
constexpr std::int64_t kRows = 416, kColumns = 608, kClasses = 19;

LayerPtr conv_relu(std::int64_t filters, std::int64_t kernel = 3) {
  return nn::conv2d(filters, {kernel}, {.border = "half", .activation = "relu"});
}

void add_vgg_block(Layers& layers, std::int64_t filters, int count) {
  for (int k = 0; k < count; ++k) layers.emplace_back(conv_relu(filters));
  layers.emplace_back(nn::max_pool({2}));
}

void add_normed(Layers& layers, std::int64_t filters) {
  layers.emplace_back(nn::conv2d(filters, {3}, {.border = "half"}));
  layers.emplace_back(nn::batch_norm());
}

LayerPtr vgg19() {
  Layers layers;
  for (auto [filters, count] : std::initializer_list<std::pair<std::int64_t, int>>{
           {64, 2}, {128, 2}, {256, 4}, {512, 4}, {512, 4}})
    add_vgg_block(layers, filters, count);
  layers.emplace_back(nn::flatten());
  for (int k = 0; k < 2; ++k) layers.emplace_back(nn::dense(4096, {.activation = "relu"}));
  layers.emplace_back(nn::dense(1000));
  return nn::sequential(std::move(layers));
}

/// A block of the encoder, joined with what is made of its result at half the size.
LayerPtr unet_level(int level) {
  constexpr std::int64_t kFilters[] = {64, 128, 256, 512};
  Layers layers;
  add_vgg_block(layers, kFilters[level], level < 2 ? 2 : 3);
  if (level < 3) layers.emplace_back(nn::skip(unet_level(level + 1)));
  add_normed(layers, kFilters[level]);
  if (level > 0) layers.emplace_back(upsample());
  return nn::sequential(std::move(layers));
}

LayerPtr unet() {
  return nn::sequential({unet_level(0), nn::conv2d(kClasses, {3}, {.border = "half"})});
}

LayerPtr fcn8() {
  Layers first, fourth, fifth;
  add_vgg_block(first, 64, 2);
  add_vgg_block(first, 128, 2);
  add_vgg_block(first, 256, 3);
  add_vgg_block(fourth, 512, 3);
  add_vgg_block(fifth, 512, 3);
  for (std::int64_t kernel : {7, 1}) {
    fifth.emplace_back(conv_relu(4096, kernel));
    fifth.emplace_back(nn::dropout(0.5));
  }
  fifth.emplace_back(nn::conv2d(kClasses, {1}));
  fifth.emplace_back(conv_transpose_twice(kClasses));
  fourth.emplace_back(nn::residual(nn::sequential(std::move(fifth)), nn::conv2d(kClasses, {1})));
  fourth.emplace_back(conv_transpose_twice(kClasses));
  first.emplace_back(nn::residual(nn::sequential(std::move(fourth)), nn::conv2d(kClasses, {1})));
  first.emplace_back(nn::conv_transpose2d(kClasses, {16}, {.stride = {8}, .bias = false}));
  return nn::sequential(std::move(first));
}

LayerPtr segnet() {
  Layers layers;
  for (std::int64_t filters : {64, 128, 256, 256}) {
    add_normed(layers, filters);
    layers.emplace_back(nn::activation("relu"));
    layers.emplace_back(nn::max_pool({2}));
  }
  add_normed(layers, 512);
  for (std::int64_t filters : {256, 128, 64}) {
    layers.emplace_back(upsample());
    add_normed(layers, filters);
  }
  layers.emplace_back(nn::conv2d(kClasses, {3}, {.border = "half"}));
  return nn::sequential(std::move(layers));
}

// ---- table 2 ----

/// A network with its loss.
struct Training {
  Expr x, y, loss;
  std::vector<Expr> parameters;
  Dims images, labels;  // the batch is -1

  explicit Training(const std::string& name) {
    const bool pixels = name == "U-Net" || name == "FCN8" || name == "SegNet";
    images = pixels ? Dims{-1, 3, kRows, kColumns} : Dims{-1, 3, 224, 224};
    labels = Dims{-1};
    if (name == "FCN8")  // its last layer gives a margin
      labels = Dims{-1, kRows + 8, kColumns + 8};
    else if (pixels)  // they end at half the size
      labels = Dims{-1, kRows / 2, kColumns / 2};
    LayerPtr model = name == "VGG19"      ? vgg19()
                     : name == "U-Net"    ? unet()
                     : name == "FCN8"     ? fcn8()
                     : name == "SegNet"   ? segnet()
                     : name == "ResNet50" ? nn::models::make("resnet50")
                                          : nn::models::make("mobilenet");
    model->build(images);
    x = tensor4("x");
    y = tensor(DType::I32, pixels ? 3 : 1, "y");
    nn::Pass pass{.training = true};
    loss = nn::cross_entropy((*model)(x, pass), y, "mean", 1);
    parameters = model->trainable();
  }
};

/// A training step, lowered: all gradients are outputs, which the fixed bytes account for.
class OurTasks {
 public:
  explicit OurTasks(const std::string& name) {
    const Training t(name);
    input_ = t.images;
    labels_ = t.labels;
    std::vector<Expr> outputs = grad(t.loss, t.parameters);
    outputs.push_back(t.loss);
    CompileTrace trace;
    lowered_ =
        lower(capture({std::vector<Expr>{t.x, t.y}, outputs, {}, {}, true}).graph, {}, trace);
  }

  const Program& program() const { return lowered_->program; }

  /// Sizes of all values for a batch; nothing else takes memory.
  TaskSizes sizes(std::int64_t batch) {
    const SizeTable& table = program().graph.sizes();
    std::vector<std::int64_t> symbols;
    Dims images = input_, labels = labels_;
    images[0] = labels[0] = batch;
    for (const Symbol& s : table.symbols()) {
      const auto& shared = program().graph.inputs()[s.input].shared;
      const Dims shape = s.input == 0 ? images : s.input == 1 ? labels : shared->shape();
      symbols.push_back(s.kind == Symbol::Kind::Dim ? shape[s.index] : 0);
    }
    values_.assign(table.nodes().size(), 0);
    evaluate_sizes(table, symbols, values_);
    TaskSizes out;
    out.sizes = values_;
    out.workspace.assign(program().tasks.size(), 0);
    out.kind.same_shape.assign(program().graph.updates().size(), true);
    out.kind.copied.assign(2, false);
    return out;
  }

 private:
  std::unique_ptr<Lowered> lowered_;
  std::vector<std::int64_t> values_;
  Dims input_, labels_;
};

/// Costs by Checkmate's rules: multiply-accumulates of convolutions and products; moving data is
/// free; of the rest, one per element and op.
double cost_of(const Program& p, std::span<const std::int64_t> sizes, const Task& task) {
  auto shapes_of = [&](const std::vector<Value>& values) {
    std::vector<Dims> shapes;
    for (Value v : values) {
      shapes.emplace_back();
      for (SizeId d : p.type(v).dims) shapes.back().push_back(sizes[d]);
    }
    return shapes;
  };
  double cost = 0;
  for (std::uint32_t id : task.covers) {
    const Node& n = p.graph.node(id);
    std::string_view op = n.op->name;
    if (has(*n.op, kLeaf | kView)) continue;
    std::vector<Value> outputs;
    for (std::uint32_t k = 0; k < n.types.size(); ++k) outputs.push_back({id, k});
    const std::vector<Dims> in = shapes_of(n.inputs), out = shapes_of(outputs);
    if (op.starts_with("conv") || op == "dot" || op == "affine") {
      std::vector<DType> dtypes(in.size(), DType::F32);
      cost += predict_operations(n, in, out, dtypes) / 2;
    } else if (n.op->scalar || has(*n.op, kReduction)) {
      std::int64_t elements = 0;
      for (const auto& shapes : {in, out})
        for (const Dims& d : shapes) elements = std::max(elements, product(d));
      cost += static_cast<double>(elements);
    }
  }
  return cost;
}

struct OurPlan {
  std::int64_t batch = 0;
  double overhead = 0;
  std::int64_t bound = 0;  // of the batch, set by one task
};

class OurPlanner {
 public:
  OurPlanner(const keras::Network& network, OurTasks& tasks)
      : network_(network),
        tasks_(tasks),
        room_(static_cast<std::uint64_t>(kBudget - 8.0 * static_cast<double>(network.parameters))) {
  }

  /// Searches at one batch; its plans serve the others.
  OurPlan plan(std::int64_t batch) {
    TaskSizes sizes = tasks_.sizes(batch);
    const Program& p = tasks_.program();
    std::vector<double> costs;
    double once = 0;
    for (const Task& task : p.tasks) {
      costs.push_back(cost_of(p, sizes.sizes, task));
      once += costs.back();
    }
    const double limit = network_.forward_cost() * static_cast<double>(batch);
    std::uint64_t bound = 0;
    std::vector<RecomputePlan> plans =
        program_frontier(p, sizes, orders(p, sizes), costs, kOurTasks, bound);
    OurPlan best;
    best.bound = static_cast<std::int64_t>(static_cast<double>(room_) / static_cast<double>(bound) *
                                           static_cast<double>(batch));
    int tries = 60;
    for (auto plan = plans.rbegin(); plan != plans.rend() && tries > 0; ++plan) {
      if (plan->cost - once > limit) continue;
      --tries;
      std::int64_t largest = largest_batch(plan->runs, best.batch);
      if (largest > best.batch) best = {largest, (plan->cost - once) / limit, best.bound};
    }
    return best;
  }

 private:
  bool fits(const std::vector<std::uint32_t>& runs, std::int64_t batch) {
    TaskSizes sizes = tasks_.sizes(batch);
    const Schedule schedule = order_as(tasks_.program(), sizes, runs);
    const MemoryPlan quick = pack(schedule);
    if (quick.bytes <= room_ || quick.load > room_) return quick.bytes <= room_;
    return pack(schedule, PackEffort::Thorough).bytes <= room_;
  }

  /// More than `low`, else `low`.
  std::int64_t largest_batch(const std::vector<std::uint32_t>& runs, std::int64_t low) {
    if (!fits(runs, low + 1)) return low;
    std::int64_t high = low + 2;
    while (fits(runs, high)) high *= 2;
    low = std::max(low + 1, high / 2);
    while (high - low > 1) {
      std::int64_t middle = (low + high) / 2;
      (fits(runs, middle) ? low : high) = middle;
    }
    return low;
  }

  const keras::Network& network_;
  OurTasks& tasks_;
  std::uint64_t room_;
};

/// The whole plan of a training step with Adam, as a user gets it; 0 if not even one image fits.
std::int64_t real_batch(const std::string& name, std::int64_t guess) {
  const Training t(name);
  const auto adam = optim::adam(t.loss, t.parameters).pairs;
  auto fits = [&](std::int64_t batch) {
    Dims images = t.images, labels = t.labels;
    images[0] = labels[0] = batch;
    // The caller's images are in the budget, too.
    const double room = kBudget - 4.0 * static_cast<double>(product(images) + product(labels));
    try {
      function({t.x, t.y}, t.loss, {.updates = adam, .memory = fmt::format("{:.0f}", room)})
          .memory(std::vector<Dims>{images, labels});
      return true;
    } catch (const Error& e) {
      if (e.fault() != Fault::Memory) throw;
      return false;
    }
  };
  // In steps of 1/32: every plan is made anew.
  std::int64_t low = 0, high = guess + 1;
  while (high - low > std::max<std::int64_t>(guess / 32, 1)) {
    std::int64_t middle = (low + high) / 2;
    (fits(middle) ? low : high) = middle;
  }
  return low;
}

void our_tasks(const keras::Named& n, bool real) {
  OurTasks tasks(n.name);
  const double start = seconds();
  OurPlanner planner(n.network, tasks);
  OurPlan best = planner.plan(record_of(n.name).ours);
  fmt::print("{:10} {:5} {:6} {:6} {:8} {:5.2f} {:7.1f}", n.name, tasks.program().tasks.size(),
             best.batch, best.bound, best.batch == best.bound ? "proved" : "", best.overhead,
             seconds() - start);
  fmt::print(" {:6}\n", real ? fmt::format("{}", real_batch(n.name, best.batch)) : "");
}

}  // namespace

int main(int argc, char** argv) {
  bool real = false;
  std::string only;
  for (int k = 1; k < argc; ++k) {
    if (std::strcmp(argv[k], "--real") == 0)
      real = true;
    else
      only = argv[k];
  }
  fmt::print("same rules  plain checkmate  ours  bound          again seconds\n");
  for (const keras::Named& n : keras::networks())
    if (only.empty() || n.name == only) same_rules(n);
  fmt::print("our tasks   tasks  batch  bound          again seconds   real\n");
  for (const keras::Named& n : keras::networks())
    if (only.empty() || n.name == only) our_tasks(n, real);
}
