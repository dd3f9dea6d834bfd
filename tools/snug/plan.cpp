// snug plan MODEL, snug fit MODEL: what a reference model needs, before anything is allocated.
#include <snug/snug.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "api/measure_device.h"
#include "base/bytes.h"
#include "base/progress_line.h"
#include "base/seconds.h"
#include "commands.h"
#include "options.h"
#include "target/budgets.h"
#include "train/joined_batches.h"

namespace {

namespace nn = snug::nn;
namespace optim = snug::optim;
using snug::Dims;
using snug::Expr;
using snug::MemoryReport;
using snug::Remedy;

struct PlanOptions {
  std::string model, rule = "adam", device, memory, offload;
  Precisions precision;
  std::int64_t batch = 32, micro_batches = 1, accumulate = 1;
  std::vector<std::int64_t> size;
  bool infer = false, recompute = false, fit = false, json = false;
};

std::string amount(std::int64_t bytes) {
  return snug::describe_bytes(static_cast<std::uint64_t>(bytes));
}

/// "4.00 GiB", "4.00 GiB, 1.00 GiB on opencl:0"
std::string describe_budgets(const snug::BudgetText& budgets) {
  std::string text = budgets.each ? snug::describe_bytes(budgets.each) : "";
  for (const auto& [device, bytes] : budgets.of)
    text +=
        fmt::format("{}{} on {}", text.empty() ? "" : ", ", snug::describe_bytes(bytes), device);
  return text;
}

/// A training step or a forward pass of a model, to be planned with.
class Subject {
 public:
  explicit Subject(const PlanOptions& o) : o_(o), example_(nn::models::info(o.model).input) {
    if (!o.size.empty()) {
      if (example_.size() != 3)
        snug::fail(snug::Fault::Value,
                   fmt::format("plan: {} takes no images, --size is theirs", o.model));
      example_[1] = o.size[0];
      example_[2] = o.size.back();
    }
    try {
      model_ = nn::models::make(o.model, {.input = example_});
      nn::summarise(*model_, with_batch(example_, 1));
    } catch (const snug::Error& e) {
      if (o.size.empty() || e.fault() != snug::Fault::Shape) throw;
      snug::fail(snug::Fault::Value,
                 fmt::format("plan: {} takes no images of {} x {}: {}", o.model, example_[1],
                             example_[2], e.message()),
                 "give a larger --size");
    }
  }

  /// The first line of a report; `batch` 0: of any.
  std::string title(std::int64_t batch, const std::string& memory) const {
    std::string sizes;
    for (std::int64_t n : example_) sizes += (sizes.empty() ? "" : "x") + std::to_string(n);
    return fmt::format(
        "{}  {}{}  {}  {}  {}{}\n", o_.model, batch ? fmt::format("batch {} x ", batch) : "", sizes,
        fmt::join(o_.precision.names, ", "), o_.infer ? "inference" : "training with " + o_.rule,
        o_.device.empty() ? "cpu" : o_.device,
        memory.empty() ? "" : ", budget " + describe_budgets(snug::parse_budget_text(memory)));
  }

  /// `memory` "": no budget; `any_way`: by whatever technique is fastest; `slices` > 1: of the
  /// batch; `accumulate` > 1: an update for so many steps, if the options have none.
  snug::Function function(const std::string& memory, bool any_way, std::int64_t slices = 1,
                          std::int64_t accumulate = 1) const {
    snug::FunctionOptions options;
    options.plan_only = true;
    options.memory = memory;
    if (!o_.device.empty()) options.device = o_.device;
    options.recompute = any_way || o_.recompute;
    options.micro_batches = std::max(slices, o_.micro_batches);
    if (any_way && options.micro_batches == 1) options.micro_batches = 0;
    options.offload = o_.offload;
    if (o_.precision.bfloat16()) options.precision = snug::DType::BF16;
    if (o_.precision.rounded_activations()) options.activations = snug::DType::BF16;
    // Steps come from layers of the model, not from lines of this file.
    const snug::OriginOverride origin(snug::origin_in_part(0, o_.model));
    const Expr x = snug::input({snug::DType::F32, with_batch(example_, -1), 0}, "x");
    nn::Pass pass{.training = !o_.infer};
    const Expr scores = (*model_)(x, pass);
    if (o_.infer) return snug::function({x}, scores, options);
    std::vector<Expr> inputs{x};
    Expr loss;
    if (has_labels()) {
      const bool pixels = scores.ndim() == 4;
      inputs.push_back(snug::input({snug::DType::I64, Dims(pixels ? 3 : 1, -1), 0}, "y"));
      loss = nn::cross_entropy(scores, inputs[1], "mean", pixels ? 1 : -1);
    } else {
      loss = nn::binary_cross_entropy(scores, snug::flatten(x, 2));
    }
    options.updates = optim::updates_by(o_.rule, loss, model_->trainable(),
                                        {.accumulate = std::max(accumulate, o_.accumulate)})
                          .pairs;
    return snug::function(inputs, loss, options);
  }

  std::vector<Dims> shapes(std::int64_t batch) const {
    std::vector<Dims> all{with_batch(example_, batch)};
    if (o_.infer || !has_labels()) return all;
    // Labels are those of pixels if the model gives images.
    const Dims out = nn::summarise(*model_, with_batch(example_, 1)).layers.back().output;
    all.push_back(out.size() == 4 ? Dims{batch, out[2], out[3]} : Dims{batch});
    return all;
  }

  const PlanOptions& options() const { return o_; }

 private:
  bool has_labels() const { return nn::models::info(o_.model).classes > 0; }

  static Dims with_batch(Dims example, std::int64_t batch) {
    example.insert(0, batch);
    return example;
  }

  const PlanOptions& o_;
  Dims example_;
  nn::LayerPtr model_;
};

std::vector<std::string> techniques(const MemoryReport& r) {
  std::vector<std::string> used;
  if (!r.recomputed.empty()) used.emplace_back("recompute");
  if (r.offloaded > 0) used.emplace_back("offload");
  if (r.micro_batches > 1) used.push_back(fmt::format("micro-batch {}", r.micro_batches));
  if (r.rounded) used.emplace_back("bfloat16-activations");
  return used;
}

/// Below predicted times: how far off they may be, if others used the machine.
void print_rates_remark() {
  const snug::DeviceInfo* host = snug::measured_host_if_known();
  if (!host || !host->measured_busy) return;
  fmt::print("  rates were measured on a busy machine: within a factor of {:.1f}\n",
             host->rate_factor);
}

nlohmann::ordered_json as_json(const PlanOptions& o, std::int64_t batch, const MemoryReport* report,
                               bool fits, const std::vector<Remedy>& remedies) {
  nlohmann::ordered_json j;
  j["model"] = o.model;
  j["batch"] = batch;
  j["device"] = o.device.empty() ? "cpu" : o.device;
  const snug::BudgetText budgets = snug::parse_budget_text(o.memory);
  const auto as_number = [](std::uint64_t budget) {
    return budget ? nlohmann::ordered_json(budget) : nlohmann::ordered_json();
  };
  j["budget"] = as_number(budgets.for_device("cpu"));
  j["fits"] = fits;
  if (report) {
    for (const auto& [name, bytes] : report->bytes()) j["bytes"][std::string(name)] = bytes;
    for (const MemoryReport::OnDevice& d : report->devices) {
      nlohmann::ordered_json& there = j["devices"][d.name];
      there["budget"] = as_number(budgets.for_device(d.name));
      for (const auto& [name, bytes] : bytes_of(d)) there["bytes"][std::string(name)] = bytes;
      there["peak_step"] = d.peak_step;
    }
    j["seconds_predicted"] = report->seconds;
    if (const snug::DeviceInfo* host = snug::measured_host_if_known())
      j["rates"] = {{"busy", host->measured_busy}, {"factor", host->rate_factor}};
    j["techniques"] = techniques(*report);
  }
  j["remedies"] = nlohmann::ordered_json::array();
  for (const Remedy& r : remedies)
    j["remedies"].push_back({{"flag", r.flag()}, {"peak", r.peak}, {"time_ratio", r.time_ratio}});
  return j;
}

/// What a plan needs on a device that has a budget.
struct Asked {
  std::string device;  // "cpu"
  std::int64_t peak = 0, budget = 0;
  std::int64_t beyond() const { return peak - budget; }
};

/// Of all devices that have one; the host first.
std::vector<Asked> asked_by(const MemoryReport& r, const snug::BudgetText& budgets) {
  std::vector<Asked> asked;
  const auto add = [&](const std::string& device, std::int64_t peak) {
    if (const std::uint64_t budget = budgets.for_device(device))
      asked.push_back({device, peak, static_cast<std::int64_t>(budget)});
  };
  add("cpu", r.peak);
  for (const MemoryReport::OnDevice& d : r.devices) add(d.name, d.peak);
  return asked;
}

/// The one whose budget is smallest for what is asked.
Asked worst_of(const std::vector<Asked>& asked) {
  const auto part = [](const Asked& a) {
    return static_cast<double>(a.peak) / static_cast<double>(a.budget);
  };
  return asked.empty()
             ? Asked{}
             : *std::max_element(asked.begin(), asked.end(),
                                 [&](const Asked& a, const Asked& b) { return part(a) < part(b); });
}

/// What a plan has there.
const snug::MemoryUse& use_on(const MemoryReport& r, const std::string& device) {
  for (const MemoryReport::OnDevice& d : r.devices)
    if (d.name == device) return d;
  return r;
}

std::optional<MemoryReport> plan_if_fits(const snug::Function& f, const std::vector<Dims>& shapes) {
  try {
    return f.memory(shapes);
  } catch (const snug::Error& e) {
    if (e.fault() != snug::Fault::Memory) throw;
    return std::nullopt;
  }
}

bool may_round(const PlanOptions& o) { return o.precision.rounded_activations(); }

/// Wrong combinations of options, before anything is planned or measured.
void check_options(const PlanOptions& o) {
  if (o.micro_batches > o.batch)
    snug::fail(snug::Fault::Value,
               fmt::format("plan: --micro-batch {} is more than the {} rows of "
                           "the batch",
                           o.micro_batches, o.batch),
               fmt::format("give at most --micro-batch {}, or a larger --batch", o.batch));
  for (const auto& [device, bytes] : snug::parse_budget_text(o.memory, "--memory").of)
    if (device != "cpu" && device != o.device)
      snug::fail(snug::Fault::Value,
                 fmt::format("plan: --memory {}={}: it is not planned for {}", device,
                             snug::amount_to_type(bytes), device),
                 fmt::format("give --device {}, or a budget of {}", device,
                             o.device.empty() ? "cpu" : o.device));
  if (!o.memory.empty()) return;
  const std::string what = o.fit                ? "--fit"
                           : o.recompute        ? "--recompute"
                           : !o.offload.empty() ? "--offload"
                           : may_round(o)       ? "--precision bfloat16-activations"
                                                : "";
  if (!what.empty())
    snug::fail(snug::Fault::Value, fmt::format("plan: {} is a way to keep to a budget", what),
               "give the budget, as --memory 4GiB");
}

/// With --fit the largest batch is one that any technique may be used for.
void use_batch_in_slices(const Subject& subject, const std::vector<Dims>& shapes,
                         const MemoryReport& plain, const std::string& device,
                         std::vector<Remedy>& ways) {
  const snug::MaxBatch most = subject.function(subject.options().memory, true).max_batch(shapes);
  std::erase_if(ways, [](const Remedy& way) { return way.kind == Remedy::Kind::Batch; });
  if (most.rows == 0) return;
  const double per_row = most.plan.seconds / static_cast<double>(most.rows),
               plain_per_row = plain.seconds / static_cast<double>(shapes[0][0]);
  ways.insert(ways.begin(), {.kind = Remedy::Kind::Batch,
                             .count = most.rows,
                             .peak = use_on(most.plan, device).peak,
                             .time_ratio = plain.seconds > 0 ? per_row / plain_per_row : 0});
}

/// What a network can do whose batch cannot be cut, as one with batch norm: smaller batches, and an
/// update for several of them.
void add_accumulation(const Subject& subject, std::int64_t batch, const Asked& worst,
                      std::vector<Remedy>& ways) {
  const PlanOptions& o = subject.options();
  const bool sliced = std::any_of(ways.begin(), ways.end(), [](const Remedy& way) {
    return way.kind == Remedy::Kind::MicroBatches;
  });
  if (o.infer || o.accumulate > 1 || o.micro_batches > 1 || sliced) return;
  const auto joined = nn::joined_batches(
      subject.function("", false, 1, 2), [&](std::int64_t n) { return subject.shapes(n); }, batch,
      static_cast<std::uint64_t>(worst.budget), worst.device);
  if (!joined) return;
  ways.insert(std::find_if(ways.begin(), ways.end(),
                           [](const Remedy& way) { return way.kind != Remedy::Kind::Batch; }),
              *joined);
}

int plan(const PlanOptions& o) {
  check_options(o);
  const Subject subject(o);
  const std::vector<Dims> shapes = subject.shapes(o.batch);
  const snug::BudgetText budgets = snug::parse_budget_text(o.memory);
  snug::ProgressLine watched(fmt::format("planning {}", o.model));
  snug::Function f = subject.function("", false);
  MemoryReport r = f.memory(shapes);
  // Techniques are for plans that do not fit as they are; if they do not help, the plain one shows.
  if (worst_of(asked_by(r, budgets)).beyond() > 0 &&
      (o.fit || o.recompute || !o.offload.empty() || may_round(o))) {
    const snug::Function within = subject.function(o.memory, o.fit);
    if (auto kept = plan_if_fits(within, shapes)) r = *kept;
  }
  // Of the steps that the table is of; a file or rounding makes others.
  if (r.offloaded == 0 && r.rounded == 0) {
    const snug::Function same =
        r.micro_batches > 1 ? subject.function("", false, r.micro_batches) : f;
    r.smallest = same.smallest_budget(shapes);
    for (MemoryReport::OnDevice& d : r.devices)
      d.smallest = same.smallest_budget(shapes, {}, d.name);
  }
  const std::vector<Asked> asked = asked_by(r, budgets);
  const Asked worst = worst_of(asked);
  const bool fits = worst.beyond() <= 0;
  std::vector<Remedy> ways;
  if (!fits) {
    ways = f.remedies(shapes, o.memory);
    if (o.fit) use_batch_in_slices(subject, shapes, r, worst.device, ways);
    add_accumulation(subject, o.batch, worst, ways);
    const snug::MemoryUse& use = use_on(r, worst.device);
    if (r.devices.empty() && !o.recompute && use.smallest > worst.budget && use.smallest < use.peak)
      ways.insert(ways.end() - 1,
                  {.kind = Remedy::Kind::Memory, .peak = use.smallest, .recompute = true});
  }
  watched.clear();
  if (o.json) {
    fmt::print("{}\n", as_json(o, o.batch, &r, fits, ways).dump(2));
    return fits ? 0 : 1;
  }
  fmt::print("{}{}", subject.title(o.batch, o.memory), r.describe());
  if (r.seconds > 0 && r.devices.empty()) {  // rates of other devices are not measured
    fmt::print("  {:<18} {:>11}   predicted\n", "step time", snug::describe_seconds(r.seconds));
    print_rates_remark();
  }
  if (asked.empty()) return 0;
  if (fits) {
    const std::vector<std::string> used = techniques(r);
    std::vector<std::string> spare;
    for (const Asked& a : asked)
      spare.push_back(amount(-a.beyond()) +
                      (r.devices.empty() ? " to spare" : " to spare on " + a.device));
    fmt::print("fits: {}{}\n", fmt::join(spare, ", "),
               used.empty() ? "" : fmt::format(", by {}", fmt::join(used, ", ")));
    return 0;
  }
  fmt::print("does not fit: {} too much{}. What does (each was planned{}):\n{}",
             amount(worst.beyond()), r.devices.empty() ? "" : " on " + worst.device,
             r.devices.empty() ? "" : "; bytes on " + worst.device, describe(ways, true));
  return 1;
}

nlohmann::ordered_json as_json(const snug::BatchWay& w) {
  nlohmann::ordered_json j{{"way", w.name}, {"batch", w.rows}};
  if (w.rows > 0) {
    j["peak"] = w.plan.peak;
    for (const MemoryReport::OnDevice& d : w.plan.devices) j["peaks"][d.name] = d.peak;
    j["seconds_per_row"] = w.seconds_per_row();
    j["seconds"] = w.plan.seconds;
    j["techniques"] = techniques(w.plan);
  }
  j["how"] = w.how;
  return j;
}

/// What was given, to be typed again.
std::string flags_of(const PlanOptions& o, std::int64_t batch) {
  std::string flags = fmt::format("--batch {}", batch);
  if (!o.device.empty()) flags += " --device " + o.device;
  const snug::BudgetText budgets = snug::parse_budget_text(o.memory);
  if (budgets.of.empty()) return o.memory.empty() ? flags : flags + " --memory " + o.memory;
  if (budgets.each) flags += " --memory " + snug::amount_to_type(budgets.each);
  for (const auto& [device, bytes] : budgets.of)
    flags += fmt::format(" --memory {}={}", device, snug::amount_to_type(bytes));
  return flags;
}

int fit(const PlanOptions& o) {
  if (o.memory.empty() && (o.device.empty() || o.device == "cpu"))
    snug::fail(snug::Fault::Value, "fit: there is no budget",
               "give it, as --memory 4GiB, or a --device, which has what it has");
  const Subject subject(o);
  snug::ProgressLine watched(fmt::format("planning batches of {}", o.model));
  const snug::MaxBatch found = subject.function(o.memory, true).max_batch(subject.shapes(1));
  watched.clear();
  const bool fits = found.rows > 0;
  const MemoryReport& advised = fits ? found.advised.plan : found.plan;
  if (o.json) {
    nlohmann::ordered_json j = as_json(o, found.advised.rows, &advised, fits, {});
    j.erase("remedies");
    j["largest"] = found.rows;
    j["advised"] = as_json(found.advised);
    j["why"] = found.why;
    for (const snug::BatchWay& w : found.ways) j["ways"].push_back(as_json(w));
    fmt::print("{}\n", j.dump(2));
    return fits ? 0 : 1;
  }
  fmt::print("{}", subject.title(0, o.memory));
  if (!fits) {
    fmt::print("not even one row fits; it needs:\n{}", found.plan.describe());
    return 1;
  }
  fmt::print("{}", found.describe());
  const std::vector<std::string> used = techniques(advised);
  std::string flags = flags_of(o, found.advised.rows);
  if (!used.empty()) flags += " --fit";
  fmt::print("  snug plan {} {}\n  shows what it needs; times are predicted\n", o.model, flags);
  print_rates_remark();
  return 0;
}

CLI::App* add_common(CLI::App& app, const char* name, const char* doc, PlanOptions& o) {
  CLI::App* command = app.add_subcommand(name, doc);
  add_model(*command, o.model);
  CLI::Option* rule = add_optimizer(*command, o.rule);
  CLI::Option* accumulate = add_accumulate(*command, o.accumulate);
  command->add_flag("--infer", o.infer, "A forward pass, which keeps nothing for a backward one")
      ->excludes(rule)
      ->excludes(accumulate);
  add_precision(*command, o.precision);
  add_device(*command, o.device);
  add_size(*command, o.size, "Rows and columns of the images (default: as published)");
  add_offload(*command, o.offload);
  command->add_flag("--json", o.json, "The same as JSON");
  return command;
}

}  // namespace

void add_plan(CLI::App& app, int& status) {
  auto o = std::make_shared<PlanOptions>();
  CLI::App* command =
      add_common(app, "plan", "What a model needs, by class, before anything is allocated.", *o);
  command->footer(
      "Examples:\n"
      "  snug plan vgg16 --batch 128 --memory 4GiB\n"
      "  snug plan resnet50 --batch 64 --optimizer momentum --memory 4GiB --fit\n"
      "  snug plan vgg16 --infer --batch 1");
  add_batch(*command, o->batch);
  add_memory(*command, o->memory);
  command->add_flag("--recompute", o->recompute, "Tasks may run again to keep to --memory");
  command->add_option("--micro-batch", o->micro_batches, "The batch runs in so many slices")
      ->type_name("SLICES")
      ->check(whole_number(1))
      ->capture_default_str();
  command->add_flag("--fit", o->fit, "Keeps to --memory by whatever is fastest");
  command->callback([o, &status] { status = plan(*o); });
}

void add_fit(CLI::App& app, int& status) {
  auto o = std::make_shared<PlanOptions>();
  CLI::App* command = add_common(
      app, "fit", "The largest batches of a model that fit a budget, and the one to take.", *o);
  command->footer("Example:\n  snug fit vgg16 --memory 4GiB");
  add_memory(*command, o->memory);
  command->callback([o, &status] { status = fit(*o); });
}
