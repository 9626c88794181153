#pragma once

namespace telar {

/// Whether a line that is written to `descriptor` (1 or 2) can be replaced on the user's screen: the
/// descriptor is a terminal that is not "dumb". mpirun gives its processes a terminal of their own and copies
/// what they write; for them, mpirun's own output decides.
bool can_redraw(int descriptor);

/// Whether text for `descriptor` may be coloured: can_redraw(), and NO_COLOR is not set (no-color.org).
bool can_colour(int descriptor);

}  // namespace telar
