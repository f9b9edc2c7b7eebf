//! The queues in the kernel, as a gateway opens them for a graph: those that it describes, or one for each class.

use super::description::{Description, Queue};
use super::kinds::Kind;
use crate::Direction;

/// The packets of a kernel queue that the graph does not limit.
pub const KERNEL_PACKETS: u64 = 512;

/// The queues over which the users of a class are spread that shares it fairly among them.
const SPREAD: u64 = 4;

/// The octets of the smallest packet: an IPv4 header with its UDP header.
const SMALLEST: u64 = 28;

/// Queues in the kernel for some classes of one direction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelShare {
    /// The name in the graph, or that of the first class.
    pub name: String,
    /// The classes that wait there.
    pub classes: Vec<String>,
    /// The number of queues over which users are spread.
    pub queues: u64,
    /// The most packets that wait in one of them.
    pub limit: u64,
}

/// The queues in the kernel in the order in which they are read.
///
/// A graph that describes none for the direction has one for each class, in the order of the classes. Of more than
/// `most` classes the last ones share a queue: first of those that go ahead of no other, so that what goes ahead does not
/// wait behind a flood in the kernel. Such a queue has the limit of packets that the queues of its classes
/// have, and at most [`KERNEL_PACKETS`]. A class whose users share it fairly has several, as far as `most` allows: with
/// one, who sends little would lose there what another floods.
pub fn kernel_shares(description: &Description, direction: Direction, most: u64) -> Vec<KernelShare> {
    let described = description.kernel.iter().filter(|kernel| kernel.direction.value.has(direction));
    let mut shares: Vec<KernelShare> = described
        .map(|kernel| {
            let octets = kernel.limit.octets.as_ref().map(|octets| (octets.value / SMALLEST).max(1));
            let limit = kernel.limit.packets.as_ref().map(|packets| packets.value).or(octets);
            KernelShare {
                name: kernel.name.value.clone(),
                classes: kernel.classes.iter().map(|class| class.value.clone()).collect(),
                queues: kernel.queues.value,
                limit: limit.unwrap_or(KERNEL_PACKETS),
            }
        })
        .collect();
    if !shares.is_empty() {
        return shares;
    }
    let roots = description.roots(direction);
    let urgent: Vec<&str> = roots
        .iter()
        .flat_map(|root| description.urgent(&root.name.value))
        .map(|class| class.value.as_str())
        .collect();
    let is_urgent = |name: &str| urgent.contains(&name);
    let classes = || description.classes.iter().filter(|class| class.direction.value.has(direction));
    let urgent_ones = classes().filter(|class| is_urgent(&class.name.value)).count() as u64;
    let others = classes().count() as u64 - urgent_ones;
    // The queues of those that go ahead, and of the others, which have one at least where there are two.
    let ahead = urgent_ones.min(most.max(1).saturating_sub(others.min(1)));
    let mut left = [others.min(most.max(1) - ahead), ahead];
    let mut lasts: [Option<usize>; 2] = [None; 2];
    for class in classes() {
        let name = &class.name.value;
        let limit = limit(description, name);
        let group = usize::from(is_urgent(name));
        if (left[group] == 0 || shares.len() as u64 >= most.max(1))
            && let Some(last) = lasts[group].or(lasts[1 - group]).and_then(|last| shares.get_mut(last))
        {
            last.classes.push(name.clone());
            last.limit = last.limit.max(limit);
            continue;
        }
        left[group] = left[group].saturating_sub(1);
        lasts[group] = Some(shares.len());
        shares.push(KernelShare { name: name.clone(), classes: vec![name.clone()], queues: 1, limit });
    }
    let mut spare = most.saturating_sub(shares.len() as u64);
    for share in &mut shares {
        if share.classes.iter().any(|class| has_users(description, class)) {
            share.queues += spare.min(SPREAD - 1);
            spare = spare.saturating_sub(SPREAD - 1);
        }
    }
    shares
}

/// Whether users share a class fairly, of any kind.
fn has_users(description: &Description, class: &str) -> bool {
    let of_class = |queue: &&Queue| queue.classes.iter().any(|name| name.value == class);
    description.queues.iter().filter(of_class).any(|queue| {
        queue.store.kind.value == Kind::Flows && queue.store.word("by").is_some_and(|by| by != "flow")
    })
}

/// The least limit of packets among the queues of a class.
fn limit(description: &Description, class: &str) -> u64 {
    let of_class =
        description.queues.iter().filter(|queue| queue.classes.iter().any(|name| name.value == class));
    let limits = of_class.filter_map(|queue| queue.limit.packets.as_ref()).map(|packets| packets.value);
    limits.min().unwrap_or(KERNEL_PACKETS).min(KERNEL_PACKETS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::{House, check, preset};

    fn shares(description: &Description, most: u64) -> Vec<(String, Vec<String>, u64, u64)> {
        let shares = kernel_shares(description, Direction::Outbound, most);
        shares.into_iter().map(|share| (share.name, share.classes, share.queues, share.limit)).collect()
    }

    fn share(name: &str, classes: &[&str], queues: u64, limit: u64) -> (String, Vec<String>, u64, u64) {
        (name.to_owned(), classes.iter().map(|class| (*class).to_owned()).collect(), queues, limit)
    }

    #[test]
    fn each_class_has_a_queue_and_the_last_ones_share_where_there_are_too_few() {
        let voice = preset("voice").unwrap();
        let all = [
            share("control", &["control"], 1, 64),
            share("ef", &["ef"], 1, 64),
            share("af4", &["af4"], 1, 256),
            share("rest", &["rest"], 1, 512),
        ];
        assert_eq!(shares(&voice, 4), all);
        // Classes that go ahead of others share a queue with such classes alone, as long as there are two queues.
        let (ahead, others) =
            (share("control", &["control", "ef"], 1, 64), share("af4", &["af4", "rest"], 1, 512));
        assert_eq!(shares(&voice, 3), [all[0].clone(), all[1].clone(), others.clone()]);
        assert_eq!(shares(&voice, 2), [ahead, others]);
        assert_eq!(shares(&voice, 1), [share("control", &["control", "ef", "af4", "rest"], 1, 512)]);
        assert_eq!(shares(&voice, 0), shares(&voice, 1));
    }

    #[test]
    fn a_class_that_users_share_has_several_queues_as_far_as_there_are_some() {
        let fair = preset("fair").unwrap();
        let queues = |most| shares(&fair, most).into_iter().map(|share| share.2).collect::<Vec<_>>();
        assert_eq!([queues(16), queues(4), queues(2)], [[1, 4], [1, 3], [1, 1]]);
        // One queue for both classes.
        assert_eq!(queues(1), [1]);
    }

    #[test]
    fn what_is_described_is_what_there_is() {
        let text = "preset = \"two-classes\"\n[kernel.urgent]\nclasses = [\"ef\"]\nlimit = { packets = 32 }\n\
                    [kernel.others]\nclasses = [\"be\"]\nqueues = 3\nlimit = { octets = \"28kB\" }\n";
        let description = check(text, &House::default()).unwrap();
        let expected = [share("urgent", &["ef"], 1, 32), share("others", &["be"], 3, 1000)];
        assert_eq!(shares(&description, 4), expected);
    }
}
