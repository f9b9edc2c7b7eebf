//! `/metrics`: what the graph of classes has done, in the text form of Prometheus (exposition format 0.0.4).
//!
//! What enters: the answer of `/v1/qos`, so that both always agree. What leaves: families `ravelin_qos_*` in seconds,
//! bytes and packets. docs/qos.md lists them. Without a graph there is `ravelin_qos_in_force` alone, with 0.

use std::fmt::Error;

use api::{
    QosClassCounts, QosComponentState, QosDirection, QosDirectionState, QosKernelCounts, QosResource,
    QosResourceKind, QosState, QosUnitState, path,
};
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use control::answer::Failure;
use documents::api_error::{ApiError, Blame};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{
    DescriptorEncoder, EncodeCounterValue, EncodeGaugeValue, MetricEncoder, NoLabelSet, prometheus_text,
};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;

use super::qos;
use crate::plane::Shared;

pub(super) async fn metrics(State(plane): State<Shared>) -> Result<impl IntoResponse, Failure> {
    let text = text(qos::look(&plane).await?);
    let text = text.map_err(|_| ApiError::new(Blame::Failed, "the metrics cannot be written as text"))?;
    Ok(([(CONTENT_TYPE, path::METRICS_CONTENT_TYPE)], text))
}

/// The families of a state, as text.
fn text(state: QosState) -> Result<String, Error> {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Families(state)));
    let mut out = String::new();
    prometheus_text::encode(&mut out, &registry)?;
    Ok(out)
}

/// The labels of a sample, with their values.
type Labels<'a> = Vec<(&'static str, &'a str)>;

/// The families of metrics of a state.
#[derive(Debug)]
struct Families(QosState);

impl Collector for Families {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), Error> {
        let in_force = u64::from(self.0.file.is_some());
        let help = "1 if a graph of classes is in force, 0 if packets pass in the order of their arrival";
        let mut family = encoder.encode_descriptor("ravelin_qos_in_force", help, None, MetricType::Gauge)?;
        family.encode_gauge(&in_force)?;
        if self.0.file.is_none() {
            return Ok(());
        }
        self.places(&mut encoder)?;
        self.classes(&mut encoder)?;
        self.kernel_queues(&mut encoder)?;
        self.units(&mut encoder)?;
        self.components(&mut encoder)?;
        self.reservations(&mut encoder)
    }
}

/// A family of counters or gauges over the samples of a kind, with the value of each.
struct Family<S, V> {
    name: &'static str,
    help: &'static str,
    value: fn(&S) -> V,
}

const fn family<S, V>(name: &'static str, help: &'static str, value: fn(&S) -> V) -> Family<S, V> {
    Family { name, help, value }
}

impl<S, V> Family<S, V> {
    fn counter(&self, encoder: &mut DescriptorEncoder<'_>, samples: &[(Labels<'_>, &S)]) -> Result<(), Error>
    where
        V: EncodeCounterValue,
    {
        let mut family = encoder.encode_descriptor(self.name, self.help, None, MetricType::Counter)?;
        for (labels, sample) in samples {
            count(&mut family, labels, (self.value)(sample))?;
        }
        Ok(())
    }

    fn gauge(&self, encoder: &mut DescriptorEncoder<'_>, samples: &[(Labels<'_>, &S)]) -> Result<(), Error>
    where
        V: EncodeGaugeValue,
    {
        let mut family = encoder.encode_descriptor(self.name, self.help, None, MetricType::Gauge)?;
        for (labels, sample) in samples {
            family.encode_family(labels)?.encode_gauge(&(self.value)(sample))?;
        }
        Ok(())
    }
}

fn count(
    family: &mut MetricEncoder<'_>,
    labels: &Labels<'_>,
    value: impl EncodeCounterValue,
) -> Result<(), Error> {
    family.encode_family(labels)?.encode_counter::<NoLabelSet, _, u64>(&value, None)
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

const fn word(direction: QosDirection) -> &'static str {
    match direction {
        QosDirection::In => "in",
        QosDirection::Out => "out",
    }
}

impl Families {
    /// The samples of a list that each direction has, with their labels behind that of the direction.
    fn samples<'a, S>(
        &'a self,
        list: fn(&api::QosDirectionState) -> &[S],
        labels: fn(&'a S) -> Labels<'a>,
    ) -> Vec<(Labels<'a>, &'a S)> {
        let of_direction = |direction: &'a api::QosDirectionState| {
            let first = ("direction", word(direction.direction));
            let sample = move |sample| (std::iter::once(first).chain(labels(sample)).collect(), sample);
            list(direction).iter().map(sample)
        };
        self.0.directions.iter().flat_map(of_direction).collect()
    }

    /// The places for packets that wait in the graph.
    fn places(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), Error> {
        let directions: Vec<_> = self
            .0
            .directions
            .iter()
            .map(|direction| (vec![("direction", word(direction.direction))], direction))
            .collect();
        let used = "Packets that wait in the graph; a super-packet is one";
        family("ravelin_qos_places_used", used, |of: &api::QosDirectionState| of.waiting)
            .gauge(encoder, &directions)?;
        family("ravelin_qos_places", "Packets that can wait in the graph", |of: &api::QosDirectionState| {
            of.room
        })
        .gauge(encoder, &directions)?;
        let none = "Packets that were dropped since no place was left, whatever their class";
        family("ravelin_qos_no_place_packets", none, |of: &api::QosDirectionState| of.no_place)
            .counter(encoder, &directions)
    }

    /// The classes at each hook.
    fn classes(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), Error> {
        let classes = self.samples(
            |direction| &direction.classes,
            |of: &QosClassCounts| vec![("hook", &of.hook), ("class", &of.class)],
        );
        for family in [
            family(
                "ravelin_qos_arrived_packets",
                "Packets that came to a queue, by hook and class; a super-packet counts as its pieces",
                |of: &QosClassCounts| of.arrived,
            ),
            family("ravelin_qos_left_packets", "Packets that left a queue", |of| of.left),
            family(
                "ravelin_qos_given_back_packets",
                "Packets that were classified again in an exchange of graphs",
                |of| of.given_back,
            ),
        ] {
            family.counter(encoder, &classes)?;
        }
        let help = "Packets that were dropped at a queue, by reason";
        let mut dropped =
            encoder.encode_descriptor("ravelin_qos_dropped_packets", help, None, MetricType::Counter)?;
        for (labels, of) in &classes {
            for (reason, packets) in &of.dropped {
                let labels = labels.iter().copied().chain([("reason", reason.as_str())]).collect();
                count(&mut dropped, &labels, *packets)?;
            }
        }
        family(
            "ravelin_qos_served_seconds",
            "Work that units were given from a queue, by its expected cost",
            |of: &QosClassCounts| seconds(of.served_ns),
        )
        .counter(encoder, &classes)?;
        for family in [
            family("ravelin_qos_backlog_packets", "Packets that wait at a queue", |of: &QosClassCounts| {
                of.waiting
            }),
            family("ravelin_qos_backlog_bytes", "Octets of the packets that wait at a queue", |of| {
                of.waiting_octets
            }),
            family(
                "ravelin_qos_longest_loss_packets",
                "The most packets of a class that a queue lost one after the other",
                |of| of.longest_loss,
            ),
        ] {
            family.gauge(encoder, &classes)?;
        }
        family(
            "ravelin_qos_backlog_seconds",
            "Work that the packets which wait at a queue are expected to cost",
            |of: &QosClassCounts| seconds(of.waiting_ns),
        )
        .gauge(encoder, &classes)?;
        let help = "Time from the arrival of a packet in the gateway until it left a queue";
        let mut sojourns =
            encoder.encode_descriptor("ravelin_qos_sojourn_seconds", help, None, MetricType::Histogram)?;
        let bounds = self.0.sojourn_bounds_ns.iter().map(|ns| seconds(*ns)).chain([f64::INFINITY]);
        let bounds: Vec<f64> = bounds.collect();
        for (labels, of) in &classes {
            let sojourn = &of.sojourn;
            let buckets: Vec<(f64, u64)> =
                bounds.iter().copied().zip(sojourn.buckets.iter().copied()).collect();
            sojourns.encode_family(labels)?.encode_histogram::<NoLabelSet>(
                seconds(sojourn.sum_ns),
                sojourn.count(),
                &buckets,
                None,
            )?;
        }
        Ok(())
    }

    /// The queues in the kernel.
    fn kernel_queues(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), Error> {
        let names: Vec<Vec<(String, String)>> = self
            .0
            .directions
            .iter()
            .map(|direction| {
                let name = |of: &QosKernelCounts| (of.queue.to_string(), of.classes.join(","));
                direction.kernel_queues.iter().map(name).collect()
            })
            .collect();
        let mut queues = Vec::new();
        for (direction, names) in self.0.directions.iter().zip(&names) {
            for ((queue, classes), of) in names.iter().zip(&direction.kernel_queues) {
                let labels: Labels<'_> = vec![
                    ("direction", word(direction.direction)),
                    ("queue", queue.as_str()),
                    ("class", classes.as_str()),
                ];
                queues.push((labels, of));
            }
        }
        for family in [
            family(
                "ravelin_qos_kernel_arrived_packets",
                "Packets that came to a kernel queue; a super-packet is one",
                |of: &QosKernelCounts| of.arrived,
            ),
            family("ravelin_qos_kernel_taken_packets", "Packets that were taken from a kernel queue", |of| {
                of.taken
            }),
            family(
                "ravelin_qos_kernel_lost_packets",
                "Packets that the kernel half dropped, since the kernel queue was full",
                |of| of.lost,
            ),
        ] {
            family.counter(encoder, &queues)?;
        }
        for family in [
            family(
                "ravelin_qos_kernel_backlog_packets",
                "Packets that wait in a kernel queue",
                |of: &QosKernelCounts| of.waiting,
            ),
            family(
                "ravelin_qos_kernel_limit_packets",
                "The most packets that wait in a kernel queue",
                |of| of.limit,
            ),
        ] {
            family.gauge(encoder, &queues)?;
        }
        Ok(())
    }

    /// What reservations take, of what can be reserved.
    fn reservations(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), Error> {
        let help = "Reservations that are held";
        let mut held =
            encoder.encode_descriptor("ravelin_qos_reservations", help, None, MetricType::Gauge)?;
        held.encode_gauge(&self.0.reservations)?;
        let kind = |of: &QosResource| match of.kind {
            QosResourceKind::Unit => "unit",
            QosResourceKind::Uplink => "uplink",
        };
        let mut resources: Vec<(Labels<'_>, &QosResource)> = Vec::new();
        for of in &self.0.resources {
            resources.push((vec![("kind", kind(of)), ("name", of.name.as_str())], of));
        }
        for family in [
            family(
                "ravelin_qos_reservable",
                "Nanoseconds of a unit, or octets of an uplink, that can be reserved in each second",
                |of: &QosResource| of.reservable,
            ),
            family("ravelin_qos_reserved", "What reservations take of it in each second", |of| of.reserved),
        ] {
            family.gauge(encoder, &resources)?;
        }
        Ok(())
    }

    /// The components from outside.
    fn components(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), Error> {
        let components = self.samples(
            |direction| &direction.components,
            |of: &QosComponentState| vec![("hook", of.hook.as_str()), ("library", of.library.as_str())],
        );
        for family in [
            family(
                "ravelin_qos_component_packets",
                "Packets that a component from outside judged",
                |of: &QosComponentState| of.packets,
            ),
            family("ravelin_qos_component_dropped_packets", "Packets that it ended", |of| of.dropped),
            family(
                "ravelin_qos_component_unjudged_packets",
                "Packets that came when it was detached",
                |of| of.unjudged,
            ),
            family("ravelin_qos_component_over_budget_calls", "Calls beyond its budget of time", |of| {
                of.over_budget
            }),
        ] {
            family.counter(encoder, &components)?;
        }
        family(
            "ravelin_qos_component_detached",
            "1 if a component from outside is not called any more",
            |of: &QosComponentState| u64::from(of.detached.is_some()),
        )
        .gauge(encoder, &components)
    }

    /// The crypto units with their marks.
    fn units(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), Error> {
        let units =
            self.samples(|direction| &direction.units, |of: &QosUnitState| vec![("unit", of.unit.as_str())]);
        family(
            "ravelin_qos_unit_busy_seconds",
            "Time that a unit spent on its work, input and output with it; its rate is the load",
            |of: &QosUnitState| seconds(of.busy_ns),
        )
        .counter(encoder, &units)?;
        family("ravelin_qos_unit_backlog_packets", "Packets that wait for a unit", |of: &QosUnitState| {
            of.waiting
        })
        .gauge(encoder, &units)?;
        for family in [
            family("ravelin_qos_unit_backlog_seconds", "Work that waits for a unit", |of: &QosUnitState| {
                seconds(of.waiting_ns)
            }),
            family("ravelin_qos_unit_committed_seconds", "Work that is committed to a unit", |of| {
                seconds(of.committed_ns)
            }),
            family(
                "ravelin_qos_unit_low_mark_seconds",
                "The unit asks for work when no more than this is committed to it",
                |of| seconds(of.low_ns),
            ),
            family("ravelin_qos_unit_high_mark_seconds", "The unit gets work up to this", |of| {
                seconds(of.high_ns)
            }),
        ] {
            family.gauge(encoder, &units)?;
        }
        let faults: Vec<_> = self
            .0
            .directions
            .iter()
            .map(|direction| (vec![("direction", word(direction.direction))], direction))
            .collect();
        for family in [
            family(
                "ravelin_qos_units_failed",
                "Units that were taken out, since they did not answer within 100 ms or their thread has ended",
                |of: &QosDirectionState| of.unit_faults.failed,
            ),
            family(
                "ravelin_qos_unit_late_answers",
                "Answers of units to work that had been given up",
                |of| of.unit_faults.late,
            ),
            family(
                "ravelin_qos_unit_disordered_answers",
                "Answers of units that came before those to older work",
                |of| of.unit_faults.disordered,
            ),
        ] {
            family.counter(encoder, &faults)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
