//! The order of upstream's list: the latest record first, by the time of its making.

/// Records that are made within one are of one moment, in any order.
const MOMENT_MICROS: i64 = 1_000;

/// Returns the records, each with its time, whose times contradict their places: the fewest without which the list is in
/// order.
pub fn misplaced<'r>(listed: &[(&'r str, i64)]) -> Vec<&'r str> {
    // The longest part that is in order, by its last record for each length.
    let times: Vec<i64> = listed.iter().map(|(_, time)| time.div_euclid(MOMENT_MICROS).saturating_neg()).collect();
    let mut ends: Vec<usize> = Vec::new();
    let mut before: Vec<Option<usize>> = Vec::with_capacity(times.len());
    for (place, time) in times.iter().enumerate() {
        let length = ends.partition_point(|end| times.get(*end).is_some_and(|of_end| of_end <= time));
        before.push(length.checked_sub(1).and_then(|shorter| ends.get(shorter)).copied());
        match ends.get_mut(length) {
            Some(end) => *end = place,
            None => ends.push(place),
        }
    }
    let mut in_order = vec![false; times.len()];
    let mut next = ends.last().copied();
    while let Some(place) = next {
        in_order.get_mut(place).into_iter().for_each(|is| *is = true);
        next = before.get(place).copied().flatten();
    }
    listed.iter().zip(in_order).filter(|(_, is_in_order)| !is_in_order).map(|((id, _), _)| *id).collect()
}

#[cfg(test)]
mod tests {
    use super::misplaced;

    #[test]
    fn only_records_out_of_order_are_misplaced() {
        let of = |times: &[i64]| {
            let names: Vec<String> = (0..times.len()).map(|n| n.to_string()).collect();
            let listed: Vec<(&str, i64)> =
                names.iter().map(String::as_str).zip(times.iter().map(|time| time * 1_000)).collect();
            misplaced(&listed).join(" ")
        };
        assert_eq!((of(&[]), of(&[5]), of(&[9, 8, 8, 7, 1])), (String::new(), String::new(), String::new()));
        assert_eq!(of(&[9, 0, 8, 7]), "1");
        assert_eq!(of(&[9, 8, 99, 7, 6]), "2");
        assert_eq!(of(&[0, 9, 8, 99, 7, 6, 99]), "0 3 6");
        assert_eq!(of(&[-3, 5, 4]), "0");
    }
}
