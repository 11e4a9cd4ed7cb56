// Cases of RNN, GRU, LSTM and LinearAttention: known answers (numpy, from ONNX's equations, by code
// that also meets the stored answers of ONNX's node tests), lengths, functions, errors, symbolic
// shapes.
#include <cmath>

#include "ops/case.h"

namespace vernier::test {
namespace {

constexpr double kNaN = NAN;
constexpr DType kF32 = DType::kF32, kF64 = DType::kF64;

Arg f64(Shape shape, std::vector<double> values) {
  return typed(kF64, std::move(shape), std::move(values));
}

// Functions by number: 0 Sigmoid, 1 Tanh, 2 Relu.
const std::string kTanh = "functions=[1], alpha=[0], beta=[0]";
const std::string kRelu = "{functions=[2], alpha=[0], beta=[0]}";
const std::string kGru = "functions=[0, 1], alpha=[0, 0], beta=[0, 0]";
const std::string kLstm = "functions=[0, 1, 1], alpha=[0, 0, 0], beta=[0, 0, 0]";
const Arg kX = ramp(kF64, {3, 2, 2}, -0.5, 0.125), kX1 = ramp(kF64, {3, 2, 1}, -1, 0.5);
const Arg kW = ramp(kF64, {1, 2, 2}, 0.5, -0.25), kR = ramp(kF64, {1, 2, 2}, -0.25, 0.25);

// An RNN of one step, one input and one neuron without memory: y = f(x).
OpCase function_of(const std::string& name, const std::string& function, std::vector<double> y) {
  return {.name = name,
          .attrs = "{" + function + "}",
          .in = {f64({1, 3, 1}, {-2, 0.5, 3}), f64({1, 1, 1}, {1}), f64({1, 1, 1}, {0})},
          .out = {f64({1, 1, 3, 1}, std::move(y))},
          .tolerance = 1e-14};
}

// clang-format off
const OpCases kRnn("RNN", OpKind::kRNN, {
    {.name = "forward", .attrs = "{" + kTanh + "}", .in = {kX, kW, kR},
     .out = {f64({3, 1, 2, 2}, {-0.330821117493628, 0.09347630396922774,
             -0.1549907303716235, 0.031239831446031256, 0.11346456112590426, -0.06711607782711891,
             0.2519535452377478, -0.11634845940699295, 0.36086831086278254, -0.1600537888414044,
             0.4859630568188025, -0.21073066507254742}), f64({1, 2, 2}, {0.36086831086278254,
             -0.1600537888414044, 0.4859630568188025, -0.21073066507254742})},
     .tolerance = 1e-14},
    {.name = "both_directions_of_rows_of_other_lengths",
     .attrs = "{direction=2, functions=[1, 0], alpha=[0, 0], beta=[0, 0]}",
     .in = {kX, ramp(kF64, {2, 2, 2}, 0.5, -0.25), ramp(kF64, {2, 2, 2}, -0.25, 0.125),
            ramp(kF64, {2, 4}, -0.5, 0.125), i32({2}, {1, 3}), ramp(kF64, {2, 2, 2}, -0.5, 0.25)},
     .out = {f64({3, 2, 2, 2}, {-0.7340715196043416, -0.4115700556740224,
             -0.7340715196043416, -0.4115700556740224, 0.7662936430859597, 0.8991213772699436,
             0.6943849155792126, 0.823107763550911, 0, 0, -0.287910002637066, -0.5684272376412252,
             0, 0, 0.5365565405114288, 0.5808290371633799, 0, 0, -0.01321832470153258,
             -0.6582976507878007, 0, 0, 0.4843800842769844, 0.4843800842769844}), f64({2, 2, 2},
             {-0.7340715196043416, -0.4115700556740224, -0.01321832470153258, -0.6582976507878007,
             0.7662936430859597, 0.8991213772699436, 0.6943849155792126, 0.823107763550911})},
     .tolerance = 1e-14},
    {.name = "only_the_last_state_of_reversed_rows", .attrs = "{direction=1, " + kTanh + "}",
     .in = {kX, kW, kR, none(), i64({2}, {2, 3})},
     .out = {none(), f64({1, 2, 2}, {-0.3377582686142651, 0.08572908980066457,
             -0.17575470370190543, 0.01851630724323166})},
     .tolerance = 1e-14},
    {.name = "clip", .attrs = "{functions=[2], alpha=[0], beta=[0], clip=2}",
     .in = {f32({3, 1, 1}, {1, 3, -5}), f32({1, 1, 1}, {1}), f32({1, 1, 1}, {0.5})},
     .out = {f32({3, 1, 1, 1}, {1, 2, 0}), f32({1, 1, 1}, {0})}},
    {.name = "nan_stays_in_its_row", .attrs = kRelu,
     .in = {f32({2, 2, 1}, {kNaN, 1, 1, 2}), f32({1, 1, 1}, {1}), f32({1, 1, 1}, {1})},
     .out = {f32({2, 1, 2, 1}, {kNaN, 1, kNaN, 3}), f32({1, 2, 1}, {kNaN, 3})}},
    {.name = "rows_without_steps_keep_their_state", .attrs = kRelu,
     .in = {f32({1, 2, 1}, {4, 4}), f32({1, 1, 1}, {1}), f32({1, 1, 1}, {1}), none(),
            i32({2}, {0, 1}), f32({1, 2, 1}, {2, 3})},
     .out = {f32({1, 1, 2, 1}, {0, 7}), f32({1, 2, 1}, {2, 7})}},
    {.name = "no_steps", .attrs = kRelu,
     .in = {f32({0, 1, 1}, {}), f32({1, 1, 1}, {1}), f32({1, 1, 1}, {1}), none(), none(),
            f32({1, 1, 1}, {2})},
     .out = {f32({0, 1, 1, 1}, {}), f32({1, 1, 1}, {2})}},
    {.name = "no_rows", .attrs = kRelu,
     .in = {f32({1, 0, 1}, {}), f32({1, 1, 1}, {1}), f32({1, 1, 1}, {1})},
     .out = {f32({1, 1, 0, 1}, {})}},
    {.name = "no_functions", .in = {kX, kW, kR},
     .error = "has 0 functions, 0 alpha and 0 beta, expected 1 of each"},
    {.name = "functions_of_one_direction", .attrs = "{direction=2, " + kTanh + "}",
     .in = {kX, kW, kR}, .error = "has 1 functions, 1 alpha and 1 beta, expected 2 of each"},
    {.name = "an_unknown_function", .attrs = "{functions=[11], alpha=[0], beta=[0]}",
     .in = {kX, kW, kR}, .error = "a function is 11, expected 0..10"},
    {.name = "clip_below_0", .attrs = "{clip=-1, " + kTanh + "}", .in = {kX, kW, kR},
     .error = "clip is -1.000000, expected 0 or more"},
    {.name = "weights_of_one_direction",
     .attrs = "{direction=2, functions=[1, 1], alpha=[0, 0], beta=[0, 0]}", .in = {kX, kW, kR},
     .error = "sizes 1 and 2 differ"},
    {.name = "weights_of_another_size", .attrs = "{" + kTanh + "}",
     .in = {kX, ramp(kF64, {1, 2, 3}), kR}, .error = "sizes 3 and 2 differ"},
    {.name = "weights_of_another_type", .attrs = "{" + kTanh + "}",
     .in = {kX, ramp(kF32, {1, 2, 2}), kR},
     .error = "input 1 has type f32, expected f64 as input 0"},
    {.name = "bias_of_one_product", .attrs = "{" + kTanh + "}",
     .in = {kX, kW, kR, f64({1, 2}, {1, 1})}, .error = "sizes 2 and 4 differ"},
    {.name = "a_length_beyond_the_steps", .attrs = "{" + kTanh + "}",
     .in = {kX, kW, kR, none(), i32({2}, {3, 4})},
     .error = "4 at element 1 of input 4 is outside [0, 3]"},
    {.name = "lengths_of_another_batch", .attrs = "{" + kTanh + "}",
     .in = {kX, kW, kR, none(), i32({1}, {3})}, .error = "sizes 1 and 2 differ"},
    {.name = "float_lengths", .attrs = "{" + kTanh + "}",
     .in = {kX, kW, kR, none(), f64({2}, {3, 3})},
     .error = "input 4 has type f64, expected i32 or i64"},
    {.name = "initial_state_of_another_batch", .attrs = "{" + kTanh + "}",
     .in = {kX, kW, kR, none(), none(), f64({1, 1, 2}, {0, 0})}, .error = "sizes 1 and 2 differ"},
    {.name = "integers", .attrs = "{" + kTanh + "}",
     .in = {i64({1, 1, 1}, {1}), i64({1, 1, 1}, {1}), i64({1, 1, 1}, {1})},
     .error = "input 0 has type i64, expected a float type"},
    {.name = "rank", .attrs = "{" + kTanh + "}", .in = {f64({2, 2}, {1, 1, 1, 1}), kW, kR},
     .error = "input 0 has shape [2, 2], expected rank 3"},
});

const OpCases kFunctions("RecurrentFunctions", OpKind::kRNN, {
    function_of("sigmoid", "functions=[0], alpha=[0], beta=[0]",
                {0.11920292202211755, 0.6224593312018546, 0.9525741268224334}),
    function_of("tanh", kTanh, {-0.9640275800758169, 0.46211715726000974, 0.9950547536867305}),
    function_of("relu", "functions=[2], alpha=[0], beta=[0]", {0, 0.5, 3}),
    function_of("affine", "functions=[3], alpha=[2], beta=[1]", {-3, 2, 7}),
    function_of("leaky_relu", "functions=[4], alpha=[0.25], beta=[0]", {-0.5, 0.5, 3}),
    function_of("thresholded_relu", "functions=[5], alpha=[0.5], beta=[0]", {0, 0.5, 3}),
    function_of("scaled_tanh", "functions=[6], alpha=[2], beta=[0.5]",
                {-1.5231883119115297, 0.48983732480741826, 1.8102965072897328}),
    function_of("hard_sigmoid", "functions=[7], alpha=[0.25], beta=[0.5]", {0, 0.625, 1}),
    function_of("elu", "functions=[8], alpha=[0.5], beta=[0]", {-0.43233235838169365, 0.5, 3}),
    function_of("softsign", "functions=[9], alpha=[0], beta=[0]", {-2.0 / 3, 1.0 / 3, 0.75}),
    function_of("softplus", "functions=[10], alpha=[0], beta=[0]",
                {0.1269280110429725, 0.9740769841801067, 3.048587351573742}),
});

const std::vector<Arg> kGruIn{kX, ramp(kF64, {1, 6, 2}, 0.75, -0.125),
                              ramp(kF64, {1, 6, 2}, -0.5, 0.125), ramp(kF64, {1, 12}, -0.75, 0.125),
                              none(), ramp(kF64, {1, 2, 2}, -0.5, 0.25)};
const OpCases kGruCases("GRU", OpKind::kGRU, {
    {.name = "reset_before_the_product", .attrs = "{" + kGru + "}", .in = kGruIn,
     .out = {f64({3, 1, 2, 2}, {0.1120724606889611, 0.343541316335091, 0.3121672122934853,
             0.5337652660594935, 0.265406885470051, 0.4742707446699036, 0.30318615486223777,
             0.49762133288775146, 0.1805311365333886, 0.31791045328072587, 0.14413757447185047,
             0.2242353578309827}), f64({1, 2, 2}, {0.1805311365333886, 0.31791045328072587,
             0.14413757447185047, 0.2242353578309827})},
     .tolerance = 1e-14},
    {.name = "reset_after_the_product", .attrs = "{linear_before_reset=true, " + kGru + "}",
     .in = kGruIn,
     .out = {f64({3, 1, 2, 2}, {-0.09475797171621342, 0.1603170867756635,
             0.10397127850435313, 0.40387542424917355, -0.06495985691894551, 0.15189841985748478,
             -0.00492821014689903, 0.2158635991855574, -0.19323428934045622, -0.12404115352386808,
             -0.17996113145422282, -0.14239334079538418}), f64({1, 2, 2}, {-0.19323428934045622,
             -0.12404115352386808, -0.17996113145422282, -0.14239334079538418})},
     .tolerance = 1e-14},
    {.name = "both_directions_of_rows_of_other_lengths",
     .attrs = "{direction=2, functions=[0, 1, 0, 1], alpha=[0, 0, 0, 0], beta=[0, 0, 0, 0]}",
     .in = {kX1, ramp(kF64, {2, 3, 1}, 0.75, -0.25), ramp(kF64, {2, 3, 1}, -0.5, 0.25), none(),
            i32({2}, {3, 2})},
     .out = {f64({3, 2, 2, 1}, {-0.1663435385351284, -0.07369987075405432,
             0.13406544541751697, 0.041180376952856326, -0.08662854839723706, 0.005217984922615548,
             -0.1541028303351487, -0.12245933120185457, 0.0166343083463013, 0,
             -0.23105857863000487, 0}), f64({2, 2, 1}, {0.0166343083463013, 0.005217984922615548,
             0.13406544541751697, 0.041180376952856326})},
     .tolerance = 1e-14},
    {.name = "functions_of_an_rnn", .attrs = "{" + kTanh + "}", .in = kGruIn,
     .error = "has 1 functions, 1 alpha and 1 beta, expected 2 of each"},
    {.name = "gates_of_an_rnn", .attrs = "{" + kGru + "}", .in = {kX, kW, kR},
     .error = "sizes 2 and 6 differ"},
});

const Arg kLstmW = ramp(kF64, {1, 8, 2}, 0.875, -0.125);
const Arg kLstmR = ramp(kF64, {1, 8, 2}, -0.5, 0.0625);
const Arg kBatchH = ramp(kF64, {1, 2, 2}, -0.5, 0.25), kBatchC = ramp(kF64, {1, 2, 2}, 0.75, -0.5);
const OpCases kLstmCases("LSTM", OpKind::kLSTM, {
    {.name = "every_input", .attrs = "{" + kLstm + "}",
     .in = {kX, kLstmW, kLstmR, ramp(kF64, {1, 16}, -0.75, 0.125), i32({2}, {3, 2}), kBatchH,
            kBatchC, ramp(kF64, {1, 6}, -0.5, 0.25)},
     .out = {f64({3, 1, 2, 2}, {0.30014036902959157, 0.2942586686920389,
             0.053279601285423465, -0.03418504931720724, 0.29629387160142345, 0.3726522523925266,
             0.16764600954538272, 0.1521885872587235, 0.31471225654561064, 0.38139814810665745, 0,
             0}), f64({1, 2, 2}, {0.31471225654561064, 0.38139814810665745, 0.16764600954538272,
             0.1521885872587235}), f64({1, 2, 2}, {0.6511257205048457, 0.737873932899937,
             0.31788487395809834, 0.2662752137238012})},
     .tolerance = 1e-14},
    {.name = "both_directions",
     .attrs = "{direction=2, functions=[0, 1, 1, 0, 2, 2], alpha=[0, 0, 0, 0, 0, 0], "
              "beta=[0, 0, 0, 0, 0, 0]}",
     .in = {kX1, ramp(kF64, {2, 4, 1}, -0.5, 0.25), ramp(kF64, {2, 4, 1}, -0.5, 0.125)},
     .out = {f64({3, 2, 2, 1}, {-0.08504702231633855, -0.03707558442216978,
             0.0475670717518507, 0.26465909722142067, -0.03631286711484963, 0.010347278454188362,
             0.26537298256236813, 0.8799497675539194, 0.026076220681733684, 0.05059562137695288,
             0.5284513985690759, 0.9613540851914336}), f64({2, 2, 1}, {0.026076220681733684,
             0.05059562137695288, 0.0475670717518507, 0.26465909722142067}), f64({2, 2, 1},
             {0.05917487221902489, 0.12514729737263378, 0.14498099300524384, 0.6096261286217843})},
     .tolerance = 1e-14},
    {.name = "only_the_last_cell_of_a_clipped_reverse",
     .attrs = "{direction=1, clip=0.25, " + kLstm + "}",
     .in = {kX1, ramp(kF64, {1, 4, 1}, -0.5, 0.25), ramp(kF64, {1, 4, 1}, -0.5, 0.125)},
     .out = {none(), none(), f64({1, 2, 1}, {-0.11255954208849091, -0.02019990971660534})},
     .tolerance = 1e-14},
    {.name = "initial_cell_of_another_batch", .attrs = "{" + kLstm + "}",
     .in = {kX, kLstmW, kLstmR, none(), none(), none(), f64({1, 1, 2}, {0, 0})},
     .error = "sizes 1 and 2 differ"},
    {.name = "peepholes_of_every_gate", .attrs = "{" + kLstm + "}",
     .in = {kX, kLstmW, kLstmR, none(), none(), none(), none(), ramp(kF64, {1, 8})},
     .error = "sizes 8 and 6 differ"},
});

const Arg kQ = ramp(kF64, {1, 3, 2, 2}, -1, 0.25), kK = ramp(kF64, {1, 3, 1, 2}, 1, -0.25);
const Arg kV = ramp(kF64, {1, 3, 1, 3}, -1, 0.5);
const Arg kQ2 = ramp(kF64, {2, 2, 2, 2}, -1, 0.125), kK2 = ramp(kF64, {2, 2, 2, 2}, 1, -0.125);
const Arg kV2 = ramp(kF64, {2, 2, 2, 1}, -1, 0.25);
const OpCases kLinearAttention("LinearAttention", OpKind::kLinearAttention, {
    {.name = "two_query_heads_of_one_state", .attrs = "{scale=0.5}", .in = {kQ, kK, kV},
     .out = {f64({1, 3, 2, 3}, {0.78125, 0.390625, 0, 0.34375, 0.171875, 0, -0.078125,
             -0.015625, 0.046875, -0.421875, -0.046875, 0.328125, -1.078125, -0.46875, 0.140625,
             -1.546875, -0.65625, 0.234375}), f64({1, 1, 2, 3}, {-0.75, 0, 0.75, -1.125, -0.75,
             -0.375})},
     .tolerance = 1e-14},
    {.name = "every_input", .attrs = "{scale=0.5}",
     .in = {kQ, kK, kV, ramp(kF64, {1, 1, 2, 3}, -0.5, 0.25), ramp(kF64, {1, 3, 1, 2}, -1, 0.125),
            ramp(kF64, {1, 3, 1}, 0.25, 0.25)},
     .out = {f64({1, 3, 2, 3}, {0.22754176237456275, 0.07804857432518264,
             -0.07144461372419748, 0.10980518725916433, 0.045437708905436344, -0.01892976944829164,
             0.005203607175704524, 0.023136230542304174, 0.041068853908903816,
             0.005284938767604004, 0.10696852976597473, 0.20865212076434542, -0.2298572267147164,
             -0.17162681042360817, -0.11339639413250006, -0.32305271029705107, -0.2357212959120144,
             -0.14838988152697793}), f64({1, 1, 2, 3}, {-0.025051857928962584, 0.09112477362074055,
             0.20730140517044363, -0.3477300764003762, -0.3475027155743655, -0.347275354748355})},
     .tolerance = 1e-14},
    {.name = "a_decay_of_each_head",
     .in = {kQ2, kK2, kV2, none(), ramp(kF64, {2, 2, 2, 1}, -1, 0.125)},
     .out = {f64({2, 2, 2, 1}, {1.765625, 0.71484375, 0.5864910514886528,
             0.1261653627127676, 0, -0.05078125, -0.3203125, -1.1098531163487955}), f64({2, 2, 2,
             1}, {-0.7223665527410147, -0.6008207336483878, -0.36358455354193203,
             -0.2821537946182767, -0.25, -0.3125, -0.6176560564115372, -0.7389840846173058})},
     .tolerance = 1e-14},
    {.name = "beta_of_all_heads",
     .in = {kQ2, kK2, kV2, none(), none(), ramp(kF64, {2, 2, 1}, 0.25, 0.125)},
     .out = {f64({2, 2, 2, 1}, {0.44140625, 0.1787109375, 0.24994659423828125,
             0.05566978454589844, 0, -0.025390625, -0.2001953125, -0.6335105895996094}), f64({2, 2,
             2, 1}, {-0.304931640625, -0.25994873046875, -0.159393310546875, -0.1265716552734375,
             -0.15625, -0.1953125, -0.35260009765625, -0.421783447265625})},
     .tolerance = 1e-14},
    {.name = "no_steps_keep_the_state",
     .in = {f32({1, 0, 1, 1}, {}), f32({1, 0, 1, 1}, {}), f32({1, 0, 1, 1}, {}),
            f64({1, 1, 1, 1}, {2})},
     .out = {f32({1, 0, 1, 1}, {}), f64({1, 1, 1, 1}, {2})}},
    {.name = "no_rows", .in = {f32({0, 1, 1, 1}, {}), f32({0, 1, 1, 1}, {}), f32({0, 1, 1, 1}, {})},
     .out = {f32({0, 1, 1, 1}, {})}},
    {.name = "heads",
     .in = {ramp(kF64, {1, 3, 3, 2}), ramp(kF64, {1, 3, 2, 2}), ramp(kF64, {1, 3, 2, 3})},
     .error = "3 query heads are not a multiple of 2 key and value heads"},
    {.name = "no_key_heads",
     .in = {ramp(kF64, {1, 3, 2, 2}), ramp(kF64, {1, 3, 0, 2}), ramp(kF64, {1, 3, 0, 3})},
     .error = "needs 1 <= 0"},
    {.name = "steps", .in = {kQ, ramp(kF64, {1, 2, 1, 2}), kV}, .error = "sizes 3 and 2 differ"},
    {.name = "state", .in = {kQ, kK, kV, ramp(kF64, {1, 1, 3, 2})},
     .error = "sizes 3 and 2 differ"},
    {.name = "decay", .in = {kQ, kK, kV, none(), ramp(kF64, {1, 3, 1, 3})},
     .error = "input 4 of shape [1, 3, 1, 3] does not broadcast to [1, 3, 1, 2]"},
    {.name = "beta", .in = {kQ, kK, kV, none(), none(), ramp(kF64, {1, 3, 2})},
     .error = "input 5 of shape [1, 3, 2] does not broadcast to [1, 3, 1]"},
    {.name = "type_of_beta", .in = {kQ, kK, kV, none(), none(), ramp(kF32, {1, 3, 1})},
     .error = "input 5 has type f32, expected f64 as input 0"},
    {.name = "integers",
     .in = {i64({1, 1, 1, 1}, {1}), i64({1, 1, 1, 1}, {1}), i64({1, 1, 1, 1}, {1})},
     .error = "input 0 has type i64, expected a float type"},
    {.name = "rank", .in = {ramp(kF64, {1, 3, 4}), kK, kV},
     .error = "input 0 has shape [1, 3, 4], expected rank 4"},
});

const ShapeCases kShapes("Recurrent", {
    {.name = "rnn", .op = OpKind::kRNN, .attrs = "{" + kTanh + "}",
     .in = {"f16 [seq, batch, 8]", "f16 [1, 16, 8]", "f16 [1, 16, 16]", "", "i32 [s2]"},
     .out = {"f16 [seq, 1, batch, 16]", "f16 [1, batch, 16]"}, .substitutions = {"s2 := batch"}},
    {.name = "lstm", .op = OpKind::kLSTM, .attrs = "{" + kLstm + "}",
     .in = {"f32 [seq, batch, 8]", "f32 [1, 64, 8]", "f32 [1, 64, 16]"},
     .out = {"f32 [seq, 1, batch, 16]", "f32 [1, batch, 16]", "f32 [1, batch, 16]"}},
    {.name = "linear_attention", .op = OpKind::kLinearAttention,
     .in = {"f16 [batch, seq, 8, 64]", "f16 [batch, seq, 2, 64]", "f16 [batch, seq, 2, 32]",
            "f32 [batch, 2, 64, 32]"},
     .out = {"f16 [batch, seq, 8, 32]", "f32 [batch, 2, 64, 32]"}},
});
// clang-format on

}  // namespace
}  // namespace vernier::test
