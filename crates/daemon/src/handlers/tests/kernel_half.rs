//! What of a change reaches the kernel half, and what becomes of it where that does not take it.

use std::net::SocketAddr;

use policy::AppTable;
use sockmon::{Identity, SocketInfo, SocketState};
use wire::{AppId, Prefix};

use super::*;
use crate::names::{Reply, ResolvedName};
use crate::plane::Allow;

fn prefix(text: &str) -> Prefix {
    let (address, length) = text.split_once('/').unwrap();
    Prefix::new(address.parse().unwrap(), length.parse().unwrap()).unwrap()
}

/// A policy for one program, with these statements.
fn of_curl(statements: &str) -> String {
    format!("application curl {{ {statements} }}\n")
}

/// A connection of a program with this application to this peer.
fn socket(app: AppId, remote: &str) -> SocketInfo {
    SocketInfo {
        pid: std::process::id(),
        comm: "curl".to_owned(),
        identity: Identity { inode: 2, device: 1, generation: 0 },
        fd: 3,
        app,
        watched: true,
        required: 0,
        mark: 0,
        protocol: 6,
        local: SocketAddr::from(([192, 0, 2, 1], 40_000)),
        remote: remote.parse().unwrap(),
        state: SocketState::Established,
        cookie: 4,
        netns: 1,
        inode: 5,
    }
}

#[tokio::test]
async fn a_reload_takes_its_generation_and_its_networks_to_the_kernel_half() {
    let folder = Folder::new("kernel-reload");
    let kernel_half = Recorder::default();
    let mut plane = plane_over(kernel_half.clone(), folder.config(), None);
    let app = plane.policy().app("curl").unwrap();
    std::fs::write(folder.0.join("policy"), of_curl("network 198.51.100.0/24 untrusted;")).unwrap();
    let answer = plane.reload(Allow::default()).await.unwrap();
    let networks = [(app, vec![prefix("198.51.100.0/24")])].into();
    let generation = answer.generation;
    assert_eq!(kernel_half.take_calls(), [Call::LoadPolicy { generation, networks }]);
    assert_eq!(answer.kernel.map(|load| (load.tables, load.networks)), Some((1, 1)));

    // One that the kernel half does not take is in force nowhere.
    std::fs::write(folder.0.join("policy"), of_curl("network 203.0.113.0/24 untrusted;")).unwrap();
    kernel_half.fail(&["load_policy"]);
    assert!(plane.reload(Allow::default()).await.is_err());
    assert_eq!(kernel_half.networks()[&app], [prefix("198.51.100.0/24")]);
    assert_eq!(
        (kernel_half.policy_generation(), plane.policy().generation()),
        (Some(generation), generation)
    );
    assert!(plane.policy().last_error().unwrap().contains("load_policy"));

    // Sockets that could not be stamped are tried again with the next look at executables.
    kernel_half.fail(&["adopt"]);
    plane.reload(Allow::default()).await.unwrap();
    kernel_half.fail(&[]);
    kernel_half.take_calls();
    assert!(plane.refresh_executables().unwrap());
    assert!(matches!(&kernel_half.take_calls()[..], [Call::LoadPolicy { .. }]));
    assert!(!plane.refresh_executables().unwrap(), "nothing is left to do");
}

#[tokio::test]
async fn addresses_of_a_name_change_networks_alone_or_the_policy_is_loaded_as_a_whole() {
    let folder = Folder::new("kernel-names");
    let kernel_half = Recorder::default();
    let mut plane = plane_over(kernel_half.clone(), folder.config(), None);
    std::fs::write(folder.0.join("policy"), of_curl("network host.example untrusted;")).unwrap();
    let generation = plane.reload(Allow::default()).await.unwrap().generation;
    let app = plane.policy().app("curl").unwrap();
    // With a name, answers of the DNS that applications receive are to be told.
    let calls = kernel_half.take_calls();
    assert!(matches!(&calls[..], [Call::LoadPolicy { .. }, Call::SetObserve(true)]), "{calls:?}");
    let heard = |last: u8| ResolvedName {
        name: "host.example".to_owned(),
        v4: Reply::Addresses(vec![([192, 0, 2, last].into(), 300)]),
        v6: Reply::Nothing,
    };
    plane.hear_name(heard(7)).await.unwrap();
    let networks = [(app, vec![prefix("192.0.2.7/32")])].into();
    let change = Call::ChangeNetworks { generation: generation + 1, networks };
    assert_eq!(kernel_half.take_calls(), [change]);
    assert_eq!(plane.halves().ask_outbound(|half| half.engine.policy().generation).await, Ok(generation + 1));

    kernel_half.fail(&["change_networks"]);
    plane.hear_name(heard(8)).await.unwrap();
    assert_eq!(kernel_half.policy_generation(), Some(generation + 1));
    kernel_half.fail(&[]);
    assert!(plane.refresh_executables().unwrap(), "the policy is loaded as a whole");
    assert_eq!(kernel_half.policy_generation(), Some(generation + 2));
    assert!(kernel_half.networks()[&app].contains(&prefix("192.0.2.8/32")));
}

#[tokio::test]
async fn a_plan_asks_the_kernel_half_for_the_sockets_and_changes_nothing_there() {
    let folder = Folder::new("kernel-plan");
    let kernel_half = Recorder::default();
    let plane = plane_over(kernel_half.clone(), folder.config(), None);
    let app = plane.policy().app("curl").unwrap();
    let asked = api::PolicyText {
        text: Some(of_curl("network 192.0.2.0/24 untrusted;")),
        ..api::PolicyText::default()
    };
    let elsewhere = SocketInfo { watched: false, inode: 6, ..socket(app, "192.0.2.8:443") };
    kernel_half.open(vec![socket(app, "192.0.2.7:443"), socket(AppId::NONE, "192.0.2.9:443"), elsewhere]);
    let plan = plane.plan(&asked).unwrap();
    let peers: Vec<_> = plan.sockets.iter().map(|socket| socket.flow.remote.as_deref().unwrap()).collect();
    assert_eq!(peers, ["192.0.2.7:443"]);
    assert_eq!(kernel_half.take_calls(), []);
    kernel_half.fail(&["sockets"]);
    assert!(plane.plan(&asked).unwrap_err().message.contains("sockets"));
}

#[test]
fn a_recorder_refuses_what_it_has_no_part_for_and_what_comes_too_early() {
    use crate::monitor::KernelHalf;
    let mut recorder = Recorder::default();
    let refused =
        recorder.take_flow(&sockmon::FlowId::of(AppId(1), &socket(AppId(1), "192.0.2.7:1").flow().unwrap()));
    assert!(refused.unwrap_err().to_string().contains("take_flow"));
    assert!(recorder.adopt().is_err(), "no policy was loaded");
    let text = of_curl("network 192.0.2.0/24 untrusted;");
    let compiled = policy::compile(&policy::parse("p", &text), &mut AppTable::new(), 1);
    assert!(recorder.change_networks(&compiled.spd, &[]).is_err(), "no policy was loaded");
    recorder.load_policy(&compiled.spd, &compiled.subjects, &[]).unwrap();
    recorder.adopt().unwrap();
    assert!(recorder.remove_live_sa(&sadb::Selectors::ANY).is_err(), "it was never added");
    recorder.add_live_sa(&sadb::Selectors::ANY).unwrap();
    assert!(recorder.add_live_sa(&sadb::Selectors::ANY).is_err(), "it is there already");
}
