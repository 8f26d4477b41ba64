// SPDX-License-Identifier: Apache-2.0
#include "ops/type_trial.h"

#include <algorithm>
#include <cmath>

#include "ops/mutation.h"

namespace strop {
namespace {

// False where nothing is computed: any type will do for no elements.
bool HasElements(const OpRun& run, const OpCase& op_case) {
  bool has_output = false, has_elements = false;
  for (size_t i = 0; i < op_case.outputs.size(); ++i) {
    if (!run.has_output(i)) continue;
    has_output = true;
    has_elements |= run.output(i).element_count() > 0;
  }
  return has_elements || !has_output;
}

bool Runs(const OpCase& op_case, DataType wanted_output) {
  try {
    OpRun run(op_case, op_case.types[0]);
    if (!HasElements(run, op_case)) return false;
    run.RunReference();
    return wanted_output == DataType::kUndefined ||
           (run.has_output(0) && run.output(0).type() == wanted_output);
  } catch (const Error&) {
    return false;
  }
}

// Numbers that unsigned types hold; those that are drawn are not 0.
void MakePositive(CaseInput& input) {
  for (double& value : input.values) value = std::abs(value);
  input.low = 1;
  input.high = 3;
}

// Gives `type` to all tensors of the case that have the type `own`
// (undefined: that of the case).
void ReplaceType(OpCase& op_case, DataType own, DataType type, bool is_positive,
                 bool in_lists) {
  const auto replace = [&](CaseInput& input) {
    if (input.type != own) return;
    if (is_positive) MakePositive(input);
    SetType(input, type);
  };
  for (CaseInput& input : op_case.inputs) {
    if (input.omitted) continue;
    if (input.list.empty() && !in_lists) replace(input);
    for (CaseInput& element : input.list) replace(element);
  }
}

bool RunsWithInput(const OpCase& op_case, size_t selecting, DataType type) {
  if (selecting >= op_case.inputs.size()) return false;
  // Lists hold what the op computes with, whatever selects its kernel.
  const auto list = std::ranges::find_if(
      op_case.inputs,
      [](const CaseInput& input) { return !input.list.empty(); });
  const bool has_list = list != op_case.inputs.end();
  const CaseInput& input = has_list ? list->list[0] : op_case.inputs[selecting];
  if (input.omitted) return false;
  for (const bool is_positive : {false, true}) {
    OpCase changed = op_case;
    ReplaceType(changed, input.type, type, is_positive, has_list);
    if (Runs(changed, DataType::kUndefined)) return true;
    // Where the type to make must fit the type that is there.
    for (auto& [name, value] : changed.attributes) {
      if (name == "to") value = static_cast<int64_t>(type);
    }
    if (Runs(changed, DataType::kUndefined)) return true;
  }
  return false;
}

// The output's type follows an attribute, or the inputs.
bool RunsWithOutput(const OpCase& op_case, DataType type) {
  OpCase by_input = op_case;
  ReplaceType(by_input, DataType::kUndefined, type, /*is_positive=*/false,
              /*in_lists=*/false);
  if (Runs(by_input, type)) return true;
  OwnedTensor one(type, {1});
  FromNumbers(Numbers64{1}, one.view());
  const int64_t number = static_cast<int64_t>(type);
  const CaseAttributes choices = {{"dtype", number},
                                  {"to", number},
                                  {"output_datatype", number},
                                  {"value", TensorData::Copy("", one.view())}};
  return std::ranges::any_of(choices, [&](const auto& choice) {
    OpCase chosen = op_case;
    std::erase_if(chosen.attributes, [&](const auto& attribute) {
      return attribute.first == choice.first;
    });
    chosen.attributes.push_back(choice);
    return Runs(chosen, type);
  });
}

}  // namespace

bool RunsOn(const OpDef& op, DataType type) {
  return std::ranges::any_of(AllOpCases(), [&](const OpCase& op_case) {
    if (FindOp(op_case.domain, op_case.op, op_case.opset) != &op) return false;
    const int selecting = op.reference.type_input;
    return selecting < 0
               ? RunsWithOutput(op_case, type)
               : RunsWithInput(op_case, static_cast<size_t>(selecting), type);
  });
}

}  // namespace strop
