// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <memory>

#include "progress.h"
#include "strop/artifacts.h"
#include "strop/environment.h"
#include "usage.h"
#include "verbs.h"

namespace strop {
namespace {

void PrintList(const char* title, const std::vector<std::string>& lines) {
  if (lines.empty()) return;
  fmt::print("{}\n", title);
  for (const std::string& line : lines) fmt::print("  {}\n", line);
}

void PrintParameters(const TrainabilityReport& report) {
  int64_t elements = 0;
  size_t trains = 0;
  std::vector<std::string> lines;
  for (const ParameterReport& parameter : report.parameters) {
    const int64_t count = Shape(parameter.dims).element_count();
    if (parameter.trains) {
      ++trains;
      elements += count;
    }
    std::string remark = parameter.why_not;
    if (!parameter.origin.empty())
      remark += (remark.empty() ? "" : "; ") + parameter.origin;
    lines.push_back(fmt::format("{} {} {}{}", parameter.name,
                                DataTypeName(parameter.type),
                                Shape(parameter.dims).ToString(),
                                remark.empty() ? "" : "  (" + remark + ")"));
  }
  fmt::print("parameters: {} of {} can be reached, {} elements\n", trains,
             report.parameters.size(), elements);
  for (const std::string& line : lines) fmt::print("  {}\n", line);
}

int RunCheck(const std::filesystem::path& model) {
  Progress progress;
  const Environment environment(
      {.num_threads = 1, .log = progress.log_sink(), .files = nullptr});
  const TrainabilityReport report = CheckTrainability(model, environment);
  fmt::print("opset {}, IR version {}, {} nodes\n", report.opset,
             report.ir_version, report.node_count);
  PrintList("inputs:", report.inputs);
  PrintList("outputs:", report.outputs);
  PrintParameters(report);
  PrintList("what stays as it is:", report.untrained);
  PrintList("shapes that are not known beforehand:", report.notes);
  PrintList("what ONNX Runtime cannot run:", report.strop_only);
  PrintList("what stands in the way:", report.blockers);
  if (report.can_train()) {
    fmt::print("this model can be trained\n");
    return 0;
  }
  fmt::print("this model cannot be trained: {}\n",
             report.blockers.empty()
                 ? "no float output depends on a parameter that can be updated"
                 : "the nodes above stand in the way");
  return kExitFailure;
}

}  // namespace

void AddCheckVerb(CLI::App& app, int* exit_code) {
  CLI::App* verb = app.add_subcommand(
      "check",
      "Tell whether a model can be trained, and what stands in the "
      "way; exit code 0 if it can");
  auto model = std::make_shared<std::filesystem::path>();
  verb->add_option("MODEL", *model, "A model for inference")
      ->check(CheckNotEmpty)
      ->required();
  verb->footer("Example:\n  strop check lenet.onnx");
  verb->callback([model, exit_code] { *exit_code = RunCheck(*model); });
}

}  // namespace strop
