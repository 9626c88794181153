#pragma once

namespace telar::test {

/// From here on no algorithm was ever chosen, as at the beginning of each test of this program.
void forget_choices();

}  // namespace telar::test
