//! A chorus of sockets of every kind that goes on whatever happens (`programs/voices.py`), and how to know that it went on.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, ensure};
use lab::{Program, Running, Side};

use crate::kinds::{Over, PORT, Stage};
use crate::{PATIENCE, try_wait_until};

const VOICES: &str = include_str!("../programs/voices.py");

/// How many voices there are.
const COUNT: usize = 8;

/// Times that each voice asked, and times that it was answered, by the voice's name.
type Score = BTreeMap<String, (u64, u64)>;

/// A running chorus on alice.
pub struct Voices {
    running: Running,
    over: Over,
}

impl Voices {
    /// Start it; returns when it sings.
    ///
    /// # Errors
    /// If it does not.
    pub fn start(stage: &Stage, python: &Path, over: Over) -> anyhow::Result<Voices> {
        let peer = over.address(Side::Bob).to_string();
        let program = Program::new(python).args(["-u", "-c", VOICES, &peer, &PORT.to_string()]);
        let voices = Voices { running: stage.rig.lab.alice().spawn(program)?, over };
        try_wait_until("the chorus", PATIENCE, || Ok(voices.score()?.len() == COUNT))
            .with_context(|| voices.running.output().chars().take(2000).collect::<String>())?;
        Ok(voices)
    }

    fn score(&self) -> anyhow::Result<Score> {
        let output = self.running.output();
        // The last line may be half printed.
        let Some(line) = output.rsplit('\n').nth(1) else { return Ok(Score::new()) };
        let number = |word: Option<&str>| word.and_then(|word| word.parse().ok());
        let voice = |text: &str| {
            let mut words = text.split(' ');
            Some((words.next()?.to_owned(), (number(words.next())?, number(words.next())?)))
        };
        line.split(';')
            .map(voice)
            .collect::<Option<Score>>()
            .with_context(|| format!("the chorus said `{line}`"))
    }

    /// Wait until every voice has asked `times` more.
    ///
    /// # Errors
    /// With who has not.
    pub fn go_on(&self, times: u64) -> anyhow::Result<()> {
        self.wait("every voice has asked", times, |score| score.0)
    }

    /// Wait until every voice was answered `times` more.
    ///
    /// # Errors
    /// With who was not.
    pub fn answered(&self, times: u64) -> anyhow::Result<()> {
        self.wait("every voice is answered", times, |score| score.1)
    }

    fn wait(&self, what: &str, times: u64, of: impl Fn((u64, u64)) -> u64) -> anyhow::Result<()> {
        let before = self.score()?;
        ensure!(before.len() == COUNT, "{before:?}");
        let mut silent = Vec::new();
        try_wait_until(&format!("{what}, {}", self.over), PATIENCE * 2, || {
            let now = self.score()?;
            let still = now.iter().filter(|(name, score)| of(**score) < of(before[*name]) + times);
            silent = still.map(|(name, score)| format!("{name} {score:?}")).collect();
            Ok(silent.is_empty())
        })
        .with_context(|| format!("not {}", silent.join(", ")))
    }
}
