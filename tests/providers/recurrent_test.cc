// SPDX-License-Identifier: Apache-2.0
//
// The kernels for LSTM and GRU against the reference kernels, with sizes that
// leave parts of vectors and of the threads' shares, and matrices of more than
// one block. The cases of all ops, in op_cases_test, have the rest.
#include <gtest/gtest.h>

#include <cstring>

#include "base/thread_pool.h"
#include "ops/op_runner.h"

namespace strop {
namespace {

struct Sizes {
  int64_t steps, batch, input, hidden;
};

struct RecurrentCase {
  std::string op;
  // The inputs behind X, W and R and the outputs, as the op has them: '1' for
  // each that is there.
  std::string inputs, outputs;
  Sizes sizes;
  std::string direction = "forward";
  bool linear_before_reset = false;
  bool batch_first = false;
};

int64_t DirectionsOf(const RecurrentCase& c) {
  return c.direction == "bidirectional" ? 2 : 1;
}

Shape Swapped(bool swap, int64_t a, int64_t b, int64_t c) {
  return swap ? Shape{b, a, c} : Shape{a, b, c};
}

// What the inputs behind R hold, by letter: b biases, l lengths, h and c the
// first states, H and C those of all steps, G gates, D, E and F the gradients
// of h of all steps and of the last states, p peepholes.
std::string LettersOf(const std::string& op) {
  if (op == "LSTMGrad") return "lhcHCGDEFp";
  if (op == "GRUGrad") return "blhHGDE";
  return op[0] == 'L' ? "blhcp" : "blh";
}

OpCase Make(const RecurrentCase& c) {
  const auto& [steps, batch, input, hidden] = c.sizes;
  const int64_t directions = DirectionsOf(c), gates = c.op[0] == 'L' ? 4 : 3;
  const auto of_steps = [&, steps = steps, batch = batch](int64_t numbers) {
    return c.batch_first ? Shape{batch, steps, directions, numbers}
                         : Shape{steps, directions, batch, numbers};
  };
  const Shape state = Swapped(c.batch_first, directions, batch, hidden);
  OpCase op_case = {.name = c.op, .op = c.op, .outputs = c.outputs};
  op_case.types = {DataType::kFloat32};
  if (c.op.size() > 4) op_case.domain = "com.microsoft";
  op_case.attributes = {{"direction", c.direction}, {"hidden_size", hidden}};
  if (c.batch_first) op_case.attributes.push_back({"layout", int64_t{1}});
  if (c.linear_before_reset) {
    op_case.attributes.push_back({"linear_before_reset", int64_t{1}});
  }
  op_case.inputs = {InRange(Swapped(c.batch_first, steps, batch, input), -1, 1),
                    InRange({directions, gates * hidden, input}, -0.4, 0.4),
                    InRange({directions, gates * hidden, hidden}, -0.3, 0.3)};
  const std::string letters = LettersOf(c.op);
  for (size_t i = 0; i < c.inputs.size(); ++i) {
    const auto one = [&]() -> CaseInput {
      if (c.inputs[i] != '1') return Omitted();
      switch (letters[i]) {
        case 'b':
          return InRange({directions, 2 * gates * hidden}, -0.5, 0.5);
        case 'H':
        case 'C':
          return InRange(of_steps(hidden), -0.9, 0.9);
        case 'G':
          return InRange(of_steps(gates * hidden), 0.1, 0.9);
        case 'D':
          return InRange(of_steps(hidden), -0.2, 0.3);
        case 'p':
          return InRange({directions, 3 * hidden}, -0.5, 0.5);
        default:
          return InRange(state, -0.7, 0.8);
      }
    };
    op_case.inputs.push_back(one());
  }
  return op_case;
}

std::vector<std::string> Bytes(const OpRun& run, size_t outputs) {
  std::vector<std::string> all;
  for (size_t i = 0; i < outputs; ++i) {
    if (!run.has_output(i)) continue;
    const auto bytes = run.output(i).bytes();
    all.emplace_back(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  return all;
}

void Check(const RecurrentCase& c) {
  const OpCase op_case = Make(c);
  OpRun expected(op_case, DataType::kFloat32);
  expected.RunReference();
  const auto provider = CpuExecutionProvider();
  for (const int threads : {1, 2, 3, 4}) {
    SCOPED_TRACE(testing::Message()
                 << c.op << " inputs " << c.inputs << " outputs " << c.outputs
                 << " steps " << c.sizes.steps << " batch " << c.sizes.batch
                 << " hidden " << c.sizes.hidden << " " << c.direction
                 << (c.linear_before_reset ? " linear" : "")
                 << (c.batch_first ? " batch first" : "") << ", " << threads
                 << " threads");
    ThreadPool pool(threads, /*part_nanoseconds=*/0);
    OpRun actual(op_case, DataType::kFloat32);
    actual.set_threads(&pool, threads);
    ASSERT_EQ(actual.RunProvider(*provider), "");
    for (size_t i = 0; i < c.outputs.size(); ++i) {
      if (!expected.has_output(i)) continue;
      ExpectNear(actual.OutputValues(i), expected.OutputValues(i), 4e-6,
                 "output " + std::to_string(i));
    }
    const auto first = Bytes(actual, c.outputs.size());
    ASSERT_EQ(actual.RunProvider(*provider), "");
    EXPECT_EQ(Bytes(actual, c.outputs.size()), first) << "another time";
  }
}

constexpr Sizes kOdd = {5, 7, 19, 37};
constexpr Sizes kBlocks = {3, 33, 20, 112};  // 4 H > 384
constexpr Sizes kOneStep = {1, 3, 2, 16};
constexpr Sizes kOneSequence = {4, 1, 33, 32};

// Each in the ways in which steps and sequences may follow each other.
void CheckAllWays(RecurrentCase c) {
  for (const char* direction : {"forward", "reverse", "bidirectional"}) {
    c.direction = direction;
    for (const bool batch_first : {false, true}) {
      c.batch_first = batch_first;
      Check(c);
    }
  }
}

TEST(LstmKernel, AgreesWithTheReference) {
  for (const Sizes& sizes : {kOdd, kBlocks, kOneStep, kOneSequence}) {
    CheckAllWays({"LSTMTraining", "1011", "11111", sizes});
    CheckAllWays({"LSTM", "", "111", sizes});
  }
}

TEST(LstmKernel, MakesTheOutputsThatAreWanted) {
  for (const char* outputs : {"1", "01", "001", "011", "101"}) {
    CheckAllWays({"LSTM", "1010", outputs, kOdd});
  }
  CheckAllWays({"LSTMTraining", "1001", "01101", kOdd});
  CheckAllWays({"LSTMTraining", "0011", "0011", kOdd});
}

TEST(LstmKernel, GradientAgreesWithTheReference) {
  for (const Sizes& sizes : {kOdd, kBlocks, kOneStep, kOneSequence}) {
    CheckAllWays({"LSTMGrad", "011111111", "111111", sizes});
    CheckAllWays({"LSTMGrad", "0001111", "1111", sizes});
  }
}

TEST(LstmKernel, MakesTheGradientsThatAreWanted) {
  for (const char* outputs :
       {"1", "01", "001", "0001", "00001", "000001", "011"}) {
    CheckAllWays({"LSTMGrad", "01011110", outputs, kOdd});
    CheckAllWays({"LSTMGrad", "001111011", outputs, kOdd});
  }
}

TEST(GruKernel, AgreesWithTheReference) {
  for (const bool linear : {false, true}) {
    for (const Sizes& sizes : {kOdd, kBlocks, kOneStep, kOneSequence}) {
      CheckAllWays({"GRUTraining", "101", "111", sizes, "", linear});
      CheckAllWays({"GRU", "", "11", sizes, "", linear});
    }
  }
}

TEST(GruKernel, MakesTheOutputsThatAreWanted) {
  for (const bool linear : {false, true}) {
    CheckAllWays({"GRU", "101", "1", kOdd, "", linear});
    CheckAllWays({"GRU", "1", "01", kOdd, "", linear});
    CheckAllWays({"GRUTraining", "001", "011", kOdd, "", linear});
    CheckAllWays({"GRUTraining", "100", "101", kOdd, "", linear});
  }
}

TEST(GruKernel, GradientAgreesWithTheReference) {
  for (const bool linear : {false, true}) {
    for (const Sizes& sizes : {kOdd, kBlocks, kOneStep, kOneSequence}) {
      CheckAllWays({"GRUGrad", "1011111", "11111", sizes, "", linear});
      CheckAllWays({"GRUGrad", "000111", "1111", sizes, "", linear});
    }
  }
}

TEST(GruKernel, MakesTheGradientsThatAreWanted) {
  for (const bool linear : {false, true}) {
    for (const char* outputs : {"1", "01", "001", "0001", "00001", "011"}) {
      CheckAllWays({"GRUGrad", "1011101", outputs, kOdd, "", linear});
    }
  }
}

std::string WhyNot(const OpCase& op_case) {
  OpRun run(op_case, DataType::kFloat32);
  return run.RunProvider(*CpuExecutionProvider());
}

OpCase With(OpCase op_case, const std::string& attribute,
            Attribute::Value value) {
  op_case.attributes.push_back({attribute, std::move(value)});
  return op_case;
}

TEST(RecurrentKernels, SayWhatTheyDecline) {
  const OpCase lstm = Make({"LSTM", "1", "1", kOdd});
  EXPECT_EQ(WhyNot(lstm), "");
  EXPECT_EQ(WhyNot(With(lstm, "clip", 2.0f)), "recurrent.lstm: a clip");
  EXPECT_EQ(WhyNot(With(lstm, "input_forget", int64_t{1})),
            "recurrent.lstm: input_forget");
  EXPECT_EQ(WhyNot(With(lstm, "activations",
                        std::vector<std::string>{"Sigmoid", "Relu", "Tanh"})),
            "recurrent.lstm: other activations");
  EXPECT_EQ(WhyNot(With(lstm, "activations",
                        std::vector<std::string>{"sigmoid", "tanh", "tanh"})),
            "");
  OpCase peepholes = Make({"LSTM", "10001", "1", kOdd});
  EXPECT_EQ(WhyNot(peepholes), "recurrent.lstm: peepholes");
  OpCase lengths = Make({"GRU", "10", "1", kOdd});
  lengths.inputs[4] = Int32s({7}, {5, 4, 5, 3, 2, 1, 5});
  EXPECT_EQ(WhyNot(lengths), "recurrent.gru: lengths of the sequences");
}

}  // namespace
}  // namespace strop
