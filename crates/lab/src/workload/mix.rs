//! A workload by the shares of its operations, for those that no definition names.

use biombo_base::{Error, Result};
use serde::{Deserialize, Serialize};

use super::OpKind;

/// The shares of reads, scans and inserts; all other operations are updates.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Mix {
    reads: f64,
    scans: f64,
    inserts: f64,
}

impl Mix {
    /// Of these shares, from 0 to 1.
    ///
    /// ```
    /// use biombo_lab::workload::{Mix, OpKind};
    /// let mix = Mix::new(0.95, 0.0, 0.0)?;
    /// assert!((mix.share(OpKind::Update) - 0.05).abs() < 1e-9);
    /// assert!(Mix::new(0.95, 0.0, 0.1).is_err());
    /// # Ok::<(), biombo_base::Error>(())
    /// ```
    ///
    /// # Errors
    /// `Invalid` where one of them is no share, or together they are more than all.
    pub fn new(reads: f64, scans: f64, inserts: f64) -> Result<Self> {
        for (option, share) in [("--reads", reads), ("--scans", scans), ("--inserts", inserts)] {
            if !(0.0..=1.0).contains(&share) {
                return Err(Error::invalid(format!("{option} {share} is no share: it must be 0 to 1")));
            }
        }
        // Decimal shares that add up to 1 may be off by their rounding.
        if reads + scans + inserts > 1.0 + 1e-9 {
            return Err(Error::invalid(format!(
                "--reads {reads}, --scans {scans} and --inserts {inserts} are more than all operations together: they must add up to at \
                 most 1; what is left are updates"
            )));
        }
        Ok(Self { reads, scans, inserts })
    }

    /// The share of each kind of operation that occurs; they add up to 1.
    pub fn shares(self) -> Vec<(OpKind, f64)> {
        let kinds = [OpKind::Read, OpKind::Scan, OpKind::Insert, OpKind::Update];
        kinds.into_iter().map(|kind| (kind, self.share(kind))).filter(|(_, share)| *share > 0.0).collect()
    }

    /// The share of `kind`.
    pub fn share(self, kind: OpKind) -> f64 {
        match kind {
            OpKind::Read => self.reads,
            OpKind::Scan => self.scans,
            OpKind::Insert => self.inserts,
            // What rounding leaves is nothing.
            OpKind::Update => {
                Some(1.0 - self.reads - self.scans - self.inserts).filter(|rest| *rest > 1e-9).unwrap_or(0.0)
            }
            _ => 0.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_named_is_updates() {
        let all = Mix::new(0.5, 0.2, 0.1).unwrap().shares();
        let kinds: Vec<_> = all.iter().map(|(kind, _)| kind.name()).collect();
        assert_eq!(kinds, ["read", "scan", "insert", "update"]);
        assert!((all.iter().map(|(_, share)| share).sum::<f64>() - 1.0).abs() < 1e-12);
        assert_eq!(Mix::new(0.0, 0.0, 0.0).unwrap().shares(), [(OpKind::Update, 1.0)]);
        // 0.7 + 0.2 + 0.1 is a little less than 1 by rounding.
        assert_eq!(Mix::new(0.7, 0.2, 0.1).unwrap().shares().len(), 3);
        assert_eq!(Mix::new(1.0, 0.0, 0.0).unwrap().shares(), [(OpKind::Read, 1.0)]);
    }

    #[test]
    fn what_is_no_share_is_refused_by_its_option() {
        for (reads, scans, inserts, says) in [
            (1.5, 0.0, 0.0, "--reads 1.5"),
            (f64::NAN, 0.0, 0.0, "--reads NaN"),
            (0.0, -0.1, 0.0, "--scans -0.1"),
            (0.0, 0.0, f64::INFINITY, "--inserts inf"),
            (0.9, 0.1, 0.1, "at most 1"),
        ] {
            let error = Mix::new(reads, scans, inserts).unwrap_err().to_string();
            assert!(error.contains(says), "{error}");
        }
    }
}
