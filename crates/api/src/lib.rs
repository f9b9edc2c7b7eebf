//! The control API's types: what travels as JSON over the daemon's Unix socket and what `--json` prints.
//!
//! Commands send requests; the daemon sends answers, the same documents that a read command prints. Every answer is an
//! object with `"api": 1`, and has a JSON Schema ([`schema`]). Within a version fields are only added, readers ignore those they do not know, and requests
//! with unknown fields are refused. SPIs are strings (`"0x0000c0de"`), addresses are strings, counters are integers,
//! and enum values are lower-case words. A key appears in requests only, in [`SaAdd::keymat`] and
//! [`ReplaceOne::keymat`]: no document that leaves has a field for one (docs/design/0003).
#![forbid(unsafe_code)]

mod capture;
mod cipher;
mod cipher_ct;
mod cipher_stats;
mod counters;
mod debug;
mod demo;
mod doctor;
mod envelope;
mod event;
mod explain;
mod flow;
mod hardening;
mod import;
mod inline;
mod keymat;
mod names;
mod pin;
mod policy;
mod policy_change;
mod qos;
mod qos_component;
mod qos_in_force;
mod qos_reservation;
mod qos_sojourn;
mod qos_top;
mod replay;
mod sa;
mod sa_change;
mod sa_options;
mod scrub;
mod scrubbed;
mod spd;
mod spi;
mod status;
mod traffic;
mod translation;

pub mod openapi;
pub mod operation;
pub mod path;
pub mod schema;

pub use capture::{CaptureForm, CaptureInfo, CaptureList, CaptureRequest, CaptureStopped};
pub use cipher::{
    CipherCheck, CipherChecked, CipherCost, CipherInstalled, CipherIsolation, CipherLength, CipherMeasured,
    CipherMix, CipherPacked,
};
pub use cipher_ct::{CipherCt, CtCheck, CtControl};
pub use cipher_stats::{
    Avalanche, CipherStats, StatsControl, StatsDistribution, StatsLeftOut, StatsOutside, StatsTest,
};
pub use counters::{Count, Counters, CountersSection, Line};
pub use debug::{DebugRequest, DebugState};
pub use demo::{DemoCheck, DemoReport};
pub use doctor::{Check, CheckState, Doctor};
pub use envelope::{CommandProblem, CommandRefusal, Problem, Refusal, VERSION, Version, Versioned};
pub use event::{
    Acquire, Audit, CipherChange, CipherChanged, CustomSuite, Event, Expire, IcmpSeen, LostEvents, PeerMoved,
    Pmtu, Ready, Released, SpdChange, SpdChanged, SpiAllocated, WantedSuite,
};
pub use explain::{
    AppRef, Decision, DropExplained, ExplainQuery, Explanation, FlowInfo, PolicyExplanation, Position,
    ProcessInfo, ScrubbedBy, SocketExplained, Verdict,
};
pub use flow::{CountedFlows, CountedQuery, FlowEnd, FlowInitiator, FlowRecord, FlowTable, Flows, LiveFlow};
pub use hardening::{Hardening, HardeningGroup, HardeningRemedy};
pub use import::{ImportChecked, Imported};
pub use inline::{
    InlineAmount, InlineCheck, InlineCheckInterface, InlineCheckLine, InlineCheckSettings, InlineDropped,
    InlineEvent, InlineEvents, InlineFlow, InlineFlows, InlineQuery, InlineRules, InlineSide, InlineStatus,
    InlineWorker,
};
pub use keymat::Keymat;
pub use names::{NameAddress, NameList, NameState, NamesState};
pub use pin::{PinnedFile, PinnedState};
pub use policy::{
    ChosenBy, Finding, KernelLoad, MissingProgram, Place, PolicyCheck, PolicyReload, PolicyState,
    PolicyTests, RefusedBlock, Related, Subjects, Waiting,
};
pub use policy_change::{
    ApplicationChange, Change, FlowChange, LimitChange, MAX_CONFIRM_SECONDS, PeersChange, PolicyAnswer,
    PolicyApplied, PolicyApply, PolicyPlan, PolicyText, SocketChange,
};
pub use qos::{
    QosApplied, QosApply, QosCapability, QosCheck, QosClassCounts, QosClassSums, QosCostSource, QosCosts,
    QosDelay, QosDirection, QosDirectionState, QosGraph, QosKernelCounts, QosKernelQueue, QosPacket,
    QosPathCost, QosPlan, QosPreset, QosPresets, QosSimulation, QosSimulationEnd, QosState, QosSuiteCost,
    QosTerms, QosUnit, QosUnitFaults, QosUnitState, QosVerdict, QosWindow,
};
pub use qos_component::{QosComponentCheck, QosComponentChecked, QosComponentState, QosComponentTrial};
pub use qos_in_force::{QosInForce, QosOrigin};
pub use qos_reservation::{
    QosFlow, QosHolder, QosRefresh, QosReservation, QosReservationRemoved, QosReservations, QosReserve,
    QosReserved, QosResource, QosResourceKind, QosTaken,
};
pub use qos_sojourn::QosSojourn;
pub use qos_top::{QosTop, QosTopClass, QosTopDirection, QosTopLoss, QosTopUnit};
pub use replay::{ReplayDirection, ReplayEnd, ReplayLine, ReplaySummary, ReplayVerdict};
pub use sa::{
    ClassOrMatch, Direction, Mode, PmtuInfo, SaAdd, SaAdded, SaCounters, SaDeleted, SaInfo, SaList,
    SelectorInfo,
};
pub use sa_change::{ReplaceOne, SaReplace, SaReplaced, SaUpdate, SaUpdated};
pub use sa_options::{DscpRule, Encapsulation, Headers, LifeState, Lifetime, Limits, SaType, WordOr};
pub use scrub::{
    ScrubChange, ScrubEnd, ScrubExplained, ScrubFlow, ScrubLine, ScrubReason, ScrubRule, ScrubRuleCount,
    ScrubRuleList, ScrubSummary, ScrubVerdict,
};
pub use scrubbed::{ScrubbedProfile, ScrubbedStatus};
pub use spd::{SpdAdd, SpdAdded, SpdCount, SpdDeleted, SpdDirection, SpdList, SpdRule};
pub use spi::{Spi, SpiRequest};
pub use status::{
    AppHealth, AppState, CipherState, CryptoMeasured, CryptoUnit, GatewayState, Health, RemoteAuditState,
    Status, StatusState, Traffic, TunState, UplinkState, WorkerCounts,
};
pub use traffic::{Amount, AppTraffic, AppTrafficList, Arrived, HandedOver, LeftTraffic, SentTraffic};
pub use translation::{SpdEntries, SpdEntry, TranslationState};
