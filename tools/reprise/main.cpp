// SPDX-License-Identifier: BSD-3-Clause
#include <iostream>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include <reprise/budget_infeasible.h>
#include <reprise/error.h>
#include <reprise/version.h>

#include <c10/util/Exception.h>

#include "commands.h"
#include "report_files.h"
#include "terminal.h"
#include "workloads/words.h"

// The command line: verbs, errors and exit codes.

namespace reprise::command {
namespace {

struct Verb {
  CLI::App* app;
  Run run;
};

std::vector<std::string> names_of(const std::vector<Verb>& verbs) {
  std::vector<std::string> names;
  for (const Verb& verb : verbs) names.push_back(verb.app->get_name());
  return names;
}

std::vector<std::string> options_of(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    if (!option->get_lnames().empty()) names.push_back("--" + option->get_lnames().front());
  }
  return names;
}

// CLI11 hands over what it does not know; its own message would name no neighbour.
void reject_extras(const CLI::App& app, const std::string& help) {
  const std::vector<std::string> extras = app.remaining();
  if (extras.empty()) return;
  const std::string word = extras.front().substr(0, extras.front().find('='));
  if (word.size() < 2 || word.front() != '-') {
    throw UsageError("unexpected argument '" + extras.front() + "'", help);
  }
  throw UsageError("unknown option '" + word + "'",
                   workloads::did_you_mean(word, options_of(app), help));
}

const Verb& chosen(const CLI::App& app, const std::vector<Verb>& verbs) {
  for (const Verb& verb : verbs) {
    if (verb.app->parsed()) return verb;
  }
  const std::vector<std::string> names = names_of(verbs);
  const std::string help = "verbs: " + workloads::join(names) + "; see 'reprise --help'";
  const std::vector<std::string> extras = app.remaining();
  if (extras.empty()) throw UsageError("a verb is missing", help);
  if (extras.front().starts_with("-")) reject_extras(app, help);
  throw UsageError("unknown verb '" + extras.front() + "'",
                   workloads::did_you_mean(extras.front(), names, help));
}

// All that is left to CLI11: an option without its value, or given twice.
[[noreturn]] void reject(const CLI::ParseError& error) {
  const std::string message = error.what();
  std::string what = message.substr(0, message.find('\n'));
  if (dynamic_cast<const CLI::ArgumentMismatch*>(&error) != nullptr) {
    const bool missing = message.ends_with("missing");
    what = message.substr(0, message.find(':')) +
           (missing ? ": a value is missing" : ": it is given more than once");
  }
  throw UsageError(what, "'reprise <verb> --help' lists the options and their values");
}

int run(int argc, char** argv) {
  CLI::App app("Trains LibTorch models inside a memory limit, with the same gradients.", "reprise");
  app.set_version_flag("--version", std::string("reprise ") + REPRISE_VERSION);
  app.set_help_flag("-h,--help", "print this help and exit");
  app.allow_extras();
  std::vector<Verb> verbs;
  const auto add = [&](const char* name, const char* help, Run (*add_verb)(CLI::App&)) {
    CLI::App* verb = app.add_subcommand(name, help);
    verb->allow_extras();
    verbs.push_back({verb, add_verb(*verb)});
  };
  add("train", "train a workload under one strategy", add_train);
  add("compare", "run strategies side by side: bytes, time, gradients", add_compare);
  add("profile", "show where a step's time and memory go, module by module", add_profile);
  add("plan", "plan a step within a budget, and write the plan to a file", add_plan);
  add("doctor", "show what is found on this machine, and what is missing", add_doctor);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& help) {
    return app.exit(help);
  } catch (const CLI::ParseError& error) {
    reject(error);
  }
  remember_command_line(argc, argv);
  const Verb& verb = chosen(app, verbs);
  reject_extras(app, "see 'reprise --help'");
  reject_extras(*verb.app, "see 'reprise " + verb.app->get_name() + " --help'");
  const int code = verb.run();
  if (std::cout.flush()) return code;
  throw Error("the result could not be written to stdout", "is the disk full?");
}

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

int guarded(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const UsageError& error) {
    print_error(error.what());
    return kUsage;
  } catch (const BudgetInfeasible& error) {
    print_error(error.what());
    return kInfeasible;
  } catch (const Error& error) {
    print_error(error.what());
  } catch (const c10::Error& error) {
    print_error("LibTorch: " + first_line(error.what_without_backtrace()),
                "smaller sizes need less memory; 'reprise doctor' checks the set-up");
  } catch (const std::bad_alloc&) {
    print_error("out of memory", "use smaller sizes");
  } catch (const std::exception& error) {
    print_error(first_line(error.what()), "'reprise doctor' checks the set-up");
  }
  return kFailure;
}

}  // namespace
}  // namespace reprise::command

int main(int argc, char** argv) { return reprise::command::guarded(argc, argv); }
