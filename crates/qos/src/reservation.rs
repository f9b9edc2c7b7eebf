//! Reservations, admitted against what the units and uplinks have left.
