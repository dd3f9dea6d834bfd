#pragma once
#include <string>
#include <vector>

#include "api/function.h"
#include "io/tensor_file.h"
#include "train/fit.h"

namespace snug::nn {

/// A value that lives between steps.
struct NamedValue {
  std::string name;
  SharedVariable* shared;
};
/// Parameters and running statistics.
std::vector<NamedValue> values_of(Layer& model);
/// True for what a checkpoint has beside them.
bool is_training_state(const std::string& name);
/// Masks of pruned parameters: "mask/NAME".
std::vector<NamedValue> masks_of(Layer& model);
void put_values(std::span<const NamedValue> values, io::TensorFile& file);
/// All of them from a file that `path` names. If one is missing or has another type, nothing
/// changes and there is a Value error.
void take_values(std::span<const NamedValue> values, const io::TensorFile& file,
                 const std::string& path);

/// The loss and the metrics of a batch, (x, y) or (x, y, weights), without training; `givens` as of
/// a function.
Function evaluation_of(Layer& model, const std::vector<data::Field>& fields,
                       const FitOptions& options, const Updates& givens = {});

/// The loss and the metrics summed up over rows, and how much weight they have: the number of rows,
/// or the sum of their weights.
struct BatchSums {
  std::vector<double> values;
  double weight = 0;
  void add(const BatchSums& other);
  std::vector<double> means() const;
};
/// Of a step or an evaluation with so many values (the loss and the metrics). An error if the batch
/// has a weight that is negative or not finite.
BatchSums run(const Function& function, const data::Batch& batch, std::size_t values);
/// As `evaluate` of a model.
std::map<std::string, double> evaluate(const Function& evaluation, data::Loader& data,
                                       const FitOptions& options);

/// A step was refused, for a batch of so many rows.
struct StepRefusal : MemoryError {
  StepRefusal(const MemoryError& e, std::int64_t of_rows) : MemoryError(e), rows(of_rows) {}
  std::int64_t rows;
};

/// The compiled step and evaluation of a model, which outlives it, and the values that live between
/// steps. Expressions are touched by the constructor, `refuse` and the destructor alone.
class Trainer {
 public:
  Trainer(Layer& model, const std::vector<data::Field>& fields, const FitOptions& options);

  /// The loss and the metrics of one batch. An Interrupted error changes nothing; a StepRefusal if
  /// there is no memory.
  BatchSums step(const data::Batch& batch) const;
  BatchSums evaluate(const data::Batch& batch) const;

  /// Everything that a step changes, by name: parameters and running statistics under their own
  /// names, "mask/...", "optimizer/...", "random/...".
  void save(io::TensorFile& file) const;
  /// What a training that goes on must have in common with the one that was saved, by name: its
  /// loss, its optimizer, what is trained.
  const io::Metadata& identity() const { return identity_; }
  /// All of it back; `path` is named by errors, which leave everything as it was.
  void restore(const io::TensorFile& file, const std::string& path) const;
  void save_parameters(io::TensorFile& file) const;  // and running statistics
  void save_model(io::TensorFile& file) const;       // the same, masks and averages
  void restore_model(const io::TensorFile& file, const std::string& path) const;
  /// Parameters become their averages, if there are some, as `evaluate` has it.
  void take_averages() const;
  /// An error if the model was pruned for the first time after its step was compiled.
  void check_masks() const;
  /// Takes the parameters of another model of the same kind, and new state for the rest.
  void restart(Layer& model) const;
  /// Sets the learning rate, which is a number without a schedule.
  void set_rate(double rate) const;

  /// What a step of so many rows takes; a StepRefusal if the budget does not allow it.
  MemoryReport plan(std::int64_t rows) const;
  /// Throws the refusal of a step as a MemoryError. Where its batch cannot be cut, there is one
  /// more remedy, if it fits: smaller batches, and an update for several of them.
  [[noreturn]] void refuse(const StepRefusal& e) const;
  /// How a step, or an evaluation, of so many rows keeps to the budget, as far as it decides bits.
  enum class Part : std::uint8_t { Step, Evaluation };
  Function::Way way(Part part, std::int64_t rows) const;
  void set_way(Part part, std::int64_t rows, const Function::Way& way) const;
  std::size_t metric_count() const { return metrics_; }

 private:
  void add(std::string name, const Expr& variable);
  const Function& function_of(Part part) const { return part == Part::Step ? step_ : evaluate_; }
  std::vector<Dims> shapes_of(Part part, std::int64_t rows) const;
  std::span<const NamedValue> first(std::size_t n) const { return std::span(values_).first(n); }

  Layer& model_;
  FitOptions options_;  // without callbacks and data
  Function step_, evaluate_;
  std::vector<NamedValue> values_;
  std::vector<Expr> variables_;   // of values_
  std::size_t parameters_ = 0;    // the first ones of values_
  std::size_t with_masks_ = 0;    // these and the masks, which come next
  std::size_t model_values_ = 0;  // these and the averages, which come next
  /// Averages, and the parameters they begin as.
  std::vector<std::pair<SharedVariable*, SharedVariable*>> averages_;
  std::vector<Array> starts_;  // of random states, which are the last ones of values_
  std::size_t metrics_ = 0;
  Expr rate_;
  std::vector<data::Field> fields_, evaluated_fields_;
  io::Metadata identity_;
};

}  // namespace snug::nn
