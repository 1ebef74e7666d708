//! Compares the ratios of two runs: they depend on the machine far less than times do.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context as _, bail, ensure};
use serde_json::Value;

/// How much worse a ratio may be, in hundredths.
const ALLOWED_PERCENT: u64 = 10;

/// Fails where a ratio is more than a tenth above that of the same case in the file.
pub(crate) fn compare(now: &Value, file: &Path) -> anyhow::Result<()> {
    let text = std::fs::read_to_string(file).with_context(|| format!("{} cannot be read", file.display()))?;
    let before = ratios(&serde_json::from_str(&text)?)?;
    let mut worse = Vec::new();
    for (case, ratio) in ratios(now)? {
        let before = *before.get(&case).with_context(|| format!("{} has no case `{case}`", file.display()))?;
        println!("{case}: ratio {ratio} thousandths, {before} in {}", file.display());
        if ratio.saturating_mul(100) > before.saturating_mul(100_u64.saturating_add(ALLOWED_PERCENT)) {
            worse.push(case);
        }
    }
    ensure!(worse.is_empty(), "more than {ALLOWED_PERCENT} % worse than before: {}", worse.join(", "));
    Ok(())
}

/// The median ratio of each case, in thousandths.
fn ratios(report: &Value) -> anyhow::Result<BTreeMap<String, u64>> {
    let Some(cases) = report.get("cases").and_then(Value::as_array) else { bail!("a report has no `cases`") };
    let ratio = |case: &Value| {
        let name = case.get("name")?.as_str()?.to_owned();
        Some((name, case.pointer("/ratio_thousandths/median")?.as_u64()?))
    };
    cases.iter().map(|case| ratio(case).context("a case has no name or no ratio")).collect()
}
