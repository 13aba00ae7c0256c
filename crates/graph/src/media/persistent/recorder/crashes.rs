//! The states that a crash may leave, out of what a [`Recorder`] has seen.

use biombo_base::io::sim::Random;

use super::{Event, Forgotten, LINE_WORDS, Recorder, State};

/// Up to so many words or lines every subset of them is made.
pub(crate) const SUBSETS_OF: usize = 6;

/// What a crash leaves of what was not persistent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Crash {
    /// The process dies: all of it, and a random part of the store that it was at, or maybe the change of a name, which is not persistent.
    Kill(u64),
    /// The power: the last versions of the words with a bit here, in their order.
    Words(u64),
    /// Of all words of the lines with a bit here.
    Lines(u64),
    /// Of no word.
    Nothing,
    /// Of every word.
    Everything,
    /// Every line but one.
    AllBut(u64),
    /// Of each line, or each word, at random.
    RandomLines(u64),
    RandomWords(u64),
}

/// A history that is cut at one event after the other.
pub(crate) struct CrashPoints {
    state: State,
    events: Vec<Event>,
    forgotten: Option<Forgotten>,
    at: usize,
    step: &'static str,
}

impl Recorder {
    /// The history, to be cut anywhere.
    pub(crate) fn crash_points(&self) -> CrashPoints {
        let inner = self.lock();
        let (state, events, forgotten) = (inner.base.clone(), inner.events.clone(), inner.forgotten);
        CrashPoints { state, events, forgotten, at: 0, step: "before all" }
    }
}

impl CrashPoints {
    /// How much had happened.
    pub(crate) fn cut(&self) -> usize {
        self.at
    }

    /// What the program was at.
    pub(crate) fn step(&self) -> &'static str {
        self.step
    }

    /// The event that did not happen, or not wholly: its kind and the region's, numbers left out.
    pub(crate) fn label(&self) -> String {
        let kind = |name: &str| name.split('-').next().unwrap_or(name).to_owned();
        let of = |memory: &usize| kind(self.state.name_of(*memory));
        match self.events.get(self.at) {
            None => "end".to_owned(),
            Some(Event::Step(_)) => "nothing".to_owned(),
            Some(Event::Create(name, _)) => format!("create {}", kind(name)),
            Some(Event::Rename(from, to)) => format!("rename {} -> {}", kind(from), kind(to)),
            Some(Event::Remove(name)) => format!("remove {}", kind(name)),
            Some(Event::Settle) => "settle names".to_owned(),
            Some(Event::Store(memory, ..)) => format!("store {}", of(memory)),
            Some(Event::WriteBack(memory, ..)) => format!("write back {}", of(memory)),
            Some(Event::Fence(memory)) => format!("fence {}", of(memory)),
        }
    }

    /// The next event; false at the end.
    pub(crate) fn advance(&mut self) -> bool {
        let Some(event) = self.events.get(self.at) else { return false };
        self.state.apply(event);
        if let Event::Step(name) = event {
            self.step = name;
        }
        self.at += 1;
        true
    }

    fn pending(&self) -> Vec<(usize, usize)> {
        let memories = self.state.memories.iter().enumerate();
        memories.flat_map(|(memory, of)| of.pending.keys().map(move |word| (memory, *word))).collect()
    }

    fn lines(&self) -> Vec<(usize, usize)> {
        let mut lines: Vec<_> = self.pending().iter().map(|(memory, word)| (*memory, word / LINE_WORDS)).collect();
        lines.dedup();
        lines
    }

    /// What may be left here. Between two fences or changes of names the states of power cuts are all among those before the second one, so
    /// there are none elsewhere: all subsets of words or lines where they are few, otherwise `samples` of them; and the death of the process.
    pub(crate) fn crashes(&self, samples: usize, random: &mut Random) -> Vec<Crash> {
        let mut crashes = Vec::new();
        let event = self.events.get(self.at);
        match event {
            Some(Event::Step(_) | Event::WriteBack(..)) => return crashes,
            Some(Event::Store(..)) => return vec![Crash::Kill(random.next())],
            _ => crashes.push(Crash::Kill(random.next())),
        }
        let (words, lines) = (self.pending().len(), self.lines().len());
        if words <= SUBSETS_OF {
            crashes.extend((0..1 << words).map(Crash::Words));
        } else if lines <= SUBSETS_OF {
            crashes.extend((0..1 << lines).map(Crash::Lines));
        } else {
            crashes.extend([Crash::Nothing, Crash::Everything]);
        }
        let versions = self.state.memories.iter().flat_map(|memory| memory.pending.values());
        if words > SUBSETS_OF || versions.into_iter().any(|(versions, _)| versions.len() > 1) {
            for sample in 0..samples {
                let seed = random.next();
                crashes.push(match sample % 3 {
                    0 => Crash::AllBut(seed),
                    1 => Crash::RandomLines(seed),
                    _ => Crash::RandomWords(seed),
                });
            }
        }
        crashes
    }

    /// What is left.
    pub(crate) fn image(&self, crash: Crash) -> Recorder {
        let mut state = self.state.clone();
        if let Crash::Kill(seed) = crash {
            let mut random = Random(seed);
            match self.events.get(self.at) {
                Some(Event::Store(memory, offset, bytes)) => {
                    state.memories[*memory].store(*offset as usize, bytes, || random.below(2) == 0);
                }
                Some(event @ (Event::Create(..) | Event::Rename(..))) if random.below(2) == 0 => {
                    state.apply_unsettled(event);
                }
                _ => {}
            }
            return Recorder::of(state, self.forgotten);
        }
        let (words, lines) = (self.pending(), self.lines());
        let mut random = Random(match crash {
            Crash::AllBut(seed) | Crash::RandomLines(seed) | Crash::RandomWords(seed) => seed,
            _ => 0,
        });
        let missing = random.below(lines.len().max(1) as u64) as usize;
        let coins: Vec<bool> = lines.iter().map(|_| random.below(2) == 0).collect();
        for (number, memory) in state.memories.iter_mut().enumerate() {
            *memory = self.state.memories[number].cut(|word, versions| {
                let line = || lines.binary_search(&(number, word / LINE_WORDS)).expect("a pending word's line");
                let is_there = match crash {
                    Crash::Words(mask) => {
                        mask >> words.binary_search(&(number, word)).expect("a pending word") & 1 == 1
                    }
                    Crash::Lines(mask) => mask >> line() & 1 == 1,
                    Crash::AllBut(_) => line() != missing,
                    Crash::RandomLines(_) => coins[line()],
                    Crash::RandomWords(_) => return random.below(versions as u64 + 1) as usize,
                    Crash::Nothing => false,
                    Crash::Everything | Crash::Kill(_) => true,
                };
                if is_there { versions } else { 0 }
            });
        }
        let mut comes_back = || match crash {
            Crash::Words(mask) | Crash::Lines(mask) => mask == 0,
            Crash::Nothing => true,
            Crash::Everything => false,
            _ => random.below(2) == 0,
        };
        if let Some(names) = state.unsettled.take()
            && comes_back()
        {
            state.names = names;
        }
        for (name, memory) in std::mem::take(&mut state.ghosts) {
            if comes_back() && !state.names.contains_key(&name) {
                state.names.insert(name, memory);
            }
        }
        Recorder::of(state, self.forgotten)
    }
}
