//! The causes of an outage, each of which is logged once.

/// The most causes that are logged in one outage.
const MAX_CAUSES: usize = 8;

/// The causes that were logged since an outage began, so that each is logged once and not with every attempt.
#[derive(Debug, Default)]
pub struct ToldCauses(Vec<String>);

impl ToldCauses {
    /// Notes a cause; returns whether it is to be logged.
    pub fn is_new(&mut self, cause: &str) -> bool {
        let is_new = self.0.len() < MAX_CAUSES && !self.0.iter().any(|told| told == cause);
        if is_new {
            self.0.push(cause.to_owned());
        }
        is_new
    }

    /// Ends the outage; returns whether anything was logged of it.
    pub fn end(&mut self) -> bool {
        !std::mem::take(&mut self.0).is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_cause_is_told_once_in_an_outage() {
        let mut told = ToldCauses::default();
        assert!(!told.end());
        let alternating = ["full", "broken", "full", "broken"].map(|cause| told.is_new(cause));
        assert_eq!(alternating, [true, true, false, false]);
        assert!(told.end() && !told.end());
        assert!(told.is_new("full"));
        let many = (0..20).filter(|cause| told.is_new(&cause.to_string()));
        assert_eq!(many.count(), MAX_CAUSES - 1);
    }
}
