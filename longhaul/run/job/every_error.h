#pragma once
// All mistakes of a job file at once.
#include <functional>

#include "longhaul/run/job/job.h"

namespace longhaul::run {

// `first` is why `resolve` refuses the document. Takes out the key that it is about and resolves
// again, and so on, until nothing is wrong or the next error follows from what was taken out. The
// result has a line for each error, in the order of the file.
Error every_error(Document, const Error& first,
                  const std::function<Result<Job>(Document)>& resolve);

}  // namespace longhaul::run
