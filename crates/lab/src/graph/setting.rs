//! Settings of a step that are neither its layout nor its place: how memory was allocated, in which batches edges came, and what the graph
//! went through before and meanwhile. Steps that differ in one of them are not trials of one thing.

use super::{BATCH, Record, Step};

/// The settings of a step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Setting<'a> {
    allocation: &'a str,
    /// Updates of each batch of ingest.
    batch: Option<usize>,
    /// The share of the edges that went and came back before.
    churn: Option<f64>,
    /// Whether updates came in meanwhile, and how many a second were asked for, where that is told.
    stream: Option<Option<u64>>,
}

impl<'a> Setting<'a> {
    /// Of one step.
    pub fn of(record: &'a Record) -> Self {
        let is_ingest = record.step == Step::Ingest;
        let streams = record.stream.is_some() || record.stream_per_s.is_some();
        Self {
            allocation: &record.allocation,
            batch: record.batch.or_else(|| is_ingest.then_some(BATCH)),
            churn: record.churn.filter(|churn| *churn > 0.0),
            stream: streams.then_some(record.stream),
        }
    }

    /// What of it `others` differ in, in words, each behind a comma; nothing where they do not.
    pub fn apart_from<'b>(self, others: impl IntoIterator<Item = Setting<'b>>) -> String {
        let mut apart = [false; 4];
        for other in others {
            let differs = [
                self.allocation != other.allocation,
                self.batch != other.batch,
                self.churn != other.churn,
                self.stream != other.stream,
            ];
            apart.iter_mut().zip(differs).for_each(|(apart, differs)| *apart |= differs);
        }
        let said = self.words().into_iter().zip(apart).filter(|(_, differs)| *differs);
        said.fold(String::new(), |all, (words, _)| all + ", " + &words)
    }

    fn words(self) -> [String; 4] {
        [
            match self.allocation {
                "" => "allocation not told".to_owned(),
                allocation => format!("allocation {allocation}"),
            },
            self.batch.map_or_else(|| "no batches".to_owned(), |batch| format!("batches of {batch}")),
            self.churn.map_or_else(|| "no churn".to_owned(), |churn| format!("churn {churn}")),
            match self.stream {
                None => "no stream".to_owned(),
                Some(None) => "a stream".to_owned(),
                Some(Some(rate)) => format!("stream of {rate}/s"),
            },
        ]
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::graph::parse_lines;

    /// A trial of `cc` over the layout `pma`, with `change`.
    pub(crate) fn trial(change: impl FnOnce(&mut Record)) -> Record {
        let line = concat!(
            r#"{"bench":"graph","graph":"kron:4:4","vertices":16,"edges":90,"layout":"pma","media":"dram","placement":"block","nodes":1,"#,
            r#""allocation":"bind","bind":"none","threads":1,"step":"kernel","kernel":"cc","trial":1,"seconds":0.5,"#,
            r#""answer":"xxh3:00","verified":true}"#
        );
        let (mut records, _) = parse_lines(line).unwrap();
        change(&mut records[0]);
        records.remove(0)
    }

    /// Fails if a setting makes no difference, or is said where others do not differ in it.
    #[test]
    fn what_steps_differ_in_is_said_and_nothing_else() {
        let plain = trial(|_| {});
        let streamed = trial(|record| (record.stream, record.stream_per_s) = (Some(20_000), Some(19_000.5)));
        let earlier = trial(|record| record.stream_per_s = Some(19_000.5));
        let churned = trial(|record| record.churn = Some(0.5));
        let laid = trial(|record| record.allocation = "interleave".to_owned());
        let apart = |one: &Record, other: &Record| Setting::of(one).apart_from([Setting::of(other)]);
        assert_eq!((apart(&plain, &plain), apart(&plain, &streamed)), (String::new(), ", no stream".to_owned()));
        assert_eq!(
            (apart(&streamed, &plain).as_str(), apart(&earlier, &plain).as_str()),
            (", stream of 20000/s", ", a stream")
        );
        assert_eq!((apart(&churned, &plain).as_str(), apart(&plain, &churned).as_str()), (", churn 0.5", ", no churn"));
        assert_eq!(apart(&laid, &plain), ", allocation interleave");
        assert_eq!(apart(&laid, &streamed), ", allocation interleave, no stream");
        // How far it got is a figure, no setting.
        let faster = Record { stream_per_s: Some(20_000.0), ..streamed.clone() };
        assert_eq!(Setting::of(&faster), Setting::of(&streamed));
        // Batches that no line told were as many as nobody asks for.
        let ingest = |batch| trial(|record| (record.step, record.batch) = (Step::Ingest, batch));
        assert_eq!(Setting::of(&ingest(None)), Setting::of(&ingest(Some(BATCH))));
        assert_eq!(apart(&ingest(Some(1)), &ingest(None)), ", batches of 1");
    }
}
