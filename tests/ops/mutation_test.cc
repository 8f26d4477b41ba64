// SPDX-License-Identifier: Apache-2.0
//
// Cases with one thing spoilt: each ends in an Error that names the node, or
// in a run whose outputs are written in full. Never in a crash: the address
// sanitizer runs this too.
#include "ops/mutation.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <map>
#include <set>

#include "ops/op_runner.h"

namespace strop {
namespace {

// STROP_SHOW_MUTANTS=1 names each before it runs: for finding a crash.
const bool show_mutants = std::getenv("STROP_SHOW_MUTANTS") != nullptr;

std::vector<std::string> OutputBytes(const OpRun& run, const OpCase& op_case) {
  std::vector<std::string> all;
  for (size_t i = 0; i < op_case.outputs.size(); ++i) {
    if (!run.has_output(i)) continue;
    const auto bytes = run.output(i).bytes();
    all.emplace_back(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  return all;
}

enum class End { kRan, kError };

bool IsFinite(const Numbers64& values) {
  return std::all_of(values.begin(), values.end(),
                     [](double value) { return std::isfinite(value); });
}

bool HasFiniteAttributes(const OpCase& op_case) {
  return std::all_of(op_case.attributes.begin(), op_case.attributes.end(),
                     [](const auto& attribute) {
                       const auto* x = std::get_if<float>(&attribute.second);
                       return x == nullptr || std::isfinite(*x);
                     });
}

using Results = std::vector<Numbers64>;

Results ResultsOf(const OpRun& run, const OpCase& op_case) {
  Results results;
  for (size_t i = 0; i < op_case.outputs.size(); ++i) {
    if (run.has_output(i)) results.push_back(run.OutputValues(i));
  }
  return results;
}

bool HasLargeNumbers(const OpCase& op_case) {
  constexpr double kLarge = 1e29;
  return std::ranges::any_of(op_case.inputs, [](const CaseInput& input) {
    return std::ranges::any_of(
        input.values, [](double value) { return std::abs(value) > kLarge; });
  });
}

// Whether an input with several elements holds one number only.
bool HasEqualNumbers(const OpCase& op_case) {
  return std::ranges::any_of(op_case.inputs, [](const CaseInput& input) {
    return input.values.size() > 1 &&
           std::ranges::all_of(input.values, [&](double value) {
             return value == input.values[0];
           });
  });
}

// Whether rounding alone may change the results: those of a recurrent op,
// where a sum of numbers so large that they cancel decides which way a gate
// saturates, and gradients of attention, which cancel to zero where keys or
// values are all the same or one score is far above the others.
bool IsLeftToRounding(const OpCase& op_case) {
  if (op_case.op.starts_with("LSTM") || op_case.op.starts_with("GRU")) {
    return HasLargeNumbers(op_case);
  }
  return op_case.op == "AttentionGrad" &&
         (HasLargeNumbers(op_case) || HasEqualNumbers(op_case));
}

// Runs a kernel of the provider, if it has one, over NaN and over zeros.
// Where all is finite it must agree with the reference kernel.
void RunProvider(OpRun& run, const OpCase& op_case,
                 const ExecutionProvider& provider, const std::string& what) {
  const Results expected = ResultsOf(run, op_case);
  run.set_fill(0xff);
  if (!run.RunProvider(provider).empty()) return;
  const auto over_nan = OutputBytes(run, op_case);
  run.set_fill(0);
  run.RunProvider(provider);
  EXPECT_EQ(OutputBytes(run, op_case), over_nan)
      << what << ": the kernel does not write elements";
  if (!HasFiniteAttributes(op_case) || IsLeftToRounding(op_case) ||
      !std::all_of(expected.begin(), expected.end(),
                   [](const auto& values) { return IsFinite(values); })) {
    return;
  }
  const Results actual = ResultsOf(run, op_case);
  for (size_t i = 0; i < expected.size(); ++i) {
    ExpectNear(actual[i], expected[i], 1e-5,
               fmt::format("{}, output {}", what, i));
  }
}

// Runs the case twice, over other memory. Fails the test where the outcome is
// neither an Error that names the node nor a full result.
End RunMutant(const OpCase& op_case, DataType type, const std::string& what,
              const ExecutionProvider& provider) {
  if (show_mutants) std::cerr << what << "\n";
  try {
    OpRun run(op_case, type);
    run.set_fill(0xff);
    run.RunReference();
    const auto first = OutputBytes(run, op_case);
    run.set_fill(0);
    run.RunReference();
    EXPECT_EQ(OutputBytes(run, op_case), first)
        << what << ": elements are not written";
    RunProvider(run, op_case, provider, what);
    return End::kRan;
  } catch (const Error& error) {
    const std::string text = error.what();
    EXPECT_TRUE(text.starts_with("[" + op_case.op + " \""))
        << what << ": " << text;
    EXPECT_NE(error.code(), ErrorCode::kInternal) << what << ": " << text;
  } catch (const std::exception& error) {
    ADD_FAILURE() << what << ": " << error.what();
  }
  return End::kError;
}

std::string TitleOf(const OpCase& op_case, DataType type,
                    const std::string& what) {
  return fmt::format("{} ({}): {}", op_case.name, DataTypeName(type), what);
}

TEST(Mutants, EndInAnErrorOrAFullResult) {
  const auto provider = CpuExecutionProvider();
  int ran = 0, refused = 0;
  for (const OpCase& op_case : AllOpCases()) {
    const OpDef* op = FindOp(op_case.domain, op_case.op, op_case.opset);
    if (op == nullptr || op->reference.run == nullptr) continue;
    const DataType type = op_case.types[0];
    ForEachMutant(
        op_case, type, [&](const std::string& what, const OpCase& mutant) {
          const End end =
              RunMutant(mutant, type, TitleOf(op_case, type, what), *provider);
          (end == End::kRan ? ran : refused) += 1;
        });
  }
  fmt::print("{} mutants ran, {} were refused\n", ran, refused);
  EXPECT_GT(ran, 1000);
  EXPECT_GT(refused, 1000);
}

}  // namespace
}  // namespace strop
