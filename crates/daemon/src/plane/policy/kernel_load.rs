//! The last load of the kernel half, for people.

use crate::monitor::Monitor;

/// What the last load did to the kernel half's maps.
pub(super) fn kernel_load(monitor: &Monitor) -> api::KernelLoad {
    let did = monitor.get().last_load();
    api::KernelLoad {
        tables: did.tables,
        networks: did.networks,
        protections: did.protections,
        orders: did.orders,
        applications_changed: did.applications_changed,
        tables_written: did.tables_written,
        networks_written: did.networks_written,
        protections_written: did.protections_written,
        orders_written: did.orders_written,
        tables_removed: did.tables_removed,
        orders_left_out: did.orders_left_out,
        executables_written: did.executables_written,
    }
}
