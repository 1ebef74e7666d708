//! How often the log says how far a long job is: by count, so that a short job says nothing.

/// How many commits or items lie between two log lines about one job: several seconds.
pub const PROGRESS_INTERVAL: u64 = 100_000;

/// The progress of one job.
#[derive(Debug)]
pub struct JobProgress {
    every: u64,
    count: u64,
    told: u64,
}

impl JobProgress {
    pub fn every(every: u64) -> JobProgress {
        JobProgress { every, count: 0, told: 0 }
    }

    /// Adds to the count; returns the whole count where it is time for a log line.
    pub fn add(&mut self, more: usize) -> Option<u64> {
        self.count = self.count.saturating_add(more as u64);
        let is_due = self.count.saturating_sub(self.told) >= self.every;
        is_due.then(|| {
            self.told = self.count;
            self.count
        })
    }

    /// Returns the whole count if a log line told of the job before.
    pub fn end(self) -> Option<u64> {
        (self.told > 0).then_some(self.count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_follow_the_count_and_a_short_job_has_none() {
        let mut progress = JobProgress::every(10);
        assert_eq!(progress.add(9), None);
        assert_eq!(progress.add(1), Some(10));
        assert_eq!(progress.add(9), None);
        assert_eq!(progress.add(25), Some(44));
        assert_eq!(progress.add(9), None);
        assert_eq!(progress.end(), Some(53));
        let mut short = JobProgress::every(10);
        assert_eq!((short.add(9), short.end()), (None, None));
    }
}
