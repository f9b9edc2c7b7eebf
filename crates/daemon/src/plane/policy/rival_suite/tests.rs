//! A change of the policy, and what `sa add` asks, refuse an association and an item of two ciphers of one's own, with
//! both in words. Nothing names such a suite in a request or in a policy's text yet, so the pairs are made here.

use std::sync::Arc;

use crypto::custom::{BlockKey, CustomCipher, CustomDescription, CustomKey, Primitive, SetKeyError};
use crypto::{Registry, Secret, SuiteId, Suites, UnitFailed};
use crypto_std::CustomProvider;
use sadb::sa::SaOptions;
use sadb::spd::{AppPolicy, Item, Terms};
use sadb::{Direction, Endpoints, InboundSa, Mode, Selectors};
use wire::AppId;

use super::*;
use crate::handlers::tests::{Folder, plane_over};
use crate::monitor::recorder::Recorder;
use crate::plane::Plane;
use crate::plane::policy::Files;
use crate::policy_store::Candidate;

/// No cipher that hides anything.
struct Toy(CustomDescription);

struct ToyKey;

impl CustomCipher for Toy {
    fn description(&self) -> &CustomDescription {
        &self.0
    }

    fn set_key(&self, _: &[u8]) -> Result<CustomKey, SetKeyError> {
        Ok(CustomKey::Block(Box::new(ToyKey)))
    }
}

impl BlockKey for ToyKey {
    fn encrypt_blocks(&self, _: &mut [u8]) -> Result<(), UnitFailed> {
        Ok(())
    }

    fn decrypt_blocks(&self, _: &mut [u8]) -> Result<(), UnitFailed> {
        Ok(())
    }
}

fn registry() -> Registry {
    let toys = ["toya", "toyb"].map(|name| {
        Toy(CustomDescription {
            name: name.to_owned(),
            version: "1".to_owned(),
            vendor: "tests".to_owned(),
            primitive: Primitive::Block { block_len: 16 },
            key_len: 16,
            max_octets: None,
        })
    });
    let mut suites = Suites::standard();
    for (toy, id) in toys.iter().zip([50_000, 50_010]) {
        suites.register(&toy.0, id, false).unwrap();
    }
    let registry = Registry::new().with_suites(suites.clone());
    toys.into_iter()
        .fold(registry, |registry, toy| registry.with(CustomProvider::new(Arc::new(toy), &suites).unwrap()))
}

fn config(suite: SuiteId, app: AppId) -> SaConfig {
    SaConfig {
        spi: Spi(0x1000),
        direction: Direction::Inbound,
        mode: Mode::Tunnel,
        suite,
        keymat: Secret::new(vec![7; suite.keymat_len()]),
        endpoints: Endpoints {
            local: "192.0.2.1".parse().unwrap(),
            remote: "192.0.2.2".parse().unwrap(),
            local_port: 4500,
            remote_port: 4500,
        },
        selectors: Selectors { app: Some(app), ..Selectors::ANY },
        replay_window: 64,
        path_mtu: 1500,
        options: SaOptions::default(),
    }
}

/// The candidate with this suite in every item of the application.
fn naming(mut candidate: Candidate, app: AppId, suite: SuiteId) -> Candidate {
    let spd = &mut candidate.compiled.spd;
    let policy = spd.get(app).unwrap();
    let name = |item: &Item| {
        let terms = Terms { suite: Some(suite), ..item.terms };
        Item { terms, services: terms.demanding(item.services.unnamed()), ..*item }
    };
    let items = policy.protections().iter().map(|items| items.iter().map(name).collect()).collect();
    let named = AppPolicy::new(policy.networks().to_vec(), items);
    spd.insert(app, named);
    spd.generation += 1;
    candidate
}

async fn add(plane: &Plane, registry: &Registry, config: SaConfig) {
    let sa = InboundSa::new(config, registry).unwrap();
    plane.halves().ask_inbound(move |half| half.engine.add_sa(sa)).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_policy_and_an_association_of_two_ciphers_do_not_come_together() {
    let folder = Folder::new("rival-suite");
    let mut plane = plane_over(Recorder::default(), folder.config(), Some(&folder.0));
    let registry = registry();
    let suite = |text| registry.suites().find(text).unwrap();
    let (a, b) = (suite("toyactr-sha256"), suite("toybctr-sha256"));
    let app = plane.policy().app("curl").unwrap();

    // The association first: the policy is refused, and the one before decides everywhere.
    plane.policy().admits(&config(b, app)).unwrap();
    add(&plane, &registry, config(b, app)).await;
    let before = plane.policy().generation();
    let rival = naming(plane.policy.read().unwrap(), app, a);
    let refused = plane.change_policy(rival, Files::Stay).await.unwrap_err();
    for part in ["0x00001000", "192.0.2.2", "toybctr-sha256", "line 1", "curl", "toyactr-sha256"] {
        assert!(refused.message.contains(part), "{part}: {}", refused.message);
    }
    assert!(refused.remedy.as_deref().unwrap().contains("sa delete 0x00001000"));
    assert_eq!(plane.policy().generation(), before);
    let own = naming(plane.policy.read().unwrap(), app, b);
    plane.change_policy(own, Files::Stay).await.unwrap();
    assert!(plane.policy().generation() > before);

    // The policy first: so is the association, but not one that the item names, nor one of another application.
    plane.policy().admits(&config(b, app)).unwrap();
    plane.policy().admits(&config(a, AppId(app.0 + 1))).unwrap();
    let refused = plane.policy().admits(&config(a, app)).unwrap_err();
    for part in ["0x00001000", "toyactr-sha256", "line 1", "curl", "toybctr-sha256"] {
        assert!(refused.message.contains(part), "{part}: {}", refused.message);
    }
    assert!(refused.remedy.as_deref().unwrap().contains("toybctr-sha256"));
}
