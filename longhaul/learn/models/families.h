#pragma once
// The specs behind the registry's lines, one file a family.
#include "longhaul/base/result.h"
#include "longhaul/learn/data/dataset.h"
#include "longhaul/learn/models/config.h"
#include "longhaul/learn/models/spec.h"

namespace longhaul::learn {

// What the families ask of the data.
std::int64_t features(const DataShape&);  // numbers in a sample
std::int64_t outputs(const DataShape&);   // classes, or targets of a regression
struct Image {
  std::int64_t channels, height, width;
};
Image image(const DataShape&);  // CHECKs that it is one
// Errors that name the model, what the data are and what would fit them.
Status expect_classes(const std::string& kind, const DataShape&);
Status expect_no_text(const std::string& kind, const DataShape&);
Status expect_image(const std::string& kind, const DataShape&);

// Least squares: one output a target, on the flattened sample.
Result<ModelSpec> linear_spec(const ModelConfig&, const DataShape&);
// Multinomial logistic regression: one logit a class; with two classes a single logit, that of
// class 1; one for each of several labels. Starts at zero, where the loss is ln(classes) or ln 2.
Result<ModelSpec> logistic_spec(const ModelConfig&, const DataShape&);
// Layers of `hidden` ReLU units on the flattened sample.
Result<ModelSpec> mlp_spec(const ModelConfig&, const DataShape&);
// LeNet-5 (LeCun et al., "Gradient-based learning applied to document recognition", 1998) with ReLU
// and max-pooling for its sigmoids and averages: conv 6 and 16 of 5x5, then 120, 84, classes.
// Images of 28x28 (padded by 2) or 32x32, any number of channels; 61,706 parameters on MNIST.
Result<ModelSpec> lenet_spec(const ModelConfig&, const DataShape&);
// ResNet-20 for CIFAR (He et al., "Deep residual learning", 2016, section 4.2): 3 stages of 3
// blocks, 16, 32, 64 channels, shortcuts without parameters (their option A), global mean.
// Images of at least 8x8.
Result<ModelSpec> resnet20_spec(const ModelConfig&, const DataShape&);
// Ratings of items by users: mean + bias of the user + bias of the item + p . q, p and q being rows
// of two tables of `factors` numbers (Koren, Bell, Volinsky, "Matrix factorization techniques for
// recommender systems", 2009). A batch reads the rows of its users and items alone.
Result<ModelSpec> factorisation_spec(const ModelConfig&, const DataShape&);
// Clicks: a row of `factors` numbers for each value of each field, and layers of `hidden` ReLU
// units on the rows of a sample side by side (as the deep part of Cheng et al., "Wide & deep
// learning for recommender systems", 2016). A batch reads the rows of its samples and the layers.
Result<ModelSpec> clicks_spec(const ModelConfig&, const DataShape&);
// A decoder of bytes or tokens: pre-norm blocks of causal self-attention and a GELU layer of four
// times the width, learned positions, the output tied to the embedding (Radford et al., "Language
// models are unsupervised multitask learners", 2019). Text only.
Result<ModelSpec> gpt_spec(const ModelConfig&, const DataShape&);
// One flat parameter of `mbytes`, or `shapes`, without numbers: timing studies.
Result<ModelSpec> phantom_spec(const ModelConfig&, const DataShape&);

}  // namespace longhaul::learn
