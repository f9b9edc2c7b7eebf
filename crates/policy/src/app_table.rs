//! The numbers of applications. They go into socket marks and into pinned kernel maps, so a name keeps its number for
//! as long as the table lives. The table only grows.

use std::collections::BTreeMap;

use wire::AppId;

/// A table of application names and their numbers, 1 to 65533 ([`crate::MAX_APPLICATIONS`]).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AppTable {
    ids: BTreeMap<String, AppId>,
    last: u16,
}

impl AppTable {
    /// Makes a table without names.
    pub fn new() -> AppTable {
        AppTable::default()
    }

    /// Makes a table from the entries that an earlier one listed with [`AppTable::iter`]. If a name or number is given
    /// twice, the first entry stays; [`AppId::NONE`] is ignored.
    pub fn from_entries(entries: impl IntoIterator<Item = (String, AppId)>) -> AppTable {
        let mut table = AppTable::new();
        let mut taken = std::collections::HashSet::new();
        for (name, id) in entries {
            if id != AppId::NONE
                && usize::from(id.0) <= crate::MAX_APPLICATIONS
                && !table.ids.contains_key(&name)
                && taken.insert(id)
            {
                table.last = table.last.max(id.0);
                table.ids.insert(name, id);
            }
        }
        table
    }

    /// The number of `name`, which is a new one if it has none. `None` if all numbers are given out.
    pub fn assign(&mut self, name: &str) -> Option<AppId> {
        if let Some(id) = self.get(name) {
            return Some(id);
        }
        let id = AppId(self.last.checked_add(1)?);
        if usize::from(id.0) > crate::MAX_APPLICATIONS {
            return None;
        }
        self.last = id.0;
        self.ids.insert(name.into(), id);
        Some(id)
    }

    /// The number of `name`, if it has one.
    pub fn get(&self, name: &str) -> Option<AppId> {
        self.ids.get(name).copied()
    }

    /// The name that has this number.
    pub fn name(&self, id: AppId) -> Option<&str> {
        self.iter().find(|(_, i)| *i == id).map(|(name, _)| name)
    }

    /// Every name with its number, in alphabetical order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, AppId)> {
        self.ids.iter().map(|(name, id)| (name.as_str(), *id))
    }

    /// Number of names in the table.
    pub fn len(&self) -> usize {
        self.ids.len()
    }

    /// Whether the table has no names.
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stay_and_only_grow() {
        let mut table = AppTable::new();
        assert_eq!(table.assign("b"), Some(AppId(1)));
        assert_eq!(table.assign("a"), Some(AppId(2)));
        assert_eq!(table.assign("b"), Some(AppId(1)));
        let mut again = AppTable::from_entries(table.iter().map(|(n, id)| (n.to_string(), id)));
        assert_eq!(again, table);
        assert_eq!(again.assign("c"), Some(AppId(3)));
        assert_eq!(again.name(AppId(2)), Some("a"));
    }

    #[test]
    fn a_full_table_says_so_and_keeps_answering() {
        let mut table = AppTable::from_entries([("last".to_string(), AppId(u16::MAX - 2))]);
        assert_eq!(table.assign("one more"), None);
        assert_eq!(table.assign("last"), Some(AppId(u16::MAX - 2)));
    }

    #[test]
    fn damaged_entries_do_not_share_a_number() {
        let entries = [("a", 5), ("b", 5), ("a", 6), ("c", 0)];
        let table = AppTable::from_entries(entries.map(|(n, id)| (n.to_string(), AppId(id))));
        assert_eq!(table.iter().collect::<Vec<_>>(), [("a", AppId(5))]);
    }
}
