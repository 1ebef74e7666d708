use std::collections::BTreeMap;

use super::*;

fn leaf(index: u64) -> Hash {
    leaf_hash(&index.to_be_bytes())
}

/// The definition in section 2.1 of RFC 6962, word for word.
fn defined(leaves: &[Hash]) -> Hash {
    match leaves {
        [] => Hash::of(&[]),
        [one] => *one,
        more => {
            let mut middle = 1;
            while middle * 2 < more.len() {
                middle *= 2;
            }
            parent(defined(&more[..middle]), defined(&more[middle..]))
        }
    }
}

/// A tree of that size, and all its tiles.
fn tree(size: u64) -> (GrowingTree, BTreeMap<TileIndex, Vec<Hash>>) {
    let (mut tree, mut tiles) = (GrowingTree::default(), BTreeMap::new());
    for index in 0..size {
        tiles.extend(tree.push(leaf(index)));
    }
    tiles.extend(tree.edge().into_iter().map(|(place, row)| (place, row.to_vec())));
    (tree, tiles)
}

fn reader(tiles: &BTreeMap<TileIndex, Vec<Hash>>) -> impl Fn(TileIndex, usize) -> io::Result<Vec<Hash>> {
    |place, width| {
        let row = tiles.get(&place).ok_or_else(|| io::Error::other(format!("{place:?} is missing")))?;
        assert!(width > 0, "an empty tile was asked for");
        Ok(row[..width].to_vec())
    }
}

const SIZES: [u64; 12] = [0, 1, 2, 3, 7, 8, 255, 256, 257, 511, 700, 1_000];

#[test]
fn a_root_is_the_one_that_is_defined_and_a_tree_goes_on_from_its_edge() {
    let leaves: Vec<Hash> = (0..1_100).map(leaf).collect();
    for size in SIZES {
        let (grown, tiles) = tree(size);
        assert_eq!(grown.root(), defined(&leaves[..size as usize]), "{size}");
        let mut again = GrowingTree::of_edge(size, reader(&tiles)).unwrap();
        assert_eq!(again, grown, "{size}");
        for index in size..size + 90 {
            again.push(leaf(index));
        }
        assert_eq!(again.root(), defined(&leaves[..size as usize + 90]));
    }
    // Three levels of tiles.
    let (grown, tiles) = tree(70_000);
    let widths: Vec<(u32, usize)> = grown.edge().iter().map(|(place, row)| (place.level, row.len())).collect();
    assert_eq!(widths, [(0, 112), (1, 17), (2, 1)]);
    assert_eq!(tiles.keys().filter(|place| place.level == 0).count(), 274);
}

#[test]
fn each_leaf_and_each_earlier_size_can_be_proved_and_nothing_else() {
    let (_, tiles) = tree(1_000);
    let tiles = &reader(&tiles);
    let root = |size: u64| tree(size).0.root();
    for size in SIZES {
        let new = (size, root(size));
        for index in [0, 1, 2, 6, 254, 255, 256, 510, 699, 999].into_iter().filter(|index| *index < size) {
            let path = inclusion_proof(tiles, size, index).unwrap();
            assert!(is_included(leaf(index), index, size, new.1, &path), "{index} in {size}");
            assert!(!is_included(leaf(index + 1), index, size, new.1, &path));
            assert!(!is_included(leaf(index), index + 1, size, new.1, &path));
            assert!(!is_included(leaf(index), index, size, root(size + 1), &path));
            let longer = [path.clone(), vec![leaf(1)]].concat();
            assert!(!is_included(leaf(index), index, size, new.1, &longer));
            assert!(path.is_empty() || !is_included(leaf(index), index, size, new.1, &path[1..]));
        }
        for old in SIZES.into_iter().filter(|old| *old <= size) {
            let path = consistency_proof(tiles, old, size).unwrap();
            assert!(is_consistent((old, root(old)), new, &path), "{old} to {size}");
            if 0 < old && old < size {
                assert!(!is_consistent((old, leaf(0)), new, &path) || old == 1, "{old} to {size}");
                assert!(!is_consistent((old, root(old)), (size, leaf(7)), &path), "{old} to {size}");
                assert!(!is_consistent((old, root(old)), new, &[path.clone(), vec![leaf(1)]].concat()));
                assert!(!is_consistent((old, root(old)), new, &path[..path.len() - 1]));
            }
        }
        assert!(!is_consistent((size + 1, root(size + 1)), new, &[]));
    }
}
