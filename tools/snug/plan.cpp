// snug plan MODEL, snug fit MODEL: what a reference model needs, before anything is allocated.
#include <snug/snug.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "api/measure_device.h"
#include "base/bytes.h"
#include "commands.h"

namespace {

namespace nn = snug::nn;
namespace optim = snug::optim;
using snug::Dims;
using snug::Expr;
using snug::MemoryReport;
using snug::Remedy;

constexpr const char* kRounded = "bfloat16-activations";

struct PlanOptions {
  std::string model, rule = "adam", memory, offload;
  std::vector<std::string> precision = {"float32"};  // of products, activations
  std::int64_t batch = 32, micro_batches = 1;
  std::vector<std::int64_t> size;
  bool infer = false, recompute = false, fit = false, json = false;
};

std::string amount(std::int64_t bytes) {
  return snug::describe_bytes(static_cast<std::uint64_t>(bytes));
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

  /// `memory` "": no budget; `any_way`: by whatever technique is fastest; `slices` > 1: of the
  /// batch.
  snug::Function function(const std::string& memory, bool any_way, std::int64_t slices = 1) const {
    snug::FunctionOptions options;
    options.plan_only = true;
    options.memory = memory;
    options.recompute = any_way || o_.recompute;
    options.micro_batches = std::max(slices, o_.micro_batches);
    if (any_way && options.micro_batches == 1) options.micro_batches = 0;
    options.offload = o_.offload;
    for (const std::string& p : o_.precision)
      if (p == kRounded) {
        options.activations = snug::DType::BF16;
      } else if (p == "bfloat16") {
        options.precision = snug::DType::BF16;
      }
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
    options.updates = optim::updates_by(o_.rule, loss, model_->trainable()).pairs;
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

  std::string title(std::int64_t batch, const std::string& memory) const {
    std::string sizes;
    for (std::int64_t n : example_) sizes += (sizes.empty() ? "" : "x") + std::to_string(n);
    const std::string what = fmt::format("{}  batch {} x {}  {}  {}", o_.model, batch, sizes,
                                         fmt::join(o_.precision, ", "),
                                         o_.infer ? "inference" : "training with " + o_.rule);
    return fmt::format(
        "{:<64}  cpu{}\n", what,
        memory.empty() ? "" : ", budget " + snug::describe_bytes(snug::parse_bytes(memory)));
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
  if (r.rounded) used.emplace_back(kRounded);
  return used;
}

std::string seconds_text(double seconds) {
  return seconds >= 1 ? fmt::format("{:.2f} s", seconds) : fmt::format("{:.1f} ms", 1e3 * seconds);
}

const char* rates_remark() {
  const snug::DeviceInfo* host = snug::measured_host_if_known();
  return host && host->measured_busy ? "; rates measured on a busy machine" : "";
}

nlohmann::ordered_json as_json(const PlanOptions& o, std::int64_t batch, const MemoryReport* report,
                               bool fits, const std::vector<Remedy>& remedies) {
  nlohmann::ordered_json j;
  j["model"] = o.model;
  j["batch"] = batch;
  j["device"] = "cpu";
  j["budget"] = o.memory.empty() ? nlohmann::ordered_json()
                                 : nlohmann::ordered_json(snug::parse_bytes(o.memory));
  j["fits"] = fits;
  if (report) {
    for (const auto& [name, bytes] : report->bytes()) j["bytes"][std::string(name)] = bytes;
    j["seconds_predicted"] = report->seconds;
    j["techniques"] = techniques(*report);
  }
  j["remedies"] = nlohmann::ordered_json::array();
  for (const Remedy& r : remedies)
    j["remedies"].push_back({{"flag", r.flag()}, {"peak", r.peak}, {"time_ratio", r.time_ratio}});
  return j;
}

std::optional<MemoryReport> plan_if_fits(const snug::Function& f, const std::vector<Dims>& shapes) {
  try {
    return f.memory(shapes);
  } catch (const snug::Error& e) {
    if (e.fault() != snug::Fault::Memory) throw;
    return std::nullopt;
  }
}

bool may_round(const PlanOptions& o) {
  return std::find(o.precision.begin(), o.precision.end(), kRounded) != o.precision.end();
}

/// Options that are for budgets alone.
void require_budget(const PlanOptions& o) {
  if (!o.memory.empty()) return;
  const std::string what = o.fit                ? "--fit"
                           : o.recompute        ? "--recompute"
                           : !o.offload.empty() ? "--offload"
                           : may_round(o)       ? fmt::format("--precision {}", kRounded)
                                                : "";
  if (!what.empty())
    snug::fail(snug::Fault::Value, fmt::format("plan: {} is a way to keep to a budget", what),
               "give the budget, as --memory 4GiB");
}

/// With --fit the largest batch is one that any technique may be used for.
void use_batch_in_slices(const Subject& subject, const std::vector<Dims>& shapes,
                         const MemoryReport& plain, std::vector<Remedy>& ways) {
  const auto [rows, r] = subject.function(subject.options().memory, true).max_batch(shapes);
  std::erase_if(ways, [](const Remedy& way) { return way.kind == Remedy::Kind::Batch; });
  if (rows == 0) return;
  const double per_row = r.seconds / static_cast<double>(rows),
               plain_per_row = plain.seconds / static_cast<double>(shapes[0][0]);
  ways.insert(ways.begin(), {.kind = Remedy::Kind::Batch,
                             .count = rows,
                             .peak = r.peak,
                             .time_ratio = plain.seconds > 0 ? per_row / plain_per_row : 0});
}

int plan(const PlanOptions& o) {
  require_budget(o);
  const Subject subject(o);
  const std::vector<Dims> shapes = subject.shapes(o.batch);
  const auto budget = static_cast<std::int64_t>(snug::parse_bytes(o.memory));
  snug::Function f = subject.function("", false);
  MemoryReport r = f.memory(shapes);
  // Techniques are for plans that do not fit as they are; if they do not help, the plain one shows.
  if (budget > 0 && r.peak > budget &&
      (o.fit || o.recompute || !o.offload.empty() || may_round(o))) {
    const snug::Function within = subject.function(o.memory, o.fit);
    if (auto kept = plan_if_fits(within, shapes)) r = *kept;
  }
  // Of the steps that the table is of; a file or rounding makes others.
  if (r.offloaded == 0 && r.rounded == 0)
    r.smallest = (r.micro_batches > 1 ? subject.function("", false, r.micro_batches) : f)
                     .smallest_budget(shapes);
  const bool fits = budget == 0 || r.peak <= budget;
  std::vector<Remedy> ways;
  if (!fits) {
    ways = f.remedies(shapes, static_cast<std::uint64_t>(budget));
    if (o.fit) use_batch_in_slices(subject, shapes, r, ways);
    if (!o.recompute && r.smallest > budget && r.smallest < r.peak)
      ways.insert(ways.end() - 1,
                  {.kind = Remedy::Kind::Memory, .peak = r.smallest, .recompute = true});
  }
  if (o.json) {
    fmt::print("{}\n", as_json(o, o.batch, &r, fits, ways).dump(2));
    return fits ? 0 : 1;
  }
  fmt::print("{}{}", subject.title(o.batch, o.memory), r.describe());
  if (r.seconds > 0)
    fmt::print("  {:<18} {:>11}   predicted{}\n", "step time", seconds_text(r.seconds),
               rates_remark());
  if (budget == 0) return 0;
  if (fits) {
    const std::vector<std::string> used = techniques(r);
    fmt::print("fits: {} to spare{}\n", amount(budget - r.peak),
               used.empty() ? "" : fmt::format(", by {}", fmt::join(used, ", ")));
    return 0;
  }
  fmt::print("does not fit: {} too much. What does (each was planned):\n{}",
             amount(r.peak - budget), describe(ways, true));
  return 1;
}

int fit(const PlanOptions& o) {
  const Subject subject(o);
  const snug::Function f = subject.function(o.memory, true);
  const bool watched = isatty(STDERR_FILENO);
  if (watched) fmt::print(stderr, "planning batches of {} ...", o.model);
  const auto [rows, r] = f.max_batch(subject.shapes(1));
  if (watched) fmt::print(stderr, "\r\033[K");
  if (o.json) {
    fmt::print("{}\n", as_json(o, rows, &r, rows > 0, {}).dump(2));
    return rows ? 0 : 1;
  }
  fmt::print("{}", subject.title(std::max<std::int64_t>(rows, 1), o.memory));
  if (rows == 0) {
    fmt::print("not even one row fits; it needs:\n{}", r.describe());
    return 1;
  }
  const std::vector<std::string> used = techniques(r);
  fmt::print("{}", r.describe());
  if (r.seconds > 0)
    fmt::print("  {:<18} {:>11}   predicted, {} per row{}\n", "step time", seconds_text(r.seconds),
               seconds_text(r.seconds / static_cast<double>(rows)), rates_remark());
  fmt::print("the largest batch that fits is {}{}{}\n", rows,
             used.empty() ? "" : fmt::format(", by {}", fmt::join(used, ", ")),
             r.micro_batches == snug::Function::kMostSlices ? "; more slices are not tried" : "");
  return 0;
}

CLI::App* add_common(CLI::App& app, const char* name, const char* doc, PlanOptions& o) {
  CLI::App* command = app.add_subcommand(name, doc);
  std::vector<std::string> models;
  for (const nn::models::Info& info : nn::models::all()) models.push_back(info.name);
  command->add_option("model", o.model, fmt::format("One of {}", fmt::join(models, ", ")))
      ->required();
  auto* train = command->add_option("--train", o.rule, "The optimizer of the training step")
                    ->check(CLI::IsMember(optim::rule_names()))
                    ->capture_default_str();
  command->add_flag("--infer", o.infer, "A forward pass that keeps nothing for a backward one")
      ->excludes(train);
  command
      ->add_option("--precision", o.precision,
                   "bfloat16: of products and convolutions; bfloat16-activations: of what is kept "
                   "for the backward part (lossy). May be given twice")
      ->check(CLI::IsMember({"float32", "bfloat16", kRounded}))
      ->expected(1)
      ->take_all()
      ->capture_default_str();
  command->add_option("--size", o.size, "Rows and columns of the images (default: as published)")
      ->expected(1, 2)
      ->check(CLI::Range(1, 32768));
  command
      ->add_option(
          "--offload", o.offload,
          "Values may go to a file in this directory (default: here) to keep to the budget")
      ->expected(0, 1)
      ->default_str(".");
  command->add_flag("--json", o.json, "For programs");
  return command;
}

CLI::Option* add_budget(CLI::App& command, PlanOptions& o) {
  return command.add_option("--memory", o.memory, "The budget, as 4GiB")
      ->check([](const std::string& text) {
        return text.empty() ? "an amount is needed, as 4GiB" : std::string();
      });
}

}  // namespace

void add_plan(CLI::App& app, int& status) {
  auto o = std::make_shared<PlanOptions>();
  CLI::App* command =
      add_common(app, "plan", "What a model needs, by class, before anything is allocated.", *o);
  command->footer(
      "Examples:\n"
      "  snug plan vgg16 --batch 128 --memory 4GiB\n"
      "  snug plan resnet50 --batch 64 --train momentum --memory 4GiB --fit\n"
      "  snug plan vgg16 --infer --batch 1");
  command->add_option("--batch", o->batch, "Rows per step")
      ->check(CLI::Range(1, 1000000000))
      ->capture_default_str();
  add_budget(*command, *o);
  command->add_flag("--recompute", o->recompute, "Tasks may run again to keep to the budget");
  command->add_option("--micro-batch", o->micro_batches, "The batch runs in so many slices")
      ->check(CLI::Range(1, 1000000000))
      ->capture_default_str();
  command->add_flag("--fit", o->fit, "Keeps to the budget by whatever is fastest");
  command->callback([o, &status] { status = plan(*o); });
}

void add_fit(CLI::App& app, int& status) {
  auto o = std::make_shared<PlanOptions>();
  CLI::App* command = add_common(
      app, "fit", "The largest batch of a model that fits a budget, and the fastest way.", *o);
  command->footer("Example:\n  snug fit vgg16 --memory 4GiB");
  add_budget(*command, *o)->required();
  command->callback([o, &status] { status = fit(*o); });
}
