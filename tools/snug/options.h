#pragma once
#include <snug/snug.h>

#include <CLI/CLI.hpp>

/// Options that several commands have, under one name and with one text each.

/// Precisions that products and what is kept for the backward part may have.
struct Precisions {
  std::vector<std::string> names = {"float32"};
  bool bfloat16() const;             // of products and convolutions
  bool rounded_activations() const;  // of what is kept for the backward part
};

void add_model(CLI::App& command, std::string& model);
CLI::Option* add_batch(CLI::App& command, std::int64_t& batch);
CLI::Option* add_device(CLI::App& command, std::string& device);
CLI::Option* add_memory(CLI::App& command, std::string& memory);
CLI::Option* add_optimizer(CLI::App& command, std::string& rule);
CLI::Option* add_accumulate(CLI::App& command, std::int64_t& steps);
CLI::Option* add_precision(CLI::App& command, Precisions& precisions);
CLI::Option* add_offload(CLI::App& command, std::string& directory);
/// One number for rows and columns, or both.
CLI::Option* add_size(CLI::App& command, std::vector<std::int64_t>& size, const char* doc);

/// Checks of numbers that are typed, in plain words: "-1 is not above 0".
CLI::Validator above_zero();
CLI::Validator at_least_zero();
CLI::Validator whole_number(std::int64_t least, std::int64_t most = 1'000'000'000);
/// One of some words; names the nearest if it is none.
CLI::Validator one_of(std::vector<std::string> words);

/// Help in 80 columns: the option, then what it does, its choices and its default.
void use_plain_help(CLI::App& app);
