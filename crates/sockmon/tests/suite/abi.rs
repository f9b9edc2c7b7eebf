//! The contract with the programs: sizes and offsets in Rust are those of the object, by its BTF.

use libbpf_rs::HasSize;
use libbpf_rs::btf::{Btf, types};
use sockmon::abi::{self, Layout};

fn compare<T: Layout>(btf: &Btf<'_>, name: &str) {
    let (size, fields) = T::layout();
    let kind: types::Struct<'_> =
        btf.type_by_name(name).unwrap_or_else(|| panic!("the object has no struct {name}"));
    assert_eq!(kind.size(), size, "{name}");
    let in_object: Vec<(String, usize)> = kind
        .iter()
        .map(|member| {
            let bits = match member.attr {
                types::MemberAttr::Normal { offset } | types::MemberAttr::BitField { offset, .. } => offset,
            };
            (member.name.expect("named").to_string_lossy().into_owned(), bits as usize / 8)
        })
        .collect();
    let fields: Vec<(String, usize)> = fields.into_iter().map(|(n, o)| (n.to_owned(), o)).collect();
    assert_eq!(fields, in_object, "{name}");
}

#[test]
fn rust_and_c_agree() {
    let object = sockmon::object();
    let btf = Btf::from_raw("sockmon", object).expect("readable BTF").expect("the object has BTF");
    compare::<abi::Config>(&btf, "rvl_config");
    compare::<abi::Identity>(&btf, "rvl_identity");
    compare::<abi::Executable>(&btf, "rvl_executable");
    compare::<abi::Task>(&btf, "rvl_task");
    compare::<abi::Place>(&btf, "rvl_place");
    compare::<abi::List>(&btf, "rvl_list");
    compare::<abi::Choice>(&btf, "rvl_choice");
    compare::<abi::Group>(&btf, "rvl_group");
    compare::<abi::GroupPath>(&btf, "rvl_group_path");
    compare::<abi::TaskReport>(&btf, "rvl_task_report");
    compare::<abi::NetworkKey>(&btf, "rvl_network_key");
    compare::<abi::Network>(&btf, "rvl_network");
    compare::<abi::Item>(&btf, "rvl_item");
    compare::<abi::Protection>(&btf, "rvl_protection");
    compare::<abi::Share>(&btf, "rvl_share");
    compare::<abi::Split>(&btf, "rvl_split");
    compare::<abi::AppClasses>(&btf, "rvl_app_classes");
    compare::<abi::KernelQueue>(&btf, "rvl_kernel_queue");
    compare::<abi::SaName>(&btf, "rvl_sa_name");
    compare::<abi::OrderKey>(&btf, "rvl_order_key");
    compare::<abi::PeerKey>(&btf, "rvl_peer_key");
    compare::<abi::LiveSelector>(&btf, "rvl_live_selector");
    compare::<abi::Live>(&btf, "rvl_live");
    compare::<abi::UserKey>(&btf, "rvl_user_key");
    compare::<abi::ListenerKey>(&btf, "rvl_listener_key");
    compare::<abi::EndpointKey>(&btf, "rvl_endpoint_key");
    compare::<abi::Endpoint>(&btf, "rvl_endpoint");
    compare::<abi::Name>(&btf, "rvl_name");
    compare::<abi::Socket>(&btf, "rvl_socket");
    compare::<abi::Event>(&btf, "rvl_event");
    compare::<abi::SocketEvent>(&btf, "rvl_socket_event");
    compare::<abi::AnnouncedKey>(&btf, "rvl_announced_key");
    compare::<abi::ReservedKey>(&btf, "rvl_reserved_key");
    compare::<abi::Reserved>(&btf, "rvl_reserved");
    compare::<abi::Shapes>(&btf, "rvl_shapes");
    compare::<abi::TrafficKey>(&btf, "rvl_traffic_key");
    compare::<abi::Traffic>(&btf, "rvl_traffic");
    compare::<abi::LimitKey>(&btf, "rvl_limit_key");
    compare::<abi::Limit>(&btf, "rvl_limit");
    compare::<abi::Spent>(&btf, "rvl_spent");
    compare::<abi::SourceKey>(&btf, "rvl_source_key");
    compare::<abi::Source>(&btf, "rvl_source");
    compare::<abi::Sources>(&btf, "rvl_sources");
    compare::<abi::FlowKey>(&btf, "rvl_flow_key");
    compare::<abi::FlowValue>(&btf, "rvl_flow");
    compare::<abi::QuestionKey>(&btf, "rvl_question_key");
    compare::<abi::Answer>(&btf, "rvl_answer");
    compare::<abi::Record>(&btf, "rvl_record");
    compare::<abi::State>(&btf, "ravelin_state");
    compare::<abi::Defaults>(&btf, "ravelin_defaults");
    compare::<abi::FileReport>(&btf, "rvl_file_report");
    compare::<abi::SocketReport>(&btf, "rvl_socket_report");
}

#[test]
fn counters_have_one_name_each() {
    let header = include_str!("../../../../bpf/include/abi.h");
    for (number, name) in abi::COUNTERS.iter().enumerate() {
        assert!(header.contains(&format!(", {name}, ")), "{name}");
        assert!(!abi::COUNTERS[..number].contains(name), "{name} twice");
    }
    assert!(header.contains(&format!("#define RVL_ABI {}\n", abi::ABI)));
    assert_eq!(abi::ABIS_BEFORE, [abi::ABI - 1, abi::ABI - 2]);
    assert!(header.contains(&format!("#define RVL_ITEMS {}", abi::ITEMS)));
    assert!(header.contains(&format!("#define RVL_NAME {}", abi::NAME)));
    assert!(header.contains(&format!("#define RVL_ACCEPTS {}\n", abi::ACCEPTS)));
    assert!(header.contains(&format!("#define RVL_SOURCE_SETS {}\n", abi::SOURCE_SETS)));
    assert!(header.contains(&format!("#define RVL_SOURCE_EACH {}\n", abi::SOURCE_EACH)));
    assert!(header.contains(&format!("#define RVL_LIMITS_ACCEPT {}\n", abi::LIMITS_ACCEPT)));
    for (name, value) in [
        ("LISTS", abi::LISTS as usize),
        ("CHOICES", abi::CHOICES as usize),
        ("LIST_CHOICES", abi::LIST_CHOICES),
        ("ANCESTORS", abi::ANCESTORS as usize),
        ("GROUPS", abi::GROUPS as usize),
        ("GROUP_PATH", abi::GROUP_PATH),
        ("PLACE_NAME", abi::PLACE_NAME),
        ("RESERVED_FLOWS", abi::RESERVED_FLOWS),
        ("SHAPES", abi::SHAPES),
        ("ANY_DSCP", usize::from(abi::ANY_DSCP)),
        ("LIVE_EACH", abi::LIVE_EACH),
        ("LIVE_ALL", abi::LIVE_ALL as usize),
        ("APP_REFUSED", usize::from(abi::APP_REFUSED)),
        ("FLOWS", abi::FLOWS),
        ("TUN_QUEUES", abi::TUN_QUEUES),
        ("SOCKET_QUEUES", abi::SOCKET_QUEUES),
        ("FLOWS_APPS", abi::FLOWS_APPS as usize),
        ("FLOWS_ALL", abi::FLOWS_ALL as usize),
        ("FLOW_OUT", usize::from(abi::FLOW_OUT)),
        ("FLOW_IN", usize::from(abi::FLOW_IN)),
        ("FLOW_RESET", usize::from(abi::FLOW_RESET)),
    ] {
        assert!(header.contains(&format!("#define RVL_{name} {value}")), "{name}");
    }
    assert!(header.contains(&format!("#define RVL_T_KINDS {}", abi::TRAFFIC_KINDS)));
    assert!(header.contains(&format!("#define RVL_T_REASON {}", abi::TRAFFIC_REASON)));
    assert!(header.contains(&format!("#define RVL_T_WOULD_REASON {}", abi::TRAFFIC_WOULD_REASON)));
    assert!(header.contains(&format!("#define RVL_HOOK_OBSERVED {:#x}", abi::HOOK_OBSERVED)));
    assert!(header.contains(&format!("#define RVL_ANSWER {} ", abi::ANSWER)));
    assert!(header.contains(&format!("#define RVL_APP_NUMBERS {} ", abi::APP_NUMBERS)));
    assert!(header.contains(&format!("#define RVL_TABLE_LAST {:#x}u", abi::TABLE_LAST)));
    assert!(header.contains(&format!("#define RVL_ORDER_APPS {:#x}u", abi::ORDER_APPS)));
    for (name, value) in [
        ("SERVICE_NAMED", wire::Services::ENCRYPTED.named().bits() - wire::Services::ENCRYPTED.bits()),
        ("SERVICE_AUTHENTICATED", wire::Services::AUTHENTICATED.bits()),
        ("SERVICE_CUSTOM", wire::Services::CUSTOM.bits()),
        ("SERVICE_ALL", wire::Services::ENCRYPTED.bits()),
        ("ORDER_HIGH", abi::ORDER_HIGH),
        ("ORDER_LOW", abi::ORDER_LOW),
        ("ORDER_REFUSE", abi::ORDER_REFUSE),
        ("ORDER_TO", abi::ORDER_TO),
        ("ORDER_FROM", abi::ORDER_FROM),
        ("ORDER_GENERATION", abi::ORDER_GENERATION as u8),
    ] {
        assert!(header.contains(&format!("#define RVL_{name} {value}")), "{name}");
    }
    assert!(header.contains(&format!("#define RVL_LIVE_SAS {} ", sadb::MAX_SAS)));
    for (name, value) in [
        ("APP", abi::mark::APP),
        ("STAMPED", abi::mark::STAMPED),
        ("AUTHENTICATED", abi::mark::AUTHENTICATED),
        ("ENCRYPTED", abi::mark::ENCRYPTED),
        ("PROOF", abi::mark::PROOF),
        ("FORWARDED", abi::mark::FORWARDED),
        ("ARRIVED", abi::mark::ARRIVED),
        ("USER", abi::mark::USER),
    ] {
        assert!(header.contains(&format!("#define RVL_MARK_{name} {value:#010x}u")), "{name}");
    }
}
