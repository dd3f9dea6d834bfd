#pragma once
#include <CLI/CLI.hpp>

/// Commands with a file of their own. `status` gets what the process ends with.
void add_train(CLI::App& app, int& status);
void add_predict(CLI::App& app, int& status);
void add_plan(CLI::App& app, int& status);
void add_fit(CLI::App& app, int& status);
void add_pack(CLI::App& app, int& status);
