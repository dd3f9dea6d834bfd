#include "options.h"

#include <algorithm>
#include <charconv>
#include <filesystem>

#include "base/bytes.h"
#include "target/budgets.h"

namespace {

namespace nn = snug::nn;

constexpr const char* kRounded = "bfloat16-activations";

/// The words of a text in lines of at most `width` columns.
std::vector<std::string> wrapped(const std::string& text, std::size_t width) {
  std::vector<std::string> lines(1);
  for (std::size_t at = 0; at < text.size();) {
    std::size_t end = std::min(text.find(' ', at), text.size());
    const std::string word = text.substr(at, end - at);
    if (!lines.back().empty() && lines.back().size() + 1 + word.size() > width)
      lines.emplace_back();
    if (!lines.back().empty()) lines.back() += ' ';
    lines.back() += word;
    at = end + 1;
  }
  return lines;
}

class PlainHelp : public CLI::Formatter {
 public:
  std::string make_usage(const CLI::App* app, std::string name) const override {
    const std::string text = CLI::Formatter::make_usage(app, std::move(name));
    return text + (text.ends_with("\n") ? "" : "\n");
  }
  std::string make_description(const CLI::App* app) const override {
    std::string text;
    for (const std::string& line : wrapped(app->get_description(), kWidth)) text += line + "\n";
    return text;
  }
  std::string make_option(const CLI::Option* option, bool positional) const override {
    std::string label = "  " + make_option_name(option, positional);
    if (!positional && option->get_type_size() != 0) label += " " + option->get_type_name();
    std::string doc = option->get_description();
    const bool optional = option->get_type_name().starts_with("[");
    if (!option->get_default_str().empty() && !optional)
      doc += fmt::format(" (default: {})", option->get_default_str());
    std::string text = label;
    text += label.size() + 2 > kLabel ? "\n" + std::string(kLabel, ' ')
                                      : std::string(kLabel - label.size(), ' ');
    bool first = true;
    for (const std::string& line : wrapped(doc, kWidth - kLabel)) {
      if (!first) text += "\n" + std::string(kLabel, ' ');
      first = false;
      text += line;
    }
    return text + "\n";
  }

 private:
  static constexpr std::size_t kWidth = 80, kLabel = 24;
};

CLI::Validator check(std::function<std::string(const std::string&)> fault) {
  return {[fault = std::move(fault)](std::string& text) { return fault(text); }, ""};
}

std::optional<double> number_of(const std::string& text) {
  double n = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), n);
  if (status != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return n;
}

CLI::Validator number(std::function<bool(double)> right, const char* what) {
  return check([right = std::move(right), what](const std::string& text) -> std::string {
    const std::optional<double> n = number_of(text);
    if (!n) return fmt::format("{} is no number", text);
    return right(*n) ? "" : fmt::format("{} is not {}", text, what);
  });
}

}  // namespace

CLI::Validator above_zero() {
  return number([](double n) { return n > 0 && n < HUGE_VAL; }, "above 0");
}
CLI::Validator at_least_zero() {
  return number([](double n) { return n >= 0 && n < HUGE_VAL; }, "0 or above");
}

CLI::Validator whole_number(std::int64_t least, std::int64_t most) {
  return check([=](const std::string& text) -> std::string {
    std::int64_t n = 0;
    const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), n);
    const bool whole = end == text.data() + text.size() && !text.empty();
    if (whole && status == std::errc() && n >= least && n <= most) return "";
    return whole ? fmt::format("{} is not between {} and {}", text, least, most)
                 : fmt::format("{} is no whole number", text);
  });
}

CLI::Validator one_of(std::vector<std::string> words) {
  return check([words = std::move(words)](const std::string& text) -> std::string {
    if (std::find(words.begin(), words.end(), text) != words.end()) return "";
    const std::string near = snug::nearest(text, words);
    return near.empty() ? fmt::format("{} is none of {}", text, fmt::join(words, ", "))
                        : fmt::format("there is no {}; did you mean {}?", text, near);
  });
}

bool Precisions::bfloat16() const {
  return std::find(names.begin(), names.end(), "bfloat16") != names.end();
}
bool Precisions::rounded_activations() const {
  return std::find(names.begin(), names.end(), kRounded) != names.end();
}

void add_model(CLI::App& command, std::string& model) {
  std::vector<std::string> models;
  for (const nn::models::Info& info : nn::models::all()) models.push_back(info.name);
  const std::string doc = fmt::format("One of {}", fmt::join(models, ", "));
  command.add_option("model", model, doc)->required()->check(one_of(std::move(models)));
}

CLI::Option* add_batch(CLI::App& command, std::int64_t& batch) {
  return command.add_option("--batch", batch, "Rows per step")
      ->type_name("ROWS")
      ->check(whole_number(1))
      ->capture_default_str();
}

CLI::Option* add_device(CLI::App& command, std::string& device) {
  return command
      .add_option("--device", device, "Where steps run: cpu, or one that `snug devices` lists")
      ->type_name("NAME")
      ->check(check([](const std::string& text) -> std::string {
        if (text == "cpu") return "";
        const std::vector<std::string> names = snug::devices().names();
        if (std::find(names.begin(), names.end(), text) != names.end()) return "";
        return fmt::format("there is no device {}\n  hint  there are {}", text,
                           fmt::join(names, ", "));
      }));
}

CLI::Option* add_memory(CLI::App& command, std::string& memory) {
  return command
      .add_option(
          "--memory", memory,
          "The budget of a step, as 4GiB, on each device that it uses; opencl:0=4GiB is that "
          "of one. May be given several times")
      ->type_name("[DEVICE=]AMOUNT")
      ->expected(1)
      ->join(',')
      ->check(check([](const std::string& text) -> std::string {
        if (text.empty()) return "an amount is needed, as 4GiB";
        try {
          snug::parse_budget_text(text, "");
          return "";
        } catch (const snug::Error& error) {
          return fmt::format("{}\n  hint  {}", error.message(), error.hint());
        }
      }));
}

CLI::Option* add_optimizer(CLI::App& command, std::string& rule) {
  const std::vector<std::string> rules = snug::optim::rule_names();
  return command.add_option("--optimizer", rule, fmt::format("One of {}", fmt::join(rules, ", ")))
      ->type_name("NAME")
      ->check(one_of(rules))
      ->capture_default_str();
}

CLI::Option* add_accumulate(CLI::App& command, std::int64_t& steps) {
  return command
      .add_option("--accumulate", steps,
                  "Parameters change every so many steps, by the mean of their gradients: as with "
                  "batches so many times as large, but batch norm sees the rows of one step")
      ->type_name("STEPS")
      ->check(whole_number(1))
      ->capture_default_str();
}

CLI::Option* add_precision(CLI::App& command, Precisions& precisions) {
  return command
      .add_option("--precision", precisions.names,
                  fmt::format("float32; bfloat16: products and convolutions round to it, "
                              "parameters and what is saved stay float32; {}: what is kept for the "
                              "backward part may be rounded to keep to --memory (lossy). May be "
                              "given twice",
                              kRounded))
      ->type_name("NAME")
      ->check(one_of({"float32", "bfloat16", kRounded}))
      ->expected(1)
      ->take_all()
      ->default_str("float32");
}

CLI::Option* add_offload(CLI::App& command, std::string& directory) {
  return command
      .add_option("--offload", directory,
                  "Values may go to a file in this directory, of the current one if none is given, "
                  "to keep to --memory")
      ->type_name("[DIRECTORY]")
      ->expected(0, 1)
      ->default_str(".")
      ->check(check([](const std::string& text) -> std::string {
        return text.empty() || std::filesystem::is_directory(text)
                   ? ""
                   : fmt::format("there is no directory {}", text);
      }));
}

CLI::Option* add_size(CLI::App& command, std::vector<std::int64_t>& size, const char* doc) {
  return command.add_option("--size", size, doc)
      ->type_name("N [N]")
      ->expected(1, 2)
      ->check(whole_number(1, 32768));
}

void use_plain_help(CLI::App& app) {
  app.formatter(std::make_shared<PlainHelp>());
  app.get_formatter()->column_width(12);
}
